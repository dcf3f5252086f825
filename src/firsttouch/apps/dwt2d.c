/* dwt2d: levels of a two-dimensional wavelet transform by lifting, in integers (5/3) or, with REAL, in floating point
   (9/7). The image is extended by reflection at its borders. A group transforms a tile, of which the outer HALO
   elements are wrong, because they depend on elements outside the tile. */
#ifndef REAL
#define REAL 0
#endif
#define SIDE 64
#define PITCH (SIDE + 1) /* odd, so that neither rows nor columns of a tile cause bank conflicts */
#if REAL
#define VALUE float
#define HALO 4
#define CENTRED(byte) ((float)(byte) / 255.0f - 0.5f)
#else
#define VALUE int
#define HALO 2
#define CENTRED(byte) ((int)(byte)-128)
#endif
#define INNER (SIDE - 2 * HALO)

/* The image: brightness that changes smoothly over cells of 8 x 8 pixels, in three colours, with some noise. */
KERNEL dwt2d_image(GLOBAL uchar* image, ulong rows, ulong cols, ulong key) {
    FOR_EACH(row, rows) {
        const float y = (float)(uint)(row % 8) * 0.125f;
        const ulong above = key + (row / 8 << 32), below = above + (1ul << 32);
        for (ulong cell = 0; cell < (cols + 7) / 8; ++cell) {
            const ulong words[4] = {random_word(above, cell), random_word(above, cell + 1), random_word(below, cell),
                                    random_word(below, cell + 1)};
            const ulong end = cell * 8 + 8 < cols ? cell * 8 + 8 : cols;
            for (uint colour = 0; colour < 3; ++colour) {
                float corners[4];
                for (uint k = 0; k < 4; ++k) corners[k] = (float)(uint)(words[k] >> (8 * colour + 8) & 255) * 0.875f;
                const float left = corners[0] + y * (corners[2] - corners[0]);
                const float right = corners[1] + y * (corners[3] - corners[1]);
                for (ulong col = cell * 8; col < end; ++col) {
                    const float noise = (float)(uint)(words[col % 4] * (row + 3 * col + colour + 1) >> 59);
                    const float light = left + (float)(uint)(col % 8) * 0.125f * (right - left) + noise;
                    image[3 * (row * cols + col) + colour] = (uchar)(uint)light;
                }
            }
        }
    }
}

/* Converts pixels of three bytes to three planes of values around zero. */
KERNEL dwt2d_split(GLOBAL const uchar* image, GLOBAL int* planes, ulong n) {
    GLOBAL VALUE* values = (GLOBAL VALUE*)planes;
    FOR_EACH(i, n) {
        values[i] = CENTRED(image[3 * i]);
        values[n + i] = CENTRED(image[3 * i + 1]);
        values[2 * n + i] = CENTRED(image[3 * i + 2]);
    }
}

/* The index of element i of a line of n elements that is extended by reflection. */
HELPER ulong mirrored(long i, long n) {
    if (i >= 0 && i < n) return (ulong)i;
    if (n == 1) return 0;
    const long within = (i < 0 ? -i : i) % (2 * n - 2);
    return (ulong)(within < n ? within : 2 * n - 2 - within);
}

/* A lifting step: every second element from `first` on changes by a function of the sum of its two neighbours. */
#define LIFT(first, along, across, change)                                                                             \
    for (int p = (first) + 2 * (int)(LOCAL_ID / SIDE); p < SIDE - 1; p += 2 * (int)(GROUP_SIZE / SIDE)) {              \
        const int at = p * (along) + (int)(LOCAL_ID % SIDE) * (across);                                                \
        const VALUE neighbours = tile[at - (along)] + tile[at + (along)];                                              \
        tile[at] += (change);                                                                                          \
    }                                                                                                                  \
    BARRIER();
#define LIFT_TWICE(along, across, odd, even) LIFT(1, along, across, odd) LIFT(2, along, across, even)
#define LIFT_INTEGER(along, across) LIFT_TWICE(along, across, -(neighbours >> 1), (neighbours + 2) >> 2)
#define LIFT_REAL(along, across)                                                                                       \
    LIFT_TWICE(along, across, -1.586134342f * neighbours, -0.05298011854f * neighbours)                                \
    LIFT_TWICE(along, across, 0.8829110762f * neighbours, 0.4435068522f * neighbours)

/* One level of three planes of height x width elements. The band that is low in both directions is stored in `low`,
   plane by plane. The bands that are high along rows, along columns and along both follow it in each plane of
   `bands`. */
GROUP_KERNEL dwt2d_level(GLOBAL const int* from, GLOBAL int* low, GLOBAL int* bands, ulong height, ulong width,
                         ulong low_plane, ulong bands_plane) {
    SHARED VALUE tile[SIDE * PITCH];
    const ulong across = (width + INNER - 1) / INNER, down = (height + INNER - 1) / INNER;
    const ulong plane = GROUP_ID / (across * down);
    const long left = (long)(GROUP_ID % across) * INNER - HALO;
    const long top = (long)(GROUP_ID / across % down) * INNER - HALO;
    GLOBAL const VALUE* source = (GLOBAL const VALUE*)from + plane * height * width;
    const int lane = (int)(LOCAL_ID % SIDE);
    const ulong col = mirrored(left + lane, (long)width);
    for (int y = (int)(LOCAL_ID / SIDE); y < SIDE; y += (int)(GROUP_SIZE / SIDE))
        tile[y * PITCH + lane] = source[mirrored(top + y, (long)height) * width + col];
    BARRIER();
#if REAL
    LIFT_REAL(1, PITCH)
    LIFT_REAL(PITCH, 1)
#else
    LIFT_INTEGER(PITCH, 1)
    LIFT_INTEGER(1, PITCH)
#endif
    /* Lanes write the low elements of a row, then the high ones. */
    const int high_x = lane >= INNER / 2, x = HALO + (high_x ? 2 * (lane - INNER / 2) + 1 : 2 * lane);
    const ulong low_rows = (height + 1) / 2, low_cols = (width + 1) / 2, high_cols = width / 2;
    const ulong to_col = (ulong)(left + x) / 2;
    GLOBAL VALUE* lowest = (GLOBAL VALUE*)low + plane * low_plane;
    GLOBAL VALUE* others = (GLOBAL VALUE*)bands + plane * bands_plane;
    for (int y = HALO + (int)(LOCAL_ID / SIDE); y < SIDE - HALO; y += (int)(GROUP_SIZE / SIDE)) {
        if (lane >= INNER || left + x >= (long)width || top + y >= (long)height) continue;
        const ulong row = (ulong)(top + y) / 2;
        VALUE value = tile[y * PITCH + x];
#if REAL
        value *=
            (high_x ? 1.230174104914f : 1.0f / 1.230174104914f) * (y & 1 ? 1.230174104914f : 1.0f / 1.230174104914f);
#endif
        if (y & 1)
            others[low_rows * width + (high_x ? height / 2 * low_cols + row * high_cols : row * low_cols) + to_col] =
                value;
        else if (high_x)
            others[low_rows * low_cols + row * high_cols + to_col] = value;
        else
            lowest[row * low_cols + to_col] = value;
    }
}
