// Kernels that are compiled into the native module with the host prelude. Each member of a team runs a contiguous share
// of the items over which FOR_EACH iterates.
#pragma once

#include <string>

namespace firsttouch {

using HostKernel = void (*)(void** arguments);

// Returns the kernel, or nullptr if no kernel has that name.
HostKernel find_host_kernel(const std::string& name);

// The share of a launch that the calling thread runs. FOR_EACH of the host prelude reads it.
struct HostPlace {
    unsigned long member = 0;
    unsigned long members = 1;
};
extern thread_local HostPlace host_place;

class Team;

// Runs a kernel on all members of a team, one share each. Returns the seconds it took.
double run_on(Team& team, HostKernel kernel, void** arguments);

}  // namespace firsttouch
