/* The arrays of STREAM (McCalpin) and a check of every element. Elements are small integers that depend on the index,
   so that every result is exact and neighbours differ. */

HELPER double stream_value(ulong i, ulong seed) { return (double)(1ul + (mix64(i ^ (seed << 40)) & 0xFFFFul)); }

KERNEL stream_fill(GLOBAL double* p, ulong n, ulong seed) {
    FOR_EACH(i, n) p[i] = stream_value(i, seed);
}

/* op: 0 copy, 1 scale, 2 add, 3 triad, 5 write; b and c are the seeds of the inputs, s the scalar. */
KERNEL stream_check(GLOBAL const double* a, ulong n, uint op, ulong b, ulong c, double s, GLOBAL ulong* errors) {
    ulong wrong = 0;
    FOR_EACH(i, n) {
        const double x = stream_value(i, b), y = stream_value(i, c);
        const double expected = op == 0 ? x : op == 1 ? s * x : op == 2 ? x + y : op == 3 ? x + s * y : s;
        wrong += a[i] != expected;
    }
    if (wrong > 0) ATOMIC_ADD_U64_SYSTEM(errors, wrong);
}

/* The sum of p, and the sum expected after stream_fill. They are integers below 2^53, so they are exact in any order of
   summation. */
KERNEL stream_sum(GLOBAL const double* p, ulong n, GLOBAL double* result) {
    double sum = 0;
    FOR_EACH(i, n) sum += p[i];
    ATOMIC_ADD_F64_DEVICE(result, sum);
}

KERNEL stream_expect(ulong n, ulong seed, GLOBAL double* result) {
    double sum = 0;
    FOR_EACH(i, n) sum += stream_value(i, seed);
    ATOMIC_ADD_F64_DEVICE(result, sum);
}
