/* lud: A = L U in place, without pivoting. The ones on the diagonal of L are not stored. Works in blocks of SIDE rows
   and columns from the top left: the block on the diagonal, then the blocks to the right of it and below it, then all
   others. */
#define SIDE 64
#define PANEL 16
#define TILE 128 /* side of a group's tile of these others; a thread has 8 rows and 2 x 4 columns of it */
#define DEPTH 16 /* columns of L and rows of U that are in SHARED memory at once */

/* A[i][j] = band[n - 1 + j - i]. */
KERNEL lud_fill(GLOBAL const float* band, GLOBAL float* a, ulong n) {
    FOR_EACH(i, n) {
        GLOBAL const float* from = band + (n - 1 - i);
        GLOBAL float* to = a + i * n;
        for (ulong j = 0; j < n; ++j) to[j] = from[j];
    }
}

/* Factorises the block on the diagonal from row `at` on, by one group of 256 threads with 4 x 4 elements each. Columns
   of L are divided by their pivots at the end, so that a step needs only one barrier. */
GROUP_KERNEL lud_diagonal(GLOBAL float* a, ulong n, ulong at) {
    SHARED float row[2][SIDE], column[2][SIDE], pivot[SIDE];
    const int tx = (int)(LOCAL_ID % 16), ty = (int)(LOCAL_ID / 16);
    GLOBAL float* block = a + at * n + at;
    float own[4][4];
    UNROLLED for (int i = 0; i < 4; ++i) {
        UNROLLED for (int j = 0; j < 4; ++j) own[i][j] = block[(ulong)(ty + 16 * i) * n + (ulong)(tx + 16 * j)];
    }
    for (int k = 0; k < SIDE; ++k) {
        const int turn = k & 1;
        UNROLLED for (int i = 0; i < 4; ++i) {
            UNROLLED for (int j = 0; j < 4; ++j) {
                if (ty + 16 * i == k) row[turn][tx + 16 * j] = own[i][j];
                if (tx + 16 * j == k) column[turn][ty + 16 * i] = own[i][j];
            }
        }
        BARRIER();
        const float by = 1.0f / row[turn][k];
        if (LOCAL_ID == 0) pivot[k] = by;
        UNROLLED for (int i = 0; i < 4; ++i) {
            const float factor = ty + 16 * i > k ? column[turn][ty + 16 * i] * by : 0.0f;
            UNROLLED for (int j = 0; j < 4; ++j) own[i][j] -= tx + 16 * j > k ? factor * row[turn][tx + 16 * j] : 0.0f;
        }
    }
    BARRIER();
    UNROLLED for (int i = 0; i < 4; ++i) {
        UNROLLED for (int j = 0; j < 4; ++j) {
            const int y = ty + 16 * i, x = tx + 16 * j;
            block[(ulong)y * n + (ulong)x] = y > x ? own[i][j] * pivot[x] : own[i][j];
        }
    }
}

/* Solves for the `blocks` blocks to the right of the diagonal block (rows of U, by L) and for as many below it (columns
   of L, by U). Each of SIDE threads solves for a column or a row, PANEL unknowns at a time. */
GROUP_KERNEL lud_perimeter(GLOBAL float* a, ulong n, ulong at, ulong blocks) {
    SHARED float tile[SIDE][SIDE + 1]; /* unknowns by thread */
    SHARED float factor[SIDE][PANEL];
    const int right = GROUP_ID < blocks;
    const ulong far = at + SIDE * (1 + (right ? GROUP_ID : GROUP_ID - blocks));
    GLOBAL const float* diagonal = a + at * n + at;
    GLOBAL float* block = right ? a + at * n + far : a + far * n + at;
    const uint own = LOCAL_ID;
    for (uint y = 0; y < SIDE; ++y) tile[right ? y : own][right ? own : y] = block[y * n + own];
    for (uint panel = 0; panel < SIDE; panel += PANEL) {
        float x[PANEL];
        UNROLLED for (uint i = 0; i < PANEL; ++i) {
            factor[own][i] = right ? diagonal[(panel + i) * n + own] : diagonal[own * n + panel + i];
        }
        BARRIER();
        UNROLLED for (uint i = 0; i < PANEL; ++i) x[i] = tile[panel + i][own];
        for (uint k = 0; k < panel; ++k) {
            const float known = tile[k][own];
            UNROLLED for (uint i = 0; i < PANEL; ++i) x[i] -= factor[k][i] * known;
        }
        UNROLLED for (uint k = 0; k < PANEL; ++k) {
            if (!right) x[k] /= factor[panel + k][k];
            UNROLLED for (uint i = k + 1; i < PANEL; ++i) x[i] -= factor[panel + k][i] * x[k];
            tile[panel + k][own] = x[k];
        }
        BARRIER();
    }
    for (uint y = 0; y < SIDE; ++y) block[y * n + own] = tile[right ? y : own][right ? own : y];
}

