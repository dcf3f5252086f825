// A table of host kernels: from a kernel's name to a function that unpacks the arguments and calls the kernel.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "host/kernels.hpp"

namespace firsttouch {

using HostKernels = std::map<std::string, HostKernel>;

// Returns the kernels of all applications, by "application/entry". CMake generates its definition from
// src/firsttouch/apps/*.c.
HostKernels application_kernels();

template <auto function, class... Parameters, std::size_t... I>
void call(void** arguments, void (*)(Parameters...), std::index_sequence<I...>) {
    function(*static_cast<Parameters*>(arguments[I])...);
}
template <class... Parameters>
constexpr std::size_t arity(void (*)(Parameters...)) {
    return sizeof...(Parameters);
}
template <auto function>
void invoke(void** arguments) {
    call<function>(arguments, function, std::make_index_sequence<arity(function)>{});
}

}  // namespace firsttouch
