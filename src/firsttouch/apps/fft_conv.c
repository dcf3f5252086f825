/* 2-D convolution by Fourier transforms of side x side, a power of two. Real rows are transformed as `half` = side / 2
   complex numbers (even and odd columns), from which the half spectrum of the real data is unpacked.

   The transforms of fft.c leave a dimension of 2^bits in split order: frequency f is at place (f mod 2^split) 2^(bits -
   split) + (f >> split). The order of a library is natural: split 0. */
#define TAPS_DOWN 7
#define TAPS_ACROSS 6
#define CENTRE_Y 3
#define CENTRE_X 4

HELPER ulong place(ulong f, uint bits, uint split) {
    return ((f & ((1ul << split) - 1ul)) << (bits - split)) | (f >> split);
}
HELPER ulong border(ulong i, ulong n, ulong after) { return i < n ? i : i < n + after ? n - 1ul : 0ul; }

KERNEL fill_digits(GLOBAL float* p, ulong n, ulong key) { FOR_EACH(i, n) p[i] = (float)random_below(key, i, 16); }

/* Pads the data: repeats the last row and column for the taps beyond them, and the first ones for the taps before
   them. */
KERNEL pad_data(GLOBAL const float* data, GLOBAL f32x4* padded, ulong n, uint bits) {
    FOR_EACH(i, 1ul << (2 * bits - 2)) {
        const ulong x = (4 * i) & ((1ul << bits) - 1ul);
        GLOBAL const float* row = data + border((4 * i) >> bits, n, CENTRE_Y) * n;
        padded[i] = F32X4(row[border(x, n, CENTRE_X)], row[border(x + 1, n, CENTRE_X)], row[border(x + 2, n, CENTRE_X)],
                          row[border(x + 3, n, CENTRE_X)]);
    }
}

/* Pads the taps. Their centre is at (0, 0), and they wrap around the borders. */
KERNEL pad_taps(GLOBAL const float* taps, GLOBAL float* padded, uint bits) {
    const ulong last = (1ul << bits) - 1ul;
    FOR_EACH(i, 1ul << (2 * bits)) {
        const ulong y = ((i >> bits) + CENTRE_Y) & last, x = (i + CENTRE_X) & last;
        padded[i] = y < TAPS_DOWN && x < TAPS_ACROSS ? taps[y * TAPS_ACROSS + x] : 0.0f;
    }
}

KERNEL multiply(GLOBAL f32x4* a, GLOBAL const f32x4* b, ulong pairs, float scale) {
    FOR_EACH(i, pairs) {
        const f32x4 p = a[i], q = b[i];
        const f32x2 first = c_mul(F32X2(p.x, p.y), F32X2(q.x, q.y)), second = c_mul(F32X2(p.z, p.w), F32X2(q.z, q.w));
        a[i] = F32X4(scale * first.x, scale * first.y, scale * second.x, scale * second.y);
    }
}

/* Item i of (side / 2 + 1) half: a frequency (ky, kx), its place, and the place of its negative. Each pair has one
   item. */
#define PAIRS(bits) (((1ul << ((bits)-1)) + 1ul) << ((bits)-1))
#define PAIR(i)                                                                                                        \
    const ulong half_side = 1ul << (bits - 1), ky = (i) >> (bits - 1), x = (i) & (half_side - 1ul);                    \
    const ulong kx = place(x, bits - 1, bits - 1 - split_x), other_kx = (half_side - kx) & (half_side - 1ul);          \
    const ulong other_ky = (2 * half_side - ky) & (2 * half_side - 1ul), y = place(ky, bits, split_y);                 \
    if (ky == other_ky && kx > other_kx) continue;                                                                     \
    const ulong other_y = place(other_ky, bits, split_y), other_x = place(other_kx, bits - 1, split_x);                \
    const f32x2 w = c_root(-1.0f, kx, bits);
/* From packed z at the frequency and at its negative, UNPACK computes a = X(ky, kx) and b = conj X(-ky, half - kx).
   REPACK is the inverse. */
#define UNPACK(a, b, z, other)                                                                                         \
    const f32x2 a##_even = c_scale(0.5f, c_add(z, c_conj(other)));                                                     \
    const f32x2 a##_odd = c_mul(w, c_turn(-0.5f, c_sub(z, c_conj(other))));                                            \
    const f32x2 a = c_add(a##_even, a##_odd), b = c_sub(a##_even, a##_odd);
#define REPACK(z, other, a, b)                                                                                         \
    const f32x2 even = c_scale(0.5f, c_add(a, b)), odd = c_turn(0.5f, c_mul(c_conj(w), c_sub(a, b)));                  \
    z = c_add(even, odd);                                                                                              \
    other = c_conj(c_sub(even, odd));

KERNEL unpack(GLOBAL const f32x2* from, GLOBAL f32x2* to, ulong from_pitch, ulong to_pitch, uint bits, uint split_y,
              uint split_x) {
    FOR_EACH(i, PAIRS(bits)) {
        PAIR(i)
        UNPACK(a, b, from[y * from_pitch + x], from[other_y * from_pitch + other_x])
        to[y * to_pitch + x] = a;
        to[other_y * to_pitch + other_x] = c_conj(kx == 0 ? a : b);
        if (kx == 0) {
            to[y * to_pitch + half_side] = b;
            to[other_y * to_pitch + half_side] = c_conj(b);
        }
    }
}

KERNEL repack(GLOBAL const f32x2* from, GLOBAL f32x2* to, ulong from_pitch, ulong to_pitch, uint bits, uint split_y,
              uint split_x) {
    FOR_EACH(i, PAIRS(bits)) {
        PAIR(i)
        const f32x2 a = from[y * from_pitch + x];
        const f32x2 b = c_conj(from[other_y * from_pitch + (kx == 0 ? half_side : other_x)]);
        REPACK(to[y * to_pitch + x], to[other_y * to_pitch + other_x], a, b)
    }
}

/* Unpacks both spectra, multiplies them and packs the product, in place. */
KERNEL convolve(GLOBAL f32x2* data, GLOBAL const f32x2* taps, uint bits, uint split_y, uint split_x, float scale) {
    FOR_EACH(i, PAIRS(bits)) {
        PAIR(i)
        const ulong at = (y << (bits - 1)) + x, other_at = (other_y << (bits - 1)) + other_x;
        UNPACK(a, b, data[at], data[other_at])
        UNPACK(c, d, taps[at], taps[other_at])
        const f32x2 ac = c_scale(scale, c_mul(a, c)), bd = c_scale(scale, c_mul(b, d));
        REPACK(data[at], data[other_at], ac, bd)
    }
}
