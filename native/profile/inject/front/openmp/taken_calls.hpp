// Calls that a program makes of a library, taken where the loaded files keep the addresses of its functions.
#pragma once

#include <span>

namespace firsttouch::openmp_tool {

struct TakenCall {
    const char* name;
    void* mine;
    void** real;  // is set before the first call is taken
};

// In all files that are loaded, but for the library itself and this one. library: how the name of its file begins. What
// the library does not have, what is loaded later, and calls by pointers that the program keeps elsewhere are not
// taken.
void take_calls(const char* library, std::span<const TakenCall> calls);

}  // namespace firsttouch::openmp_tool
