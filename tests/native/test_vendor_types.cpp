// Compares the types and numbers of vendors that the core declares with the vendors' headers where those are installed.
#include "device/cuda/api.hpp"
#include "device/opencl/api.hpp"
#include "events/cupti_api.hpp"
#include "math/tables.hpp"
#include "profile/inject/front/cuda/nvtx_api.hpp"
#include "signature.hpp"
#include "support.hpp"

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#if __has_include(<nvrtc.h>)
#include <nvrtc.h>
#endif
#if __has_include(<nvml.h>)
#include <nvml.h>
#endif
#if __has_include(<cupti_activity.h>) && __has_include(<cuda.h>)
#include <cupti_activity.h>
#include <cupti_driver_cbid.h>
#include <cupti_version.h>
#endif
#if __has_include(<cublas_v2.h>) && __has_include(<driver_types.h>)
#include <cublas_v2.h>
#endif
#if __has_include(<cusparse.h>) && __has_include(<driver_types.h>)
#include <cusparse.h>
#endif
#if __has_include(<cufft.h>) && __has_include(<driver_types.h>)
#include <cufft.h>
#endif
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif
#if __has_include(<CL/cl_icd.h>)
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_icd.h>
#endif

namespace firsttouch {
namespace {

TEST(VendorTypes, CudaDriver) {
#if defined(CUDA_VERSION)
    using namespace cuda;
    using namespace gpu;
    static_assert(sizeof(Uuid) == sizeof(CUuuid));
    static_assert(sizeof(Location) == sizeof(CUmemLocation));
    static_assert(offsetof(Location, type) == offsetof(CUmemLocation, type));
    static_assert(offsetof(Location, id) == offsetof(CUmemLocation, id));
    static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
    static_assert(offsetof(AllocationProperties, type) == offsetof(CUmemAllocationProp, type));
    static_assert(offsetof(AllocationProperties, requested_handle_types) ==
                  offsetof(CUmemAllocationProp, requestedHandleTypes));
    static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
    static_assert(offsetof(AllocationProperties, win32_metadata) == offsetof(CUmemAllocationProp, win32HandleMetaData));
    static_assert(offsetof(AllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));
    static_assert(offsetof(AllocationProperties, flags.gpu_direct_rdma_capable) ==
                  offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable));
    static_assert(offsetof(AllocationProperties, flags.usage) == offsetof(CUmemAllocationProp, allocFlags.usage));
    static_assert(sizeof(AccessDescription) == sizeof(CUmemAccessDesc));
    static_assert(offsetof(AccessDescription, location) == offsetof(CUmemAccessDesc, location));
    static_assert(offsetof(AccessDescription, flags) == offsetof(CUmemAccessDesc, flags));
    static_assert(compatible<Result, CUresult> && compatible<int, CUdevice> && compatible<DevicePointer, CUdeviceptr>);
    static_assert(compatible<AllocationHandle, CUmemGenericAllocationHandle> && compatible<Context, CUcontext>);

    // Constants that the core writes as numbers.
    static_assert(CU_MEM_LOCATION_TYPE_DEVICE == 1 && CU_MEM_ALLOCATION_TYPE_PINNED == 1);
    static_assert(CU_MEM_ACCESS_FLAGS_PROT_READWRITE == 3);
    static_assert(CU_MEM_ALLOC_GRANULARITY_MINIMUM == 0 && CU_EVENT_DEFAULT == 0 && CUDA_SUCCESS == 0);

    static_assert(managed_attach_global == CU_MEM_ATTACH_GLOBAL);
    static_assert(host_portable == CU_MEMHOSTALLOC_PORTABLE && host_device_map == CU_MEMHOSTALLOC_DEVICEMAP);
    static_assert(host_write_combined == CU_MEMHOSTALLOC_WRITECOMBINED);
    static_assert(register_portable == CU_MEMHOSTREGISTER_PORTABLE);
    static_assert(register_mapped == CU_MEMHOSTREGISTER_DEVICEMAP);
    static_assert(stream_non_blocking == CU_STREAM_NON_BLOCKING && host_ordinal == CU_DEVICE_CPU);
    static_assert(peer_enabled_before == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);

