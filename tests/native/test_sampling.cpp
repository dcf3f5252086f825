#include "probe/sampling.hpp"

#include <numeric>
#include <utility>

#include "host/clock.hpp"
#include "support.hpp"

namespace firsttouch {
namespace {

std::vector<double> ranks(int n) {
    std::vector<double> values(static_cast<std::size_t>(n));
    std::iota(values.rbegin(), values.rend(), 1);  // descending: summarise sorts
    return values;
}

// Ranks of the 95 % interval of the median: 1.96 sqrt(n) / 2 on either side of the middle, rounded outwards, which is
// never narrower than the exact binomial interval (n = 10: 2 and 9; n = 20: 6 and 15; n = 100: 40 and 61).
TEST(Summary, IntervalOfTheMedianContainsTheExactRanks) {
    const struct {
        int n, low, high;
    } exact[] = {{6, 1, 6}, {10, 2, 9}, {20, 6, 15}, {50, 18, 33}, {100, 40, 61}, {1000, 469, 532}};
    for (const auto& row : exact) {
        const Statistics s = summarise(ranks(row.n));
        EXPECT_EQ(s.n, row.n);
        EXPECT_LE(s.ci_low, row.low) << row.n;
        EXPECT_GE(s.ci_high, row.high) << row.n;
        EXPECT_GE(s.ci_low, row.low - 1) << row.n;
        EXPECT_LE(s.ci_high, row.high + 1) << row.n;
    }
}

TEST(Summary, TheIntervalOfFewSamplesIsTheirRange) {
    for (int n = 1; n < 6; ++n) {
        const Statistics s = summarise(ranks(n));
        EXPECT_EQ(s.ci_low, 1);
        EXPECT_EQ(s.ci_high, n);
    }
    EXPECT_EQ(summarise({}).n, 0);
}

TEST(Summary, Quantiles) {
    const Statistics s = summarise(ranks(101));
    EXPECT_EQ(s.median, 51);
    EXPECT_EQ(s.p5, 6);
    EXPECT_EQ(s.p95, 96);
    EXPECT_EQ(s.min, 1);
    EXPECT_EQ(s.max, 101);
    EXPECT_EQ(summarise({1, 2}).median, 1.5);
}

TEST(Sampling, StopsByPrecisionOnceTheIntervalIsNarrow) {
    const Samples s = sample(Stop{.tolerance = 0.01, .seconds = 60}, [] { return 5.0; });
    EXPECT_EQ(s.stopped_by, "precision");
    EXPECT_EQ(s.values.size(), 6u);
}

TEST(Sampling, ContinuesWhileTheIntervalIsWide) {
    int i = 0;
    const Stop stop{.tolerance = 0.05, .seconds = 60, .max_samples = 5000};
    const Samples s = sample(stop, [&] { return 100 + (i++ * 37) % 101 - 50.0; });
    EXPECT_EQ(s.stopped_by, "precision");
    EXPECT_GT(s.values.size(), 100u);
    const Statistics statistics = summarise(s.values);
    EXPECT_LE(statistics.ci_high - statistics.median, 0.05 * statistics.median);
    EXPECT_LE(statistics.median - statistics.ci_low, 0.05 * statistics.median);
}

TEST(Sampling, StopsByCountAndByTime) {
    int i = 0;
    const auto noise = [&] { return i++ % 2 == 0 ? 1.0 : 100.0; };
    const Samples counted = sample(Stop{.tolerance = 0, .seconds = 60, .max_samples = 40}, noise);
    EXPECT_EQ(counted.stopped_by, "count");
    EXPECT_EQ(counted.values.size(), 40u);
    const Samples timed = sample(Stop{.tolerance = 0, .seconds = 0.01, .max_samples = 1 << 30}, [&] {
        usleep(1000);
        return noise();
    });
    EXPECT_EQ(timed.stopped_by, "time");
    EXPECT_LE(timed.values.size(), 11u);
}

TEST(Sampling, TakesTheMinimumOfSamplesEvenWithoutTime) {
    const Samples s = sample(Stop{.tolerance = 0, .seconds = 0, .min_samples = 7}, [] { return 1.0; });
    EXPECT_GE(s.values.size(), 7u);
}

TEST(Repetitions, OneCallThatWasHeldUpDoesNotDecide) {
    for (const int held_up : {1, 4, 32}) {
        bool before = false;
        const auto seconds = [&](int times) {
            return times == held_up && !std::exchange(before, true) ? 1 : times * 1e-6;
        };
        EXPECT_EQ(repetitions(seconds, 100e-6), 128) << held_up;
    }
}

TEST(Repetitions, AreAtLeastTheFewestUnlessTheseTakeTooLong) {
    const auto of = [](double one) { return repetitions([one](int times) { return times * one; }, 1e-3, 20); };
    EXPECT_EQ(of(1e-6), 1024);
    EXPECT_EQ(of(3e-3), 20);
    EXPECT_EQ(of(0.05), 5);
    EXPECT_EQ(of(2), 1);
}

TEST(Clock, IsCheapAndAdvances) {
    EXPECT_GT(clock_cost(), 0);
    EXPECT_LT(clock_cost(), 1e-4);
    const double start = now();
    usleep(2000);
    EXPECT_GE(now() - start, 0.0019);
}

}  // namespace
}  // namespace firsttouch
