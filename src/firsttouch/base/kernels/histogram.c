/* Sets the histogram of the experiment `atomics` to zero and sums it. Its elements are integers of type ulong or
   double. */

KERNEL histogram_zero(GLOBAL ulong* p, ulong elements) {
    FOR_EACH(i, elements) p[i] = 0;
}

/* result[0] receives the sum, result[1] the number of invalid elements: those that are above `largest` or not
   integers. */
KERNEL histogram_sum_u64(GLOBAL const ulong* p, ulong elements, ulong largest, GLOBAL ulong* result) {
    ulong sum = 0, invalid = 0;
    FOR_EACH(i, elements) {
        sum += p[i];
        invalid += p[i] > largest;
    }
    if (sum > 0) ATOMIC_ADD_U64_SYSTEM(result, sum);
    if (invalid > 0) ATOMIC_ADD_U64_SYSTEM(result + 1, invalid);
}

KERNEL histogram_sum_f64(GLOBAL const double* p, ulong elements, ulong largest, GLOBAL ulong* result) {
    ulong sum = 0, invalid = 0;
    FOR_EACH(i, elements) {
        const double value = p[i];
        const int in_range = value >= 0 && value <= (double)largest;
        const ulong integer = in_range ? (ulong)value : 0;
        sum += integer;
        invalid += !in_range || (double)integer != value;
    }
    if (sum > 0) ATOMIC_ADD_U64_SYSTEM(result, sum);
    if (invalid > 0) ATOMIC_ADD_U64_SYSTEM(result + 1, invalid);
}
