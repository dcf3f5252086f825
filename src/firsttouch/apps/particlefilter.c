/* particlefilter: sequential Monte Carlo tracking of a disk in a noisy film. The frames of height x width bytes are
   stored one after the other. The noise of particle i depends only on a key, the frame and i. */
#define THREADS 256
#define EACH 4 /* adjacent particles of a thread */
#define BLOCK (THREADS * EACH)
#define RADIUS 5
#define OFFSETS 69 /* pixels nearer than RADIUS to a centre */
#define DISK 228
#define GROUND 100

/* The sine of an angle of at most a quarter turn, by its series. Library functions are slower, because they accept any
   angle. */
HELPER double sine(double angle) {
    double sum = 1.0;
    UNROLLED for (int k = 11; k > 0; --k) sum = 1.0 - angle * angle * (1.0 / (2 * k * (2 * k + 1))) * sum;
    return angle * sum;
}

/* Normally distributed number i of the random stream of a key (Box and Muller 1958, by the cosine). */
HELPER double normal(ulong key, ulong i) {
    const double u = 1.0 - random_f64(key, 2 * i), v = random_f64(key, 2 * i + 1);
    return SQRT_F64(-2.0 * LOG_F64(u)) * sine(6.283185307179586 * (ABS_F64(v - 0.5) - 0.25));
}

/* The disk rests in the middle in frames 0 and 1 and then moves by (1, -2) from frame to frame. */
KERNEL particlefilter_film(GLOBAL uchar* film, ulong width, ulong height, ulong frames, ulong key) {
    FOR_EACH(line, height * frames) {
        const long frame = (long)(line / height), moved = frame > 1 ? frame - 1 : 0;
        const long dy = (long)(line % height) - (long)(height / 2) + 2 * moved;
        for (ulong x = 0; x < width; ++x) {
            const long dx = (long)x - (long)(width / 2) - moved;
            const double clean = dx * dx + dy * dy < RADIUS * RADIUS ? DISK : GROUND;
            const double value = RINT_F64(clean + 5.0 * normal(key, line * width + x));
            film[line * width + x] = (uchar)(value < 0.0 ? 0.0 : value > 255.0 ? 255.0 : value);
        }
    }
}

/* The logarithm of the likelihood of a disk at (x, y): the mean of ((I - GROUND)^2 - (I - DISK)^2) / 50 over its
   pixels. A pixel outside the frame counts as the first pixel of the film. */
HELPER double likelihood(GLOBAL const uchar* film, ulong width, ulong height, ulong frame, double x, double y) {
    const int left = (int)RINT_F64(x), top = (int)RINT_F64(y);
    int sum = 0;
    UNROLLED for (int dy = 1 - RADIUS; dy < RADIUS; ++dy) {
        const ulong row = (frame * height + (ulong)(top + dy)) * width;
        const int across = top + dy >= 0 && top + dy < (int)height;
        UNROLLED for (int dx = 1 - RADIUS; dx < RADIUS; ++dx) {
            if (dx * dx + dy * dy >= RADIUS * RADIUS) continue;
            const int inside = across && left + dx >= 0 && left + dx < (int)width;
            const int seen = film[inside ? row + (ulong)(left + dx) : 0ul];
            sum += (DISK - GROUND) * (2 * seen - DISK - GROUND);
        }
    }
    return (double)sum / 50.0 / OFFSETS;
}

/* Inclusive prefix sums over the threads of a group, of one number each, in a SHARED array. The order of summation is
   the same in every run. */
#define SCAN(sum, mine)                                                                                                \
    sum[LOCAL_ID] = mine;                                                                                              \
    for (uint by = 1; by < THREADS; by *= 2) {                                                                         \
        BARRIER();                                                                                                     \
        const double add = LOCAL_ID < by ? 0.0 : sum[LOCAL_ID - by];                                                   \
        BARRIER();                                                                                                     \
        sum[LOCAL_ID] += add;                                                                                          \
    }                                                                                                                  \
    BARRIER();

/* To 24 bits: sums of up to 2^29 equal weights are exact in any order. Nothing changes if a compiler fuses 2^29 w. */
HELPER double rounded(double w) { return (w + 0x1p29 * w) - 0x1p29 * w; }

