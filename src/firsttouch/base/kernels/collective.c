/* The numbers that ranks contribute to collective operations: at each place a + (rank + 1) * b, with a in 0..127 and b in
 * 1..4 from place and seed. They are whole and small, so that sums are exact in any order, and each rank's differ at every
 * place. The sum over ranks is ranks * a + weight * b, where weight is the sum of all rank + 1. */

HELPER float contribution(ulong place, ulong seed, ulong ranks, ulong weight) {
    const ulong word = pattern_word(place, seed);
    return (float)(ranks * ((word >> 1) & 127ul) + weight * (1ul + ((word >> 8) & 3ul)));
}

KERNEL collective_fill(GLOBAL float* p, ulong count, ulong seed, ulong weight) {
    FOR_EACH(i, count) p[i] = contribution(i, seed, 1ul, weight);
}

/* Counts the numbers from `first` on that differ from those of places from `place` on. */
KERNEL collective_check(GLOBAL const float* p, ulong first, ulong count, ulong place, ulong seed, ulong ranks,
                        ulong weight, GLOBAL ulong* errors) {
    ulong wrong = 0;
    FOR_EACH(i, count) wrong += p[first + i] != contribution(place + i, seed, ranks, weight);
    if (wrong > 0) ATOMIC_ADD_U64_SYSTEM(errors, wrong);
}
