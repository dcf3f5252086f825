/* A state vector of 2^n complex f32. A vector holds two amplitudes, of states that differ in qubit 0. */

KERNEL zero_state(GLOBAL f32x4* state, ulong vectors) {
    FOR_EACH(i, vectors) state[i] = F32X4(i == 0 ? 1.0f : 0.0f, 0.0f, 0.0f, 0.0f);
}

/* Number i with zeros inserted as bits lo < hi. */
HELPER ulong spread(ulong i, uint lo, uint hi) {
    const ulong low = i & ((1ul << lo) - 1ul), rest = (i - low) << 1, middle = rest & ((1ul << hi) - 1ul);
    return low + middle + ((rest - middle) << 1);
}

#define SWAP(a, b)                                                                                                     \
    {                                                                                                                  \
        const float held = a;                                                                                          \
        a = b;                                                                                                         \
        b = held;                                                                                                      \
    }
/* Swaps the second amplitude of p with the first of q. */
#define CROSS(p, q)                                                                                                    \
    SWAP(p.z, q.x)                                                                                                     \
    SWAP(p.w, q.y)

/* Applies gate `gate` or its inverse, a row-major 4 x 4 matrix, to qubits lo < hi. The row is 2 hi + lo. Each of
   `items` items handles two sets of four amplitudes. With lo = 0, a vector holds both amplitudes of a pair, so vectors
   are regrouped by CROSS. */
KERNEL apply_gate(GLOBAL f32x4* state, GLOBAL const f32x2* gates, ulong gate, ulong items, uint lo, uint hi,
                  int inverse) {
    f32x2 u[4][4];
    UNROLLED
    for (int k = 0; k < 16; ++k) {
        const f32x2 element = gates[16 * gate + (inverse ? k % 4 * 4 + k / 4 : k)];
        u[k / 4][k % 4] = F32X2(element.x, inverse ? -element.y : element.y);
    }
    FOR_EACH(i, items) {
        const ulong first = spread(2 * i, lo, hi) / 2, far = 1ul << (hi - 1);
        const ulong second = lo == 0 ? spread(2 * i + 1, lo, hi) / 2 : first + (1ul << (lo - 1));
        f32x4 before[4] = {state[first], state[second], state[first + far], state[second + far]}, after[4];
        if (lo == 0) {
            CROSS(before[0], before[1])
            CROSS(before[2], before[3])
        }
        UNROLLED
        for (int row = 0; row < 4; ++row) {
            f32x4 sum = F32X4(0.0f, 0.0f, 0.0f, 0.0f);
            UNROLLED
            for (int k = 0; k < 4; ++k) {
                const f32x2 by = u[row][k];
                const f32x4 z = before[k];
                sum.x += by.x * z.x - by.y * z.y;
                sum.y += by.x * z.y + by.y * z.x;
                sum.z += by.x * z.z - by.y * z.w;
                sum.w += by.x * z.w + by.y * z.z;
            }
            after[row] = sum;
        }
        if (lo == 0) {
            CROSS(after[0], after[1])
            CROSS(after[2], after[3])
        }
        state[first] = after[0];
        state[second] = after[1];
        state[first + far] = after[2];
        state[second + far] = after[3];
    }
}

/* The same for the check, one set of four amplitudes at a time, by other code. Gate 0 is applied to the first state. */
KERNEL simple_gate(GLOBAL float* state, GLOBAL const float* gates, ulong gate, ulong sets, uint lo, uint hi) {
    const ulong bits[2] = {1ul << lo, 1ul << hi};
    FOR_EACH(i, sets) {
        const ulong below = i % bits[0], above = i / bits[0], span = bits[1] / bits[0] / 2;
        const ulong origin = below + above % span * 2 * bits[0] + above / span * 2 * bits[1];
        float before[4][2];
        for (uint k = 0; k < 4; ++k) {
            const ulong at = origin + (k & 1 ? bits[0] : 0ul) + (k & 2 ? bits[1] : 0ul);
            before[k][0] = gate > 0 ? state[2 * at] : (at == 0 ? 1.0f : 0.0f);
            before[k][1] = gate > 0 ? state[2 * at + 1] : 0.0f;
        }
        for (uint row = 0; row < 4; ++row) {
            const ulong at = origin + (row & 1 ? bits[0] : 0ul) + (row & 2 ? bits[1] : 0ul);
            float re = 0.0f, im = 0.0f;
            for (uint k = 0; k < 4; ++k) {
                const float a = gates[32 * gate + 8 * row + 2 * k], b = gates[32 * gate + 8 * row + 2 * k + 1];
                re += a * before[k][0] - b * before[k][1];
                im += a * before[k][1] + b * before[k][0];
            }
            state[2 * at] = re;
            state[2 * at + 1] = im;
        }
    }
}
