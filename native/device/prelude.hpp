// The kernel files and preludes of src/firsttouch/base/kernels, embedded at build time.
#pragma once

#include <string>

#include "device/device.hpp"

namespace firsttouch {

// Returns the text of an embedded file such as "chase.c" or "prelude.cuda.h". Throws std::out_of_range if there is
// none.
const std::string& kernel_file(const std::string& name);

// Returns an embedded kernel file as a Source. `name` has no extension.
Source kernel_source(const std::string& name, std::vector<std::pair<std::string, std::string>> defines = {});

// Returns the text to compile: defines, the prelude of the language ("cuda", "hip", "opencl"), common.h, the source.
std::string translation_unit(const Source& source, const std::string& language);

}  // namespace firsttouch
