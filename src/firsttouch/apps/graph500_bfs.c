/* graph500_bfs: levels of a breadth-first search in either direction: top-down from a small frontier to its neighbours,
   or bottom-up from unvisited vertices to a neighbour in the frontier. Sets of vertices are bitmaps. */
enum { graph_wide = 8192, graph_high = 2048, graph_threads = 256 /* vertices per group down and up; threads */ };
enum {
    graph_hub = 1024 /* a vertex with more edges is shared by groups */,
    graph_team = 8 /* threads that share any other vertex */
};
enum { graph_news = 40 /* bit at which the count of vertices begins, above a count of edges */ };

#define GRAPH_HAS(set, v) ((set)[(v) / 32] >> (v) % 32 & 1u)

KERNEL graph_setup(GLOBAL int* parent, GLOBAL uint* visited, GLOBAL uint* frontier, ulong n, ulong root) {
    FOR_EACH(v, n) {
        parent[v] = v == root ? (int)root : -1;
        if (v < n / 32) visited[v] = frontier[v] = v == root / 32 ? 1u << root % 32 : 0u;
    }
}

/* Follows the edges of v from `e` on in steps of `step`, and sets the parent of unvisited targets. Returns the number
   of these targets and of their edges. */
HELPER ulong graph_descend(GLOBAL const ulong* row, GLOBAL const uint* col, GLOBAL uint* next, GLOBAL uint* visited,
                           GLOBAL int* parent, ulong v, ulong e, ulong step) {
    ulong news = 0;
    for (const ulong end = row[v + 1]; e < end; e += step) {
        const uint t = col[e], bit = 1u << t % 32;
        if (GRAPH_HAS(visited, t) || ATOMIC_OR_U32_DEVICE(visited + t / 32, bit) & bit) continue;
        ATOMIC_OR_U32_DEVICE(next + t / 32, bit);
        parent[t] = (int)v;
        news += (1ul << graph_news) + row[t + 1ul] - row[t];
    }
    return news;
}

/* Adds the sum of a group's counts to the totals. */
#define GRAPH_ADD_COUNTS(counts, news, found)                                                                          \
    GROUP_SUM(counts, news, GROUP_SIZE)                                                                                \
    if (LOCAL_ID == 0 && (counts)[0] != 0) {                                                                           \
        ATOMIC_ADD_U64_DEVICE((found), (counts)[0] >> graph_news);                                                     \
        ATOMIC_ADD_U64_DEVICE((found) + 1, (counts)[0] & ((1ul << graph_news) - 1));                                   \
    }

/* `parts` groups work on each tile and share the edges of its hubs. The first of them handles all other vertices. */
GROUP_KERNEL graph_down(GLOBAL const ulong* row, GLOBAL const uint* col, GLOBAL const uint* frontier, GLOBAL uint* next,
                        GLOBAL uint* visited, GLOBAL int* parent, GLOBAL ulong* found, ulong n, uint parts) {
    SHARED uint words[graph_wide / 32], hubs[graph_wide / 32];
    SHARED uint any_set;
    SHARED ulong counts[graph_threads];
    const ulong first = GROUP_ID / parts * (graph_wide / 32), part = GROUP_ID % parts;
    ulong news = 0;
    if (LOCAL_ID == 0) any_set = 0;
    BARRIER();
    for (uint w = LOCAL_ID; w < graph_wide / 32; w += GROUP_SIZE) {
        const uint word = first + w < n / 32 ? frontier[first + w] : 0;
        uint large = 0;
        for (uint bit = 0; word != 0 && bit < 32; ++bit) {
            const ulong v = (first + w) * 32 + bit;
            if (word >> bit & 1u) large |= (uint)(row[v + 1] - row[v] > graph_hub) << bit;
        }
        words[w] = word & ~large;
        hubs[w] = large;
        if (word != 0) any_set = 1;
    }
    BARRIER();
    if (any_set) {
        for (uint k = 0; k < graph_wide; k += hubs[k / 32] == 0 ? 32 : 1) {
            const ulong v = first * 32 + k;
            if (GRAPH_HAS(hubs, k))
                news += graph_descend(row, col, next, visited, parent, v, row[v] + part * GROUP_SIZE + LOCAL_ID,
                                      (ulong)parts * GROUP_SIZE);
        }
        for (uint k = LOCAL_ID / graph_team; part == 0 && k < graph_wide; k += GROUP_SIZE / graph_team) {
            const ulong v = first * 32 + k;
            if (GRAPH_HAS(words, k))
                news += graph_descend(row, col, next, visited, parent, v, row[v] + LOCAL_ID % graph_team, graph_team);
        }
        GRAPH_ADD_COUNTS(counts, news, found)
    }
}

GROUP_KERNEL graph_up(GLOBAL const ulong* row, GLOBAL const uint* col, GLOBAL const uint* frontier, GLOBAL uint* next,
                      GLOBAL uint* visited, GLOBAL int* parent, GLOBAL ulong* found, ulong n) {
    SHARED uchar hit[graph_high];
    SHARED ulong counts[graph_threads];
    const ulong first = GROUP_ID * graph_high;
    ulong news = 0;
    for (uint k = LOCAL_ID; k < graph_high; k += GROUP_SIZE) {
        const ulong v = first + k;
        hit[k] = 0;
        if (v >= n || GRAPH_HAS(visited, v)) continue;
        for (ulong e = row[v], end = row[v + 1]; e < end && !hit[k]; ++e) {
            if (!GRAPH_HAS(frontier, col[e])) continue;
            parent[v] = (int)col[e];
            hit[k] = 1;
            news += (1ul << graph_news) + end - row[v];
        }
    }
    BARRIER();
    for (uint w = LOCAL_ID; w < graph_high / 32 && first / 32 + w < n / 32; w += GROUP_SIZE) {
        uint word = 0;
        for (uint bit = 0; bit < 32; ++bit) word |= (uint)hit[32 * w + bit] << bit;
        next[first / 32 + w] = word;
        if (word != 0) visited[first / 32 + w] |= word;
    }
    GRAPH_ADD_COUNTS(counts, news, found)
}

/* Passes the number of vertices found in this level and the number of their edges to the CPU. */
KERNEL graph_report(GLOBAL ulong* found, GLOBAL ulong* counters) {
    FOR_EACH(i, 2ul) {
        counters[i] = found[i];
        found[i] = 0;
    }
}
