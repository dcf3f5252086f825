// Compares the numbers of the driver's calls and the structures of their parameters with the vendor's headers where
// those are installed.
#include "events/driver_calls.hpp"
#include "profile/inject/core/arguments.hpp"
#include "support.hpp"

#if __has_include(<generated_cuda_meta.h>) && __has_include(<cuda.h>)
#include <cuda.h>
#include <cupti_driver_cbid.h>
#include <cupti_version.h>
// Types of CUDA 3, which cuda.h no longer declares and the calls of that time take.
using CUdeviceptr_v1 = unsigned;
struct CUDA_MEMCPY2D_v1;
struct CUDA_MEMCPY3D_v1;
struct CUDA_ARRAY_DESCRIPTOR_v1;
struct CUDA_ARRAY3D_DESCRIPTOR_v1;
#include <generated_cuda_meta.h>
#endif

namespace firsttouch {
namespace {

TEST(VendorTypes, DriverCalls) {
#if defined(CUPTI_API_VERSION) && CUPTI_API_VERSION >= 130000
    using namespace cupti;
#define CALL(number, function, parameters) EXPECT_EQ(number, CUPTI_DRIVER_TRACE_CBID_##function);
    FIRSTTOUCH_DRIVER_CALLS(CALL)
    FIRSTTOUCH_NEWER_DRIVER_CALLS(CALL)
#undef CALL
#define CALL(number, function) EXPECT_EQ(number, CUPTI_DRIVER_TRACE_CBID_##function);
    FIRSTTOUCH_NODE_CALLS(CALL)
#undef CALL
    // Ours may end before theirs.
    using cuCtxSynchronize_params = NoParameters;
#define CALL(number, function, parameters) static_assert(sizeof(parameters) <= sizeof(function##_params));
    FIRSTTOUCH_DRIVER_CALLS(CALL)
    FIRSTTOUCH_NEWER_DRIVER_CALLS(CALL)
#undef CALL
#define SAME(ours, member, theirs, their_member)                                                                       \
    static_assert(offsetof(ours, member) == offsetof(theirs, their_member) &&                                          \
                  sizeof(ours::member) == sizeof(theirs::their_member))
    const auto same_copy = []<class Ours, class Theirs>(Ours*, Theirs*) {
        SAME(Ours, target, Theirs, dstDevice);
        SAME(Ours, source, Theirs, srcDevice);
        SAME(Ours, bytes, Theirs, ByteCount);
    };
    const auto same_stream = []<class Ours, class Theirs>(Ours*, Theirs*) { SAME(Ours, stream, Theirs, hStream); };
#define STREAM(ours, function) same_stream((ours*)nullptr, (function##_params*)nullptr)
    SAME(CopyIn, target, cuMemcpyHtoD_v2_params, dstDevice);
    SAME(CopyIn, source, cuMemcpyHtoD_v2_params, srcHost);
    SAME(CopyIn, bytes, cuMemcpyHtoD_v2_params, ByteCount);
    SAME(CopyInOn, source, cuMemcpyHtoDAsync_v2_params, srcHost);
    STREAM(CopyInOn, cuMemcpyHtoDAsync_v2);
    SAME(CopyOut, target, cuMemcpyDtoH_v2_params, dstHost);
    SAME(CopyOut, source, cuMemcpyDtoH_v2_params, srcDevice);
    SAME(CopyOut, bytes, cuMemcpyDtoH_v2_params, ByteCount);
    SAME(CopyOutOn, target, cuMemcpyDtoHAsync_v2_params, dstHost);
    STREAM(CopyOutOn, cuMemcpyDtoHAsync_v2);
    same_copy((CopyWithin*)nullptr, (cuMemcpyDtoD_v2_params*)nullptr);
    same_copy((CopyWithinOn*)nullptr, (cuMemcpyDtoDAsync_v2_params*)nullptr);
    STREAM(CopyWithinOn, cuMemcpyDtoDAsync_v2);
    same_copy((CopyBetween*)nullptr, (cuMemcpyPeer_params*)nullptr);
    same_copy((CopyBetweenOn*)nullptr, (cuMemcpyPeerAsync_params*)nullptr);
    STREAM(CopyBetweenOn, cuMemcpyPeerAsync);
    SAME(CopyAny, target, cuMemcpy_params, dst);
    SAME(CopyAny, source, cuMemcpy_params, src);
    SAME(CopyAny, bytes, cuMemcpy_params, ByteCount);
    SAME(CopyAnyOn, source, cuMemcpyAsync_params, src);
    STREAM(CopyAnyOn, cuMemcpyAsync);
    STREAM(CopyRowsOn, cuMemcpy2DAsync_v2);
    STREAM(CopySlicesOn, cuMemcpy3DAsync_v2);
    STREAM(CopySlicesOn, cuMemcpy3DPeerAsync);
    SAME(Copy2D, source.x, CUDA_MEMCPY2D, srcXInBytes);
    SAME(Copy2D, source.y, CUDA_MEMCPY2D, srcY);
    SAME(Copy2D, source.type, CUDA_MEMCPY2D, srcMemoryType);
    SAME(Copy2D, source.host, CUDA_MEMCPY2D, srcHost);
    SAME(Copy2D, source.device, CUDA_MEMCPY2D, srcDevice);
    SAME(Copy2D, source.array, CUDA_MEMCPY2D, srcArray);
    SAME(Copy2D, source.pitch, CUDA_MEMCPY2D, srcPitch);
    SAME(Copy2D, target.x, CUDA_MEMCPY2D, dstXInBytes);
    SAME(Copy2D, target.pitch, CUDA_MEMCPY2D, dstPitch);
    SAME(Copy2D, width, CUDA_MEMCPY2D, WidthInBytes);
    SAME(Copy2D, height, CUDA_MEMCPY2D, Height);
    SAME(Copy3D, source.z, CUDA_MEMCPY3D, srcZ);
    SAME(Copy3D, source.level, CUDA_MEMCPY3D, srcLOD);
    SAME(Copy3D, source.type, CUDA_MEMCPY3D, srcMemoryType);
    SAME(Copy3D, source.host, CUDA_MEMCPY3D, srcHost);
    SAME(Copy3D, source.device, CUDA_MEMCPY3D, srcDevice);
    SAME(Copy3D, source.array, CUDA_MEMCPY3D, srcArray);
    SAME(Copy3D, source.context, CUDA_MEMCPY3D, reserved0);
    SAME(Copy3D, source.pitch, CUDA_MEMCPY3D, srcPitch);
    SAME(Copy3D, source.height, CUDA_MEMCPY3D, srcHeight);
    SAME(Copy3D, target.x, CUDA_MEMCPY3D, dstXInBytes);
    SAME(Copy3D, target.height, CUDA_MEMCPY3D, dstHeight);
    SAME(Copy3D, width, CUDA_MEMCPY3D, WidthInBytes);
    SAME(Copy3D, depth, CUDA_MEMCPY3D, Depth);
    static_assert(sizeof(Copy2D) == sizeof(CUDA_MEMCPY2D) && sizeof(Copy3D) == sizeof(CUDA_MEMCPY3D) &&
                  sizeof(Copy3D) == sizeof(CUDA_MEMCPY3D_PEER));
    SAME(Copy3D, source.context, CUDA_MEMCPY3D_PEER, srcContext);
    const std::pair<int, int> types[] = {{host_memory, CU_MEMORYTYPE_HOST},
                                         {device_memory, CU_MEMORYTYPE_DEVICE},
                                         {array_memory, CU_MEMORYTYPE_ARRAY},
                                         {unified_memory, CU_MEMORYTYPE_UNIFIED},
                                         {kernel_node, CU_GRAPH_NODE_TYPE_KERNEL},
                                         {copy_node, CU_GRAPH_NODE_TYPE_MEMCPY},
                                         {fill_node, CU_GRAPH_NODE_TYPE_MEMSET},
                                         {graph_node, CU_GRAPH_NODE_TYPE_GRAPH},
                                         {allocation_node, CU_GRAPH_NODE_TYPE_MEM_ALLOC},
                                         {free_node, CU_GRAPH_NODE_TYPE_MEM_FREE}};
    for (const auto& [ours, theirs] : types) EXPECT_EQ(ours, theirs);
    SAME(CopyBatchOn, targets, cuMemcpyBatchAsync_v2_params, dsts);
    SAME(CopyBatchOn, sources, cuMemcpyBatchAsync_v2_params, srcs);
    SAME(CopyBatchOn, sizes, cuMemcpyBatchAsync_v2_params, sizes);
    SAME(CopyBatchOn, count, cuMemcpyBatchAsync_v2_params, count);
    STREAM(CopyBatchOn, cuMemcpyBatchAsync_v2);
    STREAM(CopyBatchThatMayFailOn, cuMemcpyBatchAsync);

    SAME(CopySlicesBatchOn, copies, cuMemcpy3DBatchAsync_v2_params, opList);
    STREAM(CopySlicesBatchOn, cuMemcpy3DBatchAsync_v2);
    STREAM(CopySlicesBatchThatMayFailOn, cuMemcpy3DBatchAsync);
    static_assert(sizeof(Operand) == sizeof(CUmemcpy3DOperand) &&
                  sizeof(CopyOfBatch) == sizeof(CUDA_MEMCPY3D_BATCH_OP));
    SAME(Operand, address, CUmemcpy3DOperand, op.ptr.ptr);
    SAME(Operand, address, CUmemcpy3DOperand, op.array.array);
    SAME(Operand, row_bytes, CUmemcpy3DOperand, op.ptr.rowLength);
    SAME(Operand, slice_rows, CUmemcpy3DOperand, op.ptr.layerHeight);
    SAME(CopyOfBatch, target, CUDA_MEMCPY3D_BATCH_OP, dst);
    SAME(CopyOfBatch, width, CUDA_MEMCPY3D_BATCH_OP, extent.width);
    SAME(CopyOfBatch, depth, CUDA_MEMCPY3D_BATCH_OP, extent.depth);

    const auto same_fill = []<class Ours, class Theirs>(Ours*, Theirs*) {
        SAME(Ours, target, Theirs, dstDevice);
        SAME(Ours, count, Theirs, N);
    };
    same_fill((Fill*)nullptr, (cuMemsetD8_v2_params*)nullptr);
    same_fill((Fill*)nullptr, (cuMemsetD32_v2_params*)nullptr);
    same_fill((FillOn*)nullptr, (cuMemsetD16Async_params*)nullptr);
    STREAM(FillOn, cuMemsetD8Async);
    SAME(FillRows, pitch, cuMemsetD2D8_v2_params, dstPitch);
    SAME(FillRows, width, cuMemsetD2D8_v2_params, Width);
    SAME(FillRowsOn, height, cuMemsetD2D16Async_params, Height);
    STREAM(FillRowsOn, cuMemsetD2D32Async);
    SAME(PrefetchOn, address, cuMemPrefetchAsync_params, devPtr);
    SAME(PrefetchOn, bytes, cuMemPrefetchAsync_params, count);
    SAME(PrefetchOn, device, cuMemPrefetchAsync_params, dstDevice);
    STREAM(PrefetchOn, cuMemPrefetchAsync);
    SAME(PrefetchToOn, place, cuMemPrefetchAsync_v2_params, location);
    STREAM(PrefetchToOn, cuMemPrefetchAsync_v2);
    SAME(Advice, advice, cuMemAdvise_params, advice);
    SAME(Advice, device, cuMemAdvise_params, device);
    SAME(AdviceTo, place, cuMemAdvise_v2_params, location);
    SAME(Place, type, CUmemLocation, type);
    SAME(Place, id, CUmemLocation, id);
    static_assert(CU_MEM_LOCATION_TYPE_DEVICE == 1);

    const auto same_launch = []<class Ours, class Theirs>(Ours*, Theirs*) {
        static_assert(offsetof(Ours, function) == offsetof(Theirs, f));
        static_assert(offsetof(Ours, grid) == offsetof(Theirs, gridDimX));
        static_assert(offsetof(Ours, block) == offsetof(Theirs, blockDimX));
        SAME(Ours, stream, Theirs, hStream);
        SAME(Ours, parameters, Theirs, kernelParams);
    };
    same_launch((Launch*)nullptr, (cuLaunchKernel_params*)nullptr);
    same_launch((LaunchTogether*)nullptr, (cuLaunchCooperativeKernel_params*)nullptr);
    SAME(Launch, extra, cuLaunchKernel_params, extra);
    SAME(LaunchOf, shape, cuLaunchKernelEx_params, config);
    SAME(LaunchOf, function, cuLaunchKernelEx_params, f);
    SAME(LaunchOf, parameters, cuLaunchKernelEx_params, kernelParams);
    SAME(LaunchOf, extra, cuLaunchKernelEx_params, extra);
    static_assert(offsetof(LaunchShape, block) == offsetof(CUlaunchConfig, blockDimX));
    SAME(LaunchShape, stream, CUlaunchConfig, hStream);
    EXPECT_EQ(inject::launch_buffer, CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT);
    EXPECT_EQ(inject::launch_buffer_bytes, CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT);
    SAME(NewGraph, executable, cuGraphInstantiateWithFlags_params, phGraphExec);
    SAME(NewGraph, graph, cuGraphInstantiateWithFlags_params, hGraph);
    SAME(NewGraph, graph, cuGraphInstantiateWithParams_params, hGraph);
    SAME(GraphLaunch, executable, cuGraphLaunch_params, hGraph);
    STREAM(GraphLaunch, cuGraphLaunch);
    SAME(GraphUpdate, executable, cuGraphExecUpdate_v2_params, hGraphExec);
    SAME(GraphUpdate, graph, cuGraphExecUpdate_v2_params, hGraph);
    SAME(GraphChange, executable, cuGraphExecKernelNodeSetParams_v2_params, hGraphExec);
    SAME(GraphChange, executable, cuGraphExecNodeSetParams_params, hGraphExec);
    SAME(GraphEnd, executable, cuGraphExecDestroy_params, hGraphExec);
    SAME(NodeParameters, function, CUDA_KERNEL_NODE_PARAMS, func);
    SAME(NodeParameters, parameters, CUDA_KERNEL_NODE_PARAMS, kernelParams);
    SAME(NodeParameters, extra, CUDA_KERNEL_NODE_PARAMS, extra);
    SAME(NodeParameters, kernel, CUDA_KERNEL_NODE_PARAMS, kern);
    static_assert(sizeof(NodeParameters) == sizeof(CUDA_KERNEL_NODE_PARAMS));
    SAME(AllocationNodeParameters, bytes, CUDA_MEM_ALLOC_NODE_PARAMS, bytesize);
    SAME(AllocationNodeParameters, address, CUDA_MEM_ALLOC_NODE_PARAMS, dptr);
    static_assert(sizeof(AllocationNodeParameters) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS));
    SAME(FillNodeParameters, target, CUDA_MEMSET_NODE_PARAMS, dst);
    SAME(FillNodeParameters, value_bytes, CUDA_MEMSET_NODE_PARAMS, elementSize);
    SAME(FillNodeParameters, width, CUDA_MEMSET_NODE_PARAMS, width);
    SAME(FillNodeParameters, height, CUDA_MEMSET_NODE_PARAMS, height);
    static_assert(sizeof(FillNodeParameters) >= sizeof(CUDA_MEMSET_NODE_PARAMS));
    STREAM(Stream, cuStreamBeginCapture_v2);
    SAME(FreeMemory, free, cuMemGetInfo_v2_params, free);
    SAME(FreeMemory, total, cuMemGetInfo_v2_params, total);

