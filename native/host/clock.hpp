// The host's clock and its overhead.
#pragma once

#include <chrono>

namespace firsttouch {

// Returns seconds on a monotonic clock.
inline double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the seconds that one call of now() takes. Measured at the first call.
double clock_cost();

}  // namespace firsttouch
