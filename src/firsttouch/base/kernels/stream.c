/* STREAM on a device. A group moves one tile of GROUP_SIZE * UNROLL vectors of 16 bytes: all loads of a thread are
   issued before its first store. UNROLL is set when the kernel is compiled. A launch covers n vectors and repeats the
   pass `passes` times inside the kernel (the cache sweep). All kernels have the same PASS_ARGUMENTS, so that one host
   loop can launch them. Bytes per vector: copy, scale 16 read + 16 written; add, triad 32 + 16; read 16; write 16. */

#define TILE_BODY(LOAD, VALUE)                                                            \
    for (ulong pass = 0; pass < passes; ++pass)                                           \
        for (ulong tile = GROUP_ID * ((ulong)GROUP_SIZE * UNROLL); tile < n;              \
             tile += GLOBAL_SIZE * UNROLL) {                                              \
            const ulong first = tile + LOCAL_ID;                                          \
            f64x2 x[UNROLL], y[UNROLL];                                                   \
            if (first + (ulong)(UNROLL - 1) * GROUP_SIZE < n) {                           \
                UNROLLED for (int u = 0; u < UNROLL; ++u) { LOAD(first + u * GROUP_SIZE) } \
                UNROLLED for (int u = 0; u < UNROLL; ++u) {                               \
                    f64x2 v;                                                              \
                    VALUE a[first + u * GROUP_SIZE] = v;                                  \
                }                                                                         \
            } else {                                                                      \
                for (int u = 0; u < UNROLL; ++u)                                          \
                    if (first + (ulong)u * GROUP_SIZE < n) {                              \
                        f64x2 v;                                                          \
                        LOAD(first + u * GROUP_SIZE)                                      \
                        VALUE a[first + u * GROUP_SIZE] = v;                              \
                    }                                                                     \
            }                                                                             \
        }

#define PASS_ARGUMENTS GLOBAL f64x2 *a, GLOBAL const f64x2 *b, GLOBAL const f64x2 *c, double s, ulong n, ulong passes

#define LOAD_NONE(i)
#define LOAD_B(i) x[u] = b[i];
#define LOAD_BC(i) x[u] = b[i], y[u] = c[i];

KERNEL stream_copy(PASS_ARGUMENTS) { TILE_BODY(LOAD_B, v = x[u];) }
KERNEL stream_scale(PASS_ARGUMENTS) { TILE_BODY(LOAD_B, v.x = s * x[u].x; v.y = s * x[u].y;) }
KERNEL stream_add(PASS_ARGUMENTS) { TILE_BODY(LOAD_BC, v.x = x[u].x + y[u].x; v.y = x[u].y + y[u].y;) }
KERNEL stream_triad(PASS_ARGUMENTS) { TILE_BODY(LOAD_BC, v.x = x[u].x + s * y[u].x; v.y = x[u].y + s * y[u].y;) }
KERNEL stream_write(PASS_ARGUMENTS) { TILE_BODY(LOAD_NONE, v.x = s; v.y = s;) }

/* Sums b. Thread t stores its partial sum in the t-th double of a. The address depends on the pass number through a
   term that is always zero. `passes` is a run-time argument, so the compiler cannot know this and cannot drop a
   pass. */
KERNEL stream_read(PASS_ARGUMENTS) {
    double sum[UNROLL];
    for (int u = 0; u < UNROLL; ++u) sum[u] = 0;
    for (ulong pass = 0; pass < passes; ++pass) {
        GLOBAL const f64x2* from = b + (pass >> 40);
        for (ulong tile = GROUP_ID * ((ulong)GROUP_SIZE * UNROLL); tile < n; tile += GLOBAL_SIZE * UNROLL) {
            const ulong first = tile + LOCAL_ID;
            if (first + (ulong)(UNROLL - 1) * GROUP_SIZE < n) {
                f64x2 x[UNROLL];
                UNROLLED for (int u = 0; u < UNROLL; ++u) x[u] = from[first + u * GROUP_SIZE];
                UNROLLED for (int u = 0; u < UNROLL; ++u) sum[u] += x[u].x + x[u].y;
            } else {
                for (int u = 0; u < UNROLL; ++u)
                    if (first + (ulong)u * GROUP_SIZE < n) {
                        const f64x2 x = from[first + u * GROUP_SIZE];
                        sum[u] += x.x + x.y;
                    }
            }
        }
    }
    double total = 0;
    for (int u = 0; u < UNROLL; ++u) total += sum[u];
    ((GLOBAL double*)a)[GLOBAL_ID] = total;
}