    const std::pair<int, int> attributes[] = {
        {clock_rate_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
        {multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
        {integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED},
        {memory_clock_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE},
        {memory_bus_bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
        {l2_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
        {threads_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
        {unified_addressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
        {compute_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
        {compute_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
        {shared_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
        {managed_memory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
        {host_native_atomics, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED},
        {pageable_memory_access, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
        {concurrent_managed_access, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
        {can_use_host_pointer_for_registered, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
        {host_register_supported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED},
        {pageable_uses_host_page_tables, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES},
        {direct_managed_access_from_host, CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST},
        {virtual_memory_management, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED}};
    for (const auto& [ours, theirs] : attributes) EXPECT_EQ(ours, theirs);

        // cuda.h renames some functions to their newest version. Where the core uses an older one, only headers that
        // still have it are compared.
#define SAME_SIGNATURE(member, function)                                                                               \
    static_assert(CompatibleSignature<decltype(Driver::member), decltype(&function)>::value)
    SAME_SIGNATURE(init, cuInit);
    SAME_SIGNATURE(get_error_name, cuGetErrorName);
    SAME_SIGNATURE(get_error_string, cuGetErrorString);
    SAME_SIGNATURE(version, cuDriverGetVersion);
    SAME_SIGNATURE(device_count, cuDeviceGetCount);
    SAME_SIGNATURE(device_get, cuDeviceGet);
    SAME_SIGNATURE(device_name, cuDeviceGetName);
    SAME_SIGNATURE(device_uuid, cuDeviceGetUuid);
    SAME_SIGNATURE(device_attribute, cuDeviceGetAttribute);
    SAME_SIGNATURE(device_pci_bus_id, cuDeviceGetPCIBusId);
    SAME_SIGNATURE(context_retain, cuDevicePrimaryCtxRetain);
    SAME_SIGNATURE(context_release, cuDevicePrimaryCtxRelease);
    SAME_SIGNATURE(current_get, cuCtxGetCurrent);
    SAME_SIGNATURE(current_set, cuCtxSetCurrent);
    SAME_SIGNATURE(peer_possible, cuDeviceCanAccessPeer);
    SAME_SIGNATURE(peer_enable, cuCtxEnablePeerAccess);
    SAME_SIGNATURE(mem_info, cuMemGetInfo);
    SAME_SIGNATURE(mem_alloc, cuMemAlloc);
    SAME_SIGNATURE(mem_free, cuMemFree);
    SAME_SIGNATURE(mem_alloc_managed, cuMemAllocManaged);
    SAME_SIGNATURE(mem_host_alloc, cuMemHostAlloc);
    SAME_SIGNATURE(mem_free_host, cuMemFreeHost);
    SAME_SIGNATURE(mem_host_register, cuMemHostRegister);
    SAME_SIGNATURE(mem_host_unregister, cuMemHostUnregister);
    SAME_SIGNATURE(mem_host_device_pointer, cuMemHostGetDevicePointer);
    SAME_SIGNATURE(address_reserve, cuMemAddressReserve);
    SAME_SIGNATURE(address_free, cuMemAddressFree);
    SAME_SIGNATURE(mem_create, cuMemCreate);
    SAME_SIGNATURE(mem_release, cuMemRelease);
    SAME_SIGNATURE(mem_map, cuMemMap);
    SAME_SIGNATURE(mem_unmap, cuMemUnmap);
    SAME_SIGNATURE(mem_set_access, cuMemSetAccess);
    SAME_SIGNATURE(mem_granularity, cuMemGetAllocationGranularity);
#if CUDA_VERSION < 13000
    SAME_SIGNATURE(mem_prefetch, cuMemPrefetchAsync);
    SAME_SIGNATURE(mem_advise, cuMemAdvise);
#endif
    SAME_SIGNATURE(module_load, cuModuleLoadData);
    SAME_SIGNATURE(module_unload, cuModuleUnload);
    SAME_SIGNATURE(module_function, cuModuleGetFunction);
    SAME_SIGNATURE(module_global, cuModuleGetGlobal);
    SAME_SIGNATURE(launch, cuLaunchKernel);
    SAME_SIGNATURE(stream_create, cuStreamCreate);
    SAME_SIGNATURE(stream_destroy, cuStreamDestroy);
    SAME_SIGNATURE(stream_wait, cuStreamSynchronize);
    SAME_SIGNATURE(stream_wait_event, cuStreamWaitEvent);
    SAME_SIGNATURE(event_create, cuEventCreate);
    SAME_SIGNATURE(event_destroy, cuEventDestroy);
    SAME_SIGNATURE(event_record, cuEventRecord);
    SAME_SIGNATURE(event_wait, cuEventSynchronize);
    SAME_SIGNATURE(event_elapsed, cuEventElapsedTime);
    SAME_SIGNATURE(memcpy_async, cuMemcpyAsync);
    SAME_SIGNATURE(memcpy_peer_async, cuMemcpyPeerAsync);
#undef SAME_SIGNATURE
#else
    GTEST_SKIP() << "cuda.h is not installed";
#endif
}

TEST(VendorTypes, Nvrtc) {
#if defined(__NVRTC_H__)
#define SAME_SIGNATURE(member, function)                                                                               \
    static_assert(CompatibleSignature<decltype(RuntimeCompiler::member), decltype(&function)>::value)
    SAME_SIGNATURE(version, nvrtcVersion);
    SAME_SIGNATURE(error_string, nvrtcGetErrorString);
    SAME_SIGNATURE(create, nvrtcCreateProgram);
    SAME_SIGNATURE(destroy, nvrtcDestroyProgram);
    SAME_SIGNATURE(compile, nvrtcCompileProgram);
    SAME_SIGNATURE(log_size, nvrtcGetProgramLogSize);
    SAME_SIGNATURE(log, nvrtcGetProgramLog);
    SAME_SIGNATURE(code_size, nvrtcGetCUBINSize);
    SAME_SIGNATURE(code, nvrtcGetCUBIN);
    SAME_SIGNATURE(assembly_size, nvrtcGetPTXSize);
    SAME_SIGNATURE(assembly, nvrtcGetPTX);
#undef SAME_SIGNATURE
    static_assert(NVRTC_SUCCESS == 0);
#else
    GTEST_SKIP() << "nvrtc.h is not installed";
#endif
}

TEST(VendorTypes, Nvml) {
#if defined(NVML_API_VERSION)
    using cuda::Nvml, cuda::NvmlMemory, cuda::NvmlMemoryV2;
#define SAME_SIGNATURE(member, function)                                                                               \
    static_assert(CompatibleSignature<decltype(Nvml::member), decltype(&function)>::value)
    SAME_SIGNATURE(init, nvmlInit_v2);
    SAME_SIGNATURE(by_uuid, nvmlDeviceGetHandleByUUID);
    SAME_SIGNATURE(clock, nvmlDeviceGetClockInfo);
    SAME_SIGNATURE(temperature, nvmlDeviceGetTemperature);
    SAME_SIGNATURE(power, nvmlDeviceGetPowerUsage);
    SAME_SIGNATURE(throttle_reasons, nvmlDeviceGetCurrentClocksThrottleReasons);
    SAME_SIGNATURE(memory, nvmlDeviceGetMemoryInfo);
    SAME_SIGNATURE(memory_v2, nvmlDeviceGetMemoryInfo_v2);
#undef SAME_SIGNATURE
    static_assert(sizeof(NvmlMemory) == sizeof(nvmlMemory_t));
    static_assert(offsetof(NvmlMemory, total) == offsetof(nvmlMemory_t, total));
    static_assert(offsetof(NvmlMemory, free) == offsetof(nvmlMemory_t, free));
    static_assert(offsetof(NvmlMemory, used) == offsetof(nvmlMemory_t, used));
    static_assert(sizeof(NvmlMemoryV2) == sizeof(nvmlMemory_v2_t));
    static_assert(offsetof(NvmlMemoryV2, total) == offsetof(nvmlMemory_v2_t, total));
    static_assert(offsetof(NvmlMemoryV2, reserved) == offsetof(nvmlMemory_v2_t, reserved));
    static_assert(offsetof(NvmlMemoryV2, free) == offsetof(nvmlMemory_v2_t, free));
    static_assert(offsetof(NvmlMemoryV2, used) == offsetof(nvmlMemory_v2_t, used));
    EXPECT_EQ(NvmlMemoryV2{}.version, nvmlMemory_v2);
    // Constants that device.cpp writes as numbers.
    static_assert(NVML_SUCCESS == 0 && NVML_CLOCK_SM == 1 && NVML_CLOCK_MEM == 2 && NVML_TEMPERATURE_GPU == 0);
    EXPECT_EQ(nvmlClocksThrottleReasonSwPowerCap, 0x4u);
    EXPECT_EQ(nvmlClocksThrottleReasonHwSlowdown, 0x8u);
    EXPECT_EQ(nvmlClocksThrottleReasonSwThermalSlowdown, 0x20u);
    EXPECT_EQ(nvmlClocksThrottleReasonHwThermalSlowdown, 0x40u);
    EXPECT_EQ(nvmlClocksThrottleReasonHwPowerBrakeSlowdown, 0x80u);
#else
    GTEST_SKIP() << "nvml.h is not installed";
#endif
}

TEST(VendorTypes, Cupti) {
#if defined(CUPTI_API_VERSION)
    using namespace cupti;
    static_assert(sizeof(CounterConfig) == sizeof(CUpti_ActivityUnifiedMemoryCounterConfig));
    static_assert(offsetof(CounterConfig, kind) == offsetof(CUpti_ActivityUnifiedMemoryCounterConfig, kind));
    static_assert(offsetof(CounterConfig, device) == offsetof(CUpti_ActivityUnifiedMemoryCounterConfig, deviceId));
    static_assert(offsetof(CounterConfig, enable) == offsetof(CUpti_ActivityUnifiedMemoryCounterConfig, enable));
    static_assert(offsetof(Record, kind) == offsetof(CUpti_Activity, kind));
#if CUPTI_API_VERSION >= 26
    static_assert(CUPTI_API_VERSION >= version_with_processors);
    using Theirs = CUpti_ActivityUnifiedMemoryCounter3;
    static_assert(sizeof(CounterRecord3) == sizeof(Theirs));
    static_assert(offsetof(CounterRecord3, processors) == offsetof(Theirs, processors));
    static_assert(sizeof(CounterRecord3::processors) == sizeof(Theirs::processors));
#else
    static_assert(CUPTI_API_VERSION < version_with_processors);
    using Theirs = CUpti_ActivityUnifiedMemoryCounter2;
    static_assert(sizeof(CounterRecord) == sizeof(Theirs));
#endif
    static_assert(offsetof(CounterRecord, kind) == offsetof(Theirs, kind));
    static_assert(offsetof(CounterRecord, counter_kind) == offsetof(Theirs, counterKind));
    static_assert(offsetof(CounterRecord, value) == offsetof(Theirs, value));
    static_assert(offsetof(CounterRecord, start) == offsetof(Theirs, start));
    static_assert(offsetof(CounterRecord, end) == offsetof(Theirs, end));
    static_assert(offsetof(CounterRecord, address) == offsetof(Theirs, address));
    static_assert(offsetof(CounterRecord, source) == offsetof(Theirs, srcId));
    static_assert(offsetof(CounterRecord, target) == offsetof(Theirs, dstId));
    static_assert(offsetof(CounterRecord, flags) == offsetof(Theirs, flags));

    static_assert(unified_memory_counter == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
    static_assert(all_devices == CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES);
    EXPECT_EQ(cpu_id, CUPTI_UNIFIED_MEMORY_CPU_DEVICE_ID);
    const std::pair<int, int> kinds[] = {
        {bytes_h2d, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD},
        {bytes_d2h, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH},
        {cpu_page_fault, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT},
        {gpu_page_fault, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT},
        {thrashing, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING},
        {throttling, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THROTTLING},
        {remote_map, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP},
        {bytes_d2d, CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD}};
    for (const auto& [ours, theirs] : kinds) EXPECT_EQ(ours, theirs);
    // events.cpp has a table of the flags' names, indexed by value.
    static_assert(CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_USER == 1);
    static_assert(CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_COHERENCE == 2);
    static_assert(CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_PREFETCH == 3);
    static_assert(CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_EVICTION == 4);
    static_assert(CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_ACCESS_COUNTERS == 5);
    static_assert(CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_READ == 1);
    static_assert(CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_WRITE == 2);
    static_assert(CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_ATOMIC == 3);
    static_assert(CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_PREFETCH == 4);
    static_assert(CUPTI_ACTIVITY_UNIFIED_MEMORY_REMOTE_MAP_CAUSE_COHERENCE == 1);
    static_assert(CUPTI_ACTIVITY_UNIFIED_MEMORY_REMOTE_MAP_CAUSE_THRASHING == 2);
    static_assert(CUPTI_ACTIVITY_UNIFIED_MEMORY_REMOTE_MAP_CAUSE_POLICY == 3);
    static_assert(CUPTI_ACTIVITY_UNIFIED_MEMORY_REMOTE_MAP_CAUSE_OUT_OF_MEMORY == 4);
    static_assert(CUPTI_ACTIVITY_UNIFIED_MEMORY_REMOTE_MAP_CAUSE_EVICTION == 5);
    static_assert(CUPTI_ACTIVITY_FLAG_THRASHING_IN_CPU == 1 && CUPTI_ACTIVITY_FLAG_THROTTLING_IN_CPU == 1);
    const std::pair<int, int> codes[] = {
        {ok, CUPTI_SUCCESS},
        {end_of_buffer, CUPTI_ERROR_MAX_LIMIT_REACHED},
        {not_compatible, CUPTI_ERROR_NOT_COMPATIBLE},
        {not_initialised, CUPTI_ERROR_NOT_INITIALIZED},
        {um_not_supported, CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED},
        {um_not_on_device, CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE},
        {um_not_on_non_p2p_devices, CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_NON_P2P_DEVICES},
        {um_not_with_mps, CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_WITH_MPS},
        {virtualised, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED},
        {insufficient_privileges, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES},
        {another_subscriber, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED},
        {virtualised_privileges, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES},
        {confidential_computing, CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED},
        {mig, CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED},
        {wsl, CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED}};
    for (const auto& [ours, theirs] : codes) EXPECT_EQ(ours, theirs);

#define SAME_SIGNATURE(member, function)                                                                               \
    static_assert(CompatibleSignature<decltype(Functions::member), decltype(&function)>::value)
    SAME_SIGNATURE(get_version, cuptiGetVersion);
    SAME_SIGNATURE(get_result_string, cuptiGetResultString);
    SAME_SIGNATURE(subscribe, cuptiSubscribe);
    SAME_SIGNATURE(unsubscribe, cuptiUnsubscribe);
    SAME_SIGNATURE(register_callbacks, cuptiActivityRegisterCallbacks);
    SAME_SIGNATURE(configure, cuptiActivityConfigureUnifiedMemoryCounter);
    SAME_SIGNATURE(enable, cuptiActivityEnable);
    SAME_SIGNATURE(disable, cuptiActivityDisable);
    SAME_SIGNATURE(flush, cuptiActivityFlushAll);
    SAME_SIGNATURE(next_record, cuptiActivityGetNextRecord);
    SAME_SIGNATURE(dropped_records, cuptiActivityGetNumDroppedRecords);
    SAME_SIGNATURE(get_timestamp, cuptiGetTimestamp);
    SAME_SIGNATURE(enable_callback, cuptiEnableCallback);
#undef SAME_SIGNATURE
    static_assert(CompatibleSignature<Callback, CUpti_CallbackFunc>::value);
    static_assert(CompatibleSignature<RequestBuffer, CUpti_BuffersCallbackRequestFunc>::value);
    static_assert(CompatibleSignature<CompleteBuffer, CUpti_BuffersCallbackCompleteFunc>::value);
#else
    GTEST_SKIP() << "cupti_activity.h is not installed";
#endif
}

// The records of what a program does, whose layouts the next versions extend.
TEST(VendorTypes, CuptiRecordsOfCalls) {
#if defined(CUPTI_API_VERSION)
    using namespace cupti;
    static_assert(has_known_layouts(CUPTI_API_VERSION));
#if CUPTI_API_VERSION >= 130500
    using TheirCopy = CUpti_ActivityMemcpy7;
    using TheirPeerCopy = CUpti_ActivityMemcpyPtoP4;
    using TheirFill = CUpti_ActivityMemset5;
    using TheirMemory = CUpti_ActivityMemory4;
    using TheirKernel = CUpti_ActivityKernel13;
#elif CUPTI_API_VERSION >= 130000
    using TheirCopy = CUpti_ActivityMemcpy6;
    using TheirPeerCopy = CUpti_ActivityMemcpyPtoP4;
    using TheirFill = CUpti_ActivityMemset4;
    using TheirMemory = CUpti_ActivityMemory4;
    using TheirKernel = CUpti_ActivityKernel10;
#else
    using TheirCopy = CUpti_ActivityMemcpy5;
    using TheirPeerCopy = CUpti_ActivityMemcpyPtoP4;
    using TheirFill = CUpti_ActivityMemset4;
    using TheirMemory = CUpti_ActivityMemory3;
    using TheirKernel = CUpti_ActivityKernel9;
#endif
#define SAME(ours, member, theirs, their_member)                                                                       \
    static_assert(offsetof(ours, member) == offsetof(theirs, their_member) &&                                          \
                  sizeof(ours::member) == sizeof(theirs::their_member))
    SAME(CopyRecord, direction, TheirCopy, copyKind);
    SAME(CopyRecord, source, TheirCopy, srcKind);
    SAME(CopyRecord, target, TheirCopy, dstKind);
    SAME(CopyRecord, bytes, TheirCopy, bytes);
    SAME(CopyRecord, start, TheirCopy, start);
    SAME(CopyRecord, end, TheirCopy, end);
    SAME(CopyRecord, device, TheirCopy, deviceId);
    SAME(CopyRecord, stream, TheirCopy, streamId);
    SAME(CopyRecord, correlation, TheirCopy, correlationId);
    SAME(PeerCopyRecord, direction, TheirPeerCopy, copyKind);
    SAME(PeerCopyRecord, source, TheirPeerCopy, srcKind);
    SAME(PeerCopyRecord, target, TheirPeerCopy, dstKind);
    SAME(PeerCopyRecord, bytes, TheirPeerCopy, bytes);
    SAME(PeerCopyRecord, start, TheirPeerCopy, start);
    SAME(PeerCopyRecord, end, TheirPeerCopy, end);
    SAME(PeerCopyRecord, device, TheirPeerCopy, deviceId);
    SAME(PeerCopyRecord, stream, TheirPeerCopy, streamId);
    SAME(PeerCopyRecord, source_device, TheirPeerCopy, srcDeviceId);
    SAME(PeerCopyRecord, target_device, TheirPeerCopy, dstDeviceId);
    SAME(PeerCopyRecord, correlation, TheirPeerCopy, correlationId);
    SAME(FillRecord, bytes, TheirFill, bytes);
    SAME(FillRecord, start, TheirFill, start);
    SAME(FillRecord, end, TheirFill, end);
    SAME(FillRecord, device, TheirFill, deviceId);
    SAME(FillRecord, stream, TheirFill, streamId);
    SAME(FillRecord, correlation, TheirFill, correlationId);
    SAME(FillRecord, memory, TheirFill, memoryKind);
    SAME(KernelRecord, start, TheirKernel, start);
    SAME(KernelRecord, end, TheirKernel, end);
    SAME(KernelRecord, device, TheirKernel, deviceId);
    SAME(KernelRecord, stream, TheirKernel, streamId);
    SAME(KernelRecord, correlation, TheirKernel, correlationId);
    SAME(KernelRecord, name, TheirKernel, name);
    SAME(KernelRecord, graph_node, TheirKernel, graphNodeId);
    SAME(KernelRecord, graph, TheirKernel, graphId);
    SAME(MemoryRecord, operation, TheirMemory, memoryOperationType);
    SAME(MemoryRecord, memory, TheirMemory, memoryKind);
    SAME(MemoryRecord, correlation, TheirMemory, correlationId);
    SAME(MemoryRecord, address, TheirMemory, address);
    SAME(MemoryRecord, bytes, TheirMemory, bytes);
    SAME(MemoryRecord, timestamp, TheirMemory, timestamp);
    SAME(MemoryRecord, instruction, TheirMemory, PC);
    SAME(MemoryRecord, process, TheirMemory, processId);
    SAME(MemoryRecord, device, TheirMemory, deviceId);
    SAME(MemoryRecord, name, TheirMemory, name);
    SAME(CallData, site, CUpti_CallbackData, callbackSite);
    SAME(CallData, function, CUpti_CallbackData, functionName);
    SAME(CallData, correlation, CUpti_CallbackData, correlationId);
#undef SAME
    const std::pair<std::uint32_t, std::uint32_t> numbers[] = {
        {copies, CUPTI_ACTIVITY_KIND_MEMCPY},
        {copies_between_devices, CUPTI_ACTIVITY_KIND_MEMCPY2},
        {fills, CUPTI_ACTIVITY_KIND_MEMSET},
        {concurrent_kernels, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL},
        {memory_operations, CUPTI_ACTIVITY_KIND_MEMORY2},
        {flush_all, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED},
        {driver_calls, CUPTI_CB_DOMAIN_DRIVER_API},
        {resources, CUPTI_CB_DOMAIN_RESOURCE},
        {context_created, CUPTI_CBID_RESOURCE_CONTEXT_CREATED},
        {context_ends, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING},
        {entering, CUPTI_API_ENTER},
        {leaving, CUPTI_API_EXIT},
        {call_init, CUPTI_DRIVER_TRACE_CBID_cuInit},
        {1, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION},
        {2, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE}};
    for (const auto& [ours, theirs] : numbers) EXPECT_EQ(ours, theirs);
    const std::uint32_t allocating[] = {CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemAllocPitch_v2,
                                        CUPTI_DRIVER_TRACE_CBID_cuArrayCreate_v2,
                                        CUPTI_DRIVER_TRACE_CBID_cuArray3DCreate_v2,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemAllocHost_v2,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemHostRegister,
                                        CUPTI_DRIVER_TRACE_CBID_cuMipmappedArrayCreate,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemHostRegister_v2,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemCreate,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync_ptsz,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync_ptsz};
    for (const std::uint32_t id : allocating) EXPECT_EQ(std::ranges::count(allocating_calls, id), 1) << id;
#if CUPTI_API_VERSION < 130500
    EXPECT_EQ(std::ranges::count(allocating_calls, std::uint32_t(CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc_v2)), 1);
#endif
    // profile/journal.py has the names of the kinds of memory and of copies, by number.
    static_assert(CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE == 1 && CUPTI_ACTIVITY_MEMORY_KIND_PINNED == 2);
    static_assert(CUPTI_ACTIVITY_MEMORY_KIND_DEVICE == 3 && CUPTI_ACTIVITY_MEMORY_KIND_ARRAY == 4);
    static_assert(CUPTI_ACTIVITY_MEMORY_KIND_MANAGED == 5 && CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC == 6);
    static_assert(CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC == 7);
    static_assert(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD == 1 && CUPTI_ACTIVITY_MEMCPY_KIND_DTOH == 2);
    static_assert(CUPTI_ACTIVITY_MEMCPY_KIND_HTOA == 3 && CUPTI_ACTIVITY_MEMCPY_KIND_ATOH == 4);
    static_assert(CUPTI_ACTIVITY_MEMCPY_KIND_ATOA == 5 && CUPTI_ACTIVITY_MEMCPY_KIND_DTOD == 8);
    static_assert(CUPTI_ACTIVITY_MEMCPY_KIND_HTOH == 9 && CUPTI_ACTIVITY_MEMCPY_KIND_PTOP == 10);
#else
    GTEST_SKIP() << "cupti_activity.h is not installed";
#endif
}

TEST(VendorTypes, Nvtx) {
#if defined(NVTX_VERSION)
    using namespace nvtx;
    static_assert(sizeof(Callbacks) == sizeof(NvtxExportTableCallbacks));
    static_assert(offsetof(Callbacks, get_module_function_table) ==
                  offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
    static_assert(sizeof(EventAttributes) == sizeof(nvtxEventAttributes_t));
    static_assert(offsetof(EventAttributes, size) == offsetof(nvtxEventAttributes_t, size));
    static_assert(offsetof(EventAttributes, message_type) == offsetof(nvtxEventAttributes_t, messageType));
    static_assert(offsetof(EventAttributes, message) == offsetof(nvtxEventAttributes_t, message));
    const std::pair<int, int> numbers[] = {{callbacks_table, NVTX_ETID_CALLBACKS},
                                           {module_core, NVTX_CB_MODULE_CORE},
                                           {module_core2, NVTX_CB_MODULE_CORE2},
                                           {mark_ex, NVTX_CBID_CORE_MarkEx},
                                           {mark_a, NVTX_CBID_CORE_MarkA},
                                           {mark_w, NVTX_CBID_CORE_MarkW},
                                           {range_start_ex, NVTX_CBID_CORE_RangeStartEx},
                                           {range_start_a, NVTX_CBID_CORE_RangeStartA},
                                           {range_start_w, NVTX_CBID_CORE_RangeStartW},
                                           {range_end, NVTX_CBID_CORE_RangeEnd},
                                           {range_push_ex, NVTX_CBID_CORE_RangePushEx},
                                           {range_push_a, NVTX_CBID_CORE_RangePushA},
                                           {range_push_w, NVTX_CBID_CORE_RangePushW},
                                           {range_pop, NVTX_CBID_CORE_RangePop},
                                           {domain_mark_ex, NVTX_CBID_CORE2_DomainMarkEx},
                                           {domain_range_start_ex, NVTX_CBID_CORE2_DomainRangeStartEx},
                                           {domain_range_end, NVTX_CBID_CORE2_DomainRangeEnd},
                                           {domain_range_push_ex, NVTX_CBID_CORE2_DomainRangePushEx},
                                           {domain_range_pop, NVTX_CBID_CORE2_DomainRangePop},
                                           {domain_register_string_a, NVTX_CBID_CORE2_DomainRegisterStringA},
                                           {domain_register_string_w, NVTX_CBID_CORE2_DomainRegisterStringW},
                                           {domain_create_a, NVTX_CBID_CORE2_DomainCreateA},
                                           {domain_create_w, NVTX_CBID_CORE2_DomainCreateW},
                                           {message_ascii, NVTX_MESSAGE_TYPE_ASCII},
                                           {message_unicode, NVTX_MESSAGE_TYPE_UNICODE},
                                           {message_registered, NVTX_MESSAGE_TYPE_REGISTERED},
                                           {no_push_pop_tracking, NVTX_NO_PUSH_POP_TRACKING}};
    for (const auto& [ours, theirs] : numbers) EXPECT_EQ(ours, theirs);
#else
    GTEST_SKIP() << "nvtx3/nvToolsExt.h is not installed";
#endif
}

TEST(VendorTypes, OpenclDispatchTable) {
#if defined(CL_VERSION_3_0) && __has_include(<CL/cl_icd.h>)
    using namespace opencl;
#define SLOT(slot, function) EXPECT_EQ(slot, offsetof(cl_icd_dispatch, function) / sizeof(void*)) << #function
    SLOT(get_platform_info, clGetPlatformInfo);
    SLOT(get_device_ids, clGetDeviceIDs);
    SLOT(get_device_info, clGetDeviceInfo);
    SLOT(create_context, clCreateContext);
    SLOT(release_context, clReleaseContext);
    SLOT(create_queue, clCreateCommandQueue);
    SLOT(release_queue, clReleaseCommandQueue);
    SLOT(create_buffer, clCreateBuffer);
    SLOT(release_memory, clReleaseMemObject);
    SLOT(create_program, clCreateProgramWithSource);
    SLOT(release_program, clReleaseProgram);
    SLOT(build_program, clBuildProgram);
    SLOT(get_program_info, clGetProgramInfo);
    SLOT(get_build_info, clGetProgramBuildInfo);
    SLOT(create_kernel, clCreateKernel);
    SLOT(release_kernel, clReleaseKernel);
    SLOT(set_argument, clSetKernelArg);
    SLOT(wait_events, clWaitForEvents);
    SLOT(release_event, clReleaseEvent);
    SLOT(get_profiling, clGetEventProfilingInfo);
    SLOT(flush, clFlush);
    SLOT(finish, clFinish);
    SLOT(enqueue_read, clEnqueueReadBuffer);
    SLOT(enqueue_write, clEnqueueWriteBuffer);
    SLOT(enqueue_copy, clEnqueueCopyBuffer);
    SLOT(enqueue_map, clEnqueueMapBuffer);
    SLOT(enqueue_unmap, clEnqueueUnmapMemObject);
    SLOT(enqueue_kernel, clEnqueueNDRangeKernel);
    SLOT(create_user_event, clCreateUserEvent);
    SLOT(set_user_event, clSetUserEventStatus);
    SLOT(enqueue_migrate, clEnqueueMigrateMemObjects);
    SLOT(enqueue_marker, clEnqueueMarkerWithWaitList);
    SLOT(enqueue_barrier, clEnqueueBarrierWithWaitList);
    SLOT(svm_alloc, clSVMAlloc);
    SLOT(svm_free, clSVMFree);
    SLOT(enqueue_svm_copy, clEnqueueSVMMemcpy);
    SLOT(enqueue_svm_map, clEnqueueSVMMap);
    SLOT(enqueue_svm_unmap, clEnqueueSVMUnmap);
    SLOT(set_argument_svm, clSetKernelArgSVMPointer);
#undef SLOT
#else
    GTEST_SKIP() << "CL/cl_icd.h is not installed";
#endif
}

TEST(VendorTypes, Cublas) {
#if defined(CUBLAS_VERSION)
    using math::BlasTable;
#define SAME_SIGNATURE(member, function)                                                                               \
    static_assert(CompatibleSignature<decltype(BlasTable::member), decltype(&function)>::value)
    SAME_SIGNATURE(error_text, cublasGetStatusString);
    SAME_SIGNATURE(create, cublasCreate);
    SAME_SIGNATURE(destroy, cublasDestroy);
    SAME_SIGNATURE(version, cublasGetVersion);
    SAME_SIGNATURE(set_stream, cublasSetStream);
    SAME_SIGNATURE(set_workspace, cublasSetWorkspace);
    SAME_SIGNATURE(set_pointer_mode, cublasSetPointerMode);
    SAME_SIGNATURE(set_math_mode, cublasSetMathMode);
    SAME_SIGNATURE(sgemm, cublasSgemm);
    SAME_SIGNATURE(sdot, cublasSdot);
#undef SAME_SIGNATURE
    static_assert(CUBLAS_POINTER_MODE_HOST == math::scalars_on_host);
    static_assert(CUBLAS_POINTER_MODE_DEVICE == math::scalars_on_device);
    static_assert(CUBLAS_STATUS_SUCCESS == 0 && CUBLAS_OP_N == 0 && CUBLAS_DEFAULT_MATH == math::default_math);
#else
    GTEST_SKIP() << "cublas_v2.h is not installed";
#endif
}

TEST(VendorTypes, Cusparse) {
#if defined(CUSPARSE_VERSION)
    using math::SparseTable;
#define SAME_SIGNATURE(member, function)                                                                               \
    static_assert(CompatibleSignature<decltype(SparseTable::member), decltype(&function)>::value)
    SAME_SIGNATURE(error_text, cusparseGetErrorString);
    SAME_SIGNATURE(create, cusparseCreate);
    SAME_SIGNATURE(destroy, cusparseDestroy);
    SAME_SIGNATURE(version, cusparseGetVersion);
    SAME_SIGNATURE(set_stream, cusparseSetStream);
    SAME_SIGNATURE(create_csr, cusparseCreateCsr);
    SAME_SIGNATURE(destroy_matrix, cusparseDestroySpMat);
    SAME_SIGNATURE(create_vector, cusparseCreateDnVec);
    SAME_SIGNATURE(destroy_vector, cusparseDestroyDnVec);
    SAME_SIGNATURE(set_vector, cusparseDnVecSetValues);
    SAME_SIGNATURE(spmv_bytes, cusparseSpMV_bufferSize);
    SAME_SIGNATURE(spmv_analyse, cusparseSpMV_preprocess);
    SAME_SIGNATURE(spmv, cusparseSpMV);
#undef SAME_SIGNATURE
    static_assert(CUSPARSE_STATUS_SUCCESS == 0 && CUSPARSE_OPERATION_NON_TRANSPOSE == math::not_transposed);
    static_assert(CUSPARSE_INDEX_32I == math::index_i32 && CUSPARSE_INDEX_BASE_ZERO == math::from_zero);
    static_assert(CUDA_R_32F == math::f32 && CUSPARSE_SPMV_ALG_DEFAULT == math::default_algorithm);
    static_assert(CUSPARSE_POINTER_MODE_HOST == math::scalars_on_host);  // the default of a new handle
#else
    GTEST_SKIP() << "cusparse.h is not installed";
#endif
}

TEST(VendorTypes, Cufft) {
#if defined(CUFFT_VERSION)
    using Table = math::FftTable<int>;
    static_assert(compatible<Table::Handle, cufftHandle>);
#define SAME_SIGNATURE(member, function)                                                                               \
    static_assert(CompatibleSignature<decltype(Table::member), decltype(&function)>::value)
    SAME_SIGNATURE(version, cufftGetVersion);
    SAME_SIGNATURE(create, cufftCreate);
    SAME_SIGNATURE(destroy, cufftDestroy);
    SAME_SIGNATURE(set_stream, cufftSetStream);
    SAME_SIGNATURE(set_auto_allocation, cufftSetAutoAllocation);
    SAME_SIGNATURE(make_plan_2d, cufftMakePlan2d);
    SAME_SIGNATURE(set_work_area, cufftSetWorkArea);
    SAME_SIGNATURE(r2c, cufftExecR2C);
    SAME_SIGNATURE(c2r, cufftExecC2R);
    SAME_SIGNATURE(c2c, cufftExecC2C);
#undef SAME_SIGNATURE
    static_assert(CUFFT_R2C == math::type_r2c && CUFFT_C2R == math::type_c2r && CUFFT_C2C == math::type_c2c);
    static_assert(CUFFT_FORWARD == math::fft_forward && CUFFT_INVERSE == math::fft_backward);
    static_assert(CUFFT_SUCCESS == 0);
    EXPECT_STREQ(math::fft_error_text(CUFFT_ALLOC_FAILED), "allocation failed");
    EXPECT_STREQ(math::fft_error_text(CUFFT_NO_WORKSPACE), "no workspace");
    EXPECT_STREQ(math::fft_error_text(CUFFT_NOT_SUPPORTED), "not supported");
#else
    GTEST_SKIP() << "cufft.h is not installed";
#endif
}

TEST(VendorTypes, OpenclNumbers) {
#if defined(CL_VERSION_3_0)
    using namespace opencl;
    static_assert(sizeof(Int) == sizeof(cl_int) && sizeof(UInt) == sizeof(cl_uint) &&
                  sizeof(ULong) == sizeof(cl_ulong));
    static_assert(sizeof(cl_mem_flags) == sizeof(ULong) && sizeof(cl_map_flags) == sizeof(ULong) &&
                  sizeof(cl_device_type) == sizeof(ULong) && sizeof(cl_command_queue_properties) == sizeof(ULong));
    EXPECT_EQ(device_type_all, CL_DEVICE_TYPE_ALL);
    EXPECT_EQ(device_type_cpu, CL_DEVICE_TYPE_CPU);
    const std::pair<UInt, UInt> information[] = {{info_type, CL_DEVICE_TYPE},
                                                 {info_compute_units, CL_DEVICE_MAX_COMPUTE_UNITS},
                                                 {info_group_size, CL_DEVICE_MAX_WORK_GROUP_SIZE},
                                                 {info_clock, CL_DEVICE_MAX_CLOCK_FREQUENCY},
                                                 {info_max_allocation, CL_DEVICE_MAX_MEM_ALLOC_SIZE},
                                                 {info_cache_line, CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE},
                                                 {info_cache_bytes, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE},
                                                 {info_memory_bytes, CL_DEVICE_GLOBAL_MEM_SIZE},
                                                 {info_name, CL_DEVICE_NAME},
                                                 {info_vendor, CL_DEVICE_VENDOR},
                                                 {info_driver, CL_DRIVER_VERSION},
                                                 {info_version, CL_DEVICE_VERSION},
                                                 {info_extensions, CL_DEVICE_EXTENSIONS},
                                                 {info_unified, CL_DEVICE_HOST_UNIFIED_MEMORY},
                                                 {info_c_version, CL_DEVICE_OPENCL_C_VERSION},
                                                 {info_svm, CL_DEVICE_SVM_CAPABILITIES},
                                                 {program_binary_sizes, CL_PROGRAM_BINARY_SIZES},
                                                 {program_binaries, CL_PROGRAM_BINARIES},
                                                 {build_log, CL_PROGRAM_BUILD_LOG},
                                                 {profiling_end, CL_PROFILING_COMMAND_END}};
    for (const auto& [ours, theirs] : information) EXPECT_EQ(ours, theirs);
    const std::pair<ULong, ULong> flags[] = {{queue_profiling, CL_QUEUE_PROFILING_ENABLE},
                                             {memory_read_write, CL_MEM_READ_WRITE},
                                             {memory_use_host, CL_MEM_USE_HOST_PTR},
                                             {memory_alloc_host, CL_MEM_ALLOC_HOST_PTR},
                                             {memory_svm_fine, CL_MEM_SVM_FINE_GRAIN_BUFFER},
                                             {memory_svm_atomics, CL_MEM_SVM_ATOMICS},
                                             {map_read_write, CL_MAP_READ | CL_MAP_WRITE},
                                             {svm_coarse, CL_DEVICE_SVM_COARSE_GRAIN_BUFFER},
                                             {svm_fine, CL_DEVICE_SVM_FINE_GRAIN_BUFFER},
                                             {svm_fine_system, CL_DEVICE_SVM_FINE_GRAIN_SYSTEM},
                                             {svm_atomics, CL_DEVICE_SVM_ATOMICS}};
    for (const auto& [ours, theirs] : flags) EXPECT_EQ(ours, theirs);
    const std::pair<Int, const char*> errors[] = {
        {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
        {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
        {CL_MAP_FAILURE, "CL_MAP_FAILURE"},
        {CL_INVALID_VALUE, "CL_INVALID_VALUE"},
        {CL_INVALID_KERNEL_ARGS, "CL_INVALID_KERNEL_ARGS"},
        {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE"},
        {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE"}};
    for (const auto& [code, name] : errors) EXPECT_STREQ(error_name(code), name);
#else
    GTEST_SKIP() << "CL/cl.h is not installed";
#endif
}

}  // namespace
}  // namespace firsttouch
