/* 2-D convolution by Fourier transforms of side x side, below 2^17. Real rows are transformed as `half` = side / 2
   complex numbers (even and odd columns), from which the half spectrum of the real data is unpacked.

   A dimension of odd 2^bits is transformed by fft_odd and fft.c, which leave it in split order: frequency f is in block f
   mod odd, and there, with h = f / odd, at place (h mod 2^split) 2^(bits - split) + (h >> split). The order of a library
   is natural: odd 1, split 0, and more bits than the side has. */
#define TAPS_DOWN 7
#define TAPS_ACROSS 6
#define CENTRE_Y 3
#define CENTRE_X 4

#define MOST_ODD 63

HELPER uint in_block(uint f, uint bits, uint split) {
    return ((f & ((1u << split) - 1u)) << (bits - split)) | (f >> split);
}
HELPER uint place(uint f, uint odd, uint bits, uint split) {
    return ((f % odd) << bits) + in_block(f / odd, bits, split);
}
HELPER uint frequency(uint at, uint odd, uint bits, uint split) {
    return odd * in_block(at & ((1u << bits) - 1u), bits, bits - split) + (at >> bits);
}

/* The root of unity exp(sign 2 pi i k / n), k < n < 2^30: as c_root, for any n. */
HELPER f32x2 c_root_of(float sign, uint k, uint n) {
    const uint four = 4u * k, quarters = (four + n / 2u) / n;
    const float a = (float)((int)four - (int)(quarters * n)) * (1.5707963267948966f / (float)n), b = a * a;
    const float s = a + a * b * (-1.0f / 6 + b * (1.0f / 120 + b * (-1.0f / 5040 + b * (1.0f / 362880))));
    const float c = 1.0f + b * (-0.5f + b * (1.0f / 24 + b * (-1.0f / 720 + b * (1.0f / 40320))));
    const float x = quarters & 1u ? -s : c, y = quarters & 1u ? c : s;
    return quarters & 2u ? F32X2(-x, -sign * y) : F32X2(x, sign * y);
}

/* Transforms `odd` points, which are `step` apart: those of item i begin at (i / c) outer + i mod c. With j = i / c
   (turned 1) or i mod c (turned 2), element q of an item is multiplied by the root of j q of all odd 2^bits points: after
   a forward transform, before a backward one. */
KERNEL fft_odd(GLOBAL const f32x2* from, GLOBAL f32x2* to, ulong outer_from, ulong outer_to, ulong step, uint c,
               ulong items, uint odd, uint turned, uint bits, float sign) {
    FOR_EACH(i, items) {
        const uint a = (uint)(i / c), b = (uint)(i % c), j = turned == 1 ? a : b, n = odd << bits;
        GLOBAL const f32x2* p = from + a * outer_from + b;
        GLOBAL f32x2* r = to + a * outer_to + b;
        f32x2 v[MOST_ODD];
        for (uint q = 0; q < odd; ++q) {
            const f32x2 given = p[q * step];
            v[q] = sign > 0.0f ? c_mul(given, c_root_of(sign, j * q % n, n)) : given;
        }
        for (uint q = 0; q < odd; ++q) {
            f32x2 sum = v[0];
            for (uint k = 1; k < odd; ++k) sum = c_add(sum, c_mul(v[k], c_root_of(sign, k * q % odd, odd)));
            r[q * step] = sign < 0.0f ? c_mul(sum, c_root_of(sign, j * q % n, n)) : sum;
        }
    }
}

HELPER ulong border(ulong i, ulong n, ulong after) { return i < n ? i : i < n + after ? n - 1ul : 0ul; }

KERNEL fill_digits(GLOBAL float* p, ulong n, ulong key) { FOR_EACH(i, n) p[i] = (float)random_below(key, i, 16); }

/* Pads the data: repeats the last row and column for the taps beyond them, and the first ones for the taps before
   them. */
KERNEL pad_data(GLOBAL const float* data, GLOBAL f32x4* padded, ulong n, uint side) {
    FOR_EACH(i, (ulong)side * side / 4) {
        const uint y = (uint)i / (side / 4), x = 4 * ((uint)i % (side / 4));
        GLOBAL const float* row = data + border(y, n, CENTRE_Y) * n;
        padded[i] = F32X4(row[border(x, n, CENTRE_X)], row[border(x + 1, n, CENTRE_X)], row[border(x + 2, n, CENTRE_X)],
                          row[border(x + 3, n, CENTRE_X)]);
    }
}

/* Pads the taps. Their centre is at (0, 0), and they wrap around the borders. */
KERNEL pad_taps(GLOBAL const float* taps, GLOBAL float* padded, uint side) {
    FOR_EACH(i, (ulong)side * side) {
        const uint y = (uint)(i / side + CENTRE_Y) % side, x = (uint)(i % side + CENTRE_X) % side;
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
#define PAIRS(side) (((side) / 2 + 1ul) * ((side) / 2))
#define PAIR(i)                                                                                                        \
    const uint half_side = side / 2, ky = (uint)(i) / half_side, at_x = (uint)(i) % half_side;                         \
    const uint kx = frequency(at_x, odd, bits - 1, split_x), other_kx = kx ? half_side - kx : 0u;                      \
    const uint other_ky = ky ? side - ky : 0u;                                                                         \
    if (ky == other_ky && kx > other_kx) continue;                                                                     \
    const ulong x = at_x, y = place(ky, odd, bits, split_y), other_y = place(other_ky, odd, bits, split_y);            \
    const ulong other_x = place(other_kx, odd, bits - 1, split_x);                                                     \
    const f32x2 w = c_root_of(-1.0f, kx, side);
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

KERNEL unpack(GLOBAL const f32x2* from, GLOBAL f32x2* to, ulong from_pitch, ulong to_pitch, uint side, uint odd,
              uint bits, uint split_y, uint split_x) {
    FOR_EACH(i, PAIRS(side)) {
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

KERNEL repack(GLOBAL const f32x2* from, GLOBAL f32x2* to, ulong from_pitch, ulong to_pitch, uint side, uint odd,
              uint bits, uint split_y, uint split_x) {
    FOR_EACH(i, PAIRS(side)) {
        PAIR(i)
        const f32x2 a = from[y * from_pitch + x];
        const f32x2 b = c_conj(from[other_y * from_pitch + (kx == 0 ? half_side : other_x)]);
        REPACK(to[y * to_pitch + x], to[other_y * to_pitch + other_x], a, b)
    }
}

/* Unpacks both spectra, multiplies them and packs the product, in place. */
KERNEL convolve(GLOBAL f32x2* data, GLOBAL const f32x2* taps, uint side, uint odd, uint bits, uint split_y,
                uint split_x, float scale) {
    FOR_EACH(i, PAIRS(side)) {
        PAIR(i)
        const ulong at = y * half_side + x, other_at = other_y * half_side + other_x;
        UNPACK(a, b, data[at], data[other_at])
        UNPACK(c, d, taps[at], taps[other_at])
        const f32x2 ac = c_scale(scale, c_mul(a, c)), bd = c_scale(scale, c_mul(b, d));
        REPACK(data[at], data[other_at], ac, bd)
    }
}
