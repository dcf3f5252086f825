/* Dependent loads through one cycle over every node of a buffer. A node is the first word of a stride and holds the
   address of the next node. The cycle visits node order(0), order(1), ..., so that both agents can write it in
   parallel, check it, and compute in closed form where a walk of any length ends.
   Ordering: group = 0 permutes all nodes; group > 0 permutes groups (pages) and the nodes inside each, so that a page
   is left only when all of it was read. multichase does this to avoid TLB misses. */

HELPER ulong chase_order(ulong step, ulong nodes, uint bits, ulong group, uint group_bits, uint inner_bits, ulong key) {
    if (group == 0) return permute(step, nodes, bits, key);
    const ulong page = permute(step / group, nodes / group, group_bits, key);
    return page * group + permute(step % group, group, inner_bits, mix64(key ^ page));
}

/* base: the address of p as the agent that walks sees it. */
KERNEL chase_write(GLOBAL ulong* p, ulong base, ulong nodes, ulong stride, uint bits, ulong group, uint group_bits,
                   uint inner_bits, ulong key) {
    FOR_EACH(step, nodes) {
        const ulong here = chase_order(step, nodes, bits, group, group_bits, inner_bits, key);
        const ulong after = step + 1 == nodes ? 0 : step + 1;
        const ulong next = chase_order(after, nodes, bits, group, group_bits, inner_bits, key);
        p[here * (stride / 8)] = base + next * stride;
    }
}

KERNEL chase_check(GLOBAL const ulong* p, ulong base, ulong nodes, ulong stride, uint bits, ulong group,
                   uint group_bits, uint inner_bits, ulong key, GLOBAL ulong* errors) {
    ulong wrong = 0;
    FOR_EACH(step, nodes) {
        const ulong here = chase_order(step, nodes, bits, group, group_bits, inner_bits, key);
        const ulong after = step + 1 == nodes ? 0 : step + 1;
        const ulong next = chase_order(after, nodes, bits, group, group_bits, inner_bits, key);
        wrong += p[here * (stride / 8)] != base + next * stride;
    }
    if (wrong > 0) ATOMIC_ADD_U64_SYSTEM(errors, wrong);
}
