// Which memory probes use by both agents at once.
#pragma once

#include "device/allocator.hpp"

namespace firsttouch {

// Whether CPU and kernels may use memory at once and see each other's stores: the driver states so, or states nothing
// and both access it directly. In the second case the caller must know it, from `methods --verify`.
inline bool usable_at_once(const AllocatorInfo& entry) {
    return entry.concurrent.value_or(entry.cpu == Access::direct && entry.gpu == Access::direct);
}

}  // namespace firsttouch
