// The host's clock and what it costs.
#pragma once

#include <chrono>

namespace firsttouch {

// Seconds on a monotonic clock.
inline double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds that one reading of the clock takes, measured once.
double clock_cost();

}  // namespace firsttouch
