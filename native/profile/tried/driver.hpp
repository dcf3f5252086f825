#pragma once

#include <algorithm>
#include <atomic>

#include "profile/tried/tried.hpp"

namespace firsttouch::tried {

// The C library's own function, for which this library has another.
void* next_dlsym(void* handle, const char* name);

// A function of the driver by its exported name; null if it has none.
void* driver_function(const char* name);

// The name of a function, as a parameter of a template.
template <std::size_t length>
struct Name {
    char text[length];
    constexpr Name(const char (&name)[length]) { std::copy_n(name, length, text); }
};
constexpr Result no_such_function = 500;

template <Name name, class... Parameters>
Result ask_driver(Parameters... parameters) {
    static std::atomic<void*> known{nullptr};
    void* function = known.load(std::memory_order_acquire);
    if (function == nullptr) known = function = driver_function(name.text);
    if (function == nullptr) return no_such_function;
    const Inside inside;
    return reinterpret_cast<Result (*)(Parameters...)>(function)(parameters...);
}

// Memory that the CPU and the device use in place, or pages of the host that are locked, as the strategy says.
// Returns 0 if there is none. The plan's lock is held.
Address get_memory(std::uint64_t bytes, const Pair* pair);
void give_memory(Address base, std::uint64_t bytes);

}  // namespace firsttouch::tried
