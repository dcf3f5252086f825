// The types and numbers of HIP that the core declares for itself, against AMD's own headers where present. Apart from
// test_vendor_types.cpp: AMD's and NVIDIA's headers declare the same vector types.
#include "device/gpu.hpp"
#include "device/hip/api.hpp"
#include "math/tables.hpp"
#include "same_call.hpp"
#include "support.hpp"

#if __has_include(<hip/hip_runtime_api.h>)
#define __HIP_PLATFORM_AMD__
#define __HIP_DISABLE_CPP_FUNCTIONS__  // overloads of hipMalloc and others for typed pointers
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
#if __has_include(<hipblas/hipblas.h>)
#define FIRSTTOUCH_HIPBLAS
#define HIPBLAS_V2
#include <hipblas/hipblas.h>
#endif
#if __has_include(<hipsparse/hipsparse.h>)
#define FIRSTTOUCH_HIPSPARSE
#include <hipsparse/hipsparse.h>
#endif
#if __has_include(<hipfft/hipfft.h>)
#define FIRSTTOUCH_HIPFFT
#include <hipfft/hipfft.h>
#endif
#endif

namespace firsttouch {
namespace {

// ROCm 6 changed hipDeviceProp_t; the core takes that form alone.
TEST(VendorTypes, HipRuntime) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // ROCm 6.3 says so of hipHostMalloc; 7 has it as before
#if defined(HIP_VERSION_MAJOR) && HIP_VERSION_MAJOR >= 6
    using namespace hip;
    static_assert(sizeof(Properties) >= 2 * sizeof(hipDeviceProp_t));
    static_assert(Properties::name_offset == offsetof(hipDeviceProp_t, gcnArchName));
    static_assert(Properties::name_bytes == sizeof(hipDeviceProp_t::gcnArchName));
    static_assert(sizeof(Uuid) == sizeof(hipUUID));
    static_assert(sizeof(Location) == sizeof(hipMemLocation) && offsetof(Location, id) == offsetof(hipMemLocation, id));
    using Wanted = Runtime::AllocationProperties;
    static_assert(sizeof(Wanted) == sizeof(hipMemAllocationProp));
    static_assert(offsetof(Wanted, type) == offsetof(hipMemAllocationProp, type));
    static_assert(offsetof(Wanted, requested_handle_type) == offsetof(hipMemAllocationProp, requestedHandleType));
    static_assert(offsetof(Wanted, location) == offsetof(hipMemAllocationProp, location));
    static_assert(offsetof(Wanted, win32_metadata) == offsetof(hipMemAllocationProp, win32HandleMetaData));
    static_assert(offsetof(Wanted, flags) == offsetof(hipMemAllocationProp, allocFlags));
    static_assert(offsetof(Wanted, flags.gpu_direct_rdma_capable) ==
                  offsetof(hipMemAllocationProp, allocFlags.gpuDirectRDMACapable));
    static_assert(offsetof(Wanted, flags.usage) == offsetof(hipMemAllocationProp, allocFlags.usage));
    using Access = Runtime::AccessDescription;
    static_assert(sizeof(Access) == sizeof(hipMemAccessDesc));
    static_assert(offsetof(Access, flags) == offsetof(hipMemAccessDesc, flags));

    // Numbers that the code writes as such.
    static_assert(hipSuccess == 0 && hipErrorNoDevice == no_device && hipCpuDeviceId == -1);
    static_assert(hipMemLocationTypeDevice == 1 && hipMemAllocationTypePinned == 1);
    static_assert(hipMemAccessFlagsProtReadWrite == 3 && hipMemAllocationGranularityMinimum == 0);
    static_assert(hipEventDefault == 0 && GpuStream<Runtime>::non_blocking == hipStreamNonBlocking);
    static_assert(hipMemAdviseSetReadMostly == 1 && hipMemAdviseSetPreferredLocation == 3);
    static_assert(hipMemAdviseSetAccessedBy == 5 && hipMemAdviseSetCoarseGrain == advise_coarse_grain);
    static_assert(hipMemcpyDefault == copy_by_address && hipMemAttachGlobal == managed_attach_global);
    static_assert(hipHostMallocPortable == host_portable && hipHostMallocCoherent == host_coherent);
    static_assert(hipHostMallocNonCoherent == host_non_coherent && hipDeviceMallocFinegrained == malloc_fine_grained);
    static_assert(hipHostRegisterPortable == register_portable && hipHostRegisterMapped == register_mapped);

