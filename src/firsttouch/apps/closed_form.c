/* The check of black_scholes on all processors: its formula in f64, from regenerated inputs.

   The largest error of a price in f32 follows from that of each tail of the normal distribution. The series has terms
   five times its value, so that its roundings add up to 15 units of 2^-24; the fast exponential and the products add
   9, and 1.2 d^2 as its argument is rounded; d itself has an error of 2 units, times d^2. (An error that is common to
   d1 and d2 cancels in a price, because spot and later have the same density there.) */
#define RATE 0.02
#define VOLATILITY 0.30
#define UNIT 0x1p-24
#define NEAR_ONE (8 * UNIT) /* relative error where 1 - tail is used: of it, its products, and the exponential in later */
#define SUBNORMAL 1e-35     /* absolute error where f32 underflows */

/* N(-|d|) by Abramowitz and Stegun, 26.2.17. */
HELPER double tail(double d) {
    const double k = 1 / (1 + 0.2316419 * ABS_F64(d));
    const double series =
        k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))));
    return 0.3989422804014327 * EXP_F64(-d * d / 2) * series;
}

HELPER double tail_error(double d, double tail) { return UNIT * tail * (24 + 4 * d * d); }

/* Adds to `wrong` the number of calls and puts that are not within the error of f32. */
KERNEL wrong_prices(GLOBAL const float* call, GLOBAL const float* put, GLOBAL ulong* wrong, ulong n, ulong spot_key,
                    float spot_low, float spot_high, ulong strike_key, float strike_low, float strike_high,
                    ulong years_key, float years_low, float years_high) {
    ulong mine = 0;
    FOR_EACH(i, n) {
        const double spot = random_f32(spot_key, i, spot_low, spot_high);
        const double strike = random_f32(strike_key, i, strike_low, strike_high);
        const double years = random_f32(years_key, i, years_low, years_high);
        const double spread = VOLATILITY * SQRT_F64(years);
        const double d1 = (LOG_F64(spot / strike) + (RATE + VOLATILITY * VOLATILITY / 2) * years) / spread;
        const double d2 = d1 - spread, later = strike * EXP_F64(-RATE * years);
        const double tail1 = tail(d1), tail2 = tail(d2);
        const double n1 = d1 > 0 ? 1 - tail1 : tail1, n2 = d2 > 0 ? 1 - tail2 : tail2;
        const double of_tails = spot * tail_error(d1, tail1) + later * tail_error(d2, tail2) + SUBNORMAL;
        const double of_call = NEAR_ONE * ((d1 > 0 ? spot : 0) + (d2 > 0 ? later : 0));
        const double call_error = ABS_F64(call[i] - (spot * n1 - later * n2));
        const double put_error = ABS_F64(put[i] - (later * (1 - n2) - spot * (1 - n1)));
        mine += !(call_error <= of_tails + of_call);
        mine += !(put_error <= of_tails + NEAR_ONE * (spot + later));
    }
    ATOMIC_ADD_U64_DEVICE(wrong, mine);
}
