/* mapped_file: a file of 64-bit words and its checksum, the sum of word i times 2 i + 1, which depends on the order of
   the words. */
#define THREADS 256

/* The words of the file. */
KERNEL mapped_file_words(GLOBAL ulong* words, ulong n, ulong key) { FOR_EACH(i, n) words[i] = random_word(key, i); }

/* Each group adds the sum over its share of n words to its partial sum, or replaces that if `anew`. The first word is
   at `offset` and is word `first` of the file. */
GROUP_KERNEL mapped_file_sum(GLOBAL const ulong* words, GLOBAL ulong* partial, ulong offset, ulong first, ulong n,
                             uint anew) {
    SHARED ulong sums[THREADS];
    ulong sum = 0;
    for (ulong start = GLOBAL_ID; start < n; start += 4 * GLOBAL_SIZE) {
        UNROLLED for (uint k = 0; k < 4; ++k) { /* four loads in flight */
            const ulong i = start + k * GLOBAL_SIZE;
            sum += (i < n ? words[offset + i] : 0ul) * (2 * (first + i) + 1);
        }
    }
    GROUP_SUM(sums, sum, THREADS)
    if (LOCAL_ID == 0) partial[GROUP_ID] = (anew ? 0ul : partial[GROUP_ID]) + sums[0];
}
