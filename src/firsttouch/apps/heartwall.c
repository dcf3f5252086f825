/* heartwall: tracks points of a wall through a film of rows x cols pixels, stored column by column. Each point has a
   template of 51 x 51 pixels. It is searched for in a window of 81 x 81 pixels around the point's position of at most
   ten frames ago, from 5 pixels before to 4 pixels after its last position. */
#define MARGIN 64 /* rows and columns that the still image has more than a frame, for the film to move in */
#define SIDE 51
#define AREA (SIDE * SIDE)
#define SEARCH 10
#define SHIFTS (SEARCH * SEARCH)
#define REACH (SIDE + SEARCH - 1)
#define PARTS 5 /* parts of a template's columns; each is added up by one thread */

/* Speckle of about four pixels between 0 and 255. */
KERNEL heartwall_still(GLOBAL float* still, ulong rows, ulong cols, ulong key) {
    FOR_EACH(col, cols) {
        const ulong left = key + (col / 4 << 32), right = left + (1ul << 32);
        const float x = (float)(uint)(col % 4) * 0.25f;
        for (ulong row = 0; row < rows; ++row) {
            const float y = (float)(uint)(row % 4) * 0.25f;
            const float a = random_f32(left, row / 4, 0.0f, 255.0f), b = random_f32(left, row / 4 + 1, 0.0f, 255.0f);
            const float c = random_f32(right, row / 4, 0.0f, 255.0f), d = random_f32(right, row / 4 + 1, 0.0f, 255.0f);
            still[col * rows + row] = (1.0f - x) * (a + y * (b - a)) + x * (c + y * (d - c));
        }
    }
}

/* One frame: a section of the still image plus a section of the grain. */
KERNEL heartwall_film(GLOBAL const float* still, GLOBAL const float* grain, GLOBAL float* frame, ulong rows, ulong cols,
                      ulong still_row, ulong still_col, ulong grain_row, ulong grain_col) {
    FOR_EACH(col, cols) {
        GLOBAL const float* light = still + (col + still_col) * (rows + MARGIN) + still_row;
        GLOBAL const float* noise = grain + (col + grain_col) * (rows + MARGIN) + grain_row;
        GLOBAL float* to = frame + col * rows;
        for (ulong row = 0; row < rows; ++row) to[row] = light[row] + noise[row];
    }
}

/* Frame 0: the templates are the pixels around the points. */
KERNEL heartwall_begin(GLOBAL const float* frame, GLOBAL const int* points, GLOBAL float* templates,
                       GLOBAL int* positions, GLOBAL float* peaks, ulong rows, ulong count) {
    FOR_EACH(i, count * AREA) {
        const ulong point = i / AREA, at = i % AREA;
        const ulong row = (ulong)points[2 * point] - SIDE / 2 + at % SIDE;
        const ulong col = (ulong)points[2 * point + 1] - SIDE / 2 + at / SIDE;
        templates[i] = frame[col * rows + row];
        if (at < 2) positions[2 * point + at] = points[2 * point + at];
        if (at == 0) peaks[point] = 1.0f;
    }
}

/* Frame `number`: finds the position of the largest normalised cross-correlation, the first one column by column. Every
   tenth frame is blended into the template. A group handles one point. */
GROUP_KERNEL heartwall_track(GLOBAL const float* frame, GLOBAL float* templates, GLOBAL int* positions,
                             GLOBAL float* peaks, ulong rows, ulong cols, ulong count, ulong number) {
    SHARED float pattern[AREA];
    SHARED float region[REACH * REACH];
    SHARED float sums[PARTS][SHIFTS][3];
    SHARED float own[PARTS][2];
    SHARED float score[SHIFTS];
    SHARED int best;
    GLOBAL const int* centre = positions + 2 * ((number - 1) / 10 * 10 * count + GROUP_ID);
    GLOBAL const int* last = positions + 2 * ((number - 1) * count + GROUP_ID);
    GLOBAL float* mine = templates + GROUP_ID * AREA;
    /* The first row and column of the searched region within the window. Pixels outside the window count as 0. */
    const int top = 65 + last[0] - centre[0] - 55, left = 65 + last[1] - centre[1] - 55;
    for (int i = (int)LOCAL_ID; i < AREA; i += (int)GROUP_SIZE) pattern[i] = mine[i];
    for (int i = (int)LOCAL_ID; i < REACH * REACH; i += (int)GROUP_SIZE) {
        const int y = top + i % REACH, x = left + i / REACH, row = centre[0] - 40 + y, col = centre[1] - 40 + x;
        const int seen = y >= 0 && y <= 80 && x >= 0 && x <= 80 && row >= 0 && row < (int)rows && col >= 0;
        region[i] = seen && col < (int)cols ? frame[(ulong)col * rows + (ulong)row] : 0.0f;
    }
    BARRIER();
    for (int item = (int)LOCAL_ID; item < PARTS * SHIFTS; item += (int)GROUP_SIZE) {
        const int part = item / SHIFTS, shift = item % SHIFTS;
        float product = 0.0f, sum = 0.0f, square = 0.0f, total = 0.0f, total_square = 0.0f;
        for (int x = part * SIDE / PARTS; x < (part + 1) * SIDE / PARTS; ++x) {
            const int from = (x + shift / SEARCH) * REACH + shift % SEARCH;
            for (int y = 0; y < SIDE; ++y) {
                const float value = region[from + y], expected = pattern[x * SIDE + y];
                product += expected * value;
                sum += value;
                square += value * value;
                total += expected;
                total_square += expected * expected;
            }
        }
        sums[part][shift][0] = product;
        sums[part][shift][1] = sum;
        sums[part][shift][2] = square;
        if (shift == 0) {
            own[part][0] = total;
            own[part][1] = total_square;
        }
    }
    BARRIER();
    for (int shift = (int)LOCAL_ID; shift < SHIFTS; shift += (int)GROUP_SIZE) {
        double product = 0.0, sum = 0.0, square = 0.0, total = 0.0, total_square = 0.0;
        for (int part = 0; part < PARTS; ++part) {
            product += (double)sums[part][shift][0];
            sum += (double)sums[part][shift][1];
            square += (double)sums[part][shift][2];
            total += (double)own[part][0];
            total_square += (double)own[part][1];
        }
        const double spread = (total_square - total * total / AREA) / AREA * (square - sum * sum / AREA);
        const double scale = spread > 0.0 ? SQRT_F64((AREA - 1) * spread) : 0.0;
        score[shift] = scale > 0.0 ? (float)ABS_F64((product - sum * total / AREA) / scale) : 0.0f;
    }
    BARRIER();
    if (LOCAL_ID == 0) {
        best = 0;
        for (int shift = 1; shift < SHIFTS; ++shift)
            if (score[shift] > score[best]) best = shift;
        positions[2 * (number * count + GROUP_ID)] = last[0] - 5 + best % SEARCH;
        positions[2 * (number * count + GROUP_ID) + 1] = last[1] - 5 + best / SEARCH;
        peaks[number * count + GROUP_ID] = score[best];
    }
    BARRIER();
    if (number % 10 == 0)
        for (int i = (int)LOCAL_ID; i < AREA; i += (int)GROUP_SIZE) {
            const int from = (i / SIDE + best / SEARCH) * REACH + i % SIDE + best % SEARCH;
            mine[i] = 0.87f * pattern[i] + 0.13f * region[from];
        }
}
