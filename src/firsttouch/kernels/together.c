/* Kernels that use memory while the CPU does, too. One thread, except in add_passes and add_shared. Every wait
   ends by itself: after `ns` nanoseconds where the device has a clock, after `spins` loads everywhere.
   The race is the experiment: nothing but the atomics and the acquire and release orders the two agents. */

/* Whether a loop that began at `since` may run iteration i. */
HELPER int may_go_on(ulong i, ulong spins, ulong since, ulong ns) {
#if HAS_CLOCK
    if (clock_ns() - since >= ns) return 0;
#endif
    return i < spins;
}

/* result[0]: how often p[at] changed while it was watched; watches until `enough` changes. */
KERNEL count_changes(GLOBAL ulong* p, ulong at, ulong enough, ulong ns, ulong spins, GLOBAL ulong* result) {
    if (GLOBAL_ID != 0) return;
    const ulong since = clock_ns();
    ulong last = LOAD_ACQUIRE_SYSTEM(p + at), changes = 0;
    for (ulong i = 0; changes < enough && may_go_on(i, spins, since, ns); ++i) {
        const ulong seen = LOAD_ACQUIRE_SYSTEM(p + at);
        changes += seen != last;
        last = seen;
    }
    result[0] = changes;
}

/* Stores 1, 2, ... `rounds` to p[at], with `pause` steps of work between; result[0] keeps that work alive. */
KERNEL store_rounds(GLOBAL ulong* p, ulong at, ulong rounds, ulong pause, GLOBAL ulong* result) {
    if (GLOBAL_ID != 0) return;
    ulong work = rounds;
    for (ulong round = 1; round <= rounds; ++round) {
        for (ulong i = 0; i < pause; ++i) work = mix64(work);
        STORE_RELEASE_SYSTEM(p + at, round);
    }
    result[0] = work;
}

/* Waits for 1, 2, ... `rounds` in p[ball] and answers each in p[answer]; any other value ends it. result[0]: answers. */
KERNEL answer_rounds(GLOBAL ulong* p, ulong ball, ulong answer, ulong rounds, ulong ns, ulong spins,
                     GLOBAL ulong* result) {
    if (GLOBAL_ID != 0) return;
    ulong done = 0, seen = 0;
    while (done < rounds && seen == done) {
        const ulong since = clock_ns();
        for (ulong i = 0; seen == done && may_go_on(i, spins, since, ns); ++i) seen = LOAD_ACQUIRE_SYSTEM(p + ball);
        if (seen != done + 1) break;
        STORE_RELEASE_SYSTEM(p + answer, ++done);
    }
    result[0] = done;
}

/* Adds 1 to every word of [first, first + words) by plain loads and stores, `passes` times. */
KERNEL add_passes(GLOBAL ulong* p, ulong first, ulong words, ulong passes) {
    for (ulong pass = 0; pass < passes; ++pass) {
        FOR_EACH(i, words) {
            GLOBAL volatile ulong* word = p + first + i;
            *word = *word + 1ul;
        }
    }
}

/* Every thread adds 1 to p[0] at system scope up to `most` times; result[0]: the additions of all. */
KERNEL add_shared(GLOBAL ulong* p, ulong most, ulong ns, GLOBAL ulong* result) {
    const ulong since = clock_ns();
    ulong added = 0;
    for (; may_go_on(added, most, since, ns); ++added) ATOMIC_ADD_U64_SYSTEM(p, 1ul);
    ATOMIC_ADD_U64_DEVICE(result, added);
}

/* Loads and stores back one word of each of `count` pages from word `first` on. */
KERNEL retouch_pages(GLOBAL ulong* p, ulong first, ulong count, ulong page_words) {
    FOR_EACH(i, count) {
        GLOBAL volatile ulong* word = p + first + i * page_words;
        *word = *word;
    }
}
