// What the machine code of a module tells of its kernels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace firsttouch::inject {

// The functions that copy between global and shared memory where a tensor map says, as GPUs since Hopper can. cubin: an
// ELF file; nothing is told of what is none, or is damaged.
std::vector<std::string> functions_with_tensor_copies(std::string_view cubin);

}  // namespace firsttouch::inject
