/* What the programs of firsttouch/porting compute. All numbers are whole and modulo 2^64, so that sums are exact. */

/* Adds the words of a frame to sums[at]. */
KERNEL port_sum(GLOBAL const ulong* frame, ulong words, GLOBAL ulong* sums, ulong at) {
    ulong mine = 0;
    FOR_EACH(i, words) mine += frame[i];
    if (mine > 0) ATOMIC_ADD_U64_DEVICE(sums + at, mine);
}

/* Adds a number to each word. */
KERNEL port_add(GLOBAL ulong* words, ulong count, ulong number) { FOR_EACH(i, count) words[i] += number; }

/* One step of all words, which depends on the word that the CPU read after the step before. The thread of word `at`
   also stores it in result[place]. */
KERNEL port_step(GLOBAL ulong* words, ulong count, ulong before, ulong at, GLOBAL ulong* result, ulong place) {
    FOR_EACH(i, count) {
        const ulong next = mix64(words[i] + before);
        words[i] = next;
        if (i == at) result[place] = next;
    }
}

/* Stores a number at an address that need not be that of a buffer. */
KERNEL port_store(ulong address, ulong number) { FOR_EACH(i, 1ul) * (volatile GLOBAL ulong*)(address + i) = number; }

/* Stores a number in a block. */
KERNEL port_raise(GLOBAL ulong* flag, ulong number) { FOR_EACH(i, 1ul) flag[i] = number; }

#define PORT_TAPS 5ul

/* A sum of five words after each one, weighted by coefficients in memory. */
KERNEL port_filter(GLOBAL const ulong* in, GLOBAL ulong* out, ulong count, GLOBAL const ulong* coefficients) {
    FOR_EACH(i, count) {
        ulong sum = 0;
        for (ulong k = 0; k < PORT_TAPS; ++k) sum += coefficients[k] * in[(i + k) % count];
        out[i] = sum;
    }
}

#if HAS_SYMBOLS
SYMBOL ulong port_coefficients[PORT_TAPS];
#endif

/* The same with coefficients in a variable of this file, which a launch with load = 1 copies there. has[0] becomes 1 if
   the language has such variables. */
KERNEL port_filter_symbol(GLOBAL const ulong* in, GLOBAL ulong* out, ulong count, GLOBAL const ulong* coefficients,
                          ulong load, GLOBAL ulong* has) {
#if HAS_SYMBOLS
    if (load != 0) {
        FOR_EACH(k, PORT_TAPS) port_coefficients[k] = coefficients[k];
        FOR_EACH(k, 1ul) has[k] = 1;
    } else {
        FOR_EACH(i, count) {
            ulong sum = 0;
            for (ulong k = 0; k < PORT_TAPS; ++k) sum += port_coefficients[k] * in[(i + k) % count];
            out[i] = sum;
        }
    }
#else
    FOR_EACH(k, 1ul) has[k] = 0;
#endif
}

/* The squared distance of each record, two words, from (x, y). */
KERNEL port_distances(GLOBAL const ulong* records, ulong count, ulong x, ulong y, GLOBAL ulong* out) {
    FOR_EACH(i, count) {
        const ulong dx = records[2 * i] - x, dy = records[2 * i + 1] - y;
        out[i] = dx * dx + dy * dy;
    }
}
