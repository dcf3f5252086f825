/* Each thread increments its own entry, or all the same one, by a load and a store in every iteration. Entry number t is the
   first word of the t-th stride. stride 0 puts all threads on one entry, WITHOUT ATOMICS: THAT RACE IS THE EXPERIMENT, and
   what a race checker finds in these kernels for stride 0 is expected. step 2 leaves the odd threads out. */

KERNEL caching_cached(GLOBAL ulong* data, ulong threads, ulong stride, ulong step, ulong iterations) {
    FOR_EACH(thread, threads) {
        GLOBAL ulong* entry = data + thread * stride;
        const ulong mine = thread % step == 0 ? iterations : 0;
        for (ulong i = 0; i < mine; ++i) STORE_CACHED(entry, LOAD_CACHED(entry) + 1);
    }
}

/* The same with loads that bypass the first-level cache. */
KERNEL caching_uncached(GLOBAL ulong* data, ulong threads, ulong stride, ulong step, ulong iterations) {
    FOR_EACH(thread, threads) {
        GLOBAL ulong* entry = data + thread * stride;
        const ulong mine = thread % step == 0 ? iterations : 0;
        for (ulong i = 0; i < mine; ++i) STORE_CACHED(entry, LOAD_UNCACHED(entry) + 1);
    }
}

/* Counts words that differ from the pattern of `seed` plus `updates` by every thread. One shared entry may have lost
   updates: it holds between one and all of them. result[1] gets its number of updates. */
KERNEL caching_check(GLOBAL const ulong* data, ulong words, ulong threads, ulong stride, ulong step, ulong updates,
                     ulong seed, GLOBAL ulong* result) {
    ulong wrong = 0;
    FOR_EACH(i, words) {
        const ulong more = data[i] - pattern_word(i, seed);
        if (stride == 0) {
            wrong += i == 0 ? more == 0 || more > updates * threads : more != 0;
            if (i == 0) result[1] = more;
        } else {
            const ulong thread = i / stride;
            const int entry = i % stride == 0 && thread < threads && thread % step == 0;
            wrong += more != (entry ? updates : 0);
        }
    }
    if (wrong > 0) ATOMIC_ADD_U64_SYSTEM(result, wrong);
}
