/* hotspot: steps of the heat equation on rows x cols cells, neighbours clamped at the borders:
   T' = T + by_power P + by_y (north + south - 2 T) + by_x (east + west - 2 T) + by_z (80 - T).
   A group computes up to PYRAMID steps of a tile. Its outer PYRAMID cells become wrong, because they depend on cells
   outside the tile. */
#ifndef PYRAMID
#define PYRAMID 2
#endif
#define WIDE 64
#define HIGH 32
#define INNER_X (WIDE - 2 * PYRAMID)
#define INNER_Y (HIGH - 2 * PYRAMID)

HELPER ulong clamped(long i, ulong n) { return i < 0 ? 0ul : (ulong)i >= n ? n - 1ul : (ulong)i; }

GROUP_KERNEL hotspot_steps(GLOBAL const float* temp, GLOBAL const float* power, GLOBAL float* next, ulong rows,
                           ulong cols, uint steps, float by_power, float by_y, float by_x, float by_z) {
    SHARED float tile[2][HIGH][WIDE];
    SHARED float heat[HIGH][WIDE];
    const ulong across = (cols + INNER_X - 1) / INNER_X;
    const long left = (long)(GROUP_ID % across) * INNER_X - PYRAMID, top = (long)(GROUP_ID / across) * INNER_Y - PYRAMID;
    for (int k = (int)LOCAL_ID; k < WIDE * HIGH; k += (int)GROUP_SIZE) {
        const int tx = k % WIDE, ty = k / WIDE;
        const ulong at = clamped(top + ty, rows) * cols + clamped(left + tx, cols);
        tile[0][ty][tx] = temp[at];
        heat[ty][tx] = by_power * power[at];
    }
    BARRIER();
    for (int step = 1; step <= (int)steps; ++step) {
        const int from = (step - 1) & 1;
        for (int k = (int)LOCAL_ID; k < WIDE * HIGH; k += (int)GROUP_SIZE) {
            const int tx = k % WIDE, ty = k / WIDE;
            const long x = left + tx, y = top + ty;
            if (tx < step || tx >= WIDE - step || ty < step || ty >= HIGH - step) continue;
            if (x < 0 || x >= (long)cols || y < 0 || y >= (long)rows) continue;
            const float now = tile[from][ty][tx];
            const float north = tile[from][y == 0 ? ty : ty - 1][tx];
            const float south = tile[from][y == (long)rows - 1 ? ty : ty + 1][tx];
            const float west = tile[from][ty][x == 0 ? tx : tx - 1];
            const float east = tile[from][ty][x == (long)cols - 1 ? tx : tx + 1];
            const float after = now + heat[ty][tx] + by_y * (south + north - 2.0f * now) +
                                by_x * (east + west - 2.0f * now) + by_z * (80.0f - now);
            if (step < (int)steps)
                tile[from ^ 1][ty][tx] = after;
            else if (tx >= PYRAMID && tx < WIDE - PYRAMID && ty >= PYRAMID && ty < HIGH - PYRAMID)
                next[(ulong)y * cols + (ulong)x] = after;
        }
        BARRIER();
    }
}
