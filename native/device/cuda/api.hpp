// The CUDA driver and NVML as tables of function pointers, and NVRTC. The types needed are declared here, so that the
// native module builds without a toolkit. tests/native/test_vendor_types.cpp compares them with the vendor's headers if
// they are installed.
#pragma once

#include <string>
#include <vector>

#include "device/compiler.hpp"
#include "device/gpu_api.hpp"

namespace firsttouch::cuda {

using gpu::Result;
using DevicePointer = unsigned long long;
using Context = struct ContextTag*;
using AllocationHandle = unsigned long long;

// Attribute numbers of cuDeviceGetAttribute.
enum Attribute : int {
    clock_rate_khz = 13,
    multiprocessors = 16,
    integrated = 18,
    memory_clock_khz = 36,
    memory_bus_bits = 37,
    l2_bytes = 38,
    threads_per_multiprocessor = 39,
    unified_addressing = 41,
    compute_major = 75,
    compute_minor = 76,
    shared_per_multiprocessor = 81,
    managed_memory = 83,
    host_native_atomics = 86,
    pageable_memory_access = 88,
    concurrent_managed_access = 89,
    can_use_host_pointer_for_registered = 91,
    host_register_supported = 99,
    pageable_uses_host_page_tables = 100,
    direct_managed_access_from_host = 101,
    virtual_memory_management = 102,
    large_bar = gpu::no_attribute,
    fine_grain_support = gpu::no_attribute,
    wall_clock_khz = gpu::no_attribute,
    warp_size = gpu::no_attribute,
};

inline constexpr unsigned host_device_map = 2, host_write_combined = 4;

struct Types {
    using Pointer = DevicePointer;
    using Current = Context;
    using AllocationHandle = cuda::AllocationHandle;
    using enum Attribute;
    static constexpr Current no_current = nullptr;
    static constexpr std::size_t name_column = 0;
    static constexpr const char *language = "cuda", *machine_code = "cubin";
    static constexpr unsigned host_flags = host_device_map;
};

struct Driver : GpuApi<Types> {
    Driver();
    static const Driver& instance();           // opened and initialised on first use; throws Unavailable
    static const RuntimeCompiler& compiler();  // NVRTC, likewise

    ApiCall<Result, const char**> get_error_name = library.function("cuGetErrorName");
    ApiCall<Result, const char**> get_error_string = library.function("cuGetErrorString");
    ApiCall<Context*, int> context_retain = library.function("cuDevicePrimaryCtxRetain");
    ApiCall<int> context_release = library.function("cuDevicePrimaryCtxRelease_v2");
    ApiCall<Pointer, Pointer, std::size_t, Stream> memcpy_async = library.function("cuMemcpyAsync");

    // Throws VendorError with the call and the driver's message unless result is 0.
    void check(Result result, const std::string& call) const;
};

// Compiles for an architecture such as "sm_90", with PTX as assembly; no GPU is needed. Throws VendorError with the
// log.
Binary nvrtc_compile(const std::string& text, const std::string& name, const std::string& architecture);

struct NvmlMemory {
    unsigned long long total, free, used;
};
struct NvmlMemoryV2 {
    unsigned version = sizeof(NvmlMemoryV2) | 2u << 24;
    unsigned long long total = 0, reserved = 0, free = 0, used = 0;
};

struct Nvml {
    Nvml();
    using Handle = struct HandleTag*;

    Library library{"nvml", {"libnvidia-ml.so.1"}};
    ApiCall<> init = library.function("nvmlInit_v2");
    ApiCall<const char*, Handle*> by_uuid = library.function("nvmlDeviceGetHandleByUUID");
    ApiCall<Handle, int, unsigned*> clock = library.function("nvmlDeviceGetClockInfo");
    ApiCall<Handle, int, unsigned*> temperature = library.function("nvmlDeviceGetTemperature");
    ApiCall<Handle, unsigned*> power = library.function("nvmlDeviceGetPowerUsage");
    ApiCall<Handle, unsigned long long*> throttle_reasons =
        library.function("nvmlDeviceGetCurrentClocksThrottleReasons");
    ApiCall<Handle, NvmlMemory*> memory = library.function("nvmlDeviceGetMemoryInfo");
    // nullptr in drivers before 510.
    ApiCall<Handle, NvmlMemoryV2*> memory_v2 = library.optional_function("nvmlDeviceGetMemoryInfo_v2");
};

inline constexpr unsigned long long application_clocks = 0x2;  // clocks limited by the user's setting
// Returns the names of the reasons in a mask of nvmlClocksEventReasons (nvml.h), or the number of an unknown one. Idle
// (bit 0) is left out.
std::vector<std::string> throttle_reasons(unsigned long long mask);

}  // namespace firsttouch::cuda
