/* Passes over a buffer whose pages may migrate: which words a pass accesses, in which order, and their final values.

   A pass accesses the first `run` = 2^run_bits words of every `stride` words, `slots` times. Access i of a pass is to
   word i mod run of slot i / run. If `key` is not 0, a permutation with that key is applied to the slots. */

HELPER ulong migration_word(ulong i, ulong slots, uint run_bits, ulong stride, uint bits, ulong key) {
    ulong slot = i >> run_bits;
    if (key != 0ul) slot = permute(slot, slots, bits, key);
    return slot * stride + (i & ((1ul << run_bits) - 1ul));
}

/* Adds a thread's sum to one of 4096 words, chosen by bits of the sum, to avoid contention on one word. */
HELPER void migration_report(GLOBAL ulong* sums, ulong sum) { ATOMIC_ADD_U64_DEVICE(sums + ((sum >> 20) & 4095ul), sum); }

KERNEL migration_update(GLOBAL ulong* p, ulong slots, uint run_bits, ulong stride, uint bits, ulong key) {
    FOR_EACH(i, slots << run_bits) p[migration_word(i, slots, run_bits, stride, bits, key)] += 1ul;
}

/* Adds one to every number `updates` times by atomics, each in another thread group. */
KERNEL migration_add(GLOBAL double* p, ulong words, ulong updates) {
    FOR_EACH(i, words * updates * 64ul) if (i % 64ul == 0ul) ATOMIC_ADD_F64_DEVICE(p + i / 64ul % words, 1.0);
}

/* sums: 4096 words that add up to the sum of the words read. */
KERNEL migration_read(GLOBAL const ulong* p, ulong slots, uint run_bits, ulong stride, uint bits, ulong key,
                      GLOBAL ulong* sums) {
    ulong sum = 0;
    FOR_EACH(i, slots << run_bits) sum += p[migration_word(i, slots, run_bits, stride, bits, key)];
    migration_report(sums, sum);
}

/* Reads every word in order: the CPU's final read of the buffer. */
KERNEL migration_sum(GLOBAL const ulong* p, ulong words, GLOBAL ulong* sums) {
    ulong sum = 0;
    FOR_EACH(i, words) sum += p[i];
    migration_report(sums, sum);
}

/* Counts the words that differ from the pattern of `seed`, plus `added` for the words of a pass. */
KERNEL migration_check(GLOBAL const ulong* p, ulong words, ulong seed, ulong slots, uint run_bits, ulong stride,
                       ulong added, GLOBAL ulong* errors) {
    ulong wrong = 0;
    FOR_EACH(i, words) {
        const ulong within = i % stride;
        const ulong taken = within >> run_bits == 0ul && i / stride < slots ? 1ul : 0ul;
        wrong += p[i] != pattern_word(i, seed) + taken * added ? 1ul : 0ul;
    }
    if (wrong > 0) ATOMIC_ADD_U64_SYSTEM(errors, wrong);
}
