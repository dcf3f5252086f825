/* Critical sections for which both agents compete. The threads of an agent elect a leader by a test-and-set lock in
   memory of that agent. The leader competes with the leader of the other agent for a Peterson lock (G. L. Peterson,
   Myths about the mutual exclusion problem, Information Processing Letters 12 (3), 1981) on a board that both agents
   access. Peterson's lock needs only loads and stores: no atomic operation has to cross a link.

   Words of the board, each in its own cache line: the state of either agent's leader, the agent that may enter first,
   and whether the run has ended. The state of a leader is twice the number of sections that the agent has completed,
   plus one while a leader waits to enter or is inside.
   Words of an agent's own memory: the lock and the number of sections, each in its own cache line, then a line for each
   competitor with the numbers of its sections and of its accesses outside. */
enum {
    locking_line = 32, /* words: no cache line holds two of the above */
    locking_turn = 2 * locking_line,
    locking_end = 3 * locking_line,
    locking_sections = locking_line,
    locking_tally = 2 * locking_line,
    locking_private = 4096, /* private words of a competitor, which fit both agents' first-level caches */
    locking_piece = 1024,   /* accesses outside between two checks of the board */
    locking_rounds = 16,    /* sections between two checks */
    locking_spins = 256     /* tries between two checks */
};

/* True if the kernel must stop: the CPU has requested it, or `limit` has been exceeded, which ends a kernel whose CPU
   process has died. The limit is in nanoseconds since `start`. On a device without a clock it applies to one wait and
   counts ten nanoseconds for each try. */
HELPER uint locking_is_over(GLOBAL ulong* board, ulong start, ulong tries, ulong limit) {
    const ulong spent = HAS_CLOCK ? clock_ns() - start : 10 * tries;
    return LOAD_ACQUIRE_SYSTEM(board + locking_end) != 0 || spent > limit;
}

/* Tries to take the agent's own lock. Returns 1 if it was taken. */
HELPER uint locking_try_own(GLOBAL ulong* own) {
    if (LOAD_ACQUIRE_SYSTEM(own) != 0 || EXCHANGE_U64_DEVICE(own, 1) != 0) return 0;
    return (uint)LOAD_ACQUIRE_SYSTEM(own); /* acquires the last holder's stores */
}

/* Takes the lock between the agents. Returns 1, or 0 if the run is over. The fence between the two stores is needed on
   memory systems where another observer may see the second store first. The fence after them orders them before the
   loads. */
HELPER uint locking_take_shared(GLOBAL ulong* board, uint agent, ulong left, ulong start, ulong limit) {
    const uint other = 1u - agent;
    STORE_RELEASE_SYSTEM(board + agent * locking_line, 2 * left + 1);
    FENCE_SYSTEM();
    STORE_RELEASE_SYSTEM(board + locking_turn, other);
    FENCE_SYSTEM();
    for (ulong tries = 1;; ++tries) {
        if (LOAD_ACQUIRE_SYSTEM(board + other * locking_line) % 2 == 0) return 1;
        if (LOAD_ACQUIRE_SYSTEM(board + locking_turn) == agent) return 1;
        if (tries % locking_spins == 0 && locking_is_over(board, start, tries, limit)) break;
    }
    STORE_RELEASE_SYSTEM(board + agent * locking_line, 2 * left);
    return 0;
}

/* The critical section of a competitor that holds its agent's own lock: takes the other lock, increments each of
   `inside` words once, by ordinary loads and stores, and releases both. If two leaders were inside at once, an increment
   would be lost. Returns 1, or 0 if the run is over. */
HELPER uint locking_section(GLOBAL ulong* board, GLOBAL ulong* own, GLOBAL ulong* region, uint agent, ulong inside,
                            ulong start, ulong limit) {
    const ulong left = own[locking_sections];
    const uint taken = locking_take_shared(board, agent, left, start, limit);
    if (taken) {
        for (ulong i = 0; i < inside; ++i) region[i * locking_line] += 1;
        own[locking_sections] = left + 1;
        FENCE_SYSTEM(); /* write-combined stores are not ordered by a release */
        STORE_RELEASE_SYSTEM(board + agent * locking_line, 2 * left + 2);
    }
    STORE_RELEASE_SYSTEM(own, 0ul);
    return taken;
}

/* Runs the competitors: `outside` accesses to private words, then a section, until the run is over or the competitor has
   completed `max_sections` sections. Competitors may be threads of one group that execute in lockstep. So an iteration
   of the loop tries the own lock once, and the thread that takes it releases it before the iteration ends: a thread that
   waited for others of its group to leave the loop while it held the lock would block them forever. */
KERNEL locking_compete(GLOBAL ulong* board, GLOBAL ulong* own, GLOBAL ulong* region, GLOBAL ulong* privates,
                       ulong competitors, uint agent, ulong inside, ulong outside, ulong max_sections, ulong limit) {
    FOR_EACH(me, competitors) {
        GLOBAL ulong* words = privates + me * locking_private;
        GLOBAL ulong* tally = own + locking_tally + me * locking_line;
        const ulong start = clock_ns();
        ulong sections = 0;
        ulong tries = 0;
        ulong left = outside; /* accesses before the next section */
        ulong accesses = tally[1];
        uint over = max_sections == 0;
        while (!over) {
            if (left > 0) {
                const ulong piece = left < locking_piece ? left : (ulong)locking_piece;
                for (ulong i = 0; i < piece; ++i) words[(accesses + i) % locking_private] += 1;
                accesses += piece;
                left -= piece;
                over = left > 0 && locking_is_over(board, start, 0, limit);
            } else if (locking_try_own(own)) {
                const uint entered = locking_section(board, own, region, agent, inside, start, limit);
                sections += entered;
                left = outside;
                tries = 0;
                over = !entered || sections == max_sections ||
                       (sections % locking_rounds == 0 && locking_is_over(board, start, 0, limit));
            } else if (++tries % locking_spins == 0) {
                over = locking_is_over(board, start, tries, limit);
            }
        }
        tally[0] += sections;
        tally[1] = accesses;
    }
}

/* Counts the words of the region that differ from the pattern, plus one per section for the words that sections
   increment. */
KERNEL locking_check_region(GLOBAL const ulong* region, ulong words, ulong seed, ulong inside, ulong sections,
                            GLOBAL ulong* errors) {
    ulong wrong = 0;
    FOR_EACH(i, words) {
        const uint counted = i % locking_line == 0 && i / locking_line < inside;
        wrong += region[i] != pattern_word(i, seed) + (counted ? sections : 0);
    }
    if (wrong > 0) ATOMIC_ADD_U64_SYSTEM(errors, wrong);
}

/* Counts the competitors' private words that differ from the pattern plus one per access. The accesses of a competitor
   go through its words in order, again and again. */
KERNEL locking_check_privates(GLOBAL const ulong* privates, GLOBAL const ulong* own, ulong competitors, ulong seed,
                              GLOBAL ulong* errors) {
    ulong wrong = 0;
    FOR_EACH(i, competitors * locking_private) {
        const ulong accesses = own[locking_tally + i / locking_private * locking_line + 1];
        const ulong more = i % locking_private < accesses % locking_private;
        wrong += privates[i] != pattern_word(i, seed) + accesses / locking_private + more;
    }
    if (wrong > 0) ATOMIC_ADD_U64_SYSTEM(errors, wrong);
}
