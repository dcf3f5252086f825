// The HIP runtime of ROCm 6 and newer as a table of function pointers, and hipRTC. The types needed are declared here,
// so that the native module builds without ROCm. tests/native/test_hip_types.cpp compares them with hip_runtime_api.h
// and hiprtc.h if they are installed. Source: hip_runtime_api.h of ROCm 6.3; attributes, properties and flags are the
// same in ROCm 7.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "device/compiler.hpp"
#include "device/gpu_api.hpp"

namespace firsttouch::hip {

using gpu::Result;

inline constexpr Result no_device = 100;  // hipErrorNoDevice

// hipDeviceProp_tR0600. The runtime writes the whole structure, but only one member is read: the name of the
// architecture with its features, such as "gfx90a:sramecc+:xnack-".
struct Properties {
    static constexpr std::size_t name_offset = 1160, name_bytes = 256;
    alignas(8) char bytes[4096];
    std::string architecture() const;
};

// Attribute numbers of hipDeviceGetAttribute (hipDeviceAttribute_t).
enum Attribute : int {
    can_use_host_pointer_for_registered = 4,
    clock_rate_khz = 5,
    concurrent_managed_access = 9,
    direct_managed_access_from_host = 13,
    host_native_atomics = 15,
    integrated = 16,
    l2_bytes = 19,
    managed_memory = 24,
    threads_per_multiprocessor = 57,
    memory_bus_bits = 59,
    memory_clock_khz = 60,
    multiprocessors = 63,
    pageable_memory_access = 65,
    pageable_uses_host_page_tables = 66,
    warp_size = 87,
    virtual_memory_management = 89,
    host_register_supported = 90,
    large_bar = 10011,
    fine_grain_support = 10016,
    wall_clock_khz = 10017,
    unified_addressing = gpu::no_attribute,
};

inline constexpr unsigned host_coherent = 0x40000000, host_non_coherent = 0x80000000;
inline constexpr unsigned malloc_fine_grained = 1;
inline constexpr int advise_coarse_grain = 100;
inline constexpr int copy_by_address = 4;  // hipMemcpyDefault

struct Types {
    using Pointer = void*;
    using Current = int;  // there always is a current device
    using AllocationHandle = struct AllocationTag*;
    using enum Attribute;
    static constexpr Current no_current = -1;
    static constexpr std::size_t name_column = 1;
    static constexpr const char *language = "hip", *machine_code = "hsaco";
    static constexpr unsigned host_flags = host_coherent;
};

struct Runtime : GpuApi<Types> {
    Runtime();
    static const Runtime& instance();          // opened and initialised on first use; throws Unavailable
    static const RuntimeCompiler& compiler();  // hipRTC, likewise

    const char* (*get_error_name)(Result) = library.function("hipGetErrorName");
    const char* (*get_error_string)(Result) = library.function("hipGetErrorString");
    // Since ROCm 6; older ones have another layout.
    ApiCall<Properties*, int> device_properties = library.function("hipGetDevicePropertiesR0600");
    ApiCall<Pointer*, std::size_t, unsigned> mem_alloc_flags = library.optional_function("hipExtMallocWithFlags");
    ApiCall<Pointer, const void*, std::size_t, int, Stream> memcpy_async = library.function("hipMemcpyAsync");

    // Throws VendorError with the call and the runtime's message unless result is 0.
    void check(Result result, const std::string& call) const;
};

// Compiles for an architecture such as "gfx90a:sramecc+:xnack-"; no GPU is needed. A define is NAME=VALUE. Throws
// VendorError with the log.
Binary hiprtc_compile(const std::string& text, const std::string& name, const std::string& architecture,
                      const std::vector<std::string>& defines = {});

}  // namespace firsttouch::hip
