/* Holds a stream until the host raises flag[0], or until `limit` nanoseconds passed so that nothing can hang. */
KERNEL gate_wait(GLOBAL ulong* flag, ulong limit) {
    if (GLOBAL_ID != 0) return;
    const ulong start = clock_ns();
    while (LOAD_UNCACHED(flag) == 0 && clock_ns() - start < limit) {
    }
}
