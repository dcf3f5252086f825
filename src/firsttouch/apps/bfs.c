/* bfs: levels of a random graph. Node i has 2 + i % 9 edges, its k-th to where permutation k takes i, and each edge is
   stored at both ends: what comes in is found by the inverse, so that all nodes are connected at once.
   A node: its first edge, and their number in the upper half. Masks hold a byte for each node, padded to whole tiles.
 */
enum { bfs_most = 10, bfs_tile = 1024, bfs_team = 8 /* neighbouring threads that share a node's edges */ };

HELPER uint bfs_out(ulong i) { return 2u + (uint)(i % 9ul); }

/* Degrees of tiles of nodes, and the edges of each tile. */
KERNEL bfs_count(GLOBAL ulong* nodes, GLOBAL ulong* tiles, ulong n, uint bits, ulong key) {
    FOR_EACH(tile, (n + bfs_tile - 1) / bfs_tile) {
        const ulong last = (tile + 1) * bfs_tile;
        ulong edges = 0;
        for (ulong i = tile * bfs_tile; i < last && i < n; ++i) {
            uint degree = bfs_out(i);
            for (uint k = 0; k < bfs_most; ++k) degree += k < bfs_out(unpermute(i, n, bits, random_word(key, k)));
            nodes[i] = (ulong)degree << 32;
            edges += degree;
        }
        tiles[tile + 1] = edges;
    }
}

/* The edges; tiles: by now how many come before each. */
KERNEL bfs_connect(GLOBAL ulong* nodes, GLOBAL uint* edges, GLOBAL const ulong* tiles, ulong n, uint bits, ulong key) {
    FOR_EACH(tile, (n + bfs_tile - 1) / bfs_tile) {
        const ulong last = (tile + 1) * bfs_tile;
        ulong at = tiles[tile];
        for (ulong i = tile * bfs_tile; i < last && i < n; ++i) {
            nodes[i] |= at;
            for (uint k = 0; k < bfs_most; ++k) {
                if (k < bfs_out(i)) edges[at++] = (uint)permute(i, n, bits, random_word(key, k));
                const ulong from = unpermute(i, n, bits, random_word(key, k));
                if (k < bfs_out(from)) edges[at++] = (uint)from;
            }
        }
    }
}

/* A neighbour `t`: the agent knows of its own nodes, which are `mine` from `first` on, whether they were visited. */
HELPER uint bfs_discover(uint t, uint known, ulong inside, GLOBAL uchar* visited, GLOBAL uchar* found) {
    if (known) return 0;
    if (inside) visited[t] = 1; /* whoever comes first in this level or second stores the same */
    found[t] = 1;
    return 1;
}

/* A tile of the nodes of `mask`, which is cleared: they get their level, their neighbours are found. The first thread
   of all that finds one tells the CPU. */
GROUP_KERNEL bfs_expand(GLOBAL const ulong* nodes, GLOBAL const uint* edges, GLOBAL uint* mask, GLOBAL uchar* visited,
                        GLOBAL uchar* found, GLOBAL int* cost, GLOBAL uint* over, GLOBAL ulong* told, uint level,
                        ulong mine) {
    SHARED ulong node[bfs_tile];
    SHARED uint flags[bfs_tile / 4];
    SHARED uint some;
    const ulong first = GROUP_ID * bfs_tile;
    uint news = 0;
    if (LOCAL_ID == 0) some = 0;
    BARRIER();
    for (uint w = LOCAL_ID; w < bfs_tile / 4; w += GROUP_SIZE) {
        const uint four = mask[first / 4 + w];
        flags[w] = four;
        if (four != 0) {
            mask[first / 4 + w] = 0;
            some = 1;
        }
    }
    BARRIER();
    if (some) {
        for (uint k = LOCAL_ID; k < bfs_tile; k += GROUP_SIZE) {
            const uint set = flags[k / 4] >> 8 * (k % 4) & 1u;
            node[k] = set ? nodes[first + k] : 0;
            if (set) cost[first + k] = (int)level;
        }
        BARRIER();
        for (uint k = LOCAL_ID / bfs_team; k < bfs_tile; k += GROUP_SIZE / bfs_team) {
            const uint degree = (uint)(node[k] >> 32);
            const ulong begin = (uint)node[k];
            for (uint e = LOCAL_ID % bfs_team; e < degree; e += 2 * bfs_team) { /* two loads on their way at once */
                const uint more = e + bfs_team < degree;
                const uint one = edges[begin + e], two = edges[begin + (more ? e + bfs_team : e)];
                const uint known_one = one < mine && visited[one], known_two = two < mine && visited[two];
                news |= bfs_discover(one, known_one, one < mine, visited, found);
                if (more) news |= bfs_discover(two, known_two, two < mine, visited, found);
            }
        }
    }
    if (news && LOAD_UNCACHED(told) != level + 1 && EXCHANGE_U64_DEVICE(told, level + 1) != level + 1)
        *over = level + 1;
}

/* The same of nodes [first, first + n) by the CPU. */
KERNEL bfs_expand_half(GLOBAL const ulong* nodes, GLOBAL const uint* edges, GLOBAL uchar* mask, GLOBAL uchar* visited,
                       GLOBAL uchar* found, GLOBAL int* cost, GLOBAL uint* over, uint level, ulong first, ulong n) {
    uint news = 0;
    FOR_EACH(i, n) {
        const ulong me = first + i;
        if (!mask[me]) continue;
        mask[me] = 0;
        cost[me] = (int)level;
        const ulong begin = (uint)nodes[me], end = begin + (nodes[me] >> 32);
        for (ulong e = begin; e < end; ++e) {
            const uint t = edges[e];
            news |= bfs_discover(t, t >= first && visited[t], t >= first, visited, found);
        }
    }
    if (news) ATOMIC_OR_U32_DEVICE(over, 1u);
}

/* The next mask of words [first, first + n): what this agent found, and what the other found that was not visited. */
KERNEL bfs_exchange(GLOBAL ulong* mask, GLOBAL ulong* visited, GLOBAL const ulong* found, GLOBAL const ulong* others,
                    ulong first, ulong n) {
    FOR_EACH(i, n) {
        const ulong w = first + i, now = found[w] | (others[w] & ~visited[w]);
        mask[w] = now;
        visited[w] |= now;
    }
}
