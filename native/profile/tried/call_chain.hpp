#pragma once

#include <cstdint>

namespace firsttouch::tried {

enum class Role : std::uint64_t { block = 0, array = 1, page_locked = 2, resized = 3, query = 4 };

// The key of the allocation, or the query of memory, that is made now: a hash of its callers, by the names of their
// files and the offsets in them, its size and, of an allocation, the thread's number. 0 if the driver or a profiler
// makes it for itself.
std::uint64_t key_of_this_call(std::uint64_t bytes, Role role);

// Whether the thread has such an allocation already, by the first of which threads are numbered.
bool is_this_thread_numbered();

}  // namespace firsttouch::tried
