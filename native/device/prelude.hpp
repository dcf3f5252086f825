// The kernel files and preludes of src/firsttouch/kernels, embedded when the core is built.
#pragma once

#include <string>

#include "device/device.hpp"

namespace firsttouch {

// Text of an embedded file such as "chase.c" or "prelude.cuda.h". Throws std::out_of_range where there is none.
const std::string& kernel_file(const std::string& name);

// A Source of embedded kernels: `name` without its ending.
Source kernel_source(const std::string& name, std::vector<std::pair<std::string, std::string>> defines = {});

// The whole text for a compiler: defines, the prelude of the language ("cuda", "hip", "opencl"), common.h, the source.
std::string translation_unit(const Source& source, const std::string& language);

}  // namespace firsttouch
