/* Kernels that use memory while the CPU uses it too. They run in one thread, except add_passes and add_shared. Every
   wait ends by itself: after `ns` nanoseconds where the device has a clock, after `spins` loads everywhere.
   The race is the experiment: only the atomics and the acquire and release accesses order the two agents. */

/* True if a loop that began at `since` may run iteration i. */
HELPER int may_continue(ulong i, ulong spins, ulong since, ulong ns) {
#if HAS_CLOCK
    if (clock_ns() - since >= ns) return 0;
#endif
    return i < spins;
}

/* result[0]: the number of changes of p[at] that were observed. Stops after `enough` changes. */
KERNEL count_changes(GLOBAL ulong* p, ulong at, ulong enough, ulong ns, ulong spins, GLOBAL ulong* result) {
    if (GLOBAL_ID != 0) return;
    const ulong since = clock_ns();
    ulong last = LOAD_ACQUIRE_SYSTEM(p + at), changes = 0;
    for (ulong i = 0; changes < enough && may_continue(i, spins, since, ns); ++i) {
        const ulong seen = LOAD_ACQUIRE_SYSTEM(p + at);
        changes += seen != last;
        last = seen;
    }
    result[0] = changes;
}

/* Stores 1, 2, ... `rounds` to p[at], with `pause` steps of work between two stores. result[0] receives the result of
   the work, so that the compiler cannot remove it. */
KERNEL store_rounds(GLOBAL ulong* p, ulong at, ulong rounds, ulong pause, GLOBAL ulong* result) {
    if (GLOBAL_ID != 0) return;
    ulong work = rounds;
    for (ulong round = 1; round <= rounds; ++round) {
        for (ulong i = 0; i < pause; ++i) work = mix64(work);
        STORE_RELEASE_SYSTEM(p + at, round);
    }
    result[0] = work;
}

/* Waits for 1, 2, ... `rounds` in p[ping] and copies each to p[answer]. Any other value ends it. result[0]: the number
   of answers. */
KERNEL answer_rounds(GLOBAL ulong* p, ulong ping, ulong answer, ulong rounds, ulong ns, ulong spins,
                     GLOBAL ulong* result) {
    if (GLOBAL_ID != 0) return;
    ulong done = 0, seen = 0;
    while (done < rounds && seen == done) {
        const ulong since = clock_ns();
        for (ulong i = 0; seen == done && may_continue(i, spins, since, ns); ++i) seen = LOAD_ACQUIRE_SYSTEM(p + ping);
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

/* Every thread adds 1 to p[0] at system scope up to `max_additions` times. result[0]: the number of additions by all
   threads. */
KERNEL add_shared(GLOBAL ulong* p, ulong max_additions, ulong ns, GLOBAL ulong* result) {
    const ulong since = clock_ns();
    ulong added = 0;
    for (; may_continue(added, max_additions, since, ns); ++added) ATOMIC_ADD_U64_SYSTEM(p, 1ul);
    ATOMIC_ADD_U64_DEVICE(result, added);
}

/* Loads one word of each of `count` pages, from word `first` on, and stores it back. */
KERNEL retouch_pages(GLOBAL ulong* p, ulong first, ulong count, ulong page_words) {
    FOR_EACH(i, count) {
        GLOBAL volatile ulong* word = p + first + i * page_words;
        *word = *word;
    }
}
