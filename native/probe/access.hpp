// Whether an agent really reaches memory, whatever the driver states. For throw-away processes: it may end this one.
#pragma once

#include "probe/lab.hpp"

namespace firsttouch {

// Wrong 8-byte words after `agent` wrote and read the buffer by its bare address, and the other agent saw the same
// where it is stated to reach it. Throws Unavailable where there is no address to try, VendorError as the driver says.
std::uint64_t try_access(Lab& lab, const Buffer& buffer, Agent agent, std::uint64_t seed);

}  // namespace firsttouch
