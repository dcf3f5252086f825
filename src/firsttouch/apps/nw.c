/* nw (Needleman-Wunsch): the score table of two sequences of n letters, (n + 1)^2 int32:
   S[i][j] = max(S[i-1][j-1] + ref[i][j], S[i][j-1] - penalty, S[i-1][j] - penalty).
   A group computes a tile of SIDE x SIDE cells in SHARED memory, where the scores replace the references. Each of BANDS
   threads has PATCH rows. Patches of PATCH x PATCH cells are computed in registers, along anti-diagonals. */
#define SIDE 64
#define THREADS 128
#define PATCH 4
#define BANDS (SIDE / PATCH)
#define LETTERS 10

/* Fills the reference table row by row, and clears the table of scores except for its borders. profile: the scores of
   each letter against the second sequence. */
KERNEL nw_begin(GLOBAL const int* profile, GLOBAL int* ref, GLOBAL int* score, ulong n, ulong key, int penalty) {
    FOR_EACH(i, n + 1) {
        GLOBAL const int* letter = profile + random_below(key, i, LETTERS) * (n + 1);
        GLOBAL int* to = ref + i * (n + 1);
        GLOBAL int* clear = score + i * (n + 1);
        for (ulong j = 0; j <= n; ++j) to[j] = letter[j];
        for (ulong j = 0; j <= n; ++j) clear[j] = i == 0 ? -(int)j * penalty : 0;
        clear[0] = -(int)i * penalty;
    }
}

HELPER int larger(int a, int b) { return a > b ? a : b; }

/* Computes the tiles of one anti-diagonal. The first is in row `top` of tiles. */
GROUP_KERNEL nw_tiles(GLOBAL const int* ref, GLOBAL int* score, ulong n, ulong diagonal, ulong top, int penalty) {
    SHARED int cell[SIDE + 1][SIDE + 2]; /* row, column 0: neighbouring tiles; the pitch avoids most bank conflicts */
    const ulong pitch = n + 1, row = (top + GROUP_ID) * SIDE, column = (diagonal - top - GROUP_ID) * SIDE;
    const uint x = LOCAL_ID % SIDE, first = LOCAL_ID / SIDE;
    const int inside = column + x < n;
    GLOBAL const int* from = ref + (row + 1) * pitch + column + 1 + x;
    UNROLLED for (uint k = 0; k < SIDE; k += THREADS / SIDE) {
        const uint y = first + k;
        cell[y + 1][x + 1] = inside && row + y < n ? from[y * pitch] : 0;
    }
    if (first == 0 && inside) cell[0][x + 1] = score[row * pitch + column + 1 + x];
    if (first == 1 && row + x < n) cell[x + 1][0] = score[(row + 1 + x) * pitch + column];
    if (LOCAL_ID == 0) cell[0][0] = score[row * pitch + column];
    BARRIER();
    for (uint step = 0; step < 2 * BANDS - 1; ++step) {
        const uint band = LOCAL_ID;
        if (band < BANDS && step >= band && step < band + BANDS) {
            const uint y = band * PATCH, left = (step - band) * PATCH;
            int above[PATCH + 1];
            UNROLLED for (int j = 0; j <= PATCH; ++j) above[j] = cell[y][left + j];
            UNROLLED for (int i = 1; i <= PATCH; ++i) {
                int corner = above[0], west = cell[y + i][left];
                above[0] = west;
                UNROLLED for (int j = 1; j <= PATCH; ++j) {
                    const int north = above[j];
                    west = larger(west - penalty, larger(north - penalty, corner + cell[y + i][left + j]));
                    cell[y + i][left + j] = above[j] = west;
                    corner = north;
                }
            }
        }
        BARRIER();
    }
    GLOBAL int* to = score + (row + 1) * pitch + column + 1 + x;
    UNROLLED for (uint k = 0; k < SIDE; k += THREADS / SIDE) {
        const uint y = first + k;
        if (inside && row + y < n) to[y * pitch] = cell[y + 1][x + 1];
    }
}