    const std::pair<int, int> attributes[] = {
        {can_use_host_pointer_for_registered, hipDeviceAttributeCanUseHostPointerForRegisteredMem},
        {clock_rate_khz, hipDeviceAttributeClockRate},
        {concurrent_managed_access, hipDeviceAttributeConcurrentManagedAccess},
        {direct_managed_access_from_host, hipDeviceAttributeDirectManagedMemAccessFromHost},
        {host_native_atomics, hipDeviceAttributeHostNativeAtomicSupported},
        {integrated, hipDeviceAttributeIntegrated},
        {l2_bytes, hipDeviceAttributeL2CacheSize},
        {managed_memory, hipDeviceAttributeManagedMemory},
        {threads_per_multiprocessor, hipDeviceAttributeMaxThreadsPerMultiProcessor},
        {memory_bus_bits, hipDeviceAttributeMemoryBusWidth},
        {memory_clock_khz, hipDeviceAttributeMemoryClockRate},
        {multiprocessors, hipDeviceAttributeMultiprocessorCount},
        {pageable_memory_access, hipDeviceAttributePageableMemoryAccess},
        {pageable_uses_host_page_tables, hipDeviceAttributePageableMemoryAccessUsesHostPageTables},
        {warp_size, hipDeviceAttributeWarpSize},
        {virtual_memory_management, hipDeviceAttributeVirtualMemoryManagementSupported},
        {host_register_supported, hipDeviceAttributeHostRegisterSupported},
        {large_bar, hipDeviceAttributeIsLargeBar},
        {fine_grain_support, hipDeviceAttributeFineGrainSupport},
        {wall_clock_khz, hipDeviceAttributeWallClockRate}};
    for (const auto& [ours, theirs] : attributes) EXPECT_EQ(ours, theirs);

#define SAME(member, function) static_assert(SameCall<decltype(Runtime::member), decltype(&function)>::value)
    SAME(init, hipInit);
    SAME(get_error_name, hipGetErrorName);
    SAME(get_error_string, hipGetErrorString);
    SAME(runtime_version, hipRuntimeGetVersion);
    SAME(device_count, hipGetDeviceCount);
    SAME(current_get, hipGetDevice);
    SAME(current_set, hipSetDevice);
    SAME(peer_possible, hipDeviceCanAccessPeer);
    SAME(peer_enable, hipDeviceEnablePeerAccess);
    SAME(device_get, hipDeviceGet);
    SAME(device_name, hipDeviceGetName);
    SAME(device_uuid, hipDeviceGetUuid);
    SAME(device_attribute, hipDeviceGetAttribute);
    SAME(device_pci_bus_id, hipDeviceGetPCIBusId);
    SAME(device_properties, hipGetDeviceProperties);
    SAME(mem_info, hipMemGetInfo);
    SAME(mem_alloc, hipMalloc);
    SAME(mem_alloc_managed, hipMallocManaged);
    SAME(mem_host_alloc, hipHostMalloc);
    SAME(mem_alloc_flags, hipExtMallocWithFlags);
    SAME(mem_free, hipFree);
    SAME(mem_free_host, hipHostFree);
    SAME(mem_host_register, hipHostRegister);
    SAME(mem_host_unregister, hipHostUnregister);
    SAME(mem_host_device_pointer, hipHostGetDevicePointer);
    SAME(address_reserve, hipMemAddressReserve);
    SAME(address_free, hipMemAddressFree);
    SAME(mem_create, hipMemCreate);
    SAME(mem_release, hipMemRelease);
    SAME(mem_map, hipMemMap);
    SAME(mem_unmap, hipMemUnmap);
    SAME(mem_set_access, hipMemSetAccess);
    SAME(mem_granularity, hipMemGetAllocationGranularity);
    SAME(mem_prefetch, hipMemPrefetchAsync);
    SAME(mem_advise, hipMemAdvise);
    SAME(module_load, hipModuleLoadData);
    SAME(module_unload, hipModuleUnload);
    SAME(module_function, hipModuleGetFunction);
    SAME(launch, hipModuleLaunchKernel);
    SAME(stream_create, hipStreamCreateWithFlags);
    SAME(stream_destroy, hipStreamDestroy);
    SAME(stream_wait, hipStreamSynchronize);
    SAME(stream_wait_event, hipStreamWaitEvent);
    SAME(event_create, hipEventCreateWithFlags);
    SAME(event_destroy, hipEventDestroy);
    SAME(event_record, hipEventRecord);
    SAME(event_wait, hipEventSynchronize);
    SAME(event_elapsed, hipEventElapsedTime);
    SAME(memcpy_async, hipMemcpyAsync);
#undef SAME
#else
    GTEST_SKIP() << "no hip/hip_runtime_api.h of ROCm 6 or newer here";
#endif
#pragma GCC diagnostic pop
}

TEST(VendorTypes, Hiprtc) {
#if defined(HIP_VERSION_MAJOR)
    using hip::Hiprtc;
#define SAME(member, function) static_assert(SameCall<decltype(Hiprtc::member), decltype(&function)>::value)
    SAME(version, hiprtcVersion);
    SAME(error_string, hiprtcGetErrorString);
    SAME(create, hiprtcCreateProgram);
    SAME(destroy, hiprtcDestroyProgram);
    SAME(compile, hiprtcCompileProgram);
    SAME(log_size, hiprtcGetProgramLogSize);
    SAME(log, hiprtcGetProgramLog);
    SAME(code_size, hiprtcGetCodeSize);
    SAME(code, hiprtcGetCode);
#undef SAME
    static_assert(HIPRTC_SUCCESS == 0);
#else
    GTEST_SKIP() << "no hip/hiprtc.h here";
#endif
}

TEST(VendorTypes, Hipblas) {
#if defined(FIRSTTOUCH_HIPBLAS)
    using math::BlasTable;
#define SAME(member, function) static_assert(SameCall<decltype(BlasTable::member), decltype(&function)>::value)
    SAME(words, hipblasStatusToString);
    SAME(create, hipblasCreate);
    SAME(destroy, hipblasDestroy);
    SAME(set_stream, hipblasSetStream);
    SAME(set_pointer_mode, hipblasSetPointerMode);
    SAME(sgemm, hipblasSgemm);
    SAME(sdot, hipblasSdot);
#undef SAME
    static_assert(HIPBLAS_POINTER_MODE_HOST == math::scalars_on_host);
    static_assert(HIPBLAS_POINTER_MODE_DEVICE == math::scalars_on_device);
    static_assert(HIPBLAS_STATUS_SUCCESS == 0 && HIPBLAS_OP_N == 111);
#else
    GTEST_SKIP() << "no header of Hipblas here";
#endif
}

TEST(VendorTypes, Hipsparse) {
#if defined(FIRSTTOUCH_HIPSPARSE)
    using math::SparseTable;
#define SAME(member, function) static_assert(SameCall<decltype(SparseTable::member), decltype(&function)>::value)
    SAME(words, hipsparseGetErrorString);
    SAME(create, hipsparseCreate);
    SAME(destroy, hipsparseDestroy);
    SAME(version, hipsparseGetVersion);
    SAME(set_stream, hipsparseSetStream);
    SAME(create_csr, hipsparseCreateCsr);
    SAME(destroy_matrix, hipsparseDestroySpMat);
    SAME(create_vector, hipsparseCreateDnVec);
    SAME(destroy_vector, hipsparseDestroyDnVec);
    SAME(set_vector, hipsparseDnVecSetValues);
    SAME(spmv_bytes, hipsparseSpMV_bufferSize);
    SAME(spmv_analyse, hipsparseSpMV_preprocess);
    SAME(spmv, hipsparseSpMV);
#undef SAME
    static_assert(HIPSPARSE_STATUS_SUCCESS == 0 && HIPSPARSE_OPERATION_NON_TRANSPOSE == math::not_transposed);
    static_assert(HIPSPARSE_INDEX_32I == math::index_i32 && HIPSPARSE_INDEX_BASE_ZERO == math::from_zero);
    static_assert(HIP_R_32F == math::f32 && HIPSPARSE_SPMV_ALG_DEFAULT == math::default_algorithm);
    static_assert(HIPSPARSE_POINTER_MODE_HOST == math::scalars_on_host);  // as a new handle has it
#else
    GTEST_SKIP() << "no header of Hipsparse here";
#endif
}

TEST(VendorTypes, Hipfft) {
#if defined(FIRSTTOUCH_HIPFFT)
    using Table = math::FftTable<void*>;
    static_assert(alike<Table::Handle, hipfftHandle>);
#define SAME(member, function) static_assert(SameCall<decltype(Table::member), decltype(&function)>::value)
    SAME(version, hipfftGetVersion);
    SAME(create, hipfftCreate);
    SAME(destroy, hipfftDestroy);
    SAME(set_stream, hipfftSetStream);
    SAME(set_auto_allocation, hipfftSetAutoAllocation);
    SAME(make_plan_2d, hipfftMakePlan2d);
    SAME(set_work_area, hipfftSetWorkArea);
    SAME(r2c, hipfftExecR2C);
    SAME(c2r, hipfftExecC2R);
    SAME(c2c, hipfftExecC2C);
#undef SAME
    static_assert(HIPFFT_R2C == math::type_r2c && HIPFFT_C2R == math::type_c2r && HIPFFT_C2C == math::type_c2c);
    static_assert(HIPFFT_FORWARD == math::go_forward && HIPFFT_BACKWARD == math::go_backward);
    static_assert(HIPFFT_SUCCESS == 0);
    EXPECT_STREQ(math::fft_words(HIPFFT_ALLOC_FAILED), "allocation failed");
    EXPECT_STREQ(math::fft_words(HIPFFT_NO_WORKSPACE), "no workspace");
    EXPECT_STREQ(math::fft_words(HIPFFT_NOT_SUPPORTED), "not supported");
#else
    GTEST_SKIP() << "no header of Hipfft here";
#endif
}

}  // namespace
}  // namespace firsttouch