    SAME(NewMemory, bytes, cuMemAlloc_v2_params, bytesize);
    SAME(NewPitched, pitch, cuMemAllocPitch_v2_params, pPitch);
    SAME(NewPitched, height, cuMemAllocPitch_v2_params, Height);
    SAME(NewManaged, bytes, cuMemAllocManaged_params, bytesize);
    SAME(NewMemoryOn, bytes, cuMemAllocAsync_params, bytesize);
    SAME(NewFromPoolOn, bytes, cuMemAllocFromPoolAsync_params, bytesize);
    SAME(NewHostOfKind, bytes, cuMemHostAlloc_params, bytesize);
    SAME(NewHost, bytes, cuMemAllocHost_v2_params, bytesize);
    SAME(RegisteredHost, bytes, cuMemHostRegister_v2_params, bytesize);
    SAME(NewArray, description, cuArrayCreate_v2_params, pAllocateArray);
    SAME(NewArray3D, description, cuArray3DCreate_v2_params, pAllocateArray);
    SAME(ArrayDescription, format, CUDA_ARRAY_DESCRIPTOR, Format);
    SAME(ArrayDescription, channels, CUDA_ARRAY_DESCRIPTOR, NumChannels);
    SAME(ArrayDescription3D, depth, CUDA_ARRAY3D_DESCRIPTOR, Depth);
    SAME(ArrayDescription3D, channels, CUDA_ARRAY3D_DESCRIPTOR, NumChannels);
    SAME(MappedMemory, bytes, cuMemMap_params, size);
    SAME(UnmappedMemory, bytes, cuMemUnmap_params, size);
    SAME(NewReserved, flags, cuMemAddressReserve_params, flags);
    SAME(ReleasedReserved, bytes, cuMemAddressFree_params, size);
    SAME(Variable, bytes, cuModuleGetGlobal_v2_params, bytes);
    SAME(Variable, name, cuModuleGetGlobal_v2_params, name);
    SAME(Variable, name, cuLibraryGetGlobal_params, name);
    SAME(Variable, name, cuLibraryGetManaged_params, name);
#undef STREAM
#undef SAME
#else
    GTEST_SKIP() << "generated_cuda_meta.h of CUDA 13 is not installed";
#endif
}

}  // namespace
}  // namespace firsttouch
