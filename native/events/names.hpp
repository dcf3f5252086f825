// Names of functions and variables, as compilers made them and as programs write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace firsttouch {

// A mangled name. Of what is static in a file of CUDA, nvcc puts the file in front: __nv_static_N_, then N characters
// that stand for the file, and _.
std::string_view without_file(std::string_view name);

// As a program writes a C++ name; nothing if it is none.
std::optional<std::string> demangled(std::string_view name);

}  // namespace firsttouch
