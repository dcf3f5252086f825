// The part of a process that a profiler of the CPU counts.
#pragma once

#include <string>

namespace firsttouch {

// Turns counting on, and off again at its end, in a `perf stat` that was started with --control and --delay -1.
// FIRSTTOUCH_COUNTERS_CONTROL names its two pipes as "CONTROL,ACKNOWLEDGE". Does nothing if `counted` is false or the
// variable is not set. Throws std::system_error if the profiler does not answer.
class CountedRegion {
  public:
    explicit CountedRegion(bool counted);
    CountedRegion(const CountedRegion&) = delete;
    CountedRegion& operator=(const CountedRegion&) = delete;
    ~CountedRegion();

  private:
    void send(const std::string& command) const;

    int control_ = -1, acknowledge_ = -1;
};

}  // namespace firsttouch
