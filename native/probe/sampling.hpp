// Stopping criterion and summary statistics of samples.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace firsttouch {

// Stops when the 95 % interval of the median lies within `tolerance` of it on both sides, or `seconds` are spent, or
// max_samples are taken; never before min_samples.
struct Stop {
    double tolerance = 0.03;
    double seconds = 1;
    int min_samples = 3;
    int max_samples = 1000;
    bool counted = false;  // for a profiler, which counts this one sample (Lab::timed_kernel, CountedRegion)
};

struct Samples {
    std::vector<double> values;
    std::string stopped_by;  // "precision", "time" or "count"
};

struct Statistics {
    int n = 0;
    double median = 0, p5 = 0, p95 = 0, min = 0, max = 0;
    double ci_low = 0, ci_high = 0;  // 95 % interval of the median by order statistics; for n < 6 the range
};

Statistics summarise(std::vector<double> values);

// Collects samples and decides after each whether to stop.
class Sampler {
  public:
    explicit Sampler(const Stop& stop);
    // Adds a value. Returns true if more are needed.
    bool add(double value);
    bool wants_more() const { return samples_.stopped_by.empty(); }
    Samples finish() { return std::move(samples_); }

  private:
    Stop stop_;
    double start_;
    std::size_t next_check_ = 6;
    Samples samples_;
};

// Of `wanted` repetitions, each of which takes `seconds`, as many as take no longer than longest_repetitions.
constexpr double longest_repetitions = 0.25;
inline int affordable(int wanted, double seconds) {
    return static_cast<int>(std::min<double>(wanted, longest_repetitions / std::max(seconds, 1e-12)));
}

// The number of repetitions of `seconds(n)` that take at least `least` seconds, and at least `fewest` if so many are
// affordable. A count is taken only if it takes long enough twice: one call that was held up, by another program or
// the first use of something, would leave too few for the cost of starting and waiting to be negligible.
template <class Seconds>
int repetitions(Seconds&& seconds, double least, int fewest = 1) {
    int times = 1;
    double taken = 0;
    for (;; times *= 2) {
        taken = seconds(times);
        if (taken >= least) taken = std::min(taken, static_cast<double>(seconds(times)));
        if (taken >= least || times >= 10'000) break;
    }
    return std::max(times, affordable(fewest, taken / times));
}

// Samples what `measure` returns until the criterion is met.
template <class Measure>
Samples sample(const Stop& stop, Measure&& measure) {
    Sampler sampler(stop);
    while (sampler.add(measure())) {
    }
    return sampler.finish();
}

}  // namespace firsttouch
