// The allocator behind this library: the C library's, or another that the program links or preloads.
#pragma once

#include <cstddef>

namespace firsttouch::tried {

struct Allocator {
    void* (*malloc)(std::size_t);
    void* (*calloc)(std::size_t, std::size_t);
    void* (*realloc)(void*, std::size_t);
    void* (*memalign)(std::size_t, std::size_t);
    void* (*aligned_alloc)(std::size_t, std::size_t);
    int (*posix_memalign)(void**, std::size_t, std::size_t);
    void (*free)(void*);
    std::size_t (*malloc_usable_size)(void*);
};
extern constinit Allocator next_allocator;  // its functions are found at the first call

}  // namespace firsttouch::tried
