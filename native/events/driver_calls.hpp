// The calls of the CUDA driver that are watched: their numbers in cupti_driver_cbid.h, and the structures in which
// CUPTI hands over their parameters. tests/native/test_vendor_types.cpp compares them with generated_cuda_meta.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace firsttouch::cupti {

using Address = unsigned long long;
using Handle = void*;  // of a stream, function, context, graph or array

// A name ends with On if the call takes a stream.

struct MemoryAt {  // as frees and releases take it
    Address address;
};
struct MemoryAtOn {
    Address address;
    Handle stream;
};
struct NewMemory {
    Address* address;
    std::size_t bytes;
};
struct NewPitched {
    Address* address;
    std::size_t* pitch;
    std::size_t width, height;  // bytes, rows
    unsigned element_bytes;
};
struct NewManaged {
    Address* address;
    std::size_t bytes;
    unsigned flags;
};
struct NewMemoryOn {
    Address* address;
    std::size_t bytes;
    Handle stream;
};
struct NewFromPoolOn {
    Address* address;
    std::size_t bytes;
    Handle pool, stream;
};
struct NewHost {
    void** address;
    std::size_t bytes;
};
struct NewHostOfKind {
    void** address;
    std::size_t bytes;
    unsigned flags;
};
struct RegisteredHost {
    void* address;
    std::size_t bytes;
    unsigned flags;
};
struct ReleasedHost {
    void* address;
};
struct MappedMemory {
    Address address;
    std::size_t bytes, offset;
    unsigned long long handle, flags;
};
struct UnmappedMemory {
    Address address;
    std::size_t bytes;
};
struct NewReserved {
    Address* address;
    std::size_t bytes, alignment;
    Address wanted;
    unsigned long long flags;
};
struct ReleasedReserved {
    Address address;
    std::size_t bytes;
};
struct Variable {  // of a module or a library
    Address* address;
    std::size_t* bytes;
    Handle module;
    const char* name;
};
struct ArrayDescription {
    std::size_t width, height;  // elements, rows
    int format;
    unsigned channels;
};
struct ArrayDescription3D {
    std::size_t width, height, depth;
    int format;
    unsigned channels, flags;
};
struct NewArray {
    Handle* array;
    const ArrayDescription* description;
};
struct NewArray3D {
    Handle* array;
    const ArrayDescription3D* description;
};
struct ArrayAt {
    Handle array;
};

struct CopyIn {
    Address target;
    const void* source;
    std::size_t bytes;
};
struct CopyInOn {
    Address target;
    const void* source;
    std::size_t bytes;
    Handle stream;
};
struct CopyOut {
    void* target;
    Address source;
    std::size_t bytes;
};
struct CopyOutOn {
    void* target;
    Address source;
    std::size_t bytes;
    Handle stream;
};
struct CopyWithin {
    Address target, source;
    std::size_t bytes;
};
struct CopyWithinOn {
    Address target, source;
    std::size_t bytes;
    Handle stream;
};
struct CopyAny {  // either side may be of the host
    Address target, source;
    std::size_t bytes;
};
struct CopyAnyOn {
    Address target, source;
    std::size_t bytes;
    Handle stream;
};
struct CopyBetween {  // two GPUs
    Address target;
    Handle target_context;
    Address source;
    Handle source_context;
    std::size_t bytes;
};
struct CopyBetweenOn {
    Address target;
    Handle target_context;
    Address source;
    Handle source_context;
    std::size_t bytes;
    Handle stream;
};
enum MemoryType : int { host_memory = 1, device_memory = 2, array_memory = 3, unified_memory = 4 };
struct Side2D {
    std::size_t x, y;  // bytes, rows
    int type;
    void* host;
    Address device;
    Handle array;
    std::size_t pitch;
};
struct Copy2D {
    Side2D source, target;
    std::size_t width, height;
};
struct Side3D {
    std::size_t x, y, z, level;
    int type;
    void* host;
    Address device;
    Handle array;
    Handle context;  // of copies between GPUs
    std::size_t pitch, height;
};
struct Copy3D {
    Side3D source, target;
    std::size_t width, height, depth;
};
struct CopyRows {
    const Copy2D* copy;
};
struct CopyRowsOn {
    const Copy2D* copy;
    Handle stream;
};
struct CopySlices {
    const Copy3D* copy;
};
struct CopySlicesOn {
    const Copy3D* copy;
    Handle stream;
};
struct CopyBatchOn {
    const Address *targets, *sources;
    const std::size_t* sizes;
    std::size_t count;
    const void* attributes;
    const std::size_t* attribute_indices;
    std::size_t attribute_count;
    Handle stream;
};
struct CopyBatchThatMayFailOn {  // before CUDA 13
    const Address *targets, *sources;
    const std::size_t* sizes;
    std::size_t count;
    const void* attributes;
    const std::size_t* attribute_indices;
    std::size_t attribute_count;
    std::size_t* failed;
    Handle stream;
};

