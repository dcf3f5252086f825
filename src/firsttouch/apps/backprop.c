/* backprop: weights of a layer of 16 hidden units over `inputs` + 1 inputs. A row has 17 weights. Row 0 belongs to the
   bias; column 0 is unused. */
#define UNITS 16
#define WIDTH 17
#define BLOCK 1024 /* groups of 16 inputs that the CPU adds up at a time */

/* For each group of 16 inputs and each unit: the sum of weights times inputs. One thread computes each sum. */
KERNEL backprop_forward(GLOBAL const float* weights, GLOBAL const float* x, GLOBAL float* partial, ulong inputs) {
    FOR_EACH(at, inputs) {
        const ulong first = at / UNITS * UNITS + 1;
        GLOBAL const float* column = weights + first * WIDTH + at % UNITS + 1;
        float sum = 0.0f;
        UNROLLED for (uint i = 0; i < UNITS; ++i) sum += column[i * WIDTH] * x[first + i];
        partial[at] = sum;
    }
}

/* Adds these sums up over blocks of groups. */
KERNEL backprop_sums(GLOBAL const float* partial, GLOBAL double* sums, ulong groups) {
    FOR_EACH(block, (groups + BLOCK - 1) / BLOCK) {
        const ulong last = (block + 1) * BLOCK < groups ? (block + 1) * BLOCK : groups;
        double sum[UNITS];
        for (uint j = 0; j < UNITS; ++j) sum[j] = 0.0;
        for (ulong group = block * BLOCK; group < last; ++group)
            for (uint j = 0; j < UNITS; ++j) sum[j] += (double)partial[group * UNITS + j];
        for (uint j = 0; j < UNITS; ++j) sums[block * UNITS + j] = sum[j];
    }
}

/* Adds them up unit by unit, as the original does on one core: each unit reads every line of the sums. Clears the others. */
KERNEL backprop_by_unit(GLOBAL const float* partial, GLOBAL double* sums, ulong groups) {
    FOR_EACH(j, UNITS) {
        double sum = 0.0;
        for (ulong group = 0; group < groups; ++group) sum += (double)partial[group * UNITS + j];
        sums[j] = sum;
        for (ulong block = 1; block < (groups + BLOCK - 1) / BLOCK; ++block) sums[block * UNITS + j] = 0.0;
    }
}

/* Changes each weight by its unit's error times its input, and by its last change. */
KERNEL backprop_adjust(GLOBAL float* weights, GLOBAL float* changes, GLOBAL const float* x, GLOBAL const float* errors,
                       ulong count, float rate, float momentum) {
    FOR_EACH(at, count) {
        const ulong row = at / WIDTH, unit = at - row * WIDTH;
        const float change = rate * errors[unit] * x[row] + momentum * changes[at];
        weights[at] += change;
        changes[at] = change;
    }
}
