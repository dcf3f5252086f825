/* bfs: levels of a random graph. Node i has 2 + i % 9 edges; its k-th edge leads to the image of i under permutation k.
   Each edge is stored at both ends. Inverse permutations give the incoming edges, so that all nodes can be connected in
   parallel. A node: its first edge; the number of edges in the upper half. Masks: a byte per node, in whole tiles. */
enum { bfs_most = 10, bfs_tile = 1024, bfs_team = 8 /* neighbouring threads that share a node's edges */ };
enum { bfs_lanes = 64 /* nodes that the CPU connects at a time, in vectors */ };

HELPER uint bfs_out(uint i) { return 2u + i % 9u; }

/* The images of nodes from `first` on under permutation k of [0, n), or with `back` the preimages. It permutes a table
   with rows of 2^bits, which is hardly larger than n; results that are not below n are permuted again. */
HELPER void bfs_ends(uint* ends, uint first, uint n, uint bits, ulong key, uint k, uint back) {
    const uint rows = ((n - 1u) >> bits) + 1u;
    const ulong a = random_word(key, 2u * k), b = random_word(key, 2u * k + 1u);
    uint largest = 0;
    for (uint lane = 0; lane < bfs_lanes; ++lane) {
        ends[lane] = feistel(first + lane < n ? first + lane : n - 1u, rows, bits, a, b, back);
        largest = ends[lane] > largest ? ends[lane] : largest;
    }
    for (uint lane = 0; largest >= n && lane < bfs_lanes; ++lane)
        while (ends[lane] >= n) ends[lane] = feistel(ends[lane], rows, bits, a, b, back);
}

/* Counts the degrees of the nodes, and the edges of each tile of nodes. */
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

/* Stores the edges. tiles: the number of edges before each tile. */
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
                at += bfs_out(first + lane); /* entries beyond the degree are overwritten */
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

/* Marks neighbour t as found and returns 1, unless it is known to be visited. An agent knows that only of its own
   nodes; `inside`: t is one of them. */
HELPER uint bfs_discover(uint t, uint known, ulong inside, GLOBAL uchar* visited, GLOBAL uchar* found) {
    if (known) return 0;
    if (inside) visited[t] = 1; /* all threads that find it in this level store the same */
    found[t] = 1;
    return 1;
}

/* Expands the nodes of a tile of `mask`, and clears it: stores their level and finds neighbours. The first of all
   threads that finds one sets `over` for the CPU. `mine`: the number of nodes that belong to this agent. */
GROUP_KERNEL bfs_expand(GLOBAL const ulong* nodes, GLOBAL const uint* edges, GLOBAL uint* mask, GLOBAL uchar* visited,
                        GLOBAL uchar* found, GLOBAL int* cost, GLOBAL uint* over, GLOBAL ulong* told, uint level,
                        ulong mine) {
    SHARED ulong node[bfs_tile];
    SHARED uint flags[bfs_tile / 4];
    SHARED uint any_set;
    const ulong first = GROUP_ID * bfs_tile;
    uint news = 0;
    if (LOCAL_ID == 0) any_set = 0;
    BARRIER();
    for (uint w = LOCAL_ID; w < bfs_tile / 4; w += GROUP_SIZE) {
        const uint four = mask[first / 4 + w];
        flags[w] = four;
        if (four != 0) {
            mask[first / 4 + w] = 0;
            any_set = 1;
        }
    }
    BARRIER();
    if (any_set) {
        for (uint k = LOCAL_ID; k < bfs_tile; k += GROUP_SIZE) {
            const uint set = flags[k / 4] >> 8 * (k % 4) & 1u;
            node[k] = set ? nodes[first + k] : 0;
            if (set) cost[first + k] = (int)level;
        }
        BARRIER();
        for (uint k = LOCAL_ID / bfs_team; k < bfs_tile; k += GROUP_SIZE / bfs_team) {
            const uint degree = (uint)(node[k] >> 32);
            const ulong begin = (uint)node[k];
            for (uint e = LOCAL_ID % bfs_team; e < degree; e += 2 * bfs_team) { /* two loads in flight */
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

/* The same for nodes [first, first + n) on the CPU. */
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

/* Computes words [first, first + n) of the next mask: the nodes that this agent found, and the unvisited ones that the
   other agent found. */
KERNEL bfs_exchange(GLOBAL ulong* mask, GLOBAL ulong* visited, GLOBAL const ulong* found, GLOBAL const ulong* others,
                    ulong first, ulong n) {
    FOR_EACH(i, n) {
        const ulong w = first + i, now = found[w] | (others[w] & ~visited[w]);
        mask[w] = now;
        visited[w] |= now;
    }
}
