/* The check of srad on all processors: the same scheme in f64, on some columns of the image with all their rows.
   Columns are stored with one more row before and after them, which repeat the first and the last, and so are the rows
   of all arrays but the image. */

/* The logarithm's inverse of the initial image. column: the number of the first. */
KERNEL diffusion_start(GLOBAL double* now, ulong rows, ulong cols, ulong column, ulong key) {
    FOR_EACH(col, cols) {
        GLOBAL double* here = now + col * (rows + 2);
        for (ulong row = 0; row < rows; ++row)
            here[row + 1] = EXP_F64(random_f32(key, (column + col) * rows + row, 0.0f, 255.0f) / 255.0);
        here[0] = here[1];
        here[rows + 1] = here[rows];
    }
}

/* The diffusion coefficient of each pixel, and of each column the sums of its pixels and of their squares. */
KERNEL diffusion_coefficients(GLOBAL const double* now, GLOBAL double* diffuses, GLOBAL double* sums, ulong rows,
                              ulong cols, double speckle) {
    const double beyond = speckle * (1 + speckle);
    FOR_EACH(col, cols) {
        GLOBAL const double* here = now + col * (rows + 2);
        GLOBAL const double* left = col == 0 ? here : here - (rows + 2);
        GLOBAL const double* right = col + 1 == cols ? here : here + (rows + 2);
        GLOBAL double* to = diffuses + col * (rows + 2);
        for (ulong row = 1; row <= rows; ++row) {
            const double part = 1 / here[row];
            const double n = here[row - 1] * part - 1, s = here[row + 1] * part - 1;
            const double w = left[row] * part - 1, e = right[row] * part - 1;
            const double laplacian = n + s + w + e, slope = 1 + laplacian / 4;
            const double gradient = n * n + s * s + w * w + e * e;
            const double q = (gradient / 2 - laplacian * laplacian / 16) / (slope * slope);
            const double c = 1 / (1 + (q - speckle) / beyond);
            to[row] = c < 0 ? 0 : c > 1 ? 1 : c;
        }
        to[rows + 1] = to[rows];
        double sum = 0, square = 0;
        for (ulong row = 1; row <= rows; ++row) {
            sum += here[row];
            square += here[row] * here[row];
        }
        sums[2 * col] = sum;
        sums[2 * col + 1] = square;
    }
}

/* One step of the diffusion, by a quarter of lambda. */
KERNEL diffusion_step(GLOBAL const double* now, GLOBAL const double* diffuses, GLOBAL double* then, ulong rows,
                      ulong cols, double quarter) {
    FOR_EACH(col, cols) {
        const ulong first = col * (rows + 2), next = col + 1 == cols ? first : first + (rows + 2);
        GLOBAL const double* here = now + first;
        GLOBAL const double* left = col == 0 ? here : here - (rows + 2);
        GLOBAL const double* right = now + next;
        GLOBAL const double* own = diffuses + first;
        GLOBAL const double* east = diffuses + next;
        GLOBAL double* to = then + first;
        for (ulong row = 1; row <= rows; ++row) {
            const double before = here[row];
            to[row] = before + quarter * (own[row] * (here[row - 1] - before + left[row] - before) +
                                          own[row + 1] * (here[row + 1] - before) + east[row] * (right[row] - before));
        }
        to[0] = to[1];
        to[rows + 1] = to[rows];
    }
}

/* Adds to `wrong` the pixels of an image whose logarithm differs from that of `now` by more than the limit. */
KERNEL diffusion_wrong(GLOBAL const float* image, GLOBAL const double* now, GLOBAL ulong* wrong, ulong rows, ulong cols,
                       double limit) {
    FOR_EACH(col, cols) {
        GLOBAL const double* right = now + col * (rows + 2) + 1;
        GLOBAL const float* found = image + col * rows;
        ulong mine = 0;
        for (ulong row = 0; row < rows; ++row) mine += !(ABS_F64(LOG_F64(right[row]) * 255 - found[row]) <= limit);
        ATOMIC_ADD_U64_DEVICE(wrong, mine);
    }
}
