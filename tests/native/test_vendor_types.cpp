// The vendors' types and numbers that the core declares for itself, against the vendors' own headers where present.
#include <type_traits>

#include "device/cuda/api.hpp"
#include "device/opencl/api.hpp"
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
#if __has_include(<CL/cl_icd.h>)
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_icd.h>
#endif

namespace firsttouch {
namespace {

// Whether two types are passed alike: pointers for pointers, whole numbers and enumerations of one size.
template <class A, class B>
constexpr bool alike = std::is_pointer_v<A>&& std::is_pointer_v<B> ? true
                       : (std::is_integral_v<A> || std::is_enum_v<A>)&&(std::is_integral_v<B> || std::is_enum_v<B>)
                           ? sizeof(A) == sizeof(B)
                           : std::is_same_v<A, B>;

template <class A, class B>
struct SameCall : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameCall<R (*)(A...), S (*)(B...)>
    : std::bool_constant<alike<R, S> && (alike<A, B> && ...)> {
};

static_assert(SameCall<int (*)(void*, int), unsigned (*)(const char*, unsigned)>::value);
static_assert(!SameCall<int (*)(void*, int), int (*)(void*, long)>::value);
static_assert(!SameCall<int (*)(void*), int (*)(void*, int)>::value);

TEST(VendorTypes, CudaDriver) {
#if defined(CUDA_VERSION)
    using namespace cuda;
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
    static_assert(alike<Result, CUresult> && alike<DeviceOrdinal, CUdevice> && alike<DevicePointer, CUdeviceptr>);
    static_assert(alike<AllocationHandle, CUmemGenericAllocationHandle> && alike<Context, CUcontext>);

    // Numbers that the code writes as such.
    static_assert(CU_MEM_LOCATION_TYPE_DEVICE == 1 && CU_MEM_ALLOCATION_TYPE_PINNED == 1);
    static_assert(CU_MEM_ACCESS_FLAGS_PROT_READWRITE == 3 && CU_DEVICE_CPU == -1);
    static_assert(CU_MEM_ALLOC_GRANULARITY_MINIMUM == 0 && CU_EVENT_DEFAULT == 0 && CUDA_SUCCESS == 0);

    static_assert(managed_attach_global == CU_MEM_ATTACH_GLOBAL);
    static_assert(host_portable == CU_MEMHOSTALLOC_PORTABLE && host_device_map == CU_MEMHOSTALLOC_DEVICEMAP);
    static_assert(host_write_combined == CU_MEMHOSTALLOC_WRITECOMBINED);
    static_assert(register_portable == CU_MEMHOSTREGISTER_PORTABLE);
    static_assert(register_device_map == CU_MEMHOSTREGISTER_DEVICEMAP);
    static_assert(stream_non_blocking == CU_STREAM_NON_BLOCKING);

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

        // The calls. cuda.h renames a function to its newest version; where the core takes an older one, it is named
        // there.
#define SAME(member, function) static_assert(SameCall<decltype(Driver::member), decltype(&function)>::value)
    SAME(init, cuInit);
    SAME(get_error_name, cuGetErrorName);
    SAME(get_error_string, cuGetErrorString);
    SAME(driver_version, cuDriverGetVersion);
    SAME(device_count, cuDeviceGetCount);
    SAME(device_get, cuDeviceGet);
    SAME(device_name, cuDeviceGetName);
    SAME(device_uuid, cuDeviceGetUuid);
    SAME(device_attribute, cuDeviceGetAttribute);
    SAME(device_pci_bus_id, cuDeviceGetPCIBusId);
    SAME(context_retain, cuDevicePrimaryCtxRetain);
    SAME(context_release, cuDevicePrimaryCtxRelease);
    SAME(context_set, cuCtxSetCurrent);
    SAME(mem_info, cuMemGetInfo);
    SAME(mem_alloc, cuMemAlloc);
    SAME(mem_free, cuMemFree);
    SAME(mem_alloc_managed, cuMemAllocManaged);
    SAME(mem_host_alloc, cuMemHostAlloc);
    SAME(mem_free_host, cuMemFreeHost);
    SAME(mem_host_register, cuMemHostRegister);
    SAME(mem_host_unregister, cuMemHostUnregister);
    SAME(mem_host_device_pointer, cuMemHostGetDevicePointer);
    SAME(address_reserve, cuMemAddressReserve);
    SAME(address_free, cuMemAddressFree);
    SAME(mem_create, cuMemCreate);
    SAME(mem_release, cuMemRelease);
    SAME(mem_map, cuMemMap);
    SAME(mem_unmap, cuMemUnmap);
    SAME(mem_set_access, cuMemSetAccess);
    SAME(mem_granularity, cuMemGetAllocationGranularity);
#if CUDA_VERSION < 13000
    SAME(mem_prefetch, cuMemPrefetchAsync);
    SAME(mem_advise, cuMemAdvise);
#endif
    SAME(module_load, cuModuleLoadData);
    SAME(module_unload, cuModuleUnload);
    SAME(module_function, cuModuleGetFunction);
    SAME(module_global, cuModuleGetGlobal);
    SAME(launch, cuLaunchKernel);
    SAME(stream_create, cuStreamCreate);
    SAME(stream_destroy, cuStreamDestroy);
    SAME(stream_wait, cuStreamSynchronize);
    SAME(stream_wait_event, cuStreamWaitEvent);
    SAME(event_create, cuEventCreate);
    SAME(event_destroy, cuEventDestroy);
    SAME(event_record, cuEventRecord);
    SAME(event_wait, cuEventSynchronize);
    SAME(event_elapsed, cuEventElapsedTime);
    SAME(memcpy_async, cuMemcpyAsync);
#undef SAME
#else
    GTEST_SKIP() << "no cuda.h here";
#endif
}

TEST(VendorTypes, Nvrtc) {
#if defined(__NVRTC_H__)
    using cuda::Nvrtc;
#define SAME(member, function) static_assert(SameCall<decltype(Nvrtc::member), decltype(&function)>::value)
    SAME(version, nvrtcVersion);
    SAME(error_string, nvrtcGetErrorString);
    SAME(create, nvrtcCreateProgram);
    SAME(destroy, nvrtcDestroyProgram);
    SAME(compile, nvrtcCompileProgram);
    SAME(log_size, nvrtcGetProgramLogSize);
    SAME(log, nvrtcGetProgramLog);
    SAME(cubin_size, nvrtcGetCUBINSize);
    SAME(cubin, nvrtcGetCUBIN);
    SAME(ptx_size, nvrtcGetPTXSize);
    SAME(ptx, nvrtcGetPTX);
#undef SAME
    static_assert(NVRTC_SUCCESS == 0);
#else
    GTEST_SKIP() << "no nvrtc.h here";
#endif
}

TEST(VendorTypes, Nvml) {
#if defined(NVML_API_VERSION)
    using cuda::Nvml;
#define SAME(member, function) static_assert(SameCall<decltype(Nvml::member), decltype(&function)>::value)
    SAME(init, nvmlInit_v2);
    SAME(by_uuid, nvmlDeviceGetHandleByUUID);
    SAME(clock, nvmlDeviceGetClockInfo);
    SAME(temperature, nvmlDeviceGetTemperature);
    SAME(power, nvmlDeviceGetPowerUsage);
    SAME(throttle_reasons, nvmlDeviceGetCurrentClocksThrottleReasons);
#undef SAME
    // As device.cpp writes them.
    static_assert(NVML_SUCCESS == 0 && NVML_CLOCK_SM == 1 && NVML_CLOCK_MEM == 2 && NVML_TEMPERATURE_GPU == 0);
    EXPECT_EQ(nvmlClocksThrottleReasonSwPowerCap, 0x4u);
    EXPECT_EQ(nvmlClocksThrottleReasonHwSlowdown, 0x8u);
    EXPECT_EQ(nvmlClocksThrottleReasonSwThermalSlowdown, 0x20u);
    EXPECT_EQ(nvmlClocksThrottleReasonHwThermalSlowdown, 0x40u);
    EXPECT_EQ(nvmlClocksThrottleReasonHwPowerBrakeSlowdown, 0x80u);
#else
    GTEST_SKIP() << "no nvml.h here";
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
    GTEST_SKIP() << "no CL/cl_icd.h here";
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
    GTEST_SKIP() << "no CL/cl.h here";
#endif
}

}  // namespace
}  // namespace firsttouch
