/* An array of 32-bit integers, divided into two halves, that both agents increment. */

/* Fills the half that starts at integer `at` of a buffer with integers `first` and following of the pattern. */
KERNEL halves_fill(GLOBAL uint* p, ulong at, ulong first, ulong n, ulong seed) {
    FOR_EACH(i, n) p[at + i] = (uint)pattern_word(first + i, seed);
}

/* Adds one to each of n integers, starting at `first`. */
KERNEL halves_increment(GLOBAL uint* p, ulong first, ulong n) {
    FOR_EACH(i, n) p[first + i] += 1u;
}

/* Counts the integers of such a half that differ from the pattern plus what was added to each. */
KERNEL halves_check(GLOBAL const uint* p, ulong at, ulong first, ulong n, ulong seed, uint added,
                    GLOBAL ulong* errors) {
    ulong wrong = 0;
    FOR_EACH(i, n) wrong += p[at + i] != (uint)pattern_word(first + i, seed) + added;
    if (wrong > 0) ATOMIC_ADD_U64_SYSTEM(errors, wrong);
}