enum OperandType : int { pointer_operand = 1, array_operand = 2 };
struct Operand {  // of a copy in three dimensions
    int type;
    Address address;                       // or the handle of an array
    std::size_t row_bytes, slice_rows, z;  // the first two are 0 where rows follow each other; of an array, an offset
};
struct CopyOfBatch {
    Operand source, target;
    std::size_t width, height, depth;
    int order;
    unsigned flags;
};
struct CopySlicesBatchOn {
    std::size_t count;
    const CopyOfBatch* copies;
    unsigned long long flags;
    Handle stream;
};
struct CopySlicesBatchThatMayFailOn {  // before CUDA 13
    std::size_t count;
    const CopyOfBatch* copies;
    std::size_t* failed;
    unsigned long long flags;
    Handle stream;
};

// The values are of 1, 2 or 4 bytes.
struct Fill {
    Address target;
    unsigned value;
    std::size_t count;
};
struct FillOn {
    Address target;
    unsigned value;
    std::size_t count;
    Handle stream;
};
struct FillRows {
    Address target;
    std::size_t pitch;
    unsigned value;
    std::size_t width, height;
};
struct FillRowsOn {
    Address target;
    std::size_t pitch;
    unsigned value;
    std::size_t width, height;
    Handle stream;
};

struct Place {
    int type;  // 1: a GPU, 2: the host, 3: a node of the host, 4: the nearest node
    int id;
};
struct PrefetchOn {
    Address address;
    std::size_t bytes;
    int device;  // -1: the CPU
    Handle stream;
};
struct PrefetchToOn {
    Address address;
    std::size_t bytes;
    Place place;
    unsigned flags;
    Handle stream;
};
struct Advice {
    Address address;
    std::size_t bytes;
    int advice, device;
};
struct AdviceTo {
    Address address;
    std::size_t bytes;
    int advice;
    Place place;
};

struct Launch {
    Handle function;
    unsigned grid[3], block[3], shared_bytes;
    Handle stream;
    void** parameters;
    void** extra;
};
struct LaunchTogether {  // cooperatively
    Handle function;
    unsigned grid[3], block[3], shared_bytes;
    Handle stream;
    void** parameters;
};
struct LaunchShape {
    unsigned grid[3], block[3], shared_bytes;
    Handle stream;
    const void* attributes;
    unsigned attribute_count;
};
struct LaunchOf {
    const LaunchShape* shape;
    Handle function;
    void** parameters;
    void** extra;
};

struct NewGraph {  // one that can be launched
    Handle* executable;
    Handle graph;
};
struct GraphLaunch {
    Handle executable, stream;
};
struct GraphUpdate {  // to another graph
    Handle executable, graph;
};
struct GraphChange {  // of one node
    Handle executable, node;
};
struct GraphEnd {
    Handle executable;
};
struct NodeParameters {  // of a kernel in a graph
    Handle function;
    unsigned grid[3], block[3], shared_bytes;
    void** parameters;
    void** extra;
    Handle kernel;  // if function is null
    Handle context;
};
struct FillNodeParameters {
    Address target;
    std::size_t pitch;
    unsigned value, value_bytes;
    std::size_t width, height;  // values, rows
};
struct AllocationNodeParameters {
    alignas(8) unsigned char pool[88];
    const void* accesses;
    std::size_t access_count, bytes;
    Address address;
};
enum NodeType : int {
    kernel_node = 0,
    copy_node = 1,
    fill_node = 2,
    graph_node = 4,
    allocation_node = 10,
    free_node = 11
};

struct Stream {  // to wait for, to ask, to capture, or to destroy
    Handle stream;
};
struct Event {
    Handle event;
};
struct ContextAt {
    Handle context;
};
struct FreeMemory {
    std::size_t *free, *total;
};
struct NoParameters {};

