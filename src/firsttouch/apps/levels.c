/* The check of bfs on all processors. Edges are stored at both ends, so that the levels are right if only node 0 has
   level 0, no edge spans two levels or connects a reached to an unreached node, and every other reached node has a
   neighbour one level up. Adds to `wrong` the nodes and edges that break each of these rules, or lead nowhere. */
KERNEL levels_wrong(GLOBAL const ulong* nodes, GLOBAL const uint* edges, GLOBAL const int* level, GLOBAL ulong* wrong,
                    ulong n, ulong most) {
    ulong roots = 0, wide = 0, lost = 0;
    FOR_EACH(i, n) {
        const ulong first = nodes[i] & 0xFFFFFFFFul, count = nodes[i] >> 32;
        const long here = level[i];
        int has_one_up = 0;
        roots += (here == 0) != (i == 0);
        if (first > most || count > most - first) {
            ++wide;
            continue;
        }
        for (ulong edge = first; edge < first + count; ++edge) {
            const long there = edges[edge] < n ? level[edges[edge]] : here + 2;
            wide += there > here + 1 || there < here - 1 || (there < 0) != (here < 0);
            has_one_up |= there == here - 1;
        }
        lost += here > 0 && !has_one_up;
    }
    ATOMIC_ADD_U64_DEVICE(wrong, roots);
    ATOMIC_ADD_U64_DEVICE(wrong + 1, wide);
    ATOMIC_ADD_U64_DEVICE(wrong + 2, lost);
}
