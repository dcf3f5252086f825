/* pathfinder: the cheapest path down a grid: to[j] = wall[row][j] + min(from[j-1], from[j], from[j+1]), int32.
   A group computes up to PYRAMID rows in a tile of columns. PYRAMID columns on either side become wrong, because they
   depend on columns outside the tile. The costs of the previous row are in SHARED memory. Rows of the wall are loaded
   AHEAD rows in advance. */
#ifndef PYRAMID
#define PYRAMID 20
#endif
#define THREADS 256
#define EACH 2 /* columns of a thread, THREADS apart */
#define TILE (THREADS * EACH)
#define INNER (TILE - 2 * PYRAMID)
#define AHEAD 8
#define FAR 0x3fffffff /* outside the grid: never the cheapest, and does not overflow when a step's cost is added */

HELPER int least(int a, int b) { return a < b ? a : b; }

/* The cost to reach the first row is that of its walls. */
KERNEL pathfinder_begin(GLOBAL const int* wall, GLOBAL int* cost, ulong cols) {
    FOR_EACH(j, cols) cost[j] = cost[cols + j] = wall[j];
}

/* Computes rows [row, row + rows) of the wall. cost: two rows; row `from` holds the costs to reach the previous row. */
GROUP_KERNEL pathfinder_rows(GLOBAL const int* wall, GLOBAL int* cost, ulong cols, ulong row, uint rows, uint from) {
    SHARED int before[2][TILE + 2];
    const long left = (long)(GROUP_ID * INNER) - PYRAMID;
    int ahead[AHEAD][EACH], now[EACH], inside[EACH];
    ulong column[EACH];
    UNROLLED for (int k = 0; k < EACH; ++k) {
        const long at = left + (long)LOCAL_ID + k * THREADS;
        inside[k] = at >= 0 && at < (long)cols;
        column[k] = inside[k] ? (ulong)at : 0ul;
    }
    UNROLLED for (int a = 0; a < AHEAD; ++a) {
        const ulong at = (row + (a < (int)rows ? (ulong)a : 0ul)) * cols;
        UNROLLED for (int k = 0; k < EACH; ++k) ahead[a][k] = wall[at + column[k]];
    }
    UNROLLED for (int k = 0; k < EACH; ++k) {
        now[k] = inside[k] ? cost[from * cols + column[k]] : FAR;
        before[0][LOCAL_ID + k * THREADS + 1] = now[k];
    }
    if (LOCAL_ID < 2) before[LOCAL_ID][0] = before[LOCAL_ID][TILE + 1] = FAR;
    BARRIER();
    for (uint first = 0; first < rows; first += AHEAD) {
        UNROLLED for (int a = 0; a < AHEAD; ++a) {
            const uint step = first + (uint)a;
            if (step >= rows) continue;
            UNROLLED for (int k = 0; k < EACH; ++k) {
                const int x = (int)LOCAL_ID + k * THREADS;
                const int best = least(now[k], least(before[a & 1][x], before[a & 1][x + 2]));
                now[k] = inside[k] ? best + ahead[a][k] : FAR;
                before[(a & 1) ^ 1][x + 1] = now[k];
                if (step + AHEAD < rows) ahead[a][k] = wall[(row + step + AHEAD) * cols + column[k]];
            }
            BARRIER();
        }
    }
    UNROLLED for (int k = 0; k < EACH; ++k) {
        const int x = (int)LOCAL_ID + k * THREADS;
        if (inside[k] && x >= PYRAMID && x < TILE - PYRAMID) cost[(1u - from) * cols + column[k]] = now[k];
    }
}