// CALL(number, function, parameters): the calls that are watched, without those of CUDA 13 and later.
#define FIRSTTOUCH_DRIVER_CALLS(CALL)                                                                                  \
    CALL(276, cuMemcpyHtoD_v2, CopyIn)                                                                                 \
    CALL(397, cuMemcpyHtoD_v2_ptds, CopyIn)                                                                            \
    CALL(277, cuMemcpyHtoDAsync_v2, CopyInOn)                                                                          \
    CALL(421, cuMemcpyHtoDAsync_v2_ptsz, CopyInOn)                                                                     \
    CALL(278, cuMemcpyDtoH_v2, CopyOut)                                                                                \
    CALL(398, cuMemcpyDtoH_v2_ptds, CopyOut)                                                                           \
    CALL(279, cuMemcpyDtoHAsync_v2, CopyOutOn)                                                                         \
    CALL(422, cuMemcpyDtoHAsync_v2_ptsz, CopyOutOn)                                                                    \
    CALL(280, cuMemcpyDtoD_v2, CopyWithin)                                                                             \
    CALL(399, cuMemcpyDtoD_v2_ptds, CopyWithin)                                                                        \
    CALL(281, cuMemcpyDtoDAsync_v2, CopyWithinOn)                                                                      \
    CALL(423, cuMemcpyDtoDAsync_v2_ptsz, CopyWithinOn)                                                                 \
    CALL(305, cuMemcpy, CopyAny)                                                                                       \
    CALL(408, cuMemcpy_ptds, CopyAny)                                                                                  \
    CALL(306, cuMemcpyAsync, CopyAnyOn)                                                                                \
    CALL(418, cuMemcpyAsync_ptsz, CopyAnyOn)                                                                           \
    CALL(318, cuMemcpyPeer, CopyBetween)                                                                               \
    CALL(409, cuMemcpyPeer_ptds, CopyBetween)                                                                          \
    CALL(319, cuMemcpyPeerAsync, CopyBetweenOn)                                                                        \
    CALL(426, cuMemcpyPeerAsync_ptsz, CopyBetweenOn)                                                                   \
    CALL(287, cuMemcpy2D_v2, CopyRows)                                                                                 \
    CALL(405, cuMemcpy2D_v2_ptds, CopyRows)                                                                            \
    CALL(288, cuMemcpy2DUnaligned_v2, CopyRows)                                                                        \
    CALL(406, cuMemcpy2DUnaligned_v2_ptds, CopyRows)                                                                   \
    CALL(289, cuMemcpy2DAsync_v2, CopyRowsOn)                                                                          \
    CALL(424, cuMemcpy2DAsync_v2_ptsz, CopyRowsOn)                                                                     \
    CALL(290, cuMemcpy3D_v2, CopySlices)                                                                               \
    CALL(407, cuMemcpy3D_v2_ptds, CopySlices)                                                                          \
    CALL(291, cuMemcpy3DAsync_v2, CopySlicesOn)                                                                        \
    CALL(425, cuMemcpy3DAsync_v2_ptsz, CopySlicesOn)                                                                   \
    CALL(320, cuMemcpy3DPeer, CopySlices)                                                                              \
    CALL(410, cuMemcpy3DPeer_ptds, CopySlices)                                                                         \
    CALL(321, cuMemcpy3DPeerAsync, CopySlicesOn)                                                                       \
    CALL(427, cuMemcpy3DPeerAsync_ptsz, CopySlicesOn)                                                                  \
    CALL(249, cuMemsetD8_v2, Fill)                                                                                     \
    CALL(250, cuMemsetD16_v2, Fill)                                                                                    \
    CALL(251, cuMemsetD32_v2, Fill)                                                                                    \
    CALL(411, cuMemsetD8_v2_ptds, Fill)                                                                                \
    CALL(412, cuMemsetD16_v2_ptds, Fill)                                                                               \
    CALL(413, cuMemsetD32_v2_ptds, Fill)                                                                               \
    CALL(216, cuMemsetD8Async, FillOn)                                                                                 \
    CALL(218, cuMemsetD16Async, FillOn)                                                                                \
    CALL(220, cuMemsetD32Async, FillOn)                                                                                \
    CALL(428, cuMemsetD8Async_ptsz, FillOn)                                                                            \
    CALL(429, cuMemsetD16Async_ptsz, FillOn)                                                                           \
    CALL(430, cuMemsetD32Async_ptsz, FillOn)                                                                           \
    CALL(252, cuMemsetD2D8_v2, FillRows)                                                                               \
    CALL(253, cuMemsetD2D16_v2, FillRows)                                                                              \
    CALL(254, cuMemsetD2D32_v2, FillRows)                                                                              \
    CALL(414, cuMemsetD2D8_v2_ptds, FillRows)                                                                          \
    CALL(415, cuMemsetD2D16_v2_ptds, FillRows)                                                                         \
    CALL(416, cuMemsetD2D32_v2_ptds, FillRows)                                                                         \
    CALL(222, cuMemsetD2D8Async, FillRowsOn)                                                                           \
    CALL(224, cuMemsetD2D16Async, FillRowsOn)                                                                          \
    CALL(226, cuMemsetD2D32Async, FillRowsOn)                                                                          \
    CALL(431, cuMemsetD2D8Async_ptsz, FillRowsOn)                                                                      \
    CALL(432, cuMemsetD2D16Async_ptsz, FillRowsOn)                                                                     \
    CALL(433, cuMemsetD2D32Async_ptsz, FillRowsOn)                                                                     \
    CALL(467, cuMemPrefetchAsync, PrefetchOn)                                                                          \
    CALL(468, cuMemPrefetchAsync_ptsz, PrefetchOn)                                                                     \
    CALL(457, cuMemAdvise, Advice)                                                                                     \
    CALL(307, cuLaunchKernel, Launch)                                                                                  \
    CALL(442, cuLaunchKernel_ptsz, Launch)                                                                             \
    CALL(652, cuLaunchKernelEx, LaunchOf)                                                                              \
    CALL(653, cuLaunchKernelEx_ptsz, LaunchOf)                                                                         \
    CALL(477, cuLaunchCooperativeKernel, LaunchTogether)                                                               \
    CALL(478, cuLaunchCooperativeKernel_ptsz, LaunchTogether)                                                          \
    CALL(643, cuGraphInstantiateWithFlags, NewGraph)                                                                   \
    CALL(514, cuGraphLaunch, GraphLaunch)                                                                              \
    CALL(515, cuGraphLaunch_ptsz, GraphLaunch)                                                                         \
    CALL(561, cuGraphExecUpdate, GraphUpdate)                                                                          \
    CALL(538, cuGraphExecKernelNodeSetParams, GraphChange)                                                             \
    CALL(562, cuGraphExecMemcpyNodeSetParams, GraphChange)                                                             \
    CALL(516, cuGraphExecDestroy, GraphEnd)                                                                            \
    CALL(539, cuStreamBeginCapture_v2, Stream)                                                                         \
    CALL(540, cuStreamBeginCapture_v2_ptsz, Stream)                                                                    \
    CALL(497, cuStreamEndCapture, Stream)                                                                              \
    CALL(498, cuStreamEndCapture_ptsz, Stream)                                                                         \
    CALL(326, cuStreamDestroy_v2, Stream)                                                                              \
    CALL(126, cuStreamSynchronize, Stream)                                                                             \
    CALL(440, cuStreamSynchronize_ptsz, Stream)                                                                        \
    CALL(125, cuStreamQuery, Stream)                                                                                   \
    CALL(439, cuStreamQuery_ptsz, Stream)                                                                              \
    CALL(121, cuEventSynchronize, Event)                                                                               \
    CALL(120, cuEventQuery, Event)                                                                                     \
    CALL(17, cuCtxSynchronize, NoParameters)                                                                           \
    CALL(242, cuMemGetInfo_v2, FreeMemory)                                                                             \
    CALL(243, cuMemAlloc_v2, NewMemory)                                                                                \
    CALL(244, cuMemAllocPitch_v2, NewPitched)                                                                          \
    CALL(371, cuMemAllocManaged, NewManaged)                                                                           \
    CALL(598, cuMemAllocAsync, NewMemoryOn)                                                                            \
    CALL(599, cuMemAllocAsync_ptsz, NewMemoryOn)                                                                       \
    CALL(611, cuMemAllocFromPoolAsync, NewFromPoolOn)                                                                  \
    CALL(612, cuMemAllocFromPoolAsync_ptsz, NewFromPoolOn)                                                             \
    CALL(39, cuMemHostAlloc, NewHostOfKind)                                                                            \
    CALL(294, cuMemAllocHost_v2, NewHost)                                                                              \
    CALL(379, cuMemHostRegister_v2, RegisteredHost)                                                                    \
    CALL(272, cuArrayCreate_v2, NewArray)                                                                              \
    CALL(274, cuArray3DCreate_v2, NewArray3D)                                                                          \
    CALL(551, cuMemMap, MappedMemory)                                                                                  \
    CALL(241, cuModuleGetGlobal_v2, Variable)                                                                          \
    CALL(245, cuMemFree_v2, MemoryAt)                                                                                  \
    CALL(600, cuMemFreeAsync, MemoryAtOn)                                                                              \
    CALL(601, cuMemFreeAsync_ptsz, MemoryAtOn)                                                                         \
    CALL(38, cuMemFreeHost, ReleasedHost)                                                                              \
    CALL(302, cuMemHostUnregister, ReleasedHost)                                                                       \
    CALL(89, cuArrayDestroy, ArrayAt)                                                                                  \
    CALL(552, cuMemUnmap, UnmappedMemory)                                                                              \
    CALL(547, cuMemAddressReserve, NewReserved)                                                                        \
    CALL(548, cuMemAddressFree, ReleasedReserved)

