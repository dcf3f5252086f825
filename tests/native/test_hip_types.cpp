// Compares the types and numbers of HIP that the core declares with AMD's headers where those are installed. This
// file is separate from test_vendor_types.cpp because AMD's and NVIDIA's headers declare the same vector types.
#include "device/hip/api.hpp"
#include "math/tables.hpp"
#include "signature.hpp"
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

// ROCm 6 changed hipDeviceProp_t. The core supports only the new form.
TEST(VendorTypes, HipRuntime) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // of hipHostMalloc in ROCm 6.3, not in 7
#if defined(HIP_VERSION_MAJOR) && HIP_VERSION_MAJOR >= 6
    using namespace hip;
    using namespace gpu;
    static_assert(sizeof(Properties) >= 2 * sizeof(hipDeviceProp_t));
    static_assert(Properties::name_offset == offsetof(hipDeviceProp_t, gcnArchName));
    static_assert(Properties::name_bytes == sizeof(hipDeviceProp_t::gcnArchName));
    static_assert(sizeof(Uuid) == sizeof(hipUUID));
    static_assert(sizeof(Location) == sizeof(hipMemLocation) && offsetof(Location, id) == offsetof(hipMemLocation, id));
    static_assert(sizeof(AllocationProperties) == sizeof(hipMemAllocationProp));
    static_assert(offsetof(AllocationProperties, type) == offsetof(hipMemAllocationProp, type));
    static_assert(offsetof(AllocationProperties, requested_handle_types) ==
                  offsetof(hipMemAllocationProp, requestedHandleType));
    static_assert(offsetof(AllocationProperties, location) == offsetof(hipMemAllocationProp, location));
    static_assert(offsetof(AllocationProperties, win32_metadata) ==
                  offsetof(hipMemAllocationProp, win32HandleMetaData));
    static_assert(offsetof(AllocationProperties, flags) == offsetof(hipMemAllocationProp, allocFlags));
    static_assert(offsetof(AllocationProperties, flags.gpu_direct_rdma_capable) ==
                  offsetof(hipMemAllocationProp, allocFlags.gpuDirectRDMACapable));
    static_assert(offsetof(AllocationProperties, flags.usage) == offsetof(hipMemAllocationProp, allocFlags.usage));
    static_assert(sizeof(AccessDescription) == sizeof(hipMemAccessDesc));
    static_assert(offsetof(AccessDescription, flags) == offsetof(hipMemAccessDesc, flags));

    // Constants that the core writes as numbers.
    static_assert(hipSuccess == 0 && hipErrorNoDevice == no_device && hipCpuDeviceId == host_ordinal);
    static_assert(hipMemLocationTypeDevice == 1 && hipMemAllocationTypePinned == 1);
    static_assert(hipMemAccessFlagsProtReadWrite == 3 && hipMemAllocationGranularityMinimum == 0);
    static_assert(hipEventDefault == 0 && stream_non_blocking == hipStreamNonBlocking);
    static_assert(peer_enabled_before == hipErrorPeerAccessAlreadyEnabled);
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

