/* kmeans: n points of d features. Centres lie in rows of `stride` floats, a multiple of 4. */
#ifndef BLOCK /* centres whose distances a thread adds up at a time */
#define BLOCK 8
#endif
#define SIDE 32  /* of a tile that is transposed */
#define LANES 16 /* partial sums of a distance on the CPU */
#define FAR 3.4e38f

/* Generates points around `blobs`. The first k points belong to one blob each. */
KERNEL kmeans_points(GLOBAL float* features, GLOBAL const float* blobs, ulong labels, ulong noise, ulong n, uint d,
                     uint stride, uint k, float spread) {
    FOR_EACH(i, n) {
        const ulong label = i < k ? i : random_below(labels, i, k);
        for (uint f = 0; f < d; ++f)
            features[i * d + f] = blobs[label * stride + f] + random_f32(noise, i * d + f, -spread, spread);
    }
}

/* transposed[f][to + i] = features[from + i][f] for n points; a row of transposed has `columns`. */
GROUP_KERNEL kmeans_transpose(GLOBAL const float* features, GLOBAL float* transposed, ulong from, ulong to, ulong n,
                              ulong columns, uint d) {
    SHARED float tile[SIDE][SIDE + 1];
    const ulong first = GROUP_ID * SIDE;
    const uint column = LOCAL_ID % SIDE, step = GROUP_SIZE / SIDE;
    for (uint block = 0; block < d; block += SIDE) {
        for (uint row = LOCAL_ID / SIDE; row < SIDE; row += step)
            if (first + row < n && block + column < d)
                tile[row][column] = features[(from + first + row) * d + block + column];
        BARRIER();
        for (uint row = LOCAL_ID / SIDE; row < SIDE; row += step)
            if (first + column < n && block + row < d)
                transposed[(ulong)(block + row) * columns + to + first + column] = tile[column][row];
        BARRIER();
    }
}

/* The nearest centre of each of n points, the first if several are equally near; and the square of its distance. */
KERNEL kmeans_assign(GLOBAL const float* transposed, GLOBAL const float* centres, GLOBAL int* membership,
                     GLOBAL float* squares, ulong n, uint d, uint stride, uint k) {
    FOR_EACH(i, n) {
        float least = FAR;
        int nearest = 0;
        for (uint base = 0; base < k; base += BLOCK) {
            float sum[BLOCK];
            GLOBAL const float* centre[BLOCK]; /* beyond k the last centre again, which is never nearer than itself */
            UNROLLED for (uint j = 0; j < BLOCK; ++j) {
                sum[j] = 0;
                centre[j] = centres + (ulong)(base + j < k ? base + j : k - 1) * stride;
            }
            uint f = 0;
            for (; f + 4 <= d; f += 4) {
                const float x = transposed[f * n + i], y = transposed[(f + 1) * n + i];
                const float z = transposed[(f + 2) * n + i], w = transposed[(f + 3) * n + i];
                UNROLLED for (uint j = 0; j < BLOCK; ++j) {
                    const f32x4 c = *(GLOBAL const f32x4*)(centre[j] + f);
                    sum[j] += (x - c.x) * (x - c.x) + (y - c.y) * (y - c.y);
                    sum[j] += (z - c.z) * (z - c.z) + (w - c.w) * (w - c.w);
                }
            }
            for (; f < d; ++f) {
                const float x = transposed[f * n + i];
                UNROLLED for (uint j = 0; j < BLOCK; ++j) sum[j] += (x - centre[j][f]) * (x - centre[j][f]);
            }
            UNROLLED for (uint j = 0; j < BLOCK; ++j) {
                if (sum[j] < least) {
                    least = sum[j];
                    nearest = (int)(base + j);
                }
            }
        }
        membership[i] = nearest;
        squares[i] = least;
    }
}

/* The same on the CPU, where the points are stored in rows: n of them from `first` on. */
KERNEL kmeans_assign_rows(GLOBAL const float* features, GLOBAL const float* centres, GLOBAL int* membership,
                          GLOBAL float* squares, ulong first, ulong n, uint d, uint stride, uint k) {
    FOR_EACH(i, n) {
        GLOBAL const float* point = features + (first + i) * d;
        float least = FAR;
        for (uint c = 0; c < k; ++c) {
            GLOBAL const float* centre = centres + (ulong)c * stride;
            float part[LANES], sum = 0;
            UNROLLED for (uint j = 0; j < LANES; ++j) part[j] = 0;
            uint f = 0;
            for (; f + LANES <= d; f += LANES)
                UNROLLED for (uint j = 0; j < LANES; ++j) part[j] +=
                    (point[f + j] - centre[f + j]) * (point[f + j] - centre[f + j]);
            for (; f < d; ++f) sum += (point[f] - centre[f]) * (point[f] - centre[f]);
            UNROLLED for (uint j = 0; j < LANES; ++j) sum += part[j];
            if (sum < least) {
                least = sum;
                membership[first + i] = (int)c;
            }
        }
        squares[first + i] = least;
    }
}

/* For each piece of n points from `first` on: the sum and the number of the members of each of k centres, and in the
   last place the number of points whose centre changed. */
KERNEL kmeans_sums(GLOBAL const float* features, GLOBAL const int* membership, GLOBAL int* previous,
                   GLOBAL double* sums, GLOBAL long* counts, ulong first, ulong n, ulong first_piece, ulong pieces,
                   uint d, uint k) {
    FOR_EACH(p, pieces) {
        GLOBAL double* sum = sums + (first_piece + p) * k * d;
        GLOBAL long* count = counts + (first_piece + p) * (k + 1);
        for (ulong j = 0; j < (ulong)k * d; ++j) sum[j] = 0;
        for (uint j = 0; j <= k; ++j) count[j] = 0;
        for (ulong i = first + n * p / pieces; i < first + n * (p + 1) / pieces; ++i) {
            const int own = membership[i];
            GLOBAL double* row = sum + (ulong)own * d;
            GLOBAL const float* point = features + i * d;
            for (uint f = 0; f < d; ++f) row[f] += (double)point[f];
            count[own] += 1;
            count[k] += previous[i] != own;
            previous[i] = own;
        }
    }
}
