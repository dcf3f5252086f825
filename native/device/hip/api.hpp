// The HIP runtime of ROCm 6 and newer, and hipRTC, as tables of function pointers. The types needed are declared here,
// so that the native module builds without ROCm. tests/native/test_hip_types.cpp compares them with hip_runtime_api.h
// and hiprtc.h if they are installed. Source: hip_runtime_api.h of ROCm 6.3; attributes, properties and flags are the
// same in ROCm 7.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device/library.hpp"

namespace firsttouch::hip {

using Result = int;
using DeviceOrdinal = int;
using DevicePointer = void*;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;

inline constexpr Result no_device = 100;  // hipErrorNoDevice

struct Uuid {
    char bytes[16];
};
struct Location {
    int type;  // 1: device
    int id;
};

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
};

inline constexpr unsigned managed_attach_global = 1;
inline constexpr unsigned host_portable = 1, host_coherent = 0x40000000, host_non_coherent = 0x80000000;
inline constexpr unsigned register_portable = 1, register_mapped = 2;
inline constexpr unsigned malloc_fine_grained = 1;
inline constexpr int advise_coarse_grain = 100;
inline constexpr int copy_by_address = 4;  // hipMemcpyDefault

struct Runtime {
    using Pointer = DevicePointer;
    using Stream = StreamHandle;
    using Event = EventHandle;
    using Module = struct ModuleTag*;
    using Function = struct FunctionTag*;
    using AllocationHandle = struct AllocationTag*;
    struct AllocationProperties {
        int type;  // 1: pinned
        int requested_handle_type;
        Location location;
        void* win32_metadata;
        struct {
            unsigned char compression_type;
            unsigned char gpu_direct_rdma_capable;
            unsigned short usage;
        } flags;
    };
    struct AccessDescription {
        Location location;
        int flags;  // 3: read and write
    };
    using Current = int;  // a thread's current device; there always is one
    static constexpr Current no_current = -1;
    static constexpr Result peer_enabled_before = 704;  // hipErrorPeerAccessAlreadyEnabled

    Runtime();
    static Runtime& instance();  // opened and initialised on first use; throws Unavailable

    Library library;
    Result (*init)(unsigned);
    const char* (*get_error_name)(Result);
    const char* (*get_error_string)(Result);
    Result (*runtime_version)(int*);
    Result (*device_count)(int*);
    Result (*current_get)(int*);
    Result (*current_set)(int);
    Result (*peer_possible)(int*, int, int);
    Result (*peer_enable)(int, unsigned);
    Result (*device_get)(DeviceOrdinal*, int);
    Result (*device_name)(char*, int, DeviceOrdinal);
    Result (*device_uuid)(Uuid*, DeviceOrdinal);
    Result (*device_attribute)(int*, int, int);
    Result (*device_pci_bus_id)(char*, int, int);
    Result (*device_properties)(Properties*, int);
    Result (*mem_info)(std::size_t*, std::size_t*);
    Result (*mem_alloc)(void**, std::size_t);
    Result (*mem_alloc_flags)(void**, std::size_t, unsigned);
    Result (*mem_free)(void*);
    Result (*mem_alloc_managed)(void**, std::size_t, unsigned);
    Result (*mem_host_alloc)(void**, std::size_t, unsigned);
    Result (*mem_free_host)(void*);
    Result (*mem_host_register)(void*, std::size_t, unsigned);
    Result (*mem_host_unregister)(void*);
    Result (*mem_host_device_pointer)(void**, void*, unsigned);
    Result (*address_reserve)(void**, std::size_t, std::size_t, void*, unsigned long long);
    Result (*address_free)(void*, std::size_t);
    Result (*mem_create)(AllocationHandle*, std::size_t, const AllocationProperties*, unsigned long long);
    Result (*mem_release)(AllocationHandle);
    Result (*mem_map)(void*, std::size_t, std::size_t, AllocationHandle, unsigned long long);
    Result (*mem_unmap)(void*, std::size_t);
    Result (*mem_set_access)(void*, std::size_t, const AccessDescription*, std::size_t);
    Result (*mem_granularity)(std::size_t*, const AllocationProperties*, int);
    Result (*mem_prefetch)(const void*, std::size_t, int, StreamHandle);
    Result (*mem_advise)(const void*, std::size_t, int, int);
    Result (*module_load)(Module*, const void*);
    Result (*module_unload)(Module);
    Result (*module_function)(Function*, Module, const char*);
    Result (*module_global)(void**, std::size_t*, Module, const char*);
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
    Result (*memcpy_async)(void*, const void*, std::size_t, int, StreamHandle);
    Result (*memcpy_peer_async)(void*, int, const void*, int, std::size_t, StreamHandle);  // or null

    // Throws VendorError with the call and the runtime's message unless result is 0.
    void check(Result result, const std::string& call) const;
};

struct Hiprtc {
    Hiprtc();
    static Hiprtc& instance();
    using Program = struct ProgramTag*;

    Library library;
    int (*version)(int*, int*);
    const char* (*error_string)(int);
    int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
    int (*destroy)(Program*);
    int (*compile)(Program, int, const char* const*);
    int (*log_size)(Program, std::size_t*);
    int (*log)(Program, char*);
    int (*code_size)(Program, std::size_t*);
    int (*code)(Program, char*);
};

struct Compiled {
    std::string code, log;
};
// Compiles for an architecture such as "gfx90a:sramecc+:xnack-"; no GPU is needed. A define is NAME=VALUE. Throws
// VendorError with the log.
Compiled hiprtc_compile(const std::string& text, const std::string& name, const std::string& architecture,
                        const std::vector<std::string>& defines = {});

}  // namespace firsttouch::hip
