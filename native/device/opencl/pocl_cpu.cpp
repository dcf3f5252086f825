// PoCL asks its LLVM for the processor's name and hands it to its compiler. An LLVM older than the processor says
// "generic", which that compiler refuses ("unknown target CPU 'generic'", pocl/pocl issue 1049), so that the PoCL of
// PyPI (3.0, LLVM 14) compiles nothing on newer AMD processors. Where that is so, the device's record of the name is
// replaced by the newest x86-64 target that the processor's features allow. The record is found by its content, and
// only if exactly one of its first words points to that string; otherwise nothing is touched.
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

std::string name_processor_for_pocl([[maybe_unused]] Object device, [[maybe_unused]] const std::string& version) {
#if defined(__x86_64__)
    constexpr std::string_view unknown = "-generic";
    if (version.find("PoCL") == std::string::npos || version.size() < unknown.size() ||
        version.compare(version.size() - unknown.size(), unknown.size(), unknown) != 0)
        return "";
    // The name is word 80 of PoCL 3.0. The record goes on for a little, then the heap, where other copies may lie.
    std::array<std::uintptr_t, 112> record{};
    if (!read_own_memory(reinterpret_cast<std::uintptr_t>(device), record.data(), sizeof(record))) return "";
    std::size_t matches = 0, place = 0;
    for (std::size_t i = 0; i < record.size(); ++i) {
        char text[8] = {};
        if (record[i] > 4096 && read_own_memory(record[i], text, sizeof(text)) && std::memcmp(text, "generic", 8) == 0)
            ++matches, place = i;
    }
    if (matches != 1) return "";
    const char* name = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
                           ? "skylake-avx512"
                       : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "haswell"
                                                                                         : "x86-64";
    static_cast<const char**>(device)[place] = name;
    return name;
#else
    return "";
#endif
}

}  // namespace firsttouch::opencl
