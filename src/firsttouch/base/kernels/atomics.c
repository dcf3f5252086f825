/* Increments random elements of a histogram until the CPU stops it. Compiled with TYPE, the type of the elements, and
   ADD, the dialect's atomic add for that type.

   In a round every thread does `updates` increments. After each round the first thread of a group stores the number of
   rounds done to control[8 * (1 + group)], a cache line that no other group uses. It stores it from a register, so that
   the CPU can read the number at any time without slowing down the group. Every 16th round it checks whether control[0]
   was set. If that never happens, `max_rounds` or `max_ns` ends the kernel; a group that ends this way sets
   control[1]. */

KERNEL atomics_increment(GLOBAL TYPE* elements, uint count, ulong seed, GLOBAL ulong* control, uint updates,
                         ulong max_rounds, ulong max_ns) {
    SHARED uint running;
    const ulong start = clock_ns();
    /* Marsaglia's xorwow (Xorshift RNGs, J. Stat. Softw. 8(14), 2003), a state for every thread. */
    const ulong low = mix64(seed + 2 * GLOBAL_ID), high = mix64(seed + 2 * GLOBAL_ID + 1);
    uint x = (uint)low | 1u, y = (uint)(low >> 32), z = (uint)high, w = (uint)(high >> 32), v = x ^ w;
    uint counter = (uint)GLOBAL_ID;
    ulong rounds = 0;
    uint remaining = 0;
    do {
        if (LOCAL_ID == 0 && rounds % 16 == 0) {
            const int stopped = LOAD_UNCACHED(control) != 0;
            const int timed_out = rounds >= max_rounds || clock_ns() - start >= max_ns;
            if (timed_out && !stopped) STORE_UNCACHED(control + 1, 1);
            running = !timed_out && !stopped;
        }
        BARRIER();
        remaining = running ? updates : 0u;
        for (uint i = 0; i < remaining; ++i) {
            const uint t = x ^ (x >> 2);
            x = y;
            y = z;
            z = w;
            w = v;
            v = (v ^ (v << 4)) ^ (t ^ (t << 1));
            counter += 362437u;
            const ulong random_value = counter + v;
            ADD(elements + ((random_value * count) >> 32), 1);
        }
        BARRIER();
        rounds += remaining > 0;
        if (LOCAL_ID == 0) STORE_UNCACHED(control + 8 * (1 + GROUP_ID), rounds);
    } while (remaining > 0);
}
