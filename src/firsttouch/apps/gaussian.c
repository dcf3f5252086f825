/* gaussian: elimination without pivoting of a x = b; the multipliers are stored in m. Step t subtracts multiples of row
   t from the rows below it: m[i][t] = a[i][t] / a[t][t]; a[i][j] -= m[i][t] a[t][j] for j >= t; b[i] -= m[i][t]
   b[t]. */
#define WIDE 256 /* columns of a group's tile, one per thread */
#define HIGH 16  /* rows of a group's tile */
#define LINE 32  /* tiles begin at columns that are multiples of it */

/* a[i][j] = band[n - 1 + j - i], m = 0. */
KERNEL gaussian_fill(GLOBAL const float* band, GLOBAL float* a, GLOBAL float* m, ulong n) {
    FOR_EACH(i, n) {
        GLOBAL const float* from = band + (n - 1 - i);
        GLOBAL float* to = a + i * n;
        GLOBAL float* clear = m + i * n;
        for (ulong j = 0; j < n; ++j) to[j] = from[j];
        for (ulong j = 0; j < n; ++j) clear[j] = 0.0f;
    }
}

/* The multipliers of rows [first, last) at step t. */
KERNEL gaussian_fan1(GLOBAL const float* a, GLOBAL float* m, ulong n, ulong t, ulong first, ulong last) {
    FOR_EACH(k, last - first) m[(first + k) * n + t] = a[(first + k) * n + t] / a[t * n + t];
}

/* Step t of rows [first, last), in tiles, `across` of them side by side. */
GROUP_KERNEL gaussian_fan2(GLOBAL const float* m, GLOBAL float* a, GLOBAL float* b, ulong n, ulong t, ulong first,
                           ulong last, ulong across) {
    const ulong top = first + GROUP_ID / across * HIGH, j = t / LINE * LINE + GROUP_ID % across * WIDE + LOCAL_ID;
    if (j >= t && j < n) {
        const float pivot = a[t * n + j];
        float row[HIGH], by[HIGH];
        UNROLLED for (int k = 0; k < HIGH; ++k) {
            const ulong i = top + (ulong)k < last ? top + (ulong)k : last - 1;
            row[k] = a[i * n + j];
            by[k] = m[i * n + t];
        }
        UNROLLED for (int k = 0; k < HIGH; ++k) {
            const ulong i = top + (ulong)k;
            if (i < last) a[i * n + j] = row[k] - by[k] * pivot;
            if (i < last && j == t) b[i] -= by[k] * b[t];
        }
    }
}

/* Step t of rows [first, last), row by row. */
KERNEL gaussian_rows(GLOBAL float* m, GLOBAL float* a, GLOBAL float* b, ulong n, ulong t, ulong first, ulong last) {
    GLOBAL const float* pivot = a + t * n;
    FOR_EACH(k, last - first) {
        const ulong i = first + k;
        GLOBAL float* row = a + i * n;
        const float by = row[t] / pivot[t];
        m[i * n + t] = by;
        for (ulong j = t; j < n; ++j) row[j] -= by * pivot[j];
        b[i] -= by * b[t];
    }
}

/* Back substitution, row by row. The products of a row are added up in 16 partial sums. */
KERNEL gaussian_back(GLOBAL const float* a, GLOBAL const float* b, GLOBAL float* x, ulong n) {
    FOR_EACH(only, 1) {
        for (ulong i = n; i-- > only;) {
            GLOBAL const float* row = a + i * n;
            float sum[16] = {0.0f}, all = b[i];
            ulong j = i + 1;
            for (; j + 16 <= n; j += 16)
                for (int k = 0; k < 16; ++k) sum[k] += row[j + k] * x[j + k];
            for (; j < n; ++j) sum[0] += row[j] * x[j];
            for (int k = 0; k < 16; ++k) all -= sum[k];
            x[i] = all / row[i];
        }
    }
}
