/* An array of 32-bit integers, divided into two halves, that both agents increment. */

KERNEL halves_fill(GLOBAL uint* p, ulong n, ulong seed) {
    FOR_EACH(i, n) p[i] = (uint)pattern_word(i, seed);
}

/* Adds one to each of n integers, starting at `first`. */
KERNEL halves_increment(GLOBAL uint* p, ulong first, ulong n) {
    FOR_EACH(i, n) p[first + i] += 1u;
}

/* Counts the integers that differ from the pattern plus what was added to their half. */
KERNEL halves_check(GLOBAL const uint* p, ulong n, ulong seed, uint added_to_first, uint added_to_second,
                    GLOBAL ulong* errors) {
    ulong wrong = 0;
    FOR_EACH(i, n) wrong += p[i] != (uint)pattern_word(i, seed) + (i < n / 2 ? added_to_first : added_to_second);
    if (wrong > 0) ATOMIC_ADD_U64_SYSTEM(errors, wrong);
}