#define SAME_SIGNATURE(member, function)                                                                               \
    static_assert(CompatibleSignature<decltype(Runtime::member), decltype(&function)>::value)
    SAME_SIGNATURE(init, hipInit);
    SAME_SIGNATURE(get_error_name, hipGetErrorName);
    SAME_SIGNATURE(get_error_string, hipGetErrorString);
    SAME_SIGNATURE(version, hipRuntimeGetVersion);
    SAME_SIGNATURE(device_count, hipGetDeviceCount);
    SAME_SIGNATURE(current_get, hipGetDevice);
    SAME_SIGNATURE(current_set, hipSetDevice);
    SAME_SIGNATURE(peer_possible, hipDeviceCanAccessPeer);
    SAME_SIGNATURE(peer_enable, hipDeviceEnablePeerAccess);
    SAME_SIGNATURE(device_get, hipDeviceGet);
    SAME_SIGNATURE(device_name, hipDeviceGetName);
    SAME_SIGNATURE(device_uuid, hipDeviceGetUuid);
    SAME_SIGNATURE(device_attribute, hipDeviceGetAttribute);
    SAME_SIGNATURE(device_pci_bus_id, hipDeviceGetPCIBusId);
    SAME_SIGNATURE(device_properties, hipGetDeviceProperties);
    SAME_SIGNATURE(mem_info, hipMemGetInfo);
    SAME_SIGNATURE(mem_alloc, hipMalloc);
    SAME_SIGNATURE(mem_alloc_managed, hipMallocManaged);
    SAME_SIGNATURE(mem_host_alloc, hipHostMalloc);
    SAME_SIGNATURE(mem_alloc_flags, hipExtMallocWithFlags);
    SAME_SIGNATURE(mem_free, hipFree);
    SAME_SIGNATURE(mem_free_host, hipHostFree);
    SAME_SIGNATURE(mem_host_register, hipHostRegister);
    SAME_SIGNATURE(mem_host_unregister, hipHostUnregister);
    SAME_SIGNATURE(mem_host_device_pointer, hipHostGetDevicePointer);
    SAME_SIGNATURE(address_reserve, hipMemAddressReserve);
    SAME_SIGNATURE(address_free, hipMemAddressFree);
    SAME_SIGNATURE(mem_create, hipMemCreate);
    SAME_SIGNATURE(mem_release, hipMemRelease);
    SAME_SIGNATURE(mem_map, hipMemMap);
    SAME_SIGNATURE(mem_unmap, hipMemUnmap);
    SAME_SIGNATURE(mem_set_access, hipMemSetAccess);
    SAME_SIGNATURE(mem_granularity, hipMemGetAllocationGranularity);
    SAME_SIGNATURE(mem_prefetch, hipMemPrefetchAsync);
    SAME_SIGNATURE(mem_advise, hipMemAdvise);
    SAME_SIGNATURE(module_load, hipModuleLoadData);
    SAME_SIGNATURE(module_unload, hipModuleUnload);
    SAME_SIGNATURE(module_function, hipModuleGetFunction);
    SAME_SIGNATURE(module_global, hipModuleGetGlobal);
    SAME_SIGNATURE(launch, hipModuleLaunchKernel);
    SAME_SIGNATURE(stream_create, hipStreamCreateWithFlags);
    SAME_SIGNATURE(stream_destroy, hipStreamDestroy);
    SAME_SIGNATURE(stream_wait, hipStreamSynchronize);
    SAME_SIGNATURE(stream_wait_event, hipStreamWaitEvent);
    SAME_SIGNATURE(event_create, hipEventCreateWithFlags);
    SAME_SIGNATURE(event_destroy, hipEventDestroy);
    SAME_SIGNATURE(event_record, hipEventRecord);
    SAME_SIGNATURE(event_wait, hipEventSynchronize);
    SAME_SIGNATURE(event_elapsed, hipEventElapsedTime);
    SAME_SIGNATURE(memcpy_async, hipMemcpyAsync);
    SAME_SIGNATURE(memcpy_peer_async, hipMemcpyPeerAsync);
#undef SAME_SIGNATURE
#else
    GTEST_SKIP() << "hip/hip_runtime_api.h of ROCm 6 or newer is not installed";
#endif
#pragma GCC diagnostic pop
}

TEST(VendorTypes, Hiprtc) {
#if defined(HIP_VERSION_MAJOR)
#define SAME_SIGNATURE(member, function)                                                                               \
    static_assert(CompatibleSignature<decltype(RuntimeCompiler::member), decltype(&function)>::value)
    SAME_SIGNATURE(version, hiprtcVersion);
    SAME_SIGNATURE(error_string, hiprtcGetErrorString);
    SAME_SIGNATURE(create, hiprtcCreateProgram);
    SAME_SIGNATURE(destroy, hiprtcDestroyProgram);
    SAME_SIGNATURE(compile, hiprtcCompileProgram);
    SAME_SIGNATURE(log_size, hiprtcGetProgramLogSize);
    SAME_SIGNATURE(log, hiprtcGetProgramLog);
    SAME_SIGNATURE(code_size, hiprtcGetCodeSize);
    SAME_SIGNATURE(code, hiprtcGetCode);
#undef SAME_SIGNATURE
    static_assert(HIPRTC_SUCCESS == 0);
#else
    GTEST_SKIP() << "hip/hiprtc.h is not installed";
#endif
}

TEST(VendorTypes, Hipblas) {
#if defined(FIRSTTOUCH_HIPBLAS)
    using math::BlasTable;
#define SAME_SIGNATURE(member, function)                                                                               \
    static_assert(CompatibleSignature<decltype(BlasTable::member), decltype(&function)>::value)
    SAME_SIGNATURE(error_text, hipblasStatusToString);
    SAME_SIGNATURE(create, hipblasCreate);
    SAME_SIGNATURE(destroy, hipblasDestroy);
    SAME_SIGNATURE(set_stream, hipblasSetStream);
    SAME_SIGNATURE(set_pointer_mode, hipblasSetPointerMode);
    SAME_SIGNATURE(sgemm, hipblasSgemm);
    SAME_SIGNATURE(sdot, hipblasSdot);
#undef SAME_SIGNATURE
    static_assert(HIPBLAS_POINTER_MODE_HOST == math::scalars_on_host);
    static_assert(HIPBLAS_POINTER_MODE_DEVICE == math::scalars_on_device);
    static_assert(HIPBLAS_STATUS_SUCCESS == 0 && HIPBLAS_OP_N == 111);
#else
    GTEST_SKIP() << "hipblas.h is not installed";
#endif
}

