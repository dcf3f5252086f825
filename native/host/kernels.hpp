// Kernels of the dialect compiled into the core with the host prelude, by name; each member of a team runs its
// contiguous share of the items that FOR_EACH walks.
#pragma once

#include <string>

namespace firsttouch {

using HostKernel = void (*)(void** arguments);

// The kernel, or nullptr if there is none of that name.
HostKernel find_host_kernel(const std::string& name);

// Which share of a launch the calling thread runs; read by the host prelude.
struct HostPlace {
    unsigned long member = 0;
    unsigned long members = 1;
};
extern thread_local HostPlace host_place;

// Runs a kernel on all members of a team, a share each; returns the seconds it took.
class Team;
double run_on(Team& team, HostKernel kernel, void** arguments);

}  // namespace firsttouch