/* Moves all particles to a frame and weights them by its pixels. Before, all have the same weight. partial: the sums of
   w, w x and w y of each block. */
GROUP_KERNEL particlefilter_weigh(GLOBAL double* x, GLOBAL double* y, GLOBAL double* w, GLOBAL double* partial,
                                  GLOBAL const uchar* film, ulong n, ulong width, ulong height, ulong frame,
                                  ulong key_x, ulong key_y) {
    SHARED double sum[3][THREADS];
    double mine[3] = {0.0, 0.0, 0.0};
    for (ulong k = 0; k < EACH; ++k) {
        const ulong i = GROUP_ID * BLOCK + k * THREADS + LOCAL_ID;
        if (i >= n) continue;
        const double at_x = x[i] + 1.0 + 5.0 * normal(key_x, frame * n + i);
        const double at_y = y[i] - 2.0 + 2.0 * normal(key_y, frame * n + i);
        const double weight = rounded(EXP_F64(likelihood(film, width, height, frame, at_x, at_y)));
        x[i] = at_x;
        y[i] = at_y;
        w[i] = weight;
        mine[0] += weight;
        mine[1] += weight * at_x;
        mine[2] += weight * at_y;
    }
    UNROLLED for (int q = 0; q < 3; ++q) { SCAN(sum[q], mine[q]) }
    if (LOCAL_ID < 3) partial[3 * GROUP_ID + LOCAL_ID] = sum[LOCAL_ID][THREADS - 1];
}

/* One group computes start[b] = the weight of all blocks before b, start[blocks] = the total weight, and the estimate
   of a frame. The first frame is 1. */
GROUP_KERNEL particlefilter_total(GLOBAL const double* partial, GLOBAL double* start, GLOBAL double* estimate,
                                  ulong blocks, ulong frame) {
    SHARED double sum[3][THREADS];
    const ulong first = blocks * LOCAL_ID / THREADS, last = blocks * (LOCAL_ID + 1) / THREADS;
    double mine[3] = {0.0, 0.0, 0.0};
    for (ulong b = first; b < last; ++b) {
        UNROLLED for (int q = 0; q < 3; ++q) mine[q] += partial[3 * b + q];
    }
    UNROLLED for (int q = 0; q < 3; ++q) { SCAN(sum[q], mine[q]) }
    double before = LOCAL_ID == 0 ? 0.0 : sum[0][LOCAL_ID - 1];
    for (ulong b = first; b < last; ++b) {
        start[b] = before;
        before += partial[3 * b];
    }
    if (LOCAL_ID == 0) start[blocks] = sum[0][THREADS - 1];
    if (LOCAL_ID < 2) estimate[2 * frame - 2 + LOCAL_ID] = sum[1 + LOCAL_ID][THREADS - 1] / sum[0][THREADS - 1];
}

/* Scales the weights to a sum of 1, and computes the sum up to each particle. */
GROUP_KERNEL particlefilter_cdf(GLOBAL double* w, GLOBAL double* cdf, GLOBAL const double* start, ulong n,
                                ulong blocks) {
    SHARED double sum[THREADS];
    const ulong first = GROUP_ID * BLOCK + LOCAL_ID * EACH, last = first + EACH < n ? first + EACH : n;
    double mine = 0.0;
    for (ulong i = first; i < last; ++i) mine += w[i];
    SCAN(sum, mine)
    double before = start[GROUP_ID] + (LOCAL_ID == 0 ? 0.0 : sum[LOCAL_ID - 1]);
    for (ulong i = first; i < last; ++i) {
        before += w[i];
        cdf[i] = before / start[blocks];
        w[i] /= start[blocks];
    }
}

/* Systematic resampling: new particle i is the first whose cdf reaches (i + offset) / n. */
KERNEL particlefilter_resample(GLOBAL const double* x, GLOBAL const double* y, GLOBAL const double* cdf,
                               GLOBAL double* next_x, GLOBAL double* next_y, ulong n, double offset) {
    FOR_EACH(i, n) {
        const double u = ((double)i + offset) / (double)n;
        ulong low = 0, high = n - 1;
        while (low < high) {
            const ulong middle = low + (high - low) / 2;
            if (cdf[middle] >= u)
                high = middle;
            else
                low = middle + 1;
        }
        next_x[i] = x[low];
        next_y[i] = y[low];
    }
}
