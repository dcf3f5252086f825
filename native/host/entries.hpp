// What a file of host kernels needs to list its entries: each under its name, with its arguments unpacked.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "host/kernels.hpp"

namespace firsttouch {

using HostKernels = std::map<std::string, HostKernel>;

// The kernels of all applications, by "application/entry". Written by CMake from src/firsttouch/apps/*.c.
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
