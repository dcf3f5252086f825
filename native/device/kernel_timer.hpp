// Adds up the time of kernels on the device's clock, by a pair of events around each launch, replay or library call.
#pragma once

#include <memory>
#include <vector>

#include "device/device.hpp"

namespace firsttouch {

class KernelTimer {
  public:
    // Pairs whose times are not read yet. Events are made once and used again, because making one takes longer than
    // recording it. The bound matters only where the host is this many launches ahead of the device: begin() then waits
    // for the oldest pair, with all others still queued, so that the device does not run out of work. Below the bound
    // nothing is read before take(), which the caller calls outside of what it measures. Drivers queue about 1024
    // commands before they make the host wait, and the bound stays within that.
    static constexpr std::size_t most_pairs = 512;

    KernelTimer(Device& device, Stream& stream);
    KernelTimer(const KernelTimer&) = delete;
    KernelTimer& operator=(const KernelTimer&) = delete;

    // Record the events before and after a piece of work on the stream. Without end(), the next begin() replaces it.
    void begin();
    void end();
    // Waits for all pairs, and returns the sum of their seconds and the number of pairs since the last call.
    struct Total {
        double seconds = 0;
        std::size_t pairs = 0;
    };
    Total take();

  private:
    struct Pair {
        std::unique_ptr<Event> from, to;
    };
    void read_oldest();

    Device& device_;
    Stream& stream_;
    std::vector<Pair> pairs_;  // a ring: `unread_` pairs before `next_` are recorded and not read
    std::size_t next_ = 0, unread_ = 0;
    Total total_;
};

}  // namespace firsttouch
