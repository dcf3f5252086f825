// How the parts of the stand-in for the driver play its calls.
#pragma once

#include <cstdint>

#include "cuda_driver.hpp"
#include "events/driver_calls.hpp"

namespace played {

namespace watched = firsttouch::cupti;  // the calls, with their numbers and parameters

#define CALL(number, function, parameters)                                                                             \
    struct function {                                                                                                  \
        static constexpr std::uint32_t id = number;                                                                    \
        static constexpr const char* name = #function;                                                                 \
        using Parameters = watched::parameters;                                                                        \
    };
FIRSTTOUCH_DRIVER_CALLS(CALL)
FIRSTTOUCH_NEWER_DRIVER_CALLS(CALL)
CALL(678, cuLibraryLoadData, NoParameters)
#undef CALL

// Calls back before and after the body, if the stand-in for CUPTI is there.
int play(std::uint32_t id, const char* name, const void* parameters, int (*body)(void*), void* user);

template <class Call, class Work>
int call(const typename Call::Parameters& parameters, Work work) {
    const auto body = [](void* user) -> int { return (*static_cast<Work*>(user))(); };
    return play(Call::id, Call::name, &parameters, body, &work);
}

// What a call does, or a node of a graph, and records.
int run(const Launch& launch);
int run(const Copy& copy);
int run_fill(Address target, unsigned char value, std::size_t bytes);

// Whether the stream is captured, in which case it is now a node of a graph.
bool capture(const Launch& launch);
bool capture(const Copy& copy);
bool capture_fill(Stream* stream, Address target, unsigned char value, std::size_t bytes);

bool launches_carry_functions();

}  // namespace played

// A function of the driver that a profiler may call, under its own name: libcuda.so.1 is a link to this library.
#define DRIVER extern "C" __attribute__((visibility("default"))) int
