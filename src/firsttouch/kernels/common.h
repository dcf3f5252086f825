/* Shared by all kernels: a counter-based generator and the permutation that cycles are made of. */

/* splitmix64's finaliser (Steele, Lea, Flood, OOPSLA 2014): a bijection of 64 bits. */
HELPER ulong mix64(ulong x) {
    x += 0x9E3779B97F4A7C15ul;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ul;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBul;
    return x ^ (x >> 31);
}

/* Word i of the pattern that a seed names. Odd, so never zero. */
HELPER ulong pattern_word(ulong i, ulong seed) { return mix64(i ^ (seed << 40)) | 1ul; }

/* Where i goes under a keyed permutation of [0, n), n <= 2^bits: odd multiplications and right shifts are bijections
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
