/* A Kronecker graph of the Graph500 specification, undirected, in rows (CSR), made by the CPU without a list of its
   edges: they are made again from their numbers wherever they are needed. The numbers are sorted into buckets of
   vertices, each of which a processor then holds in its caches. Any number of threads makes the same rows. */
enum {
    kronecker_chunks = 64 /* parts of all edges, each dealt by one thread */,
    kronecker_lanes = 64 /* edges that are made at once, in vectors */
};

/* The ends of edges base + which[]: in each bit of the two labels the quadrant 0.57, 0.19, 0.19, 0.05, then both are
   permuted. Bits with a chance in 128 are seven random ones in turn: or where the chance has a one, and elsewhere. */
HELPER void kronecker_edges(ulong* ends, const uint* which, ulong base, uint scale, ulong key) {
    const uint low = scale / 2, mask = (1u << scale) - 1u, rows = 1u << (scale - low);
    const ulong a = random_word(key, ~0ul), b = random_word(key, ~1ul), lower = 0xFFFFFFFFul; /* beyond all edges' */
    for (uint lane = 0; lane < kronecker_lanes; ++lane) ends[lane] = 0;
    for (uint k = 0; k < 7; ++k) { /* 31 of 128: `from` has a one; 27 of those: `to` has too */
        const ulong either = (31u >> k & 1u ? lower : 0) | (27u >> k & 1u ? ~lower : 0);
        for (uint lane = 0; lane < kronecker_lanes; ++lane) {
            const ulong r = random_word(key, (base + which[lane]) * 8 + k);
            ends[lane] = (ends[lane] & r) | ((ends[lane] | r) & either);
        }
    }
    for (uint lane = 0; lane < kronecker_lanes; ++lane) {
        const ulong last = random_word(key, (base + which[lane]) * 8 + 7);
        const uint from = (uint)ends[lane], both = (uint)(ends[lane] >> 32);
        const uint to = (from & both) | (~from & (uint)(last & last >> 32)); /* a quarter of where `from` has none */
        ends[lane] = (ulong)feistel(from & mask, rows, low, a, b, 0) << 32 | feistel(to & mask, rows, low, a, b, 0);
    }
}

/* Deals all edges but self loops to the buckets of both ends: bucket b has the b-th 2^(scale - scale / 2) vertices.
   Counts those of a chunk in cursors[chunk][b]; or puts each edge's number within the chunk, doubled, and one more for
   its second end, into col at the cursor, which moves on. */
KERNEL kronecker_deal(GLOBAL ulong* cursors, GLOBAL uint* col, ulong edges, uint scale, ulong key, uint put) {
    FOR_EACH(chunk, kronecker_chunks) {
        GLOBAL ulong* cursor = cursors + (chunk << scale / 2);
        const ulong base = edges * chunk / kronecker_chunks, n = edges * (chunk + 1) / kronecker_chunks - base;
        for (ulong b = 0; !put && b < 1ul << scale / 2; ++b) cursor[b] = 0;
        for (ulong e = 0; e < n; e += kronecker_lanes) {
            ulong ends[kronecker_lanes];
            uint which[kronecker_lanes];
            for (uint lane = 0; lane < kronecker_lanes; ++lane) which[lane] = (uint)e + lane;
            kronecker_edges(ends, which, base, scale, key);
            for (uint lane = 0; lane < kronecker_lanes && e + lane < n; ++lane) {
                const uint from = (uint)(ends[lane] >> 32), to = (uint)ends[lane];
                if (from == to) continue;
                const ulong at = cursor[from >> (scale - scale / 2)]++, back = cursor[to >> (scale - scale / 2)]++;
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
        GLOBAL ulong* last =
            row + b * size + 1; /* of each row how many, then where it begins, at the end where it ends */
        for (ulong v = 0; v < size; ++v) last[v] = 0;
        for (ulong chunk = 0, at = begin, end; chunk < kronecker_chunks; ++chunk, at = end) {
            end = cursors[chunk * buckets + b];
            for (; at < end; at += kronecker_lanes) {
                ulong ends[kronecker_lanes];
                uint which[kronecker_lanes];
                for (uint lane = 0; lane < kronecker_lanes; ++lane)
                    which[lane] = at + lane < end ? col[at + lane] / 2 : 0;
                kronecker_edges(ends, which, edges * chunk / kronecker_chunks, scale, key);
                for (uint lane = 0; lane < kronecker_lanes && at + lane < end; ++lane) {
                    const ulong both = col[at + lane] % 2 ? ends[lane] << 32 | ends[lane] >> 32 : ends[lane];
                    pair[at + lane - begin] = both;
                    ++last[(both >> 32) % size];
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
