// Tests what both agents can do with one block of memory at the same time, regardless of what the driver states, and
// whether its pages migrate on access. Run it in a disposable process, which may crash. All kernels end by themselves.
#pragma once

#include <optional>

#include "device/lab.hpp"

namespace firsttouch {

// All four throw Unavailable if an agent cannot access the buffer by its address, and VendorError for driver errors.

// For each direction, with acquire and release at system scope: the number of different values of a word that the
// reader saw while the other agent kept storing to it. If both saw some, then round trips between the two.
struct Coherence {
    std::uint64_t gpu_saw = 0, cpu_saw = 0;
    std::uint64_t rounds = 0, answered = 0;
    double round_trip_ns = 0;  // the median
};
Coherence try_coherence(Lab& lab, const Buffer& buffer);

// Plain loads and stores of the GPU to one half and of one CPU thread to the other, then with the halves swapped.
struct Halves {
    std::uint64_t errors = 0;               // wrong words of both halves, both times
    double cpu_passes = 0, gpu_passes = 0;  // over a half while the kernel was queued or ran
    double seconds = 0;                     // of the kernels
};
Halves try_halves(Lab& lab, const Buffer& buffer);

// Both repeatedly add 1 to one word.
struct SharedAdds {
    std::uint64_t by_cpu = 0, by_gpu = 0, sum = 0;
    std::uint64_t mixed = 0;  // additions of the CPU that found the word changed since the one before
};
SharedAdds try_shared_adds(Lab& lab, const Buffer& buffer);

// The CPU writes everything, the GPU touches one word, then one in every page, then the CPU reads everything: which
// base pages the CPU's page tables hold each time. Throws Unavailable where they never show the buffer's pages.
struct Moves {
    std::size_t page_bytes = 0, pages = 0;
    std::size_t present = 0;                       // before the GPU's first touch
    std::size_t touched = 0;                       // the page with the one word
    std::size_t left_by_one = 0, left_by_all = 0;  // pages present before and no longer
    std::size_t region_first = 0, region = 0;      // the run of pages around `touched` that left with it
    std::size_t back = 0;                          // present after the CPU's read
    std::optional<int> node_before, node_by_all;   // NUMA node of most pages
    std::uint64_t errors = 0;
};
Moves try_moves(Lab& lab, const Buffer& buffer, std::uint64_t seed);

}  // namespace firsttouch
