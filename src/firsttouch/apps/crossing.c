/* crossing: the particles of transport that leave a block for a neighbour, and arrive from one. */
#include "neutron.h"

KERNEL crossing_pack(GLOBAL const ulong* particles, GLOBAL const uint* queue, GLOBAL ulong* messages,
                     GLOBAL ulong* control, ulong first, ulong to, ulong count) {
    FOR_EACH(i, count) {
        GLOBAL const ulong* p = particles + queue[first + i] * (ulong)WORDS;
        copy_to(messages + (to + i) * WORDS, p);
        ATOMIC_ADD_U64_DEVICE(control + SENT, mix64(p[ID]));
    }
}

KERNEL crossing_unpack(GLOBAL const ulong* messages, GLOBAL ulong* fresh, GLOBAL ulong* control, ulong first,
                       ulong count, ulong base, ulong capacity) {
    FOR_EACH(i, count) {
        GLOBAL ulong* p = fresh + within(control, base + i, capacity) * WORDS;
        copy_to(p, messages + (first + i) * WORDS);
        ATOMIC_ADD_U64_DEVICE(control + RECEIVED, mix64(p[ID]));
    }
}

/* A sum over particles that depends on every bit of each, but not on their order. */
KERNEL crossing_digest(GLOBAL const ulong* census, GLOBAL ulong* control, ulong count) {
    FOR_EACH(i, count) {
        ulong sum = 0;
        for (uint w = 0; w < WORDS; ++w) sum = mix64(sum + census[i * WORDS + w]);
        ATOMIC_ADD_U64_DEVICE(control + DIGEST, sum);
    }
}
