// HIP's functions that are watched, declared here since its headers differ between versions. The number of each is its
// place in the table of functions that the runtime hands to tools (hip_api_trace.hpp, ROCm 6.0 and later), which are
// only ever appended to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace firsttouch::hip_front {

using Error = int;
using Stream = void*;
using Handle = void*;
using Array = void*;
using Size = std::size_t;

struct Dim3 {
    unsigned x, y, z;
};
struct Extent {
    Size width, height, depth;
};
struct Position {
    Size x, y, z;
};
struct Pitched {
    void* address;
    Size pitch, width, height;
};
struct ChannelFormat {  // bits of each
    int x, y, z, w, kind;
};
struct Copy3D {
    Array source_array;
    Position source_position;
    Pitched source;
    Array target_array;
    Position target_position;
    Pitched target;
    Extent extent;
    int kind;
};
struct LaunchShape {  // of hipLaunchKernelExC
    Dim3 grid, block;
    Size shared;
    Stream stream;
};
struct DriverLaunchShape {  // of hipDrvLaunchKernelEx
    unsigned grid[3], block[3], shared;
    Stream stream;
};
struct Location {
    int type, id;
};
struct Side2D {
    Size x, y;
    int type;
    void* host;
    void* device;
    Array array;
    Size pitch;
};
struct Copy2D {  // hip_Memcpy2D
    Side2D source, target;
    Size width, height;
};
struct KernelNode {
    Dim3 block;
    void** extra;
    const void* function;
    Dim3 grid;
    void** parameters;
    unsigned shared;
};
struct FillNode {
    void* target;
    unsigned value_bytes;
    Size height, pitch;
    unsigned value;
    Size width;
};
struct AllocationNode {
    char pool[88];
    const void* accesses;
    Size access_count, bytes;
    void* address;
};

inline constexpr int location_device = 1;
enum Kind : int { host_to_host = 0, host_to_device = 1, device_to_host = 2, device_to_device = 3 };
inline constexpr Error no_device = 100;  // hipErrorNoDevice

}  // namespace firsttouch::hip_front

