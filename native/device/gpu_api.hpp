// The functions that the CUDA driver and the HIP runtime have in common, as one table: each is declared once, with its
// name in both. cuda/api.hpp and hip/api.hpp add what only one of them has. The types needed are declared here, so that
// the native module builds without a toolkit; tests/native/test_vendor_types.cpp and test_hip_types.cpp compare them
// with the vendors' headers if they are installed.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "device/library.hpp"

namespace firsttouch {

namespace gpu {

using Result = int;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;
using ModuleHandle = struct ModuleTag*;
using FunctionHandle = struct FunctionTag*;

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
        unsigned char reserved[4];  // padding in HIP
    } flags;
};
struct AccessDescription {
    Location location;
    int flags;  // 3: read and write
};

inline constexpr Result peer_enabled_before = 704;  // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, and the same in HIP
inline constexpr int host_ordinal = -1;             // CU_DEVICE_CPU, hipCpuDeviceId
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned managed_attach_global = 1;
inline constexpr unsigned host_portable = 1;
inline constexpr unsigned register_portable = 1, register_mapped = 2;

// Of an attribute that a vendor does not have.
inline constexpr int no_attribute = -1;

}  // namespace gpu

// Types has what differs between the vendors:
//   Pointer           an address in kernels
//   Current           what is current on a thread: a context in CUDA, a device number in HIP; no_current: nothing is
//   AllocationHandle  of virtual memory management
//   name_column       which of the names below is the vendor's
//   language          of kernels, and the kind of device; machine_code: the format of compiled kernels
//   host_flags        of page-locked memory that the CPU and a kernel can use at the same time
// and the numbers of the attributes of devices, by the names that gpu.hpp uses.
template <class Types>
struct GpuApi : Types {
    using typename Types::AllocationHandle;
    using typename Types::Current;
    using typename Types::Pointer;
    using Stream = gpu::StreamHandle;
    using Event = gpu::EventHandle;
    using Module = gpu::ModuleHandle;
    using Function = gpu::FunctionHandle;

    GpuApi(const std::string& name, const std::vector<std::string>& sonames) : library(name, sonames) {}

    Library library;

    ApiCall<unsigned> init = function({"cuInit", "hipInit"});
    ApiCall<int*> version = function({"cuDriverGetVersion", "hipRuntimeGetVersion"});
    ApiCall<int*> device_count = function({"cuDeviceGetCount", "hipGetDeviceCount"});
    ApiCall<int*, int> device_get = function({"cuDeviceGet", "hipDeviceGet"});
    ApiCall<char*, int, int> device_name = function({"cuDeviceGetName", "hipDeviceGetName"});
    ApiCall<gpu::Uuid*, int> device_uuid = function({"cuDeviceGetUuid", "hipDeviceGetUuid"});
    ApiCall<int*, int, int> device_attribute = function({"cuDeviceGetAttribute", "hipDeviceGetAttribute"});
    ApiCall<char*, int, int> device_pci_bus_id = function({"cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId"});
    ApiCall<Current*> current_get = function({"cuCtxGetCurrent", "hipGetDevice"});
    ApiCall<Current> current_set = function({"cuCtxSetCurrent", "hipSetDevice"});
    ApiCall<int*, int, int> peer_possible = function({"cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer"});
    ApiCall<Current, unsigned> peer_enable = function({"cuCtxEnablePeerAccess", "hipDeviceEnablePeerAccess"});

    ApiCall<std::size_t*, std::size_t*> mem_info = function({"cuMemGetInfo_v2", "hipMemGetInfo"});
    ApiCall<Pointer*, std::size_t> mem_alloc = function({"cuMemAlloc_v2", "hipMalloc"});
    ApiCall<Pointer> mem_free = function({"cuMemFree_v2", "hipFree"});
    ApiCall<Pointer*, std::size_t, unsigned> mem_alloc_managed = function({"cuMemAllocManaged", "hipMallocManaged"});
    ApiCall<void**, std::size_t, unsigned> mem_host_alloc = function({"cuMemHostAlloc", "hipHostMalloc"});
    ApiCall<void*> mem_free_host = function({"cuMemFreeHost", "hipHostFree"});
    ApiCall<void*, std::size_t, unsigned> mem_host_register = function({"cuMemHostRegister_v2", "hipHostRegister"});
    ApiCall<void*> mem_host_unregister = function({"cuMemHostUnregister", "hipHostUnregister"});
    ApiCall<Pointer*, void*, unsigned> mem_host_device_pointer =
        function({"cuMemHostGetDevicePointer_v2", "hipHostGetDevicePointer"});
    ApiCall<Pointer, std::size_t, int, Stream> mem_prefetch = function({"cuMemPrefetchAsync", "hipMemPrefetchAsync"});
    ApiCall<Pointer, std::size_t, int, int> mem_advise = function({"cuMemAdvise", "hipMemAdvise"});

