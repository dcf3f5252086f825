// What the probes of several ranks share.
#pragma once

#include "comm/comm.hpp"
#include "comm/rank_buffer.hpp"

namespace firsttouch {

// Added to a request's seed for each repetition; what else a probe adds is less, but for `poison`, which marks targets.
constexpr std::uint64_t per_repetition = 0x10000, poison = 0x77;

// Operations, or messages, that are queued back to back are at least so many unless they take more than
// longest_repetitions: what starting and waiting cost once is then negligible.
constexpr int fewest_queued = 20;

}  // namespace firsttouch
