// Which instruction first wrote a page after it was protected: page faults of this process, by the kernel's perf
// events.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>

#include "profile/page_tracker.hpp"
#include "profile/perf.hpp"

namespace firsttouch::inject {

// Not for several threads at once. The kernel's own writes, as in a system call that reads a file, are not told.
class WriteFaults {
  public:
    WriteFaults() noexcept;

    // Why nothing is told; '' if it is.
    const std::string& why_not() const { return why_not_; }
    // The first fault in one of some pages since a time, and the top of its thread's stack; null if none is known. The
    // pages must be in order.
    const FaultSample* first_in(std::span<const PageRange> pages, std::uint64_t since);

  private:
    std::unique_ptr<PerfEvents> events_;
    std::deque<FaultSample> samples_;  // in the order of time
    std::string why_not_;
};

}  // namespace firsttouch::inject