    ApiCall<Pointer*, std::size_t, std::size_t, Pointer, unsigned long long> address_reserve =
        optional_function({"cuMemAddressReserve", "hipMemAddressReserve"});
    ApiCall<Pointer, std::size_t> address_free = optional_function({"cuMemAddressFree", "hipMemAddressFree"});
    ApiCall<AllocationHandle*, std::size_t, const gpu::AllocationProperties*, unsigned long long> mem_create =
        optional_function({"cuMemCreate", "hipMemCreate"});
    ApiCall<AllocationHandle> mem_release = optional_function({"cuMemRelease", "hipMemRelease"});
    ApiCall<Pointer, std::size_t, std::size_t, AllocationHandle, unsigned long long> mem_map =
        optional_function({"cuMemMap", "hipMemMap"});
    ApiCall<Pointer, std::size_t> mem_unmap = optional_function({"cuMemUnmap", "hipMemUnmap"});
    ApiCall<Pointer, std::size_t, const gpu::AccessDescription*, std::size_t> mem_set_access =
        optional_function({"cuMemSetAccess", "hipMemSetAccess"});
    ApiCall<std::size_t*, const gpu::AllocationProperties*, int> mem_granularity =
        optional_function({"cuMemGetAllocationGranularity", "hipMemGetAllocationGranularity"});

    ApiCall<Module*, const void*> module_load = function({"cuModuleLoadData", "hipModuleLoadData"});
    ApiCall<Module> module_unload = function({"cuModuleUnload", "hipModuleUnload"});
    ApiCall<Function*, Module, const char*> module_function = function({"cuModuleGetFunction", "hipModuleGetFunction"});
    ApiCall<Pointer*, std::size_t*, Module, const char*> module_global =
        function({"cuModuleGetGlobal_v2", "hipModuleGetGlobal"});
    ApiCall<Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**>
        launch = function({"cuLaunchKernel", "hipModuleLaunchKernel"});

    ApiCall<Stream*, unsigned> stream_create = function({"cuStreamCreate", "hipStreamCreateWithFlags"});
    ApiCall<Stream> stream_destroy = function({"cuStreamDestroy_v2", "hipStreamDestroy"});
    ApiCall<Stream> stream_wait = function({"cuStreamSynchronize", "hipStreamSynchronize"});
    ApiCall<Stream, Event, unsigned> stream_wait_event = function({"cuStreamWaitEvent", "hipStreamWaitEvent"});
    ApiCall<Event*, unsigned> event_create = function({"cuEventCreate", "hipEventCreateWithFlags"});
    ApiCall<Event> event_destroy = function({"cuEventDestroy_v2", "hipEventDestroy"});
    ApiCall<Event, Stream> event_record = function({"cuEventRecord", "hipEventRecord"});
    ApiCall<Event> event_wait = function({"cuEventSynchronize", "hipEventSynchronize"});
    ApiCall<float*, Event, Event> event_elapsed = function({"cuEventElapsedTime", "hipEventElapsedTime"});
    ApiCall<Pointer, Current, Pointer, Current, std::size_t, Stream> memcpy_peer_async =
        optional_function({"cuMemcpyPeerAsync", "hipMemcpyPeerAsync"});

  private:
    using Names = std::array<const char*, 2>;
    Symbol function(const Names& names) { return library.function(names[Types::name_column]); }
    Symbol optional_function(const Names& names) { return library.optional_function(names[Types::name_column]); }
};

}  // namespace firsttouch
