/* bfs: levels of a random graph. Node i has 2 + i % 9 edges, its k-th to where permutation k takes i, and each edge is
   stored at both ends: what comes in is found by the inverse, so that all nodes are connected at once.
   A node: its first edge, and their number in the upper half. Masks hold a byte for each node, padded to whole tiles.
 */
enum { bfs_most = 10, bfs_tile = 1024, bfs_team = 8 /* neighbouring threads that share a node's edges */ };
enum { bfs_lanes = 64 /* nodes that the CPU connects at once, in vectors */ };

HELPER uint bfs_out(uint i) { return 2u + i % 9u; }

/* Where permutation k of [0, n) takes nodes `first` on, or (back) where it took them from. It permutes a table of rows
   of 2^bits, which is hardly larger than n: what falls beyond n goes on. */
HELPER void bfs_ends(uint* ends, uint first, uint n, uint bits, ulong key, uint k, uint back) {
    const uint rows = ((n - 1u) >> bits) + 1u;
    const ulong a = random_word(key, 2u * k), b = random_word(key, 2u * k + 1u);
    uint most = 0;
    for (uint lane = 0; lane < bfs_lanes; ++lane) {
        ends[lane] = feistel(first + lane < n ? first + lane : n - 1u, rows, bits, a, b, back);
        most = ends[lane] > most ? ends[lane] : most;
    }
    for (uint lane = 0; most >= n && lane < bfs_lanes; ++lane)
        while (ends[lane] >= n) ends[lane] = feistel(ends[lane], rows, bits, a, b, back);
}

/* Degrees of tiles of nodes, and the edges of each tile. */
KERNEL bfs_count(GLOBAL ulong* nodes, GLOBAL ulong* tiles, uint n, uint bits, ulong key) {
    FOR_EACH(tile, (n + bfs_tile - 1ul) / bfs_tile) {
        uint edges = 0;
        for (uint first = (uint)tile * bfs_tile; first < (tile + 1) * bfs_tile && first < n; first += bfs_lanes) {
            uint degrees[bfs_lanes], from[bfs_lanes];
            for (uint lane = 0; lane < bfs_lanes; ++lane) degrees[lane] = bfs_out(first + lane);
            for (uint k = 0; k < bfs_most; ++k) {
                bfs_ends(from, first, n, bits, key, k, 1);
                for (uint lane = 0; lane < bfs_lanes; ++lane) degrees[lane] += k < bfs_out(from[lane]);
            }
            for (uint lane = 0; lane < bfs_lanes && first + lane < n; ++lane) {
                nodes[first + lane] = (ulong)degrees[lane] << 32;
                edges += degrees[lane];
            }
        }
        tiles[tile + 1] = edges;
    }
}

/* The edges; tiles: by now how many come before each. */
KERNEL bfs_connect(GLOBAL ulong* nodes, GLOBAL uint* edges, GLOBAL const ulong* tiles, uint n, uint bits, ulong key) {
    FOR_EACH(tile, (n + bfs_tile - 1ul) / bfs_tile) {
        ulong begin = tiles[tile];
        for (uint first = (uint)tile * bfs_tile; first < (tile + 1) * bfs_tile && first < n; first += bfs_lanes) {
            uint to[bfs_most][bfs_lanes], from[bfs_most][bfs_lanes], list[2 * bfs_most * (bfs_lanes + 1)], at = 0;
            for (uint k = 0; k < bfs_most; ++k) {
                bfs_ends(to[k], first, n, bits, key, k, 0);
                bfs_ends(from[k], first, n, bits, key, k, 1);
                for (uint lane = 0; lane < bfs_lanes; ++lane) from[k][lane] |= (uint)(k < bfs_out(from[k][lane])) << 31;
            }
            for (uint lane = 0; lane < bfs_lanes && first + lane < n; ++lane) {
                nodes[first + lane] |= begin + at;
                for (uint k = 0; k < bfs_most; ++k) list[at + k] = to[k][lane];
                at += bfs_out(first + lane); /* those beyond are written over */
                for (uint k = 0; k < bfs_most; ++k) {
                    list[at] = from[k][lane] & ~(1u << 31);
                    at += from[k][lane] >> 31;
                }
            }
            for (uint e = 0; e < at; ++e) edges[begin + e] = list[e];
            begin += at;
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
