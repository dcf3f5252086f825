/* The check of bfs on all processors: levels (-1: unreached) along all edges, which are stored at both ends. */

/* Adds to `wrong` the number of edges that span more than a level or connect a reached to an unreached node, and of
   nodes without a neighbour one level up, except the root, node 0, alone of level 0. A node has its first edge in its
   lower half and their number in the upper. */
KERNEL levels_wrong(GLOBAL const ulong* nodes, GLOBAL const uint* edges, GLOBAL const int* level, GLOBAL ulong* wrong,
                    ulong n, ulong all_edges) {
    ulong wide = 0, lost = 0;
    FOR_EACH(i, n) {
        const ulong first = nodes[i] & 0xFFFFFFFFul, last = first + (nodes[i] >> 32);
        const long here = level[i];
        int one_up = 0;
        for (ulong e = first; e < last; ++e) {
            if (e >= all_edges || edges[e] >= n) { /* not the graph that was generated */
                ++wide;
                break;
            }
            const long there = level[edges[e]];
            wide += there > here + 1 || there < here - 1 || (there < 0) != (here < 0);
            one_up |= there == here - 1;
        }
        lost += here < -1 || (here == 0) != (i == 0) || (here > 0 && !one_up);
    }
    ATOMIC_ADD_U64_DEVICE(wrong, wide);
    ATOMIC_ADD_U64_DEVICE(wrong + 1, lost);
}
