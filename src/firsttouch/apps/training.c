/* The check of backprop on all processors, in f64 from regenerated inputs and initial weights. */
#define UNITS 16
#define WIDTH 17
#define BLOCK 4096 /* rows that are added up at a time */

HELPER double input_of(ulong key, ulong row) { return row == 0 ? 1.0 : random_f32(key, row, 0.0f, 1.0f); }

/* Of each block of rows: the sums of initial weights times inputs for each unit, and the sum of squared inputs. */
KERNEL training_products(GLOBAL double* sums, ulong rows, ulong x_key, ulong weights_key, float scale) {
    FOR_EACH(block, (rows + BLOCK - 1) / BLOCK) {
        const ulong last = (block + 1) * BLOCK < rows ? (block + 1) * BLOCK : rows;
        double sum[WIDTH];
        for (uint k = 0; k < WIDTH; ++k) sum[k] = 0.0;
        for (ulong row = block * BLOCK; row < last; ++row) {
            const double x = input_of(x_key, row);
            for (uint k = 0; k < UNITS; ++k) sum[k] += x * random_f32(weights_key, row * WIDTH + k + 1, -scale, scale);
            sum[UNITS] += x * x;
        }
        for (uint k = 0; k < WIDTH; ++k) sums[block * WIDTH + k] = sum[k];
    }
}

/* Adds to `wrong` the numbers of weights, of their last changes, and of sums over 16 inputs that are not within
   `relative` of the sum of their absolute terms. factors: of the input, for each unit: in the weights at the end, in
   those that the sums were made of, and in the last changes. */
KERNEL training_wrong(GLOBAL const float* weights, GLOBAL const float* changes, GLOBAL const float* partial,
                      GLOBAL const double* factors, GLOBAL ulong* wrong, ulong inputs, ulong x_key, ulong weights_key,
                      float scale, double relative, double absolute) {
    GLOBAL const double* before = factors + WIDTH;
    GLOBAL const double* change = factors + 2 * WIDTH;
    ulong wrong_weights = 0, wrong_changes = 0, wrong_sums = 0;
    FOR_EACH(group, inputs / UNITS + 1) { /* group 0 is the row of the bias alone */
        const ulong first = group == 0 ? 0 : (group - 1) * UNITS + 1, last = group * UNITS;
        double sum[WIDTH], size[WIDTH];
        for (uint k = 0; k < WIDTH; ++k) sum[k] = size[k] = 0.0;
        for (ulong row = first; row <= last; ++row) {
            const double x = input_of(x_key, row);
            for (uint k = 0; k < WIDTH; ++k) {
                const ulong at = row * WIDTH + k;
                const double start = random_f32(weights_key, at, -scale, scale), changed = x * change[k];
                const double limit = relative * (ABS_F64(start) + x * ABS_F64(factors[k])) + absolute;
                wrong_weights += !(ABS_F64(weights[at] - (start + x * factors[k])) <= limit);
                wrong_changes += !(ABS_F64(changes[at] - changed) <= relative * ABS_F64(changed) + absolute);
                const double term = (start + x * before[k]) * x;
                sum[k] += term;
                size[k] += ABS_F64(term);
            }
        }
        for (uint k = 1; group > 0 && k < WIDTH; ++k) {
            const double apart = ABS_F64(partial[(group - 1) * UNITS + k - 1] - sum[k]);
            wrong_sums += !(apart <= relative * size[k] + absolute);
        }
    }
    ATOMIC_ADD_U64_DEVICE(wrong, wrong_weights);
    ATOMIC_ADD_U64_DEVICE(wrong + 1, wrong_changes);
    ATOMIC_ADD_U64_DEVICE(wrong + 2, wrong_sums);
}
