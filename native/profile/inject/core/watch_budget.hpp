// How much of a run the watch of host data may take, and what it took.
#pragma once

#include <atomic>
#include <cstdint>

namespace firsttouch::inject {

// Not for several threads at once.
class WatchBudget {
  public:
    // When this process began, in nanoseconds of CLOCK_MONOTONIC.
    static std::uint64_t process_start();

    // percent: of the time since `began`, which counts as at least a second.
    WatchBudget(double percent, std::uint64_t began);

    // What runs between them is taken from it.
    void begin_step();
    void end_step() { spent_ns_ = spent_ns(); }
    // What the program itself takes longer.
    void spend(double ns) { spent_ns_ += ns; }

    bool affords(std::uint64_t time, double more_ns) const;
    // Whether no more than half of what the run permits so far is then spent. The rest is for looks whose time the
    // program sets.
    bool has_half(std::uint64_t time, double more_ns) const;
    // Something was not looked at, since that would take too much. If all is spent, the watch pauses.
    void leave_out(std::uint64_t time);
    // Whether nothing is to be looked at, which then is to take next to no time. May be asked by any thread.
    bool pauses(std::uint64_t time) const { return time < resumes_.load(std::memory_order_relaxed); }
    // Writes notices of what was left out, and if more was spent than is meant.
    void tell(std::uint64_t time) const;

    std::uint64_t began() const { return began_; }

  private:
    double spent_ns() const;
    double run_ns(std::uint64_t time) const { return time > began_ ? double(time - began_) : 0; }

    const double share_;
    const std::uint64_t began_;  // in nanoseconds of CLOCK_MONOTONIC
    double spent_ns_ = 0;        // before this step
    std::uint64_t step_began_ = 0;
    std::uint64_t left_out_ = 0, first_left_out_ = 0;
    std::atomic<std::uint64_t> resumes_{0};
};

}  // namespace firsttouch::inject