// CALL(place in the table, function, parameters, arguments)
#define FIRSTTOUCH_HIP_CALLS(CALL)                                                                                     \
    CALL(4, hipArrayDestroy, (Array a), (a))                                                                           \
    CALL(31, hipCtxSynchronize, (), ())                                                                                \
    CALL(66, hipDeviceSynchronize, (), ())                                                                             \
    CALL(71, hipDrvGraphAddMemcpyNode,                                                                                 \
         (Handle * n, Handle g, const Handle* d, Size c, const void* copy, void* context),                             \
         (n, g, d, c, copy, context))                                                                                  \
    CALL(72, hipDrvMemcpy2DUnaligned, (const Copy2D* c), (c))                                                          \
    CALL(80, hipEventQuery, (Handle e), (e))                                                                           \
    CALL(82, hipEventSynchronize, (Handle e), (e))                                                                     \
    CALL(84, hipExtLaunchKernel,                                                                                       \
         (const void* f, Dim3 g, Dim3 b, void** a, Size m, Stream q, Handle from, Handle to, int flags),               \
         (f, g, b, a, m, q, from, to, flags))                                                                          \
    CALL(86, hipExtMallocWithFlags, (void** p, Size n, unsigned f), (p, n, f))                                         \
    CALL(90, hipFree, (void* p), (p))                                                                                  \
    CALL(91, hipFreeArray, (Array a), (a))                                                                             \
    CALL(92, hipFreeAsync, (void* p, Stream q), (p, q))                                                                \
    CALL(93, hipFreeHost, (void* p), (p))                                                                              \
    CALL(111, hipGetSymbolAddress, (void** p, const void* y), (p, y))                                                  \
    CALL(118, hipGraphAddChildGraphNode, (Handle * n, Handle g, const Handle* d, Size c, Handle child),                \
         (n, g, d, c, child))                                                                                          \
    CALL(124, hipGraphAddKernelNode, (Handle * n, Handle g, const Handle* d, Size c, const KernelNode* k),             \
         (n, g, d, c, k))                                                                                              \
    CALL(125, hipGraphAddMemAllocNode, (Handle * n, Handle g, const Handle* d, Size c, AllocationNode* a),             \
         (n, g, d, c, a))                                                                                              \
    CALL(126, hipGraphAddMemFreeNode, (Handle * n, Handle g, const Handle* d, Size c, void* p), (n, g, d, c, p))       \
    CALL(127, hipGraphAddMemcpyNode, (Handle * n, Handle g, const Handle* d, Size c, const Copy3D* copy),              \
         (n, g, d, c, copy))                                                                                           \
    CALL(128, hipGraphAddMemcpyNode1D,                                                                                 \
         (Handle * n, Handle g, const Handle* d, Size c, void* t, const void* s, Size m, int k),                       \
         (n, g, d, c, t, s, m, k))                                                                                     \
    CALL(129, hipGraphAddMemcpyNodeFromSymbol,                                                                         \
         (Handle * n, Handle g, const Handle* d, Size c, void* t, const void* y, Size m, Size o, int k),               \
         (n, g, d, c, t, y, m, o, k))                                                                                  \
    CALL(130, hipGraphAddMemcpyNodeToSymbol,                                                                           \
         (Handle * n, Handle g, const Handle* d, Size c, const void* y, const void* s, Size m, Size o, int k),         \
         (n, g, d, c, y, s, m, o, k))                                                                                  \
    CALL(131, hipGraphAddMemsetNode, (Handle * n, Handle g, const Handle* d, Size c, const FillNode* f),               \
         (n, g, d, c, f))                                                                                              \
    CALL(133, hipGraphClone, (Handle * g, Handle of), (g, of))                                                         \
    CALL(136, hipGraphDestroy, (Handle g), (g))                                                                        \
    CALL(143, hipGraphExecDestroy, (Handle e), (e))                                                                    \
    CALL(153, hipGraphExecUpdate, (Handle e, Handle g, Handle * n, int* result), (e, g, n, result))                    \
    CALL(159, hipGraphInstantiate, (Handle * e, Handle g, Handle * n, char* log, Size m), (e, g, n, log, m))           \
    CALL(160, hipGraphInstantiateWithFlags, (Handle * e, Handle g, unsigned long long f), (e, g, f))                   \
    CALL(166, hipGraphLaunch, (Handle g, Stream q), (g, q))                                                            \
    CALL(193, hipHostAlloc, (void** p, Size n, unsigned f), (p, n, f))                                                 \
    CALL(194, hipHostFree, (void* p), (p))                                                                             \
    CALL(197, hipHostMalloc, (void** p, Size n, unsigned f), (p, n, f))                                                \
    CALL(198, hipHostRegister, (void* p, Size n, unsigned f), (p, n, f))                                               \
    CALL(199, hipHostUnregister, (void* p), (p))                                                                       \
    CALL(211, hipLaunchCooperativeKernel, (const void* f, Dim3 g, Dim3 b, void** a, unsigned m, Stream q),             \
         (f, g, b, a, m, q))                                                                                           \
    CALL(214, hipLaunchKernel, (const void* f, Dim3 g, Dim3 b, void** a, Size m, Stream q), (f, g, b, a, m, q))        \
    CALL(215, hipMalloc, (void** p, Size n), (p, n))                                                                   \
    CALL(216, hipMalloc3D, (Pitched * p, Extent n), (p, n))                                                            \
    CALL(217, hipMalloc3DArray, (Array * a, const ChannelFormat* c, Extent n, unsigned f), (a, c, n, f))               \
    CALL(218, hipMallocArray, (Array * a, const ChannelFormat* c, Size w, Size h, unsigned f), (a, c, w, h, f))        \
    CALL(219, hipMallocAsync, (void** p, Size n, Stream q), (p, n, q))                                                 \
    CALL(220, hipMallocFromPoolAsync, (void** p, Size n, Handle pool, Stream q), (p, n, pool, q))                      \
    CALL(221, hipMallocHost, (void** p, Size n), (p, n))                                                               \
    CALL(222, hipMallocManaged, (void** p, Size n, unsigned f), (p, n, f))                                             \
    CALL(224, hipMallocPitch, (void** p, Size* pitch, Size w, Size h), (p, pitch, w, h))                               \
    CALL(225, hipMemAddressFree, (void* p, Size n), (p, n))                                                            \
    CALL(226, hipMemAddressReserve, (void** p, Size n, Size to, void* at, unsigned long long f), (p, n, to, at, f))    \
    CALL(227, hipMemAdvise, (const void* p, Size n, int a, int d), (p, n, a, d))                                       \
    CALL(228, hipMemAllocHost, (void** p, Size n), (p, n))                                                             \
    CALL(229, hipMemAllocPitch, (void** p, Size* pitch, Size w, Size h, unsigned e), (p, pitch, w, h, e))              \
    CALL(236, hipMemGetInfo, (Size * f, Size * n), (f, n))                                                             \
    CALL(238, hipMemMap, (void* p, Size n, Size from, Handle h, unsigned long long f), (p, n, from, h, f))             \
    CALL(251, hipMemPrefetchAsync, (const void* p, Size n, int d, Stream q), (p, n, d, q))                             \
    CALL(258, hipMemUnmap, (void* p, Size n), (p, n))                                                                  \
    CALL(259, hipMemcpy, (void* t, const void* s, Size n, int k), (t, s, n, k))                                        \
    CALL(260, hipMemcpy2D, (void* t, Size tp, const void* s, Size sp, Size w, Size h, int k), (t, tp, s, sp, w, h, k)) \
    CALL(261, hipMemcpy2DAsync, (void* t, Size tp, const void* s, Size sp, Size w, Size h, int k, Stream q),           \
         (t, tp, s, sp, w, h, k, q))                                                                                   \
    CALL(262, hipMemcpy2DFromArray, (void* t, Size tp, Array s, Size x, Size y, Size w, Size h, int k),                \
         (t, tp, s, x, y, w, h, k))                                                                                    \
    CALL(263, hipMemcpy2DFromArrayAsync, (void* t, Size tp, Array s, Size x, Size y, Size w, Size h, int k, Stream q), \
         (t, tp, s, x, y, w, h, k, q))                                                                                 \
    CALL(264, hipMemcpy2DToArray, (Array t, Size x, Size y, const void* s, Size sp, Size w, Size h, int k),            \
         (t, x, y, s, sp, w, h, k))                                                                                    \
    CALL(265, hipMemcpy2DToArrayAsync,                                                                                 \
         (Array t, Size x, Size y, const void* s, Size sp, Size w, Size h, int k, Stream q),                           \
         (t, x, y, s, sp, w, h, k, q))                                                                                 \
    CALL(266, hipMemcpy3D, (const Copy3D* c), (c))                                                                     \
    CALL(267, hipMemcpy3DAsync, (const Copy3D* c, Stream q), (c, q))                                                   \
    CALL(268, hipMemcpyAsync, (void* t, const void* s, Size n, int k, Stream q), (t, s, n, k, q))                      \
    CALL(269, hipMemcpyAtoH, (void* t, Array s, Size x, Size n), (t, s, x, n))                                         \
    CALL(270, hipMemcpyDtoD, (void* t, void* s, Size n), (t, s, n))                                                    \
    CALL(271, hipMemcpyDtoDAsync, (void* t, void* s, Size n, Stream q), (t, s, n, q))                                  \
    CALL(272, hipMemcpyDtoH, (void* t, void* s, Size n), (t, s, n))                                                    \
    CALL(273, hipMemcpyDtoHAsync, (void* t, void* s, Size n, Stream q), (t, s, n, q))                                  \
    CALL(274, hipMemcpyFromArray, (void* t, Array s, Size x, Size y, Size n, int k), (t, s, x, y, n, k))               \
    CALL(275, hipMemcpyFromSymbol, (void* t, const void* y, Size n, Size o, int k), (t, y, n, o, k))                   \
    CALL(276, hipMemcpyFromSymbolAsync, (void* t, const void* y, Size n, Size o, int k, Stream q), (t, y, n, o, k, q)) \
    CALL(277, hipMemcpyHtoA, (Array t, Size x, const void* s, Size n), (t, x, s, n))                                   \
    CALL(278, hipMemcpyHtoD, (void* t, void* s, Size n), (t, s, n))                                                    \
    CALL(279, hipMemcpyHtoDAsync, (void* t, void* s, Size n, Stream q), (t, s, n, q))                                  \
    CALL(280, hipMemcpyParam2D, (const Copy2D* c), (c))                                                                \
    CALL(281, hipMemcpyParam2DAsync, (const Copy2D* c, Stream q), (c, q))                                              \
    CALL(282, hipMemcpyPeer, (void* t, int td, const void* s, int sd, Size n), (t, td, s, sd, n))                      \
    CALL(283, hipMemcpyPeerAsync, (void* t, int td, const void* s, int sd, Size n, Stream q), (t, td, s, sd, n, q))    \
    CALL(284, hipMemcpyToArray, (Array t, Size x, Size y, const void* s, Size n, int k), (t, x, y, s, n, k))           \
    CALL(285, hipMemcpyToSymbol, (const void* y, const void* s, Size n, Size o, int k), (y, s, n, o, k))               \
    CALL(286, hipMemcpyToSymbolAsync, (const void* y, const void* s, Size n, Size o, int k, Stream q),                 \
         (y, s, n, o, k, q))                                                                                           \
    CALL(287, hipMemcpyWithStream, (void* t, const void* s, Size n, int k, Stream q), (t, s, n, k, q))                 \
    CALL(288, hipMemset, (void* t, int v, Size n), (t, v, n))                                                          \
    CALL(289, hipMemset2D, (void* t, Size tp, int v, Size w, Size h), (t, tp, v, w, h))                                \
    CALL(290, hipMemset2DAsync, (void* t, Size tp, int v, Size w, Size h, Stream q), (t, tp, v, w, h, q))              \
    CALL(291, hipMemset3D, (Pitched t, int v, Extent n), (t, v, n))                                                    \
    CALL(292, hipMemset3DAsync, (Pitched t, int v, Extent n, Stream q), (t, v, n, q))                                  \
    CALL(293, hipMemsetAsync, (void* t, int v, Size n, Stream q), (t, v, n, q))                                        \
    CALL(294, hipMemsetD16, (void* t, unsigned short v, Size n), (t, v, n))                                            \
    CALL(295, hipMemsetD16Async, (void* t, unsigned short v, Size n, Stream q), (t, v, n, q))                          \
    CALL(296, hipMemsetD32, (void* t, int v, Size n), (t, v, n))                                                       \
    CALL(297, hipMemsetD32Async, (void* t, int v, Size n, Stream q), (t, v, n, q))                                     \
    CALL(298, hipMemsetD8, (void* t, unsigned char v, Size n), (t, v, n))                                              \
    CALL(299, hipMemsetD8Async, (void* t, unsigned char v, Size n, Stream q), (t, v, n, q))                            \
    CALL(303, hipModuleGetFunction, (Handle * f, Handle m, const char* name), (f, m, name))                            \
    CALL(304, hipModuleGetGlobal, (void** p, Size* n, Handle m, const char* name), (p, n, m, name))                    \
    CALL(306, hipModuleLaunchCooperativeKernel,                                                                        \
         (Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned m,          \
          Stream q, void** a),                                                                                         \
         (f, gx, gy, gz, bx, by, bz, m, q, a))                                                                         \
    CALL(308, hipModuleLaunchKernel,                                                                                   \
         (Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned m,          \
          Stream q, void** a, void** e),                                                                               \
         (f, gx, gy, gz, bx, by, bz, m, q, a, e))                                                                      \
    CALL(309, hipModuleLoad, (Handle * m, const char* file), (m, file))                                                \
    CALL(310, hipModuleLoadData, (Handle * m, const void* image), (m, image))                                          \
    CALL(311, hipModuleLoadDataEx, (Handle * m, const void* image, unsigned n, int* o, void** v), (m, image, n, o, v)) \
    CALL(316, hipModuleUnload, (Handle m), (m))                                                                        \
    CALL(333, hipStreamBeginCapture, (Stream q, int mode), (q, mode))                                                  \
    CALL(337, hipStreamDestroy, (Stream q), (q))                                                                       \
    CALL(338, hipStreamEndCapture, (Stream q, Handle * g), (q, g))                                                     \
    CALL(345, hipStreamQuery, (Stream q), (q))                                                                         \
    CALL(346, hipStreamSynchronize, (Stream q), (q))                                                                   \
    CALL(388, hipExtModuleLaunchKernel,                                                                                \
         (Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, Size m, Stream q,    \
          void** a, void** e, Handle from, Handle to, unsigned flags),                                                 \
         (f, gx, gy, gz, bx, by, bz, m, q, a, e, from, to, flags))                                                     \
    CALL(389, hipHccModuleLaunchKernel,                                                                                \
         (Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, Size m, Stream q,    \
          void** a, void** e, Handle from, Handle to),                                                                 \
         (f, gx, gy, gz, bx, by, bz, m, q, a, e, from, to))                                                            \
    CALL(390, hipMemcpy_spt, (void* t, const void* s, Size n, int k), (t, s, n, k))                                    \
    CALL(391, hipMemcpyToSymbol_spt, (const void* y, const void* s, Size n, Size o, int k), (y, s, n, o, k))           \
    CALL(392, hipMemcpyFromSymbol_spt, (void* t, const void* y, Size n, Size o, int k), (t, y, n, o, k))               \
    CALL(393, hipMemcpy2D_spt, (void* t, Size tp, const void* s, Size sp, Size w, Size h, int k),                      \
         (t, tp, s, sp, w, h, k))                                                                                      \
    CALL(395, hipMemcpy3D_spt, (const Copy3D* c), (c))                                                                 \
    CALL(396, hipMemset_spt, (void* t, int v, Size n), (t, v, n))                                                      \
    CALL(397, hipMemsetAsync_spt, (void* t, int v, Size n, Stream q), (t, v, n, q))                                    \
    CALL(398, hipMemset2D_spt, (void* t, Size tp, int v, Size w, Size h), (t, tp, v, w, h))                            \
    CALL(399, hipMemset2DAsync_spt, (void* t, Size tp, int v, Size w, Size h, Stream q), (t, tp, v, w, h, q))          \
    CALL(400, hipMemset3DAsync_spt, (Pitched t, int v, Extent n, Stream q), (t, v, n, q))                              \
    CALL(401, hipMemset3D_spt, (Pitched t, int v, Extent n), (t, v, n))                                                \
    CALL(402, hipMemcpyAsync_spt, (void* t, const void* s, Size n, int k, Stream q), (t, s, n, k, q))                  \
    CALL(403, hipMemcpy3DAsync_spt, (const Copy3D* c, Stream q), (c, q))                                               \
    CALL(404, hipMemcpy2DAsync_spt, (void* t, Size tp, const void* s, Size sp, Size w, Size h, int k, Stream q),       \
         (t, tp, s, sp, w, h, k, q))                                                                                   \
    CALL(405, hipMemcpyFromSymbolAsync_spt, (void* t, const void* y, Size n, Size o, int k, Stream q),                 \
         (t, y, n, o, k, q))                                                                                           \
    CALL(406, hipMemcpyToSymbolAsync_spt, (const void* y, const void* s, Size n, Size o, int k, Stream q),             \
         (y, s, n, o, k, q))                                                                                           \
    CALL(411, hipStreamQuery_spt, (Stream q), (q))                                                                     \
    CALL(412, hipStreamSynchronize_spt, (Stream q), (q))                                                               \
    CALL(418, hipLaunchCooperativeKernel_spt, (const void* f, Dim3 g, Dim3 b, void** a, unsigned m, Stream q),         \
         (f, g, b, a, m, q))                                                                                           \
    CALL(419, hipLaunchKernel_spt, (const void* f, Dim3 g, Dim3 b, void** a, Size m, Stream q), (f, g, b, a, m, q))    \
    CALL(420, hipGraphLaunch_spt, (Handle g, Stream q), (g, q))                                                        \
    CALL(421, hipStreamBeginCapture_spt, (Stream q, int mode), (q, mode))                                              \
    CALL(422, hipStreamEndCapture_spt, (Stream q, Handle * g), (q, g))                                                 \
    CALL(428, hipDrvGraphAddMemsetNode,                                                                                \
         (Handle * n, Handle g, const Handle* d, Size c, const void* fill, void* context),                             \
         (n, g, d, c, fill, context))                                                                                  \
    CALL(437, hipGraphAddNode, (Handle * n, Handle g, const Handle* d, Size c, void* p), (n, g, d, c, p))              \
    CALL(438, hipGraphInstantiateWithParams, (Handle * e, Handle g, void* p), (e, g, p))                               \
    CALL(443, hipStreamBeginCaptureToGraph, (Stream q, Handle g, const Handle* d, const void* data, Size n, int mode), \
         (q, g, d, data, n, mode))                                                                                     \
    CALL(446, hipMemcpyAtoD, (void* t, Array s, Size x, Size n), (t, s, x, n))                                         \
    CALL(447, hipMemcpyDtoA, (Array t, Size x, void* s, Size n), (t, x, s, n))                                         \
    CALL(448, hipMemcpyAtoA, (Array t, Size x, Array s, Size y, Size n), (t, x, s, y, n))                              \
    CALL(449, hipMemcpyAtoHAsync, (void* t, Array s, Size x, Size n, Stream q), (t, s, x, n, q))                       \
    CALL(450, hipMemcpyHtoAAsync, (Array t, Size x, const void* s, Size n, Stream q), (t, x, s, n, q))                 \
    CALL(461, hipExtHostAlloc, (void** p, Size n, unsigned f), (p, n, f))                                              \
    CALL(474, hipLaunchKernelExC, (const LaunchShape* c, const void* f, void** a), (c, f, a))                          \
    CALL(475, hipDrvLaunchKernelEx, (const DriverLaunchShape* c, Handle f, void** a, void** e), (c, f, a, e))          \
    CALL(478, hipMemsetD2D8, (void* t, Size p, unsigned char v, Size w, Size h), (t, p, v, w, h))                      \
    CALL(479, hipMemsetD2D8Async, (void* t, Size p, unsigned char v, Size w, Size h, Stream q), (t, p, v, w, h, q))    \
    CALL(480, hipMemsetD2D16, (void* t, Size p, unsigned short v, Size w, Size h), (t, p, v, w, h))                    \
    CALL(481, hipMemsetD2D16Async, (void* t, Size p, unsigned short v, Size w, Size h, Stream q), (t, p, v, w, h, q))  \
    CALL(482, hipMemsetD2D32, (void* t, Size p, unsigned v, Size w, Size h), (t, p, v, w, h))                          \
    CALL(483, hipMemsetD2D32Async, (void* t, Size p, unsigned v, Size w, Size h, Stream q), (t, p, v, w, h, q))        \
    CALL(487, hipMemcpyBatchAsync,                                                                                     \
         (void** t, void** s, Size* b, Size n, void* a, Size* i, Size m, Size* failed, Stream q),                      \
         (t, s, b, n, a, i, m, failed, q))                                                                             \
    CALL(493, hipMemPrefetchAsync_v2, (const void* p, Size n, Location d, unsigned f, Stream q), (p, n, d, f, q))      \
    CALL(494, hipMemAdvise_v2, (const void* p, Size n, int a, Location d), (p, n, a, d))

