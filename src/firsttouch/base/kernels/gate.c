/* Holds a stream until the host sets flag[0]. After `limit` nanoseconds it stops waiting, so that it cannot hang, and
   sets flag[1]. */
KERNEL gate_wait(GLOBAL ulong* flag, ulong limit) {
    if (GLOBAL_ID != 0) return;
    const ulong start = clock_ns();
    while (LOAD_UNCACHED(flag) == 0 && clock_ns() - start < limit) {
    }
    if (LOAD_UNCACHED(flag) == 0) STORE_UNCACHED(flag + 1, 1);
}
