/* fdtd3d: a star-shaped stencil of radius 4 over n x n x n cells, inside a halo of 4 cells that do not change:
   out = w0 in + sum over r = 1..4 of w_r (in[x - r] + in[x + r] + in[y - r] + in[y + r] + in[z - r] + in[z + r]).
   A group computes WIDE x HIGH cells of `depth` planes, one plane after the other. The plane and its halo in x and y
   are in shared memory. The cells that a thread needs in z are in its registers, in vectors of four adjacent cells. */
#define RADIUS 4
#define WIDE 64
#define HIGH 16
#define LANES (WIDE / 4)
#define ABOVE (2 * RADIUS * LANES) /* vectors of the halo above and below the tile */
#define HALO (ABOVE + 2 * HIGH)     /* and with those to its left and right */

HELPER ulong at_most(ulong i, ulong most) { return i < most ? i : most; }

/* sum + w (a + b + c + d + e + f) for each of four cells. */
HELPER f32x4 ring(f32x4 sum, float w, f32x4 a, f32x4 b, f32x4 c, f32x4 d, f32x4 e, f32x4 f) {
    return F32X4(sum.x + w * (a.x + b.x + c.x + d.x + e.x + f.x), sum.y + w * (a.y + b.y + c.y + d.y + e.y + f.y),
                 sum.z + w * (a.z + b.z + c.z + d.z + e.z + f.z), sum.w + w * (a.w + b.w + c.w + d.w + e.w + f.w));
}

GROUP_KERNEL fdtd3d_step(GLOBAL const float* in, GLOBAL float* out, GLOBAL const float* weights, ulong n, ulong depth) {
    SHARED f32x4 plane[2][HIGH + 2 * RADIUS][LANES + 2];
    const ulong pitch = n + 2 * RADIUS, layer = pitch * pitch / 4, last_four = pitch - 4, last_row = pitch - 1;
    const ulong across = (n + WIDE - 1) / WIDE, tiles = across * ((n + HIGH - 1) / HIGH);
    const ulong left = GROUP_ID % tiles % across * WIDE, top = GROUP_ID % tiles / across * HIGH;
    const ulong first = GROUP_ID / tiles * depth, end = at_most(first + depth, n);
    const int lane = (int)LOCAL_ID % LANES + 1, row = (int)LOCAL_ID / LANES + RADIUS;
    const ulong x = left + (ulong)lane * 4, y = top + (ulong)row; /* including the halo, as all indices below */
    const int inside = x < n + RADIUS && y < n + RADIUS;
    /* The vector of the halo that this thread loads, if any. */
    const int k = (int)LOCAL_ID, side = k - ABOVE;
    const int halo_lane = side < 0 ? k % LANES + 1 : side % 2 * (LANES + 1);
    const int halo_row = side >= 0 ? side / 2 + RADIUS : k / LANES + (k / LANES < RADIUS ? 0 : HIGH);
    const ulong halo_x = at_most(left + (ulong)halo_lane * 4, last_four),
                halo_y = at_most(top + (ulong)halo_row, last_row);
    GLOBAL const f32x4* halo = (GLOBAL const f32x4*)(in + halo_y * pitch + halo_x) + (first + RADIUS) * layer;
    GLOBAL const f32x4* own =
        (GLOBAL const f32x4*)(in + at_most(y, last_row) * pitch + at_most(x, last_four)) + first * layer;
    GLOBAL f32x4* to = (GLOBAL f32x4*)(out + y * pitch + x) + (first + RADIUS) * layer;
    const float w0 = weights[0], w1 = weights[1], w2 = weights[2], w3 = weights[3], w4 = weights[4];
    f32x4 back4 = own[0], back3 = own[layer], back2 = own[2 * layer], back1 = own[3 * layer], now = own[4 * layer];
    f32x4 next1 = own[5 * layer], next2 = own[6 * layer], next3 = own[7 * layer];
    f32x4 halo_next = now;
    if (k < HALO) halo_next = *halo;
    own += 8 * layer;
    for (ulong z = first; z < end; ++z) {
        const f32x4 next4 = *own;
        const int turn = (int)(z & 1); /* the other plane may still be read */
        plane[turn][row][lane] = now;
        if (k < HALO) plane[turn][halo_row][halo_lane] = halo_next;
        halo += layer;
        if (k < HALO) halo_next = *halo;
        BARRIER();
        const f32x4 m = now, l = plane[turn][row][lane - 1], r = plane[turn][row][lane + 1];
        f32x4 sum = F32X4(w0 * m.x, w0 * m.y, w0 * m.z, w0 * m.w);
        sum = ring(sum, w1, F32X4(l.w, m.x, m.y, m.z), F32X4(m.y, m.z, m.w, r.x), plane[turn][row - 1][lane],
                   plane[turn][row + 1][lane], back1, next1);
        sum = ring(sum, w2, F32X4(l.z, l.w, m.x, m.y), F32X4(m.z, m.w, r.x, r.y), plane[turn][row - 2][lane],
                   plane[turn][row + 2][lane], back2, next2);
        sum = ring(sum, w3, F32X4(l.y, l.z, l.w, m.x), F32X4(m.w, r.x, r.y, r.z), plane[turn][row - 3][lane],
                   plane[turn][row + 3][lane], back3, next3);
        sum = ring(sum, w4, l, r, plane[turn][row - 4][lane], plane[turn][row + 4][lane], back4, next4);
        if (inside) *to = sum;
        own += layer;
        to += layer;
        back4 = back3, back3 = back2, back2 = back1, back1 = now;
        now = next1, next1 = next2, next2 = next3, next3 = next4;
    }
}

/* The same step, cell by cell from memory, for checks on the CPU. */
KERNEL fdtd3d_repeat(GLOBAL const float* in, GLOBAL float* out, GLOBAL const float* weights, ulong n) {
    const ulong y = n + 2 * RADIUS, z = y * y; /* distances to the next cell */
    const float w0 = weights[0], w1 = weights[1], w2 = weights[2], w3 = weights[3], w4 = weights[4];
    FOR_EACH(row, n * n) {
        const ulong first = (row / n + RADIUS) * z + (row % n + RADIUS) * y + RADIUS;
        for (ulong i = first; i < first + n; ++i) {
            const float one = in[i - 1] + in[i + 1] + in[i - y] + in[i + y] + in[i - z] + in[i + z];
            const float two = in[i - 2] + in[i + 2] + in[i - 2 * y] + in[i + 2 * y] + in[i - 2 * z] + in[i + 2 * z];
            const float three = in[i - 3] + in[i + 3] + in[i - 3 * y] + in[i + 3 * y] + in[i - 3 * z] + in[i + 3 * z];
            const float four = in[i - 4] + in[i + 4] + in[i - 4 * y] + in[i + 4 * y] + in[i - 4 * z] + in[i + 4 * z];
            out[i] = w0 * in[i] + w1 * one + w2 * two + w3 * three + w4 * four;
        }
    }
}
