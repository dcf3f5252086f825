/* C = A B in f32, rows by columns by depth, row-major. A group of 256 items computes 128 x 128 elements of C. An item
   computes 8 rows, ROWS_APART apart, of two vectors of 4 columns. Tiles of A and B are double-buffered: the next one is
   loaded while the current one is used, with one barrier per tile. */
#define SIDE 128
#define DEPTH 8
#define ROWS_APART (SIDE / 8)
#define BAND 16 /* rows of tiles that are processed together, so that columns of B are reused while they are cached */

/* Four elements of a row from column `col` on, and zeros beyond its end. */
HELPER f32x4 four(GLOBAL const float* row, uint col, uint cols) {
    if (col >= cols) return F32X4(0.0f, 0.0f, 0.0f, 0.0f);
    if (cols % 4 == 0) return *(GLOBAL const f32x4*)(row + col);
    return F32X4(row[col], col + 1 < cols ? row[col + 1] : 0.0f, col + 2 < cols ? row[col + 2] : 0.0f,
                 col + 3 < cols ? row[col + 3] : 0.0f);
}

HELPER void put_four(GLOBAL float* row, uint col, uint cols, f32x4 v) {
    if (cols % 4 == 0) {
        if (col < cols) *(GLOBAL f32x4*)(row + col) = v;
        return;
    }
    if (col < cols) row[col] = v.x;
    if (col + 1 < cols) row[col + 1] = v.y;
    if (col + 2 < cols) row[col + 2] = v.z;
    if (col + 3 < cols) row[col + 3] = v.w;
}

#define ADD(sum, a, v)                                                                                                 \
    sum.x += (a) * (v).x;                                                                                              \
    sum.y += (a) * (v).y;                                                                                              \
    sum.z += (a) * (v).z;                                                                                              \
    sum.w += (a) * (v).w;
/* One step in depth: element `part` of the 8 vectors of A times two vectors of B. */
#define STEP(part, k)                                                                                                  \
    {                                                                                                                  \
        const f32x4 left = of_b[now][k][across], right = of_b[now][k][16 + across];                                    \
        UNROLLED                                                                                                       \
        for (int i = 0; i < 8; ++i) {                                                                                  \
            ADD(sum[i][0], column[i].part, left)                                                                       \
            ADD(sum[i][1], column[i].part, right)                                                                      \
        }                                                                                                              \
    }

GROUP_KERNEL gemm(GLOBAL const float* a, GLOBAL const float* b, GLOBAL float* c, ulong first, uint rows, uint cols,
                  uint depth) {
    SHARED f32x4 of_a[2][SIDE][DEPTH / 4];
    SHARED f32x4 of_b[2][DEPTH][SIDE / 4];
    const uint high = (rows + SIDE - 1) / SIDE, wide = (cols + SIDE - 1) / SIDE;
    const uint band = (uint)(GROUP_ID / (BAND * wide)) * BAND, in_band = (uint)(GROUP_ID % (BAND * wide));
    const uint tall = high - band < BAND ? high - band : BAND;
    const uint top = (band + in_band % tall) * SIDE, side = in_band / tall * SIDE;
    const uint across = LOCAL_ID % 16, down = LOCAL_ID / 16;
    const uint a_row = LOCAL_ID / 2, a_at = LOCAL_ID % 2, b_row = LOCAL_ID / 32, b_at = LOCAL_ID % 32;
    f32x4 sum[8][2];
    UNROLLED
    for (int i = 0; i < 8; ++i) sum[i][0] = sum[i][1] = F32X4(0.0f, 0.0f, 0.0f, 0.0f);
    /* The data that this item loads: four elements of a row of A (none below the last row), four of a row of B. */
    GLOBAL const float* row_a = a + (first + top + a_row) * depth;
    GLOBAL const float* row_b = b + (ulong)b_row * cols;
    const uint end_a = top + a_row < rows ? depth : 0, col_b = side + 4 * b_at;
    of_a[0][a_row][a_at] = four(row_a, 4 * a_at, end_a);
    of_b[0][b_row][b_at] = four(row_b, col_b, b_row < depth ? cols : 0);
    BARRIER();
    int now = 0;
    for (uint k = DEPTH; k < depth + DEPTH; k += DEPTH) {
        f32x4 next_a, next_b;
        row_b += (ulong)DEPTH * cols;
        if (k < depth) {
            next_a = four(row_a, k + 4 * a_at, end_a);
            next_b = four(row_b, col_b, k + b_row < depth ? cols : 0);
        }
        UNROLLED
        for (int part = 0; part < DEPTH / 4; ++part) {
            f32x4 column[8];
            UNROLLED
            for (int i = 0; i < 8; ++i) column[i] = of_a[now][down + i * ROWS_APART][part];
            STEP(x, 4 * part)
            STEP(y, 4 * part + 1)
            STEP(z, 4 * part + 2)
            STEP(w, 4 * part + 3)
        }
        now ^= 1;
        if (k < depth) {
            of_a[now][a_row][a_at] = next_a;
            of_b[now][b_row][b_at] = next_b;
        }
        BARRIER();
    }
    GLOBAL float* row_c = c + (first + top + down) * cols;
    UNROLLED
    for (int i = 0; i < 8; ++i) {
        if (top + down + i * ROWS_APART < rows) {
            put_four(row_c, side + 4 * across, cols, sum[i][0]);
            put_four(row_c, side + SIDE / 2 + 4 * across, cols, sum[i][1]);
        }
        row_c += (ulong)ROWS_APART * cols;
    }
}