HELPER f32x4 minus(f32x4 c, float factor, f32x4 v) {
    return F32X4(c.x - factor * v.x, c.y - factor * v.y, c.z - factor * v.z, c.w - factor * v.w);
}

/* All other blocks: A -= L U, with SIDE columns of L and SIDE rows of U from `at` on. `across`: tiles in a row of
   tiles. */
GROUP_KERNEL lud_interior(GLOBAL f32x4* a, ulong n, ulong at, ulong across) {
    SHARED f32x4 lower[TILE][DEPTH / 4 + 1];
    SHARED f32x4 upper[DEPTH][TILE / 4];
    const ulong pitch = n / 4, top = at + SIDE + GROUP_ID / across * TILE, left = at + SIDE + GROUP_ID % across * TILE;
    const ulong column = left / 4 + LOCAL_ID % 16; /* in vectors of four; the second vector is 16 further */
    const uint tx = LOCAL_ID % 16, ty = LOCAL_ID / 16;
    f32x4 own[8][2];
    UNROLLED for (int i = 0; i < 8; ++i) {
        UNROLLED for (int j = 0; j < 2; ++j) {
            const ulong y = top + ty + 16 * (ulong)i, x = column + 16 * (ulong)j;
            own[i][j] = y < n && x < pitch ? a[y * pitch + x] : F32X4(0.0f, 0.0f, 0.0f, 0.0f);
        }
    }
    for (uint step = 0; step <= SIDE / DEPTH; ++step) { /* loads one piece and multiplies the one before it */
        const ulong k = at + (step < SIDE / DEPTH ? step : 0) * DEPTH;
        f32x4 l_next[2], u_next[2];
        UNROLLED for (uint part = 0; part < 2; ++part) {
            const uint e = LOCAL_ID + 256 * part;
            const ulong y = top + e / 4, x = left / 4 + e % 32;
            l_next[part] = a[(y < n ? y : top) * pitch + k / 4 + e % 4];
            u_next[part] = a[(k + e / 32) * pitch + (x < pitch ? x : column)];
        }
        UNROLLED for (int q = 0; q < DEPTH / 4; ++q) {
            if (step == 0) continue;
            f32x4 u[4][2];
            UNROLLED for (int d = 0; d < 4; ++d) {
                u[d][0] = upper[4 * q + d][tx];
                u[d][1] = upper[4 * q + d][tx + 16];
            }
            UNROLLED for (int i = 0; i < 8; ++i) {
                const f32x4 l = lower[ty + 16 * i][q];
                UNROLLED for (int j = 0; j < 2; ++j) own[i][j] =
                    minus(minus(minus(minus(own[i][j], l.x, u[0][j]), l.y, u[1][j]), l.z, u[2][j]), l.w, u[3][j]);
            }
        }
        BARRIER();
        UNROLLED for (uint part = 0; part < 2; ++part) {
            const uint e = LOCAL_ID + 256 * part;
            lower[e / 4][e % 4] = l_next[part];
            upper[e / 32][e % 32] = u_next[part];
        }
        BARRIER();
    }
    UNROLLED for (int i = 0; i < 8; ++i) {
        UNROLLED for (int j = 0; j < 2; ++j) {
            const ulong y = top + ty + 16 * (ulong)i, x = column + 16 * (ulong)j;
            if (y < n && x < pitch) a[y * pitch + x] = own[i][j];
        }
    }
}
