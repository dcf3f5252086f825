/* In every iteration each thread increments its own entry, or all threads the same one, by a load and a store. Entry t
   is the first word of the t-th stride. With stride 0 all threads share one entry, WITHOUT ATOMICS: THAT RACE IS THE
   EXPERIMENT, and a race checker is expected to report it. With step 2 the odd threads do nothing. */

KERNEL caching_cached(GLOBAL ulong* data, ulong threads, ulong stride, ulong step, ulong iterations) {
    FOR_EACH(thread, threads) {
        GLOBAL ulong* entry = data + thread * stride;
        const ulong increments = thread % step == 0 ? iterations : 0;
        for (ulong i = 0; i < increments; ++i) STORE_CACHED(entry, LOAD_CACHED(entry) + 1);
    }
}

/* The same with loads that bypass the first-level cache: of the whole system's scope, and of the device's. */
KERNEL caching_uncached(GLOBAL ulong* data, ulong threads, ulong stride, ulong step, ulong iterations) {
    FOR_EACH(thread, threads) {
        GLOBAL ulong* entry = data + thread * stride;
        const ulong increments = thread % step == 0 ? iterations : 0;
        for (ulong i = 0; i < increments; ++i) STORE_CACHED(entry, LOAD_UNCACHED(entry) + 1);
    }
}

KERNEL caching_bypass_l1(GLOBAL ulong* data, ulong threads, ulong stride, ulong step, ulong iterations) {
    FOR_EACH(thread, threads) {
        GLOBAL ulong* entry = data + thread * stride;
        const ulong increments = thread % step == 0 ? iterations : 0;
        for (ulong i = 0; i < increments; ++i) STORE_CACHED(entry, LOAD_BYPASS_L1(entry) + 1);
    }
}

/* Counts the words that differ from the pattern of `seed`, plus `updates` for every entry. A shared entry may have lost
   updates: any number of them from one to all is accepted, and result[1] receives that number. */
KERNEL caching_check(GLOBAL const ulong* data, ulong words, ulong threads, ulong stride, ulong step, ulong updates,
                     ulong seed, GLOBAL ulong* result) {
    ulong wrong = 0;
    FOR_EACH(i, words) {
        const ulong added = data[i] - pattern_word(i, seed);
        if (stride == 0) {
            wrong += i == 0 ? added == 0 || added > updates * threads : added != 0;
            if (i == 0) result[1] = added;
        } else {
            const ulong thread = i / stride;
            const int entry = i % stride == 0 && thread < threads && thread % step == 0;
            wrong += added != (entry ? updates : 0);
        }
    }
    if (wrong > 0) ATOMIC_ADD_U64_SYSTEM(result, wrong);
}