// Those that CUDA 12.0 does not have, or whose parameters its headers do not declare.
#define FIRSTTOUCH_NEWER_DRIVER_CALLS(CALL)                                                                            \
    CALL(776, cuMemcpyBatchAsync, CopyBatchThatMayFailOn)                                                              \
    CALL(777, cuMemcpyBatchAsync_ptsz, CopyBatchThatMayFailOn)                                                         \
    CALL(796, cuMemcpyBatchAsync_v2, CopyBatchOn)                                                                      \
    CALL(797, cuMemcpyBatchAsync_v2_ptsz, CopyBatchOn)                                                                 \
    CALL(778, cuMemcpy3DBatchAsync, CopySlicesBatchThatMayFailOn)                                                      \
    CALL(779, cuMemcpy3DBatchAsync_ptsz, CopySlicesBatchThatMayFailOn)                                                 \
    CALL(798, cuMemcpy3DBatchAsync_v2, CopySlicesBatchOn)                                                              \
    CALL(799, cuMemcpy3DBatchAsync_v2_ptsz, CopySlicesBatchOn)                                                         \
    CALL(715, cuMemAdvise_v2, AdviceTo)                                                                                \
    CALL(716, cuMemPrefetchAsync_v2, PrefetchToOn)                                                                     \
    CALL(717, cuMemPrefetchAsync_v2_ptsz, PrefetchToOn)                                                                \
    CALL(720, cuStreamBeginCaptureToGraph, Stream)                                                                     \
    CALL(721, cuStreamBeginCaptureToGraph_ptsz, Stream)                                                                \
    CALL(656, cuGraphInstantiateWithParams, NewGraph)                                                                  \
    CALL(657, cuGraphInstantiateWithParams_ptsz, NewGraph)                                                             \
    CALL(696, cuGraphExecUpdate_v2, GraphUpdate)                                                                       \
    CALL(692, cuGraphExecKernelNodeSetParams_v2, GraphChange)                                                          \
    CALL(714, cuGraphExecNodeSetParams, GraphChange)                                                                   \
    CALL(684, cuLibraryGetGlobal, Variable)                                                                            \
    CALL(685, cuLibraryGetManaged, Variable)                                                                           \
    CALL(800, cuCtxSynchronize_v2, ContextAt)

