// The CUDA driver, NVRTC and NVML as tables of function pointers. The types needed are declared here, so that the
// native module builds without a toolkit. tests/native/test_vendor_types.cpp compares them with the vendor's headers if
// they are installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "device/library.hpp"

namespace firsttouch::cuda {

using Result = int;
using DeviceOrdinal = int;
using DevicePointer = unsigned long long;
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;
using AllocationHandle = unsigned long long;

struct Uuid {
    unsigned char bytes[16];
};
struct Location {
    int type;  // 1: device
    int id;
};
struct AllocationProperties {
    int type;  // 1: pinned
    int requested_handle_types;
    Location location;
    void* win32_metadata;
    struct {
        unsigned char compression_type;
        unsigned char gpu_direct_rdma_capable;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
};
struct AccessDescription {
    Location location;
    int flags;  // 3: read and write
};

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
};

inline constexpr unsigned managed_attach_global = 1;
inline constexpr unsigned host_portable = 1, host_device_map = 2, host_write_combined = 4;
inline constexpr unsigned register_portable = 1, register_device_map = 2;

struct Driver {
    using Pointer = DevicePointer;
    using Stream = StreamHandle;
    using Event = EventHandle;
    using Module = cuda::Module;
    using Function = cuda::Function;
    using AllocationHandle = cuda::AllocationHandle;
    using AllocationProperties = cuda::AllocationProperties;
    using AccessDescription = cuda::AccessDescription;
    using Current = Context;  // a thread's current context
    static constexpr Current no_current = nullptr;
    static constexpr Result peer_enabled_before = 704;  // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED

    Driver();
    static Driver& instance();  // opened and initialised on first use; throws Unavailable

    Library library;
    Result (*init)(unsigned);
    Result (*get_error_name)(Result, const char**);
    Result (*get_error_string)(Result, const char**);
    Result (*driver_version)(int*);
    Result (*device_count)(int*);
    Result (*device_get)(DeviceOrdinal*, int);
    Result (*device_name)(char*, int, DeviceOrdinal);
    Result (*device_uuid)(Uuid*, DeviceOrdinal);
    Result (*device_attribute)(int*, int, DeviceOrdinal);
    Result (*device_pci_bus_id)(char*, int, DeviceOrdinal);
    Result (*context_retain)(Context*, DeviceOrdinal);
    Result (*context_release)(DeviceOrdinal);
    Result (*current_get)(Context*);
    Result (*current_set)(Context);
    Result (*peer_possible)(int*, DeviceOrdinal, DeviceOrdinal);
    Result (*peer_enable)(Context, unsigned);
    Result (*mem_info)(std::size_t*, std::size_t*);
    Result (*mem_alloc)(DevicePointer*, std::size_t);
    Result (*mem_free)(DevicePointer);
    Result (*mem_alloc_managed)(DevicePointer*, std::size_t, unsigned);
    Result (*mem_host_alloc)(void**, std::size_t, unsigned);
    Result (*mem_free_host)(void*);
    Result (*mem_host_register)(void*, std::size_t, unsigned);
    Result (*mem_host_unregister)(void*);
    Result (*mem_host_device_pointer)(DevicePointer*, void*, unsigned);
    Result (*address_reserve)(DevicePointer*, std::size_t, std::size_t, DevicePointer, unsigned long long);
    Result (*address_free)(DevicePointer, std::size_t);
    Result (*mem_create)(AllocationHandle*, std::size_t, const AllocationProperties*, unsigned long long);
    Result (*mem_release)(AllocationHandle);
    Result (*mem_map)(DevicePointer, std::size_t, std::size_t, AllocationHandle, unsigned long long);
    Result (*mem_unmap)(DevicePointer, std::size_t);
    Result (*mem_set_access)(DevicePointer, std::size_t, const AccessDescription*, std::size_t);
    Result (*mem_granularity)(std::size_t*, const AllocationProperties*, int);
    Result (*mem_prefetch)(DevicePointer, std::size_t, DeviceOrdinal, StreamHandle);
    Result (*mem_advise)(DevicePointer, std::size_t, int, DeviceOrdinal);
    Result (*module_load)(Module*, const void*);
    Result (*module_unload)(Module);
    Result (*module_function)(Function*, Module, const char*);
    Result (*module_global)(DevicePointer*, std::size_t*, Module, const char*);
    Result (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, StreamHandle,
                     void**, void**);
    Result (*stream_create)(StreamHandle*, unsigned);
    Result (*stream_destroy)(StreamHandle);
    Result (*stream_wait)(StreamHandle);
    Result (*stream_wait_event)(StreamHandle, EventHandle, unsigned);
    Result (*event_create)(EventHandle*, unsigned);
    Result (*event_destroy)(EventHandle);
    Result (*event_record)(EventHandle, StreamHandle);
    Result (*event_wait)(EventHandle);
    Result (*event_elapsed)(float*, EventHandle, EventHandle);
    Result (*memcpy_async)(DevicePointer, DevicePointer, std::size_t, StreamHandle);
    Result (*memcpy_peer_async)(DevicePointer, Context, DevicePointer, Context, std::size_t, StreamHandle);  // or null

    // Throws VendorError with the call and the driver's message unless result is 0.
    void check(Result result, const std::string& call) const;
};

struct Nvrtc {
    Nvrtc();
    static Nvrtc& instance();
    using Program = struct ProgramTag*;

    Library library;
    int (*version)(int*, int*);
    const char* (*error_string)(int);
    int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
    int (*destroy)(Program*);
    int (*compile)(Program, int, const char* const*);
    int (*log_size)(Program, std::size_t*);
    int (*log)(Program, char*);
    int (*cubin_size)(Program, std::size_t*);
    int (*cubin)(Program, char*);
    int (*ptx_size)(Program, std::size_t*);
    int (*ptx)(Program, char*);
};

struct Compiled {
    std::string cubin, ptx, log;
};
// Compiles for an architecture such as "sm_90"; no GPU is needed. Throws VendorError with the log.
Compiled nvrtc_compile(const std::string& text, const std::string& name, const std::string& architecture);

struct NvmlMemory {
    unsigned long long total, free, used;
};
struct NvmlMemoryV2 {
    unsigned version = sizeof(NvmlMemoryV2) | 2u << 24;
    unsigned long long total = 0, reserved = 0, free = 0, used = 0;
};

struct Nvml {
    explicit Nvml();
    using Handle = struct HandleTag*;

    Library library;
    int (*init)();
    int (*by_uuid)(const char*, Handle*);
    int (*clock)(Handle, int, unsigned*);
    int (*temperature)(Handle, int, unsigned*);
    int (*power)(Handle, unsigned*);
    int (*throttle_reasons)(Handle, unsigned long long*);
    int (*memory)(Handle, NvmlMemory*);
    int (*memory_v2)(Handle, NvmlMemoryV2*);  // nullptr in drivers before 510
};

inline constexpr unsigned long long application_clocks = 0x2;  // clocks limited by the user's setting
// Returns the names of the reasons in a mask of nvmlClocksEventReasons (nvml.h), or the number of an unknown one. Idle
// (bit 0) is left out.
std::vector<std::string> throttle_reasons(unsigned long long mask);

}  // namespace firsttouch::cuda
