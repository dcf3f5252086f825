/* streamcluster: facility location among n points, whose coordinates are stored dimension by dimension. The cost of a
   point is its weight times the squared distance to its centre, which is point `assign`. table: the column of each open
   centre, or -1 for a centre that closes. */
enum {
    stream_points = 64,
    stream_threads = 256,
    stream_block = 1024 /* points that a CPU thread processes at a time */
};

/* Opens centre x for all points that are nearer to it than to their centre, or with `all` for every point. */
KERNEL stream_open(GLOBAL const float* coord, GLOBAL const float* weight, GLOBAL float* candidate, GLOBAL float* cost,
                   GLOBAL int* assign, ulong n, ulong d, ulong x, uint all) {
    FOR_EACH(b, (n + stream_block - 1) / stream_block) {
        const ulong first = b * stream_block, count = n - first < stream_block ? n - first : (ulong)stream_block;
        GLOBAL float* far = candidate + first;
        for (ulong i = 0; i < count; ++i) far[i] = 0;
        for (ulong k = 0; k < d; ++k) {
            GLOBAL const float* line = coord + k * n;
            const float there = line[x];
            for (ulong i = 0; i < count; ++i) far[i] += (line[first + i] - there) * (line[first + i] - there);
        }
        for (ulong i = 0; i < count; ++i) {
            const float c = weight[first + i] * far[i];
            if (!all && c >= cost[first + i]) continue;
            cost[first + i] = c;
            assign[first + i] = (int)x;
        }
    }
}

/* Finds the first point after `last` whose random number in [0, centre) is below its cost. centre: the cost of a
   centre. */
KERNEL stream_draw(GLOBAL const float* cost, GLOBAL uint* drawn, ulong n, ulong last, float centre, ulong key) {
    FOR_EACH(i, n - last - 1) {
        const ulong at = last + 1 + i;
        if (random_f32(key, at, 0.0f, centre) >= cost[at]) continue;
        ATOMIC_MIN_U32_DEVICE(drawn, (uint)at);
        break;
    }
}

/* The change that a centre at x would make. Each point has a row of `width` columns, all but one zero. For a point that
   moves to x, the last column holds what it saves. For any other, the column of its centre holds what it would lose if
   that centre closed. */
GROUP_KERNEL stream_gain(GLOBAL const float* coord, GLOBAL const float* weight, GLOBAL const float* cost,
                         GLOBAL const int* assign, GLOBAL const int* table, GLOBAL float* rows, GLOBAL uchar* moves,
                         GLOBAL float* candidate, ulong n, ulong d, ulong width, ulong x) {
    SHARED float parts[stream_threads];
    const ulong first = GROUP_ID * stream_points, count = n - first < stream_points ? n - first : (ulong)stream_points;
    const ulong i = first + LOCAL_ID % stream_points, me = i < n ? i : n - 1;
    const uint slices = GROUP_SIZE / stream_points;
    float sum = 0;
    for (ulong k = LOCAL_ID / stream_points; k < d; k += slices) {
        const float apart = coord[k * n + me] - coord[k * n + x];
        sum += apart * apart;
    }
    parts[LOCAL_ID] = sum;
    for (ulong k = LOCAL_ID; k < count * width; k += GROUP_SIZE) rows[first * width + k] = 0;
    BARRIER();
    if (LOCAL_ID < count) {
        for (uint s = 1; s < slices; ++s) sum += parts[LOCAL_ID + s * stream_points];
        const float c = weight[i] * sum, now = cost[i];
        candidate[i] = c;
        moves[i] = c < now;
        rows[i * width + (c < now ? width - 1 : (ulong)table[assign[i]])] = c < now ? c - now : now - c;
    }
}

/* Sums of the columns over each block of points. */
KERNEL stream_sum(GLOBAL const float* rows, GLOBAL double* sums, ulong n, ulong width) {
    FOR_EACH(b, (n + stream_block - 1) / stream_block) {
        GLOBAL double* mine = sums + b * width;
        for (ulong j = 0; j < width; ++j) mine[j] = 0;
        for (ulong i = b * stream_block; i < (b + 1) * stream_block && i < n; ++i)
            for (ulong j = 0; j < width; ++j) mine[j] += (double)rows[i * width + j];
    }
}

/* Moves to x the points that gain, and those whose centre closes. */
KERNEL stream_move(GLOBAL const float* candidate, GLOBAL const uchar* moves, GLOBAL const int* table,
                   GLOBAL float* cost, GLOBAL int* assign, ulong n, ulong x) {
    FOR_EACH(i, n) {
        if (!moves[i] && table[assign[i]] >= 0) continue;
        cost[i] = candidate[i];
        assign[i] = (int)x;
    }
}