// Those that make nodes of graphs, beside what a stream captures and the ones above.
// CALL(number, function)
#define FIRSTTOUCH_NODE_CALLS(CALL)                                                                                    \
    CALL(502, cuGraphAddKernelNode)                                                                                    \
    CALL(504, cuGraphAddMemcpyNode)                                                                                    \
    CALL(506, cuGraphAddMemsetNode)                                                                                    \
    CALL(513, cuGraphInstantiate)                                                                                      \
    CALL(523, cuGraphClone)                                                                                            \
    CALL(525, cuGraphAddChildGraphNode)                                                                                \
    CALL(526, cuGraphAddEmptyNode)                                                                                     \
    CALL(530, cuGraphAddHostNode)                                                                                      \
    CALL(578, cuGraphInstantiate_v2)                                                                                   \
    CALL(589, cuGraphAddEventRecordNode)                                                                               \
    CALL(590, cuGraphAddEventWaitNode)                                                                                 \
    CALL(618, cuGraphAddExternalSemaphoresSignalNode)                                                                  \
    CALL(621, cuGraphAddExternalSemaphoresWaitNode)                                                                    \
    CALL(638, cuGraphAddMemAllocNode)                                                                                  \
    CALL(639, cuGraphAddMemFreeNode)                                                                                   \
    CALL(669, cuGraphAddBatchMemOpNode)                                                                                \
    CALL(689, cuGraphAddKernelNode_v2)                                                                                 \
    CALL(712, cuGraphAddNode)                                                                                          \
    CALL(723, cuGraphAddNode_v2)
inline constexpr std::uint32_t node_making_calls[] = {
#define CALL(number, function) number,
    FIRSTTOUCH_NODE_CALLS(CALL)
#undef CALL
};

}  // namespace firsttouch::cupti