TEST(VendorTypes, Hipsparse) {
#if defined(FIRSTTOUCH_HIPSPARSE)
    using math::SparseTable;
#define SAME_SIGNATURE(member, function)                                                                               \
    static_assert(CompatibleSignature<decltype(SparseTable::member), decltype(&function)>::value)
    SAME_SIGNATURE(error_text, hipsparseGetErrorString);
    SAME_SIGNATURE(create, hipsparseCreate);
    SAME_SIGNATURE(destroy, hipsparseDestroy);
    SAME_SIGNATURE(version, hipsparseGetVersion);
    SAME_SIGNATURE(set_stream, hipsparseSetStream);
    SAME_SIGNATURE(create_csr, hipsparseCreateCsr);
    SAME_SIGNATURE(destroy_matrix, hipsparseDestroySpMat);
    SAME_SIGNATURE(create_vector, hipsparseCreateDnVec);
    SAME_SIGNATURE(destroy_vector, hipsparseDestroyDnVec);
    SAME_SIGNATURE(set_vector, hipsparseDnVecSetValues);
    SAME_SIGNATURE(spmv_bytes, hipsparseSpMV_bufferSize);
    SAME_SIGNATURE(spmv_analyse, hipsparseSpMV_preprocess);
    SAME_SIGNATURE(spmv, hipsparseSpMV);
#undef SAME_SIGNATURE
    static_assert(HIPSPARSE_STATUS_SUCCESS == 0 && HIPSPARSE_OPERATION_NON_TRANSPOSE == math::not_transposed);
    static_assert(HIPSPARSE_INDEX_32I == math::index_i32 && HIPSPARSE_INDEX_BASE_ZERO == math::from_zero);
    static_assert(HIP_R_32F == math::f32 && HIPSPARSE_SPMV_ALG_DEFAULT == math::default_algorithm);
    static_assert(HIPSPARSE_POINTER_MODE_HOST == math::scalars_on_host);  // the default of a new handle
#else
    GTEST_SKIP() << "hipsparse.h is not installed";
#endif
}

TEST(VendorTypes, Hipfft) {
#if defined(FIRSTTOUCH_HIPFFT)
    using Table = math::FftTable<void*>;
    static_assert(compatible<Table::Handle, hipfftHandle>);
#define SAME_SIGNATURE(member, function)                                                                               \
    static_assert(CompatibleSignature<decltype(Table::member), decltype(&function)>::value)
    SAME_SIGNATURE(version, hipfftGetVersion);
    SAME_SIGNATURE(create, hipfftCreate);
    SAME_SIGNATURE(destroy, hipfftDestroy);
    SAME_SIGNATURE(set_stream, hipfftSetStream);
    SAME_SIGNATURE(set_auto_allocation, hipfftSetAutoAllocation);
    SAME_SIGNATURE(make_plan_2d, hipfftMakePlan2d);
    SAME_SIGNATURE(set_work_area, hipfftSetWorkArea);
    SAME_SIGNATURE(r2c, hipfftExecR2C);
    SAME_SIGNATURE(c2r, hipfftExecC2R);
    SAME_SIGNATURE(c2c, hipfftExecC2C);
#undef SAME_SIGNATURE
    static_assert(HIPFFT_R2C == math::type_r2c && HIPFFT_C2R == math::type_c2r && HIPFFT_C2C == math::type_c2c);
    static_assert(HIPFFT_FORWARD == math::fft_forward && HIPFFT_BACKWARD == math::fft_backward);
    static_assert(HIPFFT_SUCCESS == 0);
    EXPECT_STREQ(math::fft_error_text(HIPFFT_ALLOC_FAILED), "allocation failed");
    EXPECT_STREQ(math::fft_error_text(HIPFFT_NO_WORKSPACE), "no workspace");
    EXPECT_STREQ(math::fft_error_text(HIPFFT_NOT_SUPPORTED), "not supported");
#else
    GTEST_SKIP() << "hipfft.h is not installed";
#endif
}

}  // namespace
}  // namespace firsttouch
