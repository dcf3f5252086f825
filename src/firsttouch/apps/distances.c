/* Squared distances in f64 on all processors, to check streamcluster. */
enum { distances_block = 1024 /* points that a thread processes at a time, so that their sums stay in its cache */ };

/* The weighted squared distance of each of n points, stored dimension by dimension, from its centre, another point. */
KERNEL distances_weighted(GLOBAL const float* coord, GLOBAL const float* weight, GLOBAL const int* centres,
                          GLOBAL double* costs, ulong dimensions, ulong n) {
    FOR_EACH(block, (n + distances_block - 1) / distances_block) {
        const ulong first = block * distances_block, last = first + distances_block < n ? first + distances_block : n;
        for (ulong i = first; i < last; ++i) costs[i] = 0;
        for (ulong k = 0; k < dimensions; ++k) {
            GLOBAL const float* line = coord + k * n;
            for (ulong i = first; i < last; ++i) {
                const double apart = (double)line[i] - (double)line[centres[i]];
                costs[i] += apart * apart;
            }
        }
        for (ulong i = first; i < last; ++i) costs[i] *= (double)weight[i];
    }
}
