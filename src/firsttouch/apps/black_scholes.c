/* black_scholes: European calls and puts in closed form (Black and Scholes 1973), at a rate of 2 % and a volatility
   of 30 % a year:
   d1 = (ln(S / X) + (R + V^2 / 2) T) / (V sqrt(T)), d2 = d1 - V sqrt(T),
   call = S N(d1) - X e^(-R T) N(d2), put = X e^(-R T) (1 - N(d2)) - S (1 - N(d1)). */
#define RATE 0.02f
#define VOLATILITY 0.30f

/* The cumulative normal distribution (Abramowitz and Stegun, 26.2.17). */
HELPER float normal(float d) {
    const float k = FAST_DIVIDE_F32(1.0f, 1.0f + 0.2316419f * ABS_F32(d));
    const float series =
        k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
    const float tail = 0.3989422804f * FAST_EXP_F32(-0.5f * d * d) * series;
    return d > 0.0f ? 1.0f - tail : tail;
}

/* Call and put of one option. */
HELPER f32x2 price(float spot, float strike, float years) {
    const float spread = VOLATILITY * years * FAST_RSQRT_F32(years);
    const float drift = (RATE + 0.5f * VOLATILITY * VOLATILITY) * years;
    const float d1 = FAST_DIVIDE_F32(FAST_LOG_F32(FAST_DIVIDE_F32(spot, strike)) + drift, spread);
    const float n1 = normal(d1), n2 = normal(d1 - spread);
    const float later = strike * FAST_EXP_F32(-RATE * years);
    return F32X2(spot * n1 - later * n2, later * (1.0f - n2) - spot * (1.0f - n1));
}

/* Prices n options from `offset` on, a multiple of 4: four at a time, and the remaining ones one by one. */
KERNEL black_scholes(GLOBAL const float* spot, GLOBAL const float* strike, GLOBAL const float* years,
                     GLOBAL float* call, GLOBAL float* put, ulong offset, ulong n) {
    FOR_EACH(i, n / 4) {
        const ulong at = offset / 4 + i;
        const f32x4 s = ((GLOBAL const f32x4*)spot)[at], x = ((GLOBAL const f32x4*)strike)[at];
        const f32x4 t = ((GLOBAL const f32x4*)years)[at];
        const f32x2 a = price(s.x, x.x, t.x), b = price(s.y, x.y, t.y);
        const f32x2 c = price(s.z, x.z, t.z), d = price(s.w, x.w, t.w);
        ((GLOBAL f32x4*)call)[at] = F32X4(a.x, b.x, c.x, d.x);
        ((GLOBAL f32x4*)put)[at] = F32X4(a.y, b.y, c.y, d.y);
    }
    FOR_EACH(rest, n % 4) {
        const ulong at = offset + n / 4 * 4 + rest;
        const f32x2 both = price(spot[at], strike[at], years[at]);
        call[at] = both.x;
        put[at] = both.y;
    }
}
