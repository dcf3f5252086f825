/* The walk of chase.c on a device, by one thread. state[0] holds the start address and receives the last one.
   result[2s] and result[2s+1] receive the nanoseconds and cycles of sample s where the device has a clock. Warm-up
   loads come first, inside the same kernel, because some first-level caches are emptied between kernels. HOP may be set
   to another load, such as one that bypasses the first-level cache. */

#ifndef HOP
#define HOP(p) (*(p))
#endif

HELPER ulong hop32(ulong p) {
    UNROLLED
    for (int i = 0; i < 32; ++i) p = HOP((GLOBAL const ulong*)p);
    return p;
}

KERNEL chase_walk(GLOBAL ulong* state, GLOBAL ulong* result, ulong warm, ulong hops, uint samples) {
    if (GLOBAL_ID != 0) return;
    ulong p = state[0];
    for (ulong i = 0; i < warm; i += 32) p = hop32(p);
    for (uint s = 0; s < samples; ++s) {
        const ulong ns = clock_ns();
        const ulong cycles = clock_cycles();
        for (ulong i = 0; i < hops; i += 32) p = hop32(p);
        state[0] = p;
        result[2 * s] = clock_ns() - ns;
        result[2 * s + 1] = clock_cycles() - cycles;
    }
}

/* Stores the address of a buffer as kernels see it. */
KERNEL address_of(GLOBAL ulong* p, GLOBAL ulong* result) {
    if (GLOBAL_ID == 0) result[0] = (ulong)p;
}

/* Reads every word, so that caches and TLBs are in the state that any pass over the buffer leaves. */
KERNEL read_words(GLOBAL const ulong* p, ulong words, GLOBAL ulong* result) {
    ulong sum = 0;
    FOR_EACH(i, words) sum += p[i];
    if (sum == 0x5EEDul) result[0] = sum;
}
