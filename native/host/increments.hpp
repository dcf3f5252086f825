// The CPU's loop of the contended histogram.
#pragma once

#include <atomic>
#include <cstdint>

namespace firsttouch {

enum class Element : std::uint8_t { u64, f64 };

// The progress of one thread, on separate cache lines.
struct alignas(128) IncrementProgress {
    static constexpr int step = 64;      // increments between two checks of the stop flag
    std::atomic<std::uint64_t> done{0};  // increments so far, stored after every step
};

// Atomically adds 1 to random elements of [0, count), count <= 2^31, until `stop` is set: integers by fetch_add,
// doubles by a compare-and-exchange loop. std::minstd_rand chooses the elements.
void increment_host(Element type, void* elements, std::uint64_t count, std::uint64_t seed,
                    const std::atomic<bool>& stop, IncrementProgress& progress);

}  // namespace firsttouch
