// What AMD's code objects tell of their kernels: a note of the ELF file has it as msgpack. What is damaged tells
// nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "profile/inject/core/arguments.hpp"

namespace firsttouch::hip_front {

// By the kernel's name.
using KernelParameters = std::map<std::string, std::vector<inject::Parameter>, std::less<>>;

// Adds the kernels of a code object, or of the bundle of several that clang makes. Of one that a bundle has for several
// processors, the parameters are those of the first, and an access is told only if all tell the same. A compressed
// bundle tells nothing.
void add_kernels(std::string_view image, KernelParameters& into);

// Up to where memory of this process can be read, since nobody tells the size of an image.
std::string_view readable_from(const void* start);

}  // namespace firsttouch::hip_front