// Asked by this library alone.
#define FIRSTTOUCH_HIP_QUESTIONS(CALL)                                                                                 \
    CALL(102, hipGetDevice, (int* device), (device))                                                                   \
    CALL(105, hipGetDevicePropertiesR0600, (char* of, int device), (of, device))                                       \
    CALL(106, hipGetDeviceProperties, (char* of, int device), (of, device)) /* R0000 in the table */                   \
    CALL(109, hipGetLastError, (), ())                                                                                 \
    CALL(320, hipPeekAtLastError, (), ())                                                                              \
    CALL(326, hipRuntimeGetVersion, (int* version), (version))                                                         \
    CALL(344, hipStreamIsCapturing, (Stream q, int* status), (q, status))

// CALL(place in the compiler's table, result, function, parameters, arguments): what a program with kernels registers
// before its main function.
#define FIRSTTOUCH_HIP_COMPILER_CALLS(CALL)                                                                            \
    CALL(2, void**, __hipRegisterFatBinary, (const void* wrapper), (wrapper))                                          \
    CALL(3, void, __hipRegisterFunction,                                                                               \
         (void** m, const void* f, char* symbol, const char* name, unsigned most, void* t, void* b, void* n, void* g,  \
          int* w),                                                                                                     \
         (m, f, symbol, name, most, t, b, n, g, w))                                                                    \
    CALL(4, void, __hipRegisterManagedVar,                                                                             \
         (void* m, void** pointer, void* initial, const char* name, Size bytes, unsigned alignment),                   \
         (m, pointer, initial, name, bytes, alignment))                                                                \
    CALL(7, void, __hipRegisterVar,                                                                                    \
         (void** m, void* variable, char* symbol, char* name, int ext, Size bytes, int constant, int global),          \
         (m, variable, symbol, name, ext, bytes, constant, global))                                                    \
    CALL(8, void, __hipUnregisterFatBinary, (void** m), (m))
