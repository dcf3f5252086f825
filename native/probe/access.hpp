// Tests whether an agent can access memory, regardless of what the driver states. Run it in a disposable process.
#pragma once

#include "device/lab.hpp"

namespace firsttouch {

// Returns the number of wrong 8-byte words after `agent` wrote and read the buffer by its address, and the other agent
// read it if it has access. Throws Unavailable if there is no address to try, and VendorError for driver errors.
std::uint64_t try_access(Lab& lab, const Buffer& buffer, Agent agent, std::uint64_t seed);

}  // namespace firsttouch
