/* Filling memory with a seed's pattern and counting what differs from it. */

/* Words of [0, words); the last partial word of a buffer is the host's to fill and check. */
KERNEL fill_words(GLOBAL ulong* p, ulong words, ulong seed) {
    FOR_EACH(i, words) p[i] = pattern_word(i, seed);
}

/* The pattern of seed 0, for a first launch with nothing else to pass. */
KERNEL fill_seeded(GLOBAL ulong* p, ulong words) {
    FOR_EACH(i, words) p[i] = pattern_word(i, 0);
}

KERNEL check_words(GLOBAL const ulong* p, ulong words, ulong seed, GLOBAL ulong* errors) {
    ulong wrong = 0;
    FOR_EACH(i, words) wrong += p[i] != pattern_word(i, seed);
    if (wrong > 0) ATOMIC_ADD_U64_SYSTEM(errors, wrong);
}

/* One store to every page, at the start of each. */
KERNEL touch_pages(GLOBAL ulong* p, ulong pages, ulong page_words, ulong seed) {
    FOR_EACH(i, pages) p[i * page_words] = pattern_word(i, seed);
}

KERNEL check_pages(GLOBAL const ulong* p, ulong pages, ulong page_words, ulong seed, GLOBAL ulong* errors) {
    ulong wrong = 0;
    FOR_EACH(i, pages) wrong += p[i * page_words] != pattern_word(i, seed);
    if (wrong > 0) ATOMIC_ADD_U64_SYSTEM(errors, wrong);
}
