/* Fourier transforms of c64, pass by pass (fft.py). */
#define TILE 2048    /* numbers per group */
#define LONGEST 1024 /* longest transform in one pass */
#define THREADS 256
#define PADDED(i) ((i) + ((i) >> 4)) /* avoids bank conflicts of strided accesses */
#define EACH(i, count) UNROLLED for (uint i = 0; i < (count); ++i)
#define AT(k) tile[PADDED(((k) << log_lanes) + lane)]
/* Butterfly i of this item: its lane, and its number u in the transform of that lane. */
#define BUTTERFLY(i)                                                                                                   \
    const uint lane = (LOCAL_ID + (i)*THREADS) & (width - 1), u = (LOCAL_ID + (i)*THREADS) >> log_lanes;
/* Number i of this item: element k of a lane, lane g of all lanes. The order is the one in which memory is
   contiguous. */
#define NUMBER(i)                                                                                                      \
    const uint e = LOCAL_ID + (i)*THREADS, k = step == 1 ? e & (r - 1) : e >> log_lanes;                               \
    const uint lane = step == 1 ? e >> log_r : e & (width - 1);                                                        \
    const ulong g = GROUP_ID * width + lane, out = g >> log_c, in = g & ((1ul << log_c) - 1ul);
#define TURNED(v) c_mul(v, c_root(sign, (turned == 1 ? out : in) * k, bits))

/* Transforms 2^log_r points in each of `lanes` lanes. Element k of lane g is at first + (g / c) outer + (g mod c) inner
   + k step, c = 2^log_c. Stockham's algorithm in a tile, with radix 4 and, if log_r is odd, a first step of radix 2. A
   transform of 2^bits points takes two passes. Between them element k of lane j of the transform is multiplied by the
   root of j k: j is g / c (turned 1) or g mod c (turned 2). */
GROUP_KERNEL fft_pass(GLOBAL const f32x2* from, GLOBAL f32x2* to, ulong outer_from, ulong outer_to, ulong inner,
                      ulong step, uint log_c, ulong lanes, uint log_r, uint turned, uint bits, ulong first,
                      float sign) {
    SHARED f32x2 tile[TILE + TILE / 16];
    SHARED f32x2 roots[LONGEST];
    const uint r = 1u << log_r, log_lanes = 11 - log_r, width = 1u << log_lanes;
    for (uint k = LOCAL_ID; k < r; k += THREADS) roots[k] = c_root(sign, k, log_r);
    EACH(i, TILE / THREADS) {
        NUMBER(i)
        f32x2 v = F32X2(0.0f, 0.0f);
        if (g < lanes) v = from[first + out * outer_from + in * inner + k * step];
        if (turned && sign > 0.0f) v = TURNED(v);
        AT(k) = v;
    }
    BARRIER();
    if (log_r & 1) {
        f32x2 a[4], b[4];
        EACH(i, 4) {
            BUTTERFLY(i)
            a[i] = AT(u);
            b[i] = AT(u + r / 2);
        }
        BARRIER();
        EACH(i, 4) {
            BUTTERFLY(i)
            AT(2 * u) = c_add(a[i], b[i]);
            AT(2 * u + 1) = c_sub(a[i], b[i]);
        }
        BARRIER();
    }
    for (uint done = log_r & 1; done < log_r; done += 2) {
        f32x2 v[2][4];
        EACH(i, 2) {
            BUTTERFLY(i)
            const uint turn = (u & ((1u << done) - 1u)) << (log_r - done - 2);
            v[i][0] = AT(u);
            v[i][1] = c_mul(AT(u + r / 4), roots[turn]);
            v[i][2] = c_mul(AT(u + r / 2), roots[2 * turn]);
            v[i][3] = c_mul(AT(u + r / 4 * 3), roots[3 * turn]);
        }
        BARRIER();
        EACH(i, 2) {
            BUTTERFLY(i)
            const uint low = u & ((1u << done) - 1u), at = ((u - low) << 2) + low;
            const f32x2 a = c_add(v[i][0], v[i][2]), b = c_sub(v[i][0], v[i][2]);
            const f32x2 c = c_add(v[i][1], v[i][3]), d = c_turn(sign, c_sub(v[i][1], v[i][3]));
            AT(at) = c_add(a, c);
            AT(at + (1u << done)) = c_add(b, d);
            AT(at + (2u << done)) = c_sub(a, c);
            AT(at + (3u << done)) = c_sub(b, d);
        }
        BARRIER();
    }
    EACH(i, TILE / THREADS) {
        NUMBER(i)
        f32x2 v = AT(k);
        if (turned && sign < 0.0f) v = TURNED(v);
        if (g < lanes) to[first + out * outer_to + in * inner + k * step] = v;
    }
}
