// PoCL passes the processor's name, as LLVM reports it, to its compiler. For a processor that LLVM does not know, the
// name is "generic", which the compiler rejects ("unknown target CPU 'generic'", pocl/pocl issue 1049). With the PoCL
// of PyPI (3.0, LLVM 14), nothing compiles on newer AMD processors for that reason. In this case, the name in PoCL's
// device structure is replaced with the newest x86-64 target that the processor supports. The pointer to the name is
// identified by the text it points to; unless exactly one of the structure's first words points to "generic", nothing
// is changed.
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "device/opencl/api.hpp"

namespace firsttouch::opencl {
namespace {

[[maybe_unused]] bool read_own_memory(std::uintptr_t address, void* into, std::size_t bytes) {
    const iovec local{into, bytes};
    const iovec remote{reinterpret_cast<void*>(address), bytes};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

}  // namespace

std::string set_pocl_processor([[maybe_unused]] Object device, [[maybe_unused]] const std::string& version) {
#if defined(__x86_64__)
    constexpr std::string_view generic = "-generic";
    if (version.find("PoCL") == std::string::npos || version.size() < generic.size() ||
        version.compare(version.size() - generic.size(), generic.size(), generic) != 0)
        return "";
    // In PoCL 3.0 the name is word 80. Only words close to it are searched, because the heap after the structure may
    // hold copies of the pointer.
    std::array<std::uintptr_t, 112> words{};
    if (!read_own_memory(reinterpret_cast<std::uintptr_t>(device), words.data(), sizeof(words))) return "";
    std::size_t matches = 0, index = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
        char text[8] = {};
        if (words[i] > 4096 && read_own_memory(words[i], text, sizeof(text)) && std::memcmp(text, "generic", 8) == 0)
            ++matches, index = i;
    }
    if (matches != 1) return "";
    const char* name = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
                           ? "skylake-avx512"
                       : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "haswell"
                                                                                         : "x86-64";
    static_cast<const char**>(device)[index] = name;
    return name;
#else
    return "";
#endif
}

}  // namespace firsttouch::opencl
