/* srad: speckle-reducing anisotropic diffusion of an image of rows x cols pixels, stored column by column. A thread
   stays in its row and processes `strip` columns, so that each pixel of a row is loaded once. */

/* The neighbours of each of n lines, clamped at both ends. */
KERNEL srad_neighbours(GLOBAL int* before, GLOBAL int* after, ulong n) {
    FOR_EACH(i, n) {
        before[i] = i == 0 ? 0 : (int)i - 1;
        after[i] = i + 1 == n ? (int)i : (int)i + 1;
    }
}

/* Computes the image from its logarithm, and the values that the first reduction adds up. */
KERNEL srad_extract(GLOBAL float* image, GLOBAL float* sums, GLOBAL float* squares, ulong n) {
    FOR_EACH(i, n) {
        const float value = EXP_F32(image[i] / 255.0f);
        image[i] = value;
        sums[i] = value;
        squares[i] = value * value;
    }
}

KERNEL srad_compress(GLOBAL float* image, ulong n) { FOR_EACH(i, n) image[i] = LOG_F32(image[i]) * 255.0f; }

/* One pair of totals per group of 256; the CPU adds up the pairs. */
GROUP_KERNEL srad_reduce(GLOBAL const float* sums, GLOBAL const float* squares, GLOBAL double* partial, ulong n) {
    SHARED double total[2][256];
    GLOBAL const f32x4* four = (GLOBAL const f32x4*)sums;
    GLOBAL const f32x4* four_squares = (GLOBAL const f32x4*)squares;
    double sum = 0.0, square = 0.0;
    for (ulong i = GLOBAL_ID; i < n / 4; i += GLOBAL_SIZE) {
        const f32x4 a = four[i], b = four_squares[i];
        sum += ((double)a.x + (double)a.y) + ((double)a.z + (double)a.w);
        square += ((double)b.x + (double)b.y) + ((double)b.z + (double)b.w);
    }
    for (ulong i = n / 4 * 4 + GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
        sum += (double)sums[i];
        square += (double)squares[i];
    }
    total[0][LOCAL_ID] = sum;
    total[1][LOCAL_ID] = square;
    BARRIER();
    for (uint span = 128; span > 0; span /= 2) {
        if (LOCAL_ID < span) {
            total[0][LOCAL_ID] += total[0][LOCAL_ID + span];
            total[1][LOCAL_ID] += total[1][LOCAL_ID + span];
        }
        BARRIER();
    }
    if (LOCAL_ID < 2) partial[2 * GROUP_ID + LOCAL_ID] = total[LOCAL_ID][0];
}

/* Differences to the four neighbours, and the diffusion coefficient of each pixel: 1 inside a region, 0 at an edge. */
GROUP_KERNEL srad_coefficient(GLOBAL const float* image, GLOBAL const int* north, GLOBAL const int* south,
                              GLOBAL const int* west, GLOBAL const int* east, GLOBAL float* to_north,
                              GLOBAL float* to_south, GLOBAL float* to_west, GLOBAL float* to_east,
                              GLOBAL float* diffuses, ulong rows, ulong cols, ulong strip, float speckle) {
    const ulong blocks = (rows + GROUP_SIZE - 1) / GROUP_SIZE;
    const ulong row = GROUP_ID % blocks * GROUP_SIZE + LOCAL_ID, first = GROUP_ID / blocks * strip;
    const ulong last = first + strip < cols ? first + strip : cols;
    if (row < rows) {
        const ulong above = (ulong)north[row], below = (ulong)south[row];
        float now = image[first * rows + row], left = image[(ulong)west[first] * rows + row];
        for (ulong col = first; col < last; ++col) {
            const ulong at = col * rows + row;
            const float right = image[(ulong)east[col] * rows + row];
            const float n = image[col * rows + above] - now, s = image[col * rows + below] - now;
            const float w = left - now, e = right - now;
            const float gradient = (n * n + s * s + w * w + e * e) / (now * now);
            const float laplacian = (n + s + w + e) / now;
            const float slope = 1.0f + 0.25f * laplacian;
            const float variation = (0.5f * gradient - 0.0625f * (laplacian * laplacian)) / (slope * slope);
            const float c = 1.0f / (1.0f + (variation - speckle) / (speckle * (1.0f + speckle)));
            to_north[at] = n;
            to_south[at] = s;
            to_west[at] = w;
            to_east[at] = e;
            diffuses[at] = c < 0.0f ? 0.0f : c > 1.0f ? 1.0f : c;
            left = now;
            now = right;
        }
    }
}

/* One step of the diffusion, by a quarter of lambda, and the values that the next reduction adds up. */
GROUP_KERNEL srad_diffuse(GLOBAL float* image, GLOBAL const int* south, GLOBAL const int* east,
                          GLOBAL const float* to_north, GLOBAL const float* to_south, GLOBAL const float* to_west,
                          GLOBAL const float* to_east, GLOBAL const float* diffuses, GLOBAL float* sums,
                          GLOBAL float* squares, ulong rows, ulong cols, ulong strip, float quarter) {
    const ulong blocks = (rows + GROUP_SIZE - 1) / GROUP_SIZE;
    const ulong row = GROUP_ID % blocks * GROUP_SIZE + LOCAL_ID, first = GROUP_ID / blocks * strip;
    const ulong last = first + strip < cols ? first + strip : cols;
    if (row < rows) {
        const ulong below = (ulong)south[row];
        float here = diffuses[first * rows + row];
        for (ulong col = first; col < last; ++col) {
            const ulong at = col * rows + row;
            const float right = diffuses[(ulong)east[col] * rows + row];
            const float flow = here * to_north[at] + diffuses[col * rows + below] * to_south[at] + here * to_west[at] +
                               right * to_east[at];
            const float after = image[at] + quarter * flow;
            image[at] = after;
            sums[at] = after;
            squares[at] = after * after;
            here = right;
        }
    }
}
