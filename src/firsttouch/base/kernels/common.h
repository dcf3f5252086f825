/* Shared by all kernels: a counter-based random generator and keyed permutations. */

/* splitmix64's finaliser (Steele, Lea, Flood, OOPSLA 2014): a bijection of 64 bits. */
HELPER ulong mix64(ulong x) {
    x += 0x9E3779B97F4A7C15ul;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ul;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBul;
    return x ^ (x >> 31);
}

/* Word i of the pattern of a seed. Odd, so never zero. */
HELPER ulong pattern_word(ulong i, ulong seed) { return mix64(i ^ (seed << 40)) | 1ul; }

/* The image of i under a keyed permutation of [0, n), n <= 2^bits: odd multiplications and right shifts are bijections
   of `bits` bits, repeated until the image falls below n. */
HELPER ulong permute(ulong i, ulong n, uint bits, ulong key) {
    const ulong mask = (1ul << bits) - 1ul;
    const uint shift = bits / 2u + 1u;
    do {
        i = (i + key) & mask;
        i = (i * 0xD1342543DE82EF95ul) & mask;
        i ^= i >> shift;
        i = (i + (key >> 32)) & mask;
        i = (i * 0xAF251AF3B0F025B5ul) & mask;
        i ^= i >> shift;
        i = (i * 0xB564EF22EC7AECE5ul) & mask;
        i ^= i >> shift;
    } while (i >= n);
    return i;
}

/* The inverse of `permute`: the inverses of its steps in reverse order. The multipliers are inverses modulo 2^64. */
HELPER ulong unpermute(ulong i, ulong n, uint bits, ulong key) {
    const ulong mask = (1ul << bits) - 1ul;
    const uint shift = bits / 2u + 1u;
    do {
        i ^= i >> shift;
        i = (i * 0x553878199DECF0EDul) & mask;
        i ^= i >> shift;
        i = (i * 0xF14A71DAB161609Dul) & mask;
        i = (i - (key >> 32)) & mask;
        i ^= i >> shift;
        i = (i * 0x572B5EE77A54E3BDul) & mask;
        i = (i - key) & mask;
    } while (i >= n);
    return i;
}

/* Word i of the random stream of a key. Applications generate their data from it, so that any element can be
   regenerated. */
HELPER ulong random_word(ulong key, ulong i) { return mix64(key + i); }
/* Uniform in [low, high), by 24 bits. */
HELPER float random_f32(ulong key, ulong i, float low, float high) {
    return low + (high - low) * ((float)(uint)(random_word(key, i) >> 40) * 0x1p-24f);
}
/* Uniform in [0, 1), by 53 bits. */
HELPER double random_f64(ulong key, ulong i) { return (double)(random_word(key, i) >> 11) * 0x1p-53; }
/* Uniform integer in [0, n). */
HELPER uint random_below(ulong key, ulong i, uint n) { return (uint)(((random_word(key, i) >> 32) * (ulong)n) >> 32); }

/* 16 pseudo-random bits for each i. */
HELPER uint hash16(uint i, uint key) {
    const uint x = i * 0x9E3779B1u + key;
    return (x ^ x >> 15) * 0x85EBCA6Bu >> 16;
}

/* A permutation of [0, rows * 2^bits), rows <= 2^16, bits <= 16, selected by two random words. It has no branches, so
   that CPUs compute many images at once. Three rounds of a Feistel network (Luby, Rackoff, 1988): the row is increased
   by a hash of the column, the column by a hash of the row, and the row by a hash of the column. back: the inverse,
   which subtracts the hashes in reverse order. */
HELPER uint feistel(uint i, uint rows, uint bits, ulong a, ulong b, uint back) {
    const uint mask = (1u << bits) - 1u;
    uint row = i >> bits, column = i & mask;
    uint by = hash16(column, (uint)(back ? b : a)) * rows >> 16;
    row += back ? rows - by : by;
    row -= row < rows ? 0u : rows;
    by = hash16(row, (uint)(a >> 32));
    column = (back ? column - by : column + by) & mask;
    by = hash16(column, (uint)(back ? a : b)) * rows >> 16;
    row += back ? rows - by : by;
    row -= row < rows ? 0u : rows;
    return row << bits | column;
}

/* The sum of `mine` over a group of `threads` threads, a power of two, in part[0] of a SHARED array. The order of
   summation is always the same. */
#define GROUP_SUM(part, mine, threads)                                                                                 \
    (part)[LOCAL_ID] = (mine);                                                                                         \
    BARRIER();                                                                                                         \
    for (uint span = (threads) / 2; span > 0; span /= 2) {                                                             \
        if (LOCAL_ID < span) (part)[LOCAL_ID] += (part)[LOCAL_ID + span];                                              \
        BARRIER();                                                                                                     \
    }

/* Complex numbers as pairs of f32. c_turn(s, a) is s i a. */
HELPER f32x2 c_add(f32x2 a, f32x2 b) { return F32X2(a.x + b.x, a.y + b.y); }
HELPER f32x2 c_sub(f32x2 a, f32x2 b) { return F32X2(a.x - b.x, a.y - b.y); }
HELPER f32x2 c_mul(f32x2 a, f32x2 b) { return F32X2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
HELPER f32x2 c_scale(float s, f32x2 a) { return F32X2(s * a.x, s * a.y); }
HELPER f32x2 c_conj(f32x2 a) { return F32X2(a.x, -a.y); }
HELPER f32x2 c_turn(float s, f32x2 a) { return F32X2(-s * a.y, s * a.x); }
/* e^(sign 2 pi i k / 2^bits), bits <= 28. Multiples of a quarter turn are subtracted exactly; Taylor series give the
   rest. */
HELPER f32x2 c_root(float sign, ulong k, uint bits) {
    const uint n = 1u << bits, four = 4u * ((uint)k & (n - 1u)), quarters = (four + n / 2u) >> bits;
    const float a = (float)((int)four - (int)(quarters << bits)) * (1.5707963267948966f / (float)n), b = a * a;
    const float s = a + a * b * (-1.0f / 6 + b * (1.0f / 120 + b * (-1.0f / 5040 + b * (1.0f / 362880))));
    const float c = 1.0f + b * (-0.5f + b * (1.0f / 24 + b * (-1.0f / 720 + b * (1.0f / 40320))));
    const float x = quarters & 1u ? -s : c, y = quarters & 1u ? c : s;
    return quarters & 2u ? F32X2(-x, -sign * y) : F32X2(x, sign * y);
}
