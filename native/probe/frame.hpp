// A kernel that stores to a local variable of the function that launched it, as a program does that hands the address
// of one to an asynchronous call.
#pragma once

#include <cstdint>

#include "device/lab.hpp"

namespace firsttouch {

struct FrameStore {
    std::uint64_t seen = 0;         // the variable before its function returned
    std::uint64_t overwritten = 0;  // words of the next function's frame that the kernel's store changed
    std::uint64_t expected = 0;     // the number that the kernel stores
};

// wait: the function returns after the kernel. Otherwise it returns at once, and another function's local array takes
// the place of its frame before the kernel, which was queued behind other work, stores. Kernels of the device must
// reach plain host memory. Throws Unavailable if the array did not take the place of the variable.
FrameStore store_to_frame(Lab& lab, bool wait);

}  // namespace firsttouch
