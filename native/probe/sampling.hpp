// Stopping criterion and summary statistics of samples.
#pragma once

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

// The number of repetitions of `seconds(n)` that take at least `least` seconds.
template <class Seconds>
int repetitions(Seconds&& seconds, double least) {
    int times = 1;
    while (times < 10'000 && seconds(times) < least) times *= 2;
    return times;
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
