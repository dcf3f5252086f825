/* Copies by a kernel. Each thread has four vectors of 16 bytes in flight. */
KERNEL copy_vectors(GLOBAL f64x2* target, GLOBAL const f64x2* source, ulong vectors) {
    for (ulong tile = GROUP_ID * ((ulong)GROUP_SIZE * 4); tile < vectors; tile += GLOBAL_SIZE * 4) {
        const ulong first = tile + LOCAL_ID;
        if (first + 3ul * GROUP_SIZE < vectors) {
            f64x2 x[4];
            UNROLLED for (int u = 0; u < 4; ++u) x[u] = source[first + u * GROUP_SIZE];
            UNROLLED for (int u = 0; u < 4; ++u) target[first + u * GROUP_SIZE] = x[u];
        } else {
            for (int u = 0; u < 4; ++u)
                if (first + (ulong)u * GROUP_SIZE < vectors) target[first + u * GROUP_SIZE] = source[first + u * GROUP_SIZE];
        }
    }
}

KERNEL copy_bytes(GLOBAL uchar* target, GLOBAL const uchar* source, ulong bytes) {
    FOR_EACH(i, bytes) target[i] = source[i];
}
