/* Increments random elements of a histogram until the CPU stops it. Compiled with TYPE, the elements' type, and ADD,
   the dialect's atomic add for it.

   A round is `updates` increments by every thread. After it the first thread stores how many rounds its group has done
   to its own cache line, control[8 * (1 + group)], from a register: it can be read at any time and does not slow down
   the group. Every 16th round it checks whether control[0] was set. `most_rounds` and `most_ns` end the kernel if it
   was not; a group that ends that way sets control[1]. */

KERNEL atomics_increment(GLOBAL TYPE* elements, uint count, ulong seed, GLOBAL ulong* control, uint updates,
                         ulong most_rounds, ulong most_ns) {
    SHARED uint going;
    const ulong start = clock_ns();
    /* Marsaglia's xorwow (Xorshift RNGs, J. Stat. Softw. 8(14), 2003), a state for every thread. */
    const ulong low = mix64(seed + 2 * GLOBAL_ID), high = mix64(seed + 2 * GLOBAL_ID + 1);
    uint x = (uint)low | 1u, y = (uint)(low >> 32), z = (uint)high, w = (uint)(high >> 32), v = x ^ w;
    uint counter = (uint)GLOBAL_ID;
    ulong rounds = 0;
    uint left = 0;
    do {
        if (LOCAL_ID == 0 && rounds % 16 == 0) {
            const int told = LOAD_UNCACHED(control) != 0;
            const int late = rounds >= most_rounds || clock_ns() - start >= most_ns;
            if (late && !told) STORE_UNCACHED(control + 1, 1);
            going = !late && !told;
        }
        BARRIER();
        left = going ? updates : 0u;
        for (uint i = 0; i < left; ++i) {
            const uint t = x ^ (x >> 2);
            x = y;
            y = z;
            z = w;
            w = v;
            v = (v ^ (v << 4)) ^ (t ^ (t << 1));
            counter += 362437u;
            const ulong drawn = counter + v;
            ADD(elements + ((drawn * count) >> 32), 1);
        }
        BARRIER();
        rounds += left > 0;
        if (LOCAL_ID == 0) STORE_UNCACHED(control + 8 * (1 + GROUP_ID), rounds);
    } while (left > 0);
}
