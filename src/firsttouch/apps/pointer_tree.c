/* pointer_tree: a search tree of nodes {left, right, key, value}, linked by addresses, in random memory order. The node
   of rank r (1 to n in the order of keys) is the root of the ranks that differ from r only in its lowest bits. Its
   children are half a step away, so that every node can be linked before its neighbours are written. */

HELPER ulong tree_key(ulong rank, ulong key) { return rank << 20 | (random_word(key, rank) & 0x7FFFFul) << 1; }
HELPER ulong tree_value(ulong rank, ulong key) { return random_word(key + 1, rank) | 1ul; }

/* The root of the subtree of ranks less than `step` away from `rank`, or 0 if the subtree is empty. */
HELPER ulong tree_top(ulong rank, ulong step, ulong n) {
    while (rank > n && step > 1) {
        step /= 2;
        rank -= step;
    }
    return rank > n ? 0 : rank;
}

HELPER ulong tree_address(GLOBAL const ulong* nodes, ulong rank, ulong n, uint bits, ulong key) {
    return rank == 0 ? 0 : (ulong)(nodes + 4 * permute(rank - 1, n, bits, key));
}

KERNEL tree_grow(GLOBAL ulong* nodes, GLOBAL ulong* root, ulong n, uint bits, ulong key) {
    FOR_EACH(i, n) {
        const ulong rank = unpermute(i, n, bits, key) + 1, step = rank & (~rank + 1), below = step / 2;
        const ulong left = below == 0 ? 0 : rank - below, right = below == 0 ? 0 : tree_top(rank + below, below, n);
        nodes[4 * i] = tree_address(nodes, left, n, bits, key);
        nodes[4 * i + 1] = tree_address(nodes, right, n, bits, key);
        nodes[4 * i + 2] = tree_key(rank, key);
        nodes[4 * i + 3] = tree_value(rank, key);
        if (rank == step && 2 * step > n) root[0] = (ulong)(nodes + 4 * i);
    }
}

/* Runs searches from number `first` on. Each adds the value of the largest key that is not above the key sought; this
   is the key itself or one less. No path is longer than the number of bits of a rank. */
KERNEL tree_search(GLOBAL const ulong* nodes, GLOBAL const ulong* root, GLOBAL ulong* sums, ulong n, ulong searches,
                   ulong first, ulong key) {
    FOR_EACH(i, searches) {
        const ulong rank = 1 + random_word(key + 2, first + i) % n, sought = tree_key(rank, key) + (i & 1);
        GLOBAL const ulong* node = (GLOBAL const ulong*)root[0];
        ulong value = 0;
        for (uint depth = 0; node != 0 && depth < 64; ++depth) {
            const ulong here = node[2];
            if (here <= sought) value = node[3];
            if (here == sought) break;
            node = (GLOBAL const ulong*)node[here < sought];
        }
        sums[i] += value;
    }
}
