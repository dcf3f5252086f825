// Tests what both agents can do with one block of memory at the same time, regardless of what the driver states, and
// whether its pages migrate on access. Run it in a disposable process, because it may crash. All kernels have a time
// limit.
#pragma once

#include <optional>

#include "device/lab.hpp"

namespace firsttouch {

// All four throw Unavailable if an agent cannot access the buffer by its address, and VendorError for driver errors.

// For each direction, with acquire and release at system scope: the number of times that the reader saw a word change
// while the other agent kept storing to it. If both agents saw changes, round trips between the two are measured too.
struct Coherence {
    std::uint64_t gpu_saw = 0, cpu_saw = 0;
    std::uint64_t rounds = 0, answered = 0;
    double round_trip_ns = 0;  // the median
};
Coherence try_coherence(Lab& lab, const Buffer& buffer);

// The GPU updates one half and one CPU thread the other, with plain loads and stores; then the halves are swapped.
struct Halves {
    std::uint64_t errors = 0;               // wrong words of both halves, in both arrangements
    double cpu_passes = 0, gpu_passes = 0;  // over a half while the kernel was queued or ran
    double seconds = 0;                     // of the kernels
};
Halves try_halves(Lab& lab, const Buffer& buffer);

// Both agents repeatedly add 1 to one word.
struct SharedAdds {
    std::uint64_t by_cpu = 0, by_gpu = 0, sum = 0;
    std::uint64_t mixed = 0;  // additions of the CPU before which the GPU had changed the word
};
SharedAdds try_shared_adds(Lab& lab, const Buffer& buffer);

// The CPU writes the buffer, the GPU touches one word, then one word of every page, and the CPU reads the buffer. After
// each step: which base pages are in the CPU's page tables. Throws Unavailable if they never show the buffer's pages.
struct Moves {
    std::size_t page_bytes = 0, pages = 0;
    std::size_t present = 0;                       // before the GPU's first touch
    std::size_t touched = 0;                       // the page with the one word
    std::size_t left_by_one = 0, left_by_all = 0;  // pages that were present before and are no longer
    std::size_t region_first = 0, region = 0;      // the contiguous pages around `touched` that left together
    std::size_t back = 0;                          // present after the CPU's read
    std::optional<int> node_before, node_by_all;   // NUMA node of most pages
    std::uint64_t errors = 0;
};
Moves try_moves(Lab& lab, const Buffer& buffer, std::uint64_t seed);

}  // namespace firsttouch
