/* Fills memory with the pattern of a seed and counts the words that differ from it. */

/* Fills words [0, words). The last, partial word of a buffer is filled and checked by the host. */
KERNEL fill_words(GLOBAL ulong* p, ulong words, ulong seed) {
    FOR_EACH(i, words) p[i] = pattern_word(i, seed);
}

/* Fills with the pattern of seed 0, for a first launch that has no other arguments. */
KERNEL fill_seeded(GLOBAL ulong* p, ulong words) {
    FOR_EACH(i, words) p[i] = pattern_word(i, 0);
}

KERNEL check_words(GLOBAL const ulong* p, ulong words, ulong seed, GLOBAL ulong* errors) {
    ulong wrong = 0;
    FOR_EACH(i, words) wrong += p[i] != pattern_word(i, seed);
    if (wrong > 0) ATOMIC_ADD_U64_SYSTEM(errors, wrong);
}

/* Stores one word in every page, the first at word `first`. */
KERNEL touch_pages(GLOBAL ulong* p, ulong first, ulong pages, ulong page_words, ulong seed) {
    FOR_EACH(i, pages) p[first + i * page_words] = pattern_word(i, seed);
}

/* Counts the pages whose word differs from the one that touch_pages stores. */
KERNEL check_pages(GLOBAL const ulong* p, ulong first, ulong pages, ulong page_words, ulong seed,
                   GLOBAL ulong* errors) {
    ulong wrong = 0;
    FOR_EACH(i, pages) wrong += p[first + i * page_words] != pattern_word(i, seed);
    if (wrong > 0) ATOMIC_ADD_U64_SYSTEM(errors, wrong);
}
