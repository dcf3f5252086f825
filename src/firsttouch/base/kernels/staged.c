/* The updates of caching.c, staged through the local memory of a group: in every iteration each thread copies its entry
   into local memory, the entry is incremented there, and each thread copies it back. All threads of a group reach every
   barrier, also those that update nothing. */
enum { staged_threads = 256 /* of a group */ };

KERNEL caching_staged(GLOBAL ulong* data, ulong threads, ulong stride, ulong step, ulong iterations) {
    SHARED ulong staged[staged_threads];
    for (ulong first = GROUP_ID * GROUP_SIZE; first < threads; first += GLOBAL_SIZE) {
        const ulong thread = first + LOCAL_ID;
        const uint updates = thread < threads && thread % step == 0;
        GLOBAL ulong* entry = data + (updates ? thread * stride : 0);
        for (ulong i = 0; i < iterations; ++i) {
            if (updates) staged[LOCAL_ID] = LOAD_CACHED(entry);
            BARRIER();
            if (updates) staged[LOCAL_ID] += 1;
            BARRIER();
            if (updates) STORE_CACHED(entry, staged[LOCAL_ID]);
        }
    }
}
