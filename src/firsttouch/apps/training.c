/* The check of backprop on all processors, in f64 from regenerated inputs and weights. A row has 17 weights; row 0
   belongs to the bias, whose input is 1. */
enum { training_units = 16, training_width = 17, training_block = 1024 /* rows that a thread adds up at a time */ };

HELPER double training_input(ulong key, ulong row) { return row == 0 ? 1.0 : (double)random_f32(key, row, 0.0f, 1.0f); }

/* For each block of rows: of each unit, the sum of inputs times initial weights; and the sum of squared inputs. */
KERNEL training_products(GLOBAL double* sums, ulong rows, ulong input_key, ulong weight_key, float scale) {
    FOR_EACH(block, (rows + training_block - 1) / training_block) {
        const ulong last = (block + 1) * training_block < rows ? (block + 1) * training_block : rows;
        double sum[training_width] = {0};
        for (ulong row = block * training_block; row < last; ++row) {
            const double x = training_input(input_key, row);
            for (ulong j = 1; j < training_width; ++j)
                sum[j - 1] += x * (double)random_f32(weight_key, row * training_width + j, -scale, scale);
            sum[training_units] += x * x;
        }
        for (ulong j = 0; j < training_width; ++j) sums[block * training_width + j] = sum[j];
    }
}

/* Adds to `wrong` the weights, the last changes and the sums of 16 products that differ from those in f64 by more than
   a fraction of the sum of their absolute terms. A weight is its initial value plus its input times `factor`; `last` is
   the factor before the last step, and `change` the change of it. */
KERNEL training_wrong(GLOBAL const float* weights, GLOBAL const float* changes, GLOBAL const float* partial,
                      GLOBAL const double* factor, GLOBAL const double* change, GLOBAL const double* last,
                      GLOBAL ulong* wrong, ulong groups, ulong input_key, ulong weight_key, float scale,
                      double tolerance, double subnormal) {
    FOR_EACH(group, groups) {
        ulong count[3] = {0};
        double sum[training_width] = {0}, size[training_width] = {0};
        const ulong first_row = group * training_units + 1;
        for (ulong row = group == 0 ? 0 : first_row; row < first_row + training_units; ++row) {
            const double x = training_input(input_key, row);
            for (ulong j = 0; j < training_width; ++j) {
                const ulong at = row * training_width + j;
                const double first = (double)random_f32(weight_key, at, -scale, scale);
                const double limit = tolerance * (ABS_F64(first) + x * ABS_F64(factor[j])) + subnormal;
                count[0] += !(ABS_F64(weights[at] - (first + x * factor[j])) <= limit);
                count[1] += !(ABS_F64(changes[at] - x * change[j]) <= tolerance * x * ABS_F64(change[j]) + subnormal);
                const double term = row == 0 ? 0.0 : (first + x * last[j]) * x;
                sum[j] += term;
                size[j] += ABS_F64(term);
            }
        }
        for (ulong j = 1; j < training_width; ++j) {
            const double found = partial[group * training_units + j - 1];
            count[2] += !(ABS_F64(found - sum[j]) <= tolerance * size[j] + subnormal);
        }
        for (ulong i = 0; i < 3; ++i)
            if (count[i] > 0) ATOMIC_ADD_U64_DEVICE(wrong + i, count[i]);
    }
}
