// The CPU's side of a contended histogram.
#pragma once

#include <atomic>
#include <cstdint>

namespace firsttouch {

enum class Element : std::uint8_t { u64, f64 };

// One thread's progress, on its own cache lines.
struct alignas(128) Incrementer {
    static constexpr int step = 64;      // increments between two checks of the stop flag
    std::atomic<std::uint64_t> done{0};  // increments so far, stored after every step
};

// Atomically adds 1 to random elements of [0, count), count <= 2^31, until stop is set. Integers by fetch_add, doubles
// by compare and exchange until it holds; elements are drawn by minstd.
void increment_host(Element type, void* elements, std::uint64_t count, std::uint64_t seed,
                    const std::atomic<bool>& stop, Incrementer& self);

}  // namespace firsttouch
