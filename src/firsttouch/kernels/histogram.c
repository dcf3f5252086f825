/* The histogram of the experiment `atomics`, whose elements are integers of type ulong or double: sets it to zero and
   sums it. */

KERNEL histogram_zero(GLOBAL ulong* p, ulong elements) {
    FOR_EACH(i, elements) p[i] = 0;
}

/* result[0] gets the sum; result[1] the number of impossible elements: above `most`, or not an integer. */
KERNEL histogram_sum_u64(GLOBAL const ulong* p, ulong elements, ulong most, GLOBAL ulong* result) {
    ulong sum = 0, absurd = 0;
    FOR_EACH(i, elements) {
        sum += p[i];
        absurd += p[i] > most;
    }
    if (sum > 0) ATOMIC_ADD_U64_SYSTEM(result, sum);
    if (absurd > 0) ATOMIC_ADD_U64_SYSTEM(result + 1, absurd);
}

KERNEL histogram_sum_f64(GLOBAL const double* p, ulong elements, ulong most, GLOBAL ulong* result) {
    ulong sum = 0, absurd = 0;
    FOR_EACH(i, elements) {
        const double value = p[i];
        const int possible = value >= 0 && value <= (double)most;
        const ulong whole = possible ? (ulong)value : 0;
        sum += whole;
        absurd += !possible || (double)whole != value;
    }
    if (sum > 0) ATOMIC_ADD_U64_SYSTEM(result, sum);
    if (absurd > 0) ATOMIC_ADD_U64_SYSTEM(result + 1, absurd);
}
