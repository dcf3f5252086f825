/* A Kronecker graph of the Graph500 specification, undirected, in rows (CSR), made by the CPU without a list of its
   edges: they are made again from their numbers wherever they are needed. The numbers are sorted into buckets of
   vertices, each of which a processor then holds in its caches. Any number of threads makes the same rows. */
enum {
    kronecker_chunks = 64 /* parts of all edges, each dealt by one thread */,
    kronecker_lanes = 64 /* edges that are made at once, in vectors */
};

/* The ends of edges base + which[]. In each bit of the two labels a number x of eight random bits chooses the quadrant:
   D below 13, C below 62, B below 111 (0.051, 0.191, 0.191 of 256), else A (0.566). Then both labels are permuted. */
HELPER void kronecker_edges(uint ends[2][kronecker_lanes], const uint* which, ulong base, uint scale, ulong key) {
    const uint low = scale / 2, mask = (1u << scale) - 1u, rows = 1u << (scale - low);
    const ulong a = random_word(key, ~0ul), b = random_word(key, ~1ul); /* beyond the words of all edges */
    uint r[8][kronecker_lanes];
    for (uint k = 0; k < 8; k += 2) {
        for (uint lane = 0; lane < kronecker_lanes; ++lane) {
            const ulong word = random_word(key, (base + which[lane]) * 4 + k / 2);
            r[k][lane] = (uint)word;
            r[k + 1][lane] = (uint)(word >> 32);
        }
    }
    for (uint lane = 0; lane < kronecker_lanes; ++lane) {
        uint below_d = 0, below_c = 0, below_b = 0; /* from x's lowest bit on; r has its inverse */
        for (uint k = 0; k < 8; ++k) {
            below_d = 13u >> k & 1u ? below_d | r[k][lane] : below_d & r[k][lane];
            below_c = 62u >> k & 1u ? below_c | r[k][lane] : below_c & r[k][lane];
            below_b = 111u >> k & 1u ? below_b | r[k][lane] : below_b & r[k][lane];
        }
        ends[0][lane] = feistel(below_c & mask, rows, low, a, b, 0);
        ends[1][lane] = feistel((below_b ^ below_c ^ below_d) & mask, rows, low, a, b, 0);
    }
}

/* Deals all edges but self loops to the buckets of both ends: bucket b has the b-th 2^(scale - scale / 2) vertices.
   Counts those of a chunk in cursors[chunk][b]; or puts each edge's number within the chunk, doubled, and one more for
   its second end, into col at the cursor, which moves on. */
KERNEL kronecker_deal(GLOBAL ulong* cursors, GLOBAL uint* col, ulong edges, uint scale, ulong key, uint put) {
    const uint shift = scale - scale / 2;
    FOR_EACH(chunk, kronecker_chunks) {
        GLOBAL ulong* cursor = cursors + (chunk << scale / 2);
        const ulong base = edges * chunk / kronecker_chunks, n = edges * (chunk + 1) / kronecker_chunks - base;
        for (ulong b = 0; !put && b < 1ul << scale / 2; ++b) cursor[b] = 0;
        for (ulong e = 0; e < n; e += kronecker_lanes) {
            uint which[kronecker_lanes], ends[2][kronecker_lanes];
            for (uint lane = 0; lane < kronecker_lanes; ++lane) which[lane] = (uint)e + lane;
            kronecker_edges(ends, which, base, scale, key);
            for (uint lane = 0; lane < kronecker_lanes && e + lane < n; ++lane) {
                const uint from = ends[0][lane], to = ends[1][lane];
                if (from == to) continue;
                const ulong at = cursor[from >> shift]++, back = cursor[to >> shift]++;
                if (put) col[at] = 2 * which[lane], col[back] = 2 * which[lane] + 1;
            }
        }
    }
}

/* The rows of n buckets, from the edges that were dealt to them: their ends are made again into `pairs` and counted,
   then put where they go. */
KERNEL kronecker_sort(GLOBAL ulong* row, GLOBAL uint* col, GLOBAL const ulong* cursors, GLOBAL ulong* pairs,
                      ulong edges, uint scale, ulong key, ulong first, ulong n) {
    const ulong buckets = 1ul << scale / 2, size = 1ul << (scale - scale / 2);
    GLOBAL const ulong* done = cursors + (kronecker_chunks - 1) * buckets;
    FOR_EACH(i, n) {
        const ulong b = first + i, begin = b == 0 ? 0 : done[b - 1];
        GLOBAL ulong* pair = pairs + (begin - (first == 0 ? 0 : done[first - 1]));
        GLOBAL ulong* last = row + b * size + 1; /* how many each row has, where it begins, where it ends */
        for (ulong v = 0; v < size; ++v) last[v] = 0;
        for (ulong chunk = 0, at = begin, end; chunk < kronecker_chunks; ++chunk, at = end) {
            end = cursors[chunk * buckets + b];
            for (; at < end; at += kronecker_lanes) {
                uint which[kronecker_lanes], ends[2][kronecker_lanes];
                for (uint lane = 0; lane < kronecker_lanes; ++lane)
                    which[lane] = at + lane < end ? col[at + lane] / 2 : 0;
                kronecker_edges(ends, which, edges * chunk / kronecker_chunks, scale, key);
                for (uint lane = 0; lane < kronecker_lanes && at + lane < end; ++lane) {
                    const uint second = col[at + lane] & 1u, v = ends[second][lane];
                    pair[at + lane - begin] = (ulong)v << 32 | ends[second ^ 1u][lane];
                    ++last[v % size];
                }
            }
        }
        ulong at = begin;
        for (ulong v = 0; v < size; ++v) {
            const ulong edges_of = last[v];
            last[v] = at;
            at += edges_of;
        }
        for (ulong p = 0; p < at - begin; ++p) col[last[(pair[p] >> 32) % size]++] = (uint)pair[p];
    }
}
