/* Conjugate gradients on a tridiagonal matrix of n rows in CSR. There are two sums over all rows, in f64, to which each
   group adds its part. A kernel that adds to one of them clears the other. */
#define THREADS 256 /* per group */

/* Elements depend on the row, so that the matrix is symmetric: the diagonal of row i, and the element that couples rows
   i and i + 1. */
HELPER float diagonal(ulong key, ulong i) { return random_f32(key, 2 * i, 10.0f, 11.0f); }
HELPER float coupling(ulong key, ulong i) { return random_f32(key, 2 * i + 1, 0.0f, 1.0f); }

KERNEL fill_matrix(GLOBAL int* starts, GLOBAL int* columns, GLOBAL float* values, ulong n, ulong key) {
    FOR_EACH(i, n) {
        const ulong first = i == 0 ? 0 : 3 * i - 1, at = i == 0 ? 0 : first + 1;
        starts[i] = (int)first;
        if (i > 0) {
            columns[first] = (int)(i - 1);
            values[first] = coupling(key, i - 1);
        }
        columns[at] = (int)i;
        values[at] = diagonal(key, i);
        if (i + 1 < n) {
            columns[at + 1] = (int)(i + 1);
            values[at + 1] = coupling(key, i);
        } else
            starts[n] = (int)(at + 1);
    }
}

/* The first item of a group adds the group's sum of `mine` to *sum. The first item of all clears *other_sum. */
#define ADD_UP(sum, mine, other_sum)                                                                                   \
    if (GLOBAL_ID == 0) *(other_sum) = 0.0;                                                                            \
    GROUP_SUM(part, mine, THREADS)                                                                                     \
    if (LOCAL_ID == 0) ATOMIC_ADD_F64_DEVICE(sum, part[0]);

/* to = A v, sums[0] += v . to */
GROUP_KERNEL multiply(GLOBAL const int* starts, GLOBAL const int* columns, GLOBAL const float* values,
                      GLOBAL const float* v, GLOBAL float* to, GLOBAL double* sums, ulong n) {
    SHARED double part[THREADS];
    double mine = 0.0;
    FOR_EACH(i, n) {
        float row = 0.0f;
        for (int k = starts[i], end = starts[i + 1]; k < end; ++k) row += values[k] * v[columns[k]];
        to[i] = row;
        mine += (double)v[i] * row;
    }
    ADD_UP(sums, mine, sums + 1)
}

/* sums[0] += v . to, after a library has computed `to` */
GROUP_KERNEL add_dot(GLOBAL const float* v, GLOBAL const float* to, GLOBAL double* sums, ulong n) {
    SHARED double part[THREADS];
    double mine = 0.0;
    FOR_EACH(i, n) mine += (double)v[i] * to[i];
    ADD_UP(sums, mine, sums + 1)
}

/* r = rhs - A x, p = r, sums[1] += r . r */
GROUP_KERNEL begin(GLOBAL const float* rhs, GLOBAL const float* a_x, GLOBAL float* r, GLOBAL float* p,
                   GLOBAL double* sums, ulong n) {
    SHARED double part[THREADS];
    double mine = 0.0;
    FOR_EACH(i, n) {
        const float left = rhs[i] - a_x[i];
        r[i] = p[i] = left;
        mine += (double)left * left;
    }
    ADD_UP(sums + 1, mine, sums)
}

/* x += a p, r -= a A p, sums[1] += r . r */
GROUP_KERNEL advance(GLOBAL const float* p, GLOBAL const float* a_p, GLOBAL float* x, GLOBAL float* r,
                     GLOBAL double* sums, float a, ulong n) {
    SHARED double part[THREADS];
    double mine = 0.0;
    FOR_EACH(i, n) {
        const float left = r[i] - a * a_p[i];
        x[i] += a * p[i];
        r[i] = left;
        mine += (double)left * left;
    }
    ADD_UP(sums + 1, mine, sums)
}

/* p = r + b p */
KERNEL turn(GLOBAL const float* r, GLOBAL float* p, float b, ulong n) { FOR_EACH(i, n) p[i] = r[i] + b * p[i]; }
