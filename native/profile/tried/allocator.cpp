#include "profile/tried/allocator.hpp"

#include <dlfcn.h>

#include "profile/tried/driver.hpp"

namespace firsttouch::tried {
namespace {

constinit thread_local bool is_searching __attribute__((tls_model("initial-exec"))) = false;

template <class Function>
void find(Function*& function, const char* name) {
    if (void* const found = next_dlsym(RTLD_NEXT, name); found != nullptr)
        function = reinterpret_cast<Function*>(found);
}

// Of the search itself, which the C library makes without memory if it gets none.
template <auto function, class... Parameters>
auto find_and_call(Parameters... parameters) -> decltype((next_allocator.*function)(parameters...)) {
    if (is_searching) return decltype((next_allocator.*function)(parameters...))();
    is_searching = true;
    Allocator& next = next_allocator;
    find(next.malloc, "malloc"), find(next.calloc, "calloc"), find(next.realloc, "realloc");
    find(next.memalign, "memalign"), find(next.aligned_alloc, "aligned_alloc"), find(next.free, "free");
    find(next.posix_memalign, "posix_memalign"), find(next.malloc_usable_size, "malloc_usable_size");
    is_searching = false;
    return (next_allocator.*function)(parameters...);
}

}  // namespace

constinit Allocator next_allocator = {
    .malloc = find_and_call<&Allocator::malloc>,
    .calloc = find_and_call<&Allocator::calloc>,
    .realloc = find_and_call<&Allocator::realloc>,
    .memalign = find_and_call<&Allocator::memalign>,
    .aligned_alloc = find_and_call<&Allocator::aligned_alloc>,
    .posix_memalign = find_and_call<&Allocator::posix_memalign>,
    .free = find_and_call<&Allocator::free>,
    .malloc_usable_size = find_and_call<&Allocator::malloc_usable_size>,
};

}  // namespace firsttouch::tried
