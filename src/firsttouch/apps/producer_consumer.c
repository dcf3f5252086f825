/* producer_consumer: the CPU puts items into a ring, a kernel that runs at the same time replaces each item by its
   answer, and the CPU reads the answers. Two words hold the progress of the two agents. Each is written by one agent
   and polled by one thread of the other. An agent that waits without progress gives up after a while, so that nothing
   hangs. */
enum {
    ring_produced = 0,
    ring_answered = 32, /* words of the board: no cache line holds two */
    ring_end = 64,      /* the CPU has given up */
    ring_spins = 64     /* polls between two readings of the clock */
};

HELPER ulong ring_answer(ulong word, ulong item) { return mix64(word ^ item); }

/* Polls until item `next` is produced. Returns the number of items produced by then, or 0 if it gave up. patience: in
   nanoseconds, or in polls if the device has no clock. */
HELPER ulong ring_wait(GLOBAL ulong* board, ulong next, ulong patience) {
    const ulong start = clock_ns();
    for (ulong polls = 1;; ++polls) {
        const ulong produced = LOAD_ACQUIRE_SYSTEM(board + ring_produced);
        if (produced > next) return produced;
        if (polls % ring_spins != 0) continue;
        if ((HAS_CLOCK ? clock_ns() - start : polls) > patience || LOAD_ACQUIRE_SYSTEM(board + ring_end)) return 0;
    }
}

/* One group answers items [first, last), as many at a time as have been produced. */
GROUP_KERNEL ring_consume(GLOBAL ulong* ring, GLOBAL ulong* board, ulong slots, ulong words, ulong first, ulong last,
                          ulong patience) {
    SHARED ulong produced;
    ulong next = first;
    while (next < last) {
        if (LOCAL_ID == 0) produced = ring_wait(board, next, patience);
        BARRIER();
        const ulong until = produced < last ? produced : last;
        for (ulong k = next * words + LOCAL_ID; k < until * words; k += GROUP_SIZE) {
            const ulong at = k % (slots * words);
            ring[at] = ring_answer(ring[at], k / words);
        }
        FENCE_SYSTEM(); /* orders the stores of every thread before the word that announces them */
        BARRIER();
        if (LOCAL_ID == 0 && until > next) STORE_RELEASE_SYSTEM(board + ring_answered, until);
        next = until > 0 ? until : last;
    }
}

/* One thread of the CPU produces items [first, last) and sums up the words of each answer. patience: in polls. */
KERNEL ring_produce(GLOBAL ulong* ring, GLOBAL ulong* board, GLOBAL ulong* sums, ulong slots, ulong words, ulong first,
                    ulong last, ulong key, ulong patience) {
    FOR_EACH(one, 1ul) {
        ulong produced = first, taken = first;
        for (ulong polls = 0; taken < last && polls < patience; ++polls) {
            if (produced < last && produced < taken + slots) {
                GLOBAL ulong* item = ring + produced % slots * words;
                for (ulong j = 0; j < words; ++j) item[j] = random_word(key, produced * words + j);
                FENCE_SYSTEM(); /* write-combined stores are not ordered by a release */
                STORE_RELEASE_SYSTEM(board + ring_produced, ++produced);
                polls = 0;
            }
            if (LOAD_ACQUIRE_SYSTEM(board + ring_answered) > taken) {
                GLOBAL const ulong* item = ring + taken % slots * words;
                ulong sum = 0;
                for (ulong j = 0; j < words; ++j) sum += item[j];
                sums[taken++ - first] = sum;
                polls = 0;
            }
        }
        if (taken < last) STORE_RELEASE_SYSTEM(board + ring_end, 1ul);
    }
}
