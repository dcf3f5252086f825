// What the layer needs of OpenCL: where calls are in the loader's table, which cl_icd.h defines, and a few numbers.
// tests/native/test_vendor_types.cpp compares them with the Khronos headers if they are installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace firsttouch::opencl_layer {

using Int = std::int32_t;
using UInt = std::uint32_t;
using Flags = std::uint64_t;
using Size = std::size_t;
using Object = void*;  // platform, device, context, queue, memory, program, kernel or event

// CALL(index, name): a call that the layer takes the place of, or makes itself.
#define FIRSTTOUCH_OPENCL_CALLS(CALL)                                                                                  \
    CALL(1, clGetPlatformInfo)                                                                                         \
    CALL(3, clGetDeviceInfo)                                                                                           \
    CALL(9, clCreateCommandQueue)                                                                                      \
    CALL(12, clGetCommandQueueInfo)                                                                                    \
    CALL(14, clCreateBuffer)                                                                                           \
    CALL(15, clCreateImage2D)                                                                                          \
    CALL(16, clCreateImage3D)                                                                                          \
    CALL(17, clRetainMemObject)                                                                                        \
    CALL(18, clReleaseMemObject)                                                                                       \
    CALL(21, clGetImageInfo)                                                                                           \
    CALL(34, clCreateKernel)                                                                                           \
    CALL(35, clCreateKernelsInProgram)                                                                                 \
    CALL(36, clRetainKernel)                                                                                           \
    CALL(37, clReleaseKernel)                                                                                          \
    CALL(38, clSetKernelArg)                                                                                           \
    CALL(39, clGetKernelInfo)                                                                                          \
    CALL(41, clWaitForEvents)                                                                                          \
    CALL(42, clGetEventInfo)                                                                                           \
    CALL(47, clFinish)                                                                                                 \
    CALL(48, clEnqueueReadBuffer)                                                                                      \
    CALL(49, clEnqueueWriteBuffer)                                                                                     \
    CALL(50, clEnqueueCopyBuffer)                                                                                      \
    CALL(51, clEnqueueReadImage)                                                                                       \
    CALL(52, clEnqueueWriteImage)                                                                                      \
    CALL(53, clEnqueueCopyImage)                                                                                       \
    CALL(54, clEnqueueCopyImageToBuffer)                                                                               \
    CALL(55, clEnqueueCopyBufferToImage)                                                                               \
    CALL(56, clEnqueueMapBuffer)                                                                                       \
    CALL(57, clEnqueueMapImage)                                                                                        \
    CALL(58, clEnqueueUnmapMemObject)                                                                                  \
    CALL(59, clEnqueueNDRangeKernel)                                                                                   \
    CALL(60, clEnqueueTask)                                                                                            \
    CALL(82, clCreateSubBuffer)                                                                                        \
    CALL(86, clEnqueueReadBufferRect)                                                                                  \
    CALL(87, clEnqueueWriteBufferRect)                                                                                 \
    CALL(88, clEnqueueCopyBufferRect)                                                                                  \
    CALL(96, clCreateImage)                                                                                            \
    CALL(101, clGetKernelArgInfo)                                                                                      \
    CALL(102, clEnqueueFillBuffer)                                                                                     \
    CALL(103, clEnqueueFillImage)                                                                                      \
    CALL(123, clCreateCommandQueueWithProperties)                                                                      \
    CALL(126, clSVMAlloc)                                                                                              \
    CALL(127, clSVMFree)                                                                                               \
    CALL(129, clEnqueueSVMMemcpy)                                                                                      \
    CALL(130, clEnqueueSVMMemFill)                                                                                     \
    CALL(131, clEnqueueSVMMap)                                                                                         \
    CALL(132, clEnqueueSVMUnmap)                                                                                       \
    CALL(134, clSetKernelArgSVMPointer)                                                                                \
    CALL(135, clSetKernelExecInfo)                                                                                     \
    CALL(137, clCloneKernel)                                                                                           \
    CALL(146, clCreateBufferWithProperties)                                                                            \
    CALL(147, clCreateImageWithProperties)

enum Slot : std::size_t {
#define CALL(index, name) name = index,
    FIRSTTOUCH_OPENCL_CALLS(CALL)
#undef CALL
};

inline constexpr Flags memory_read_write = 1, memory_write_only = 2, memory_read_only = 4, memory_use_host = 8,
                       memory_alloc_host = 16, memory_copy_host = 32, svm_fine = 1024, svm_atomics = 2048;
inline constexpr Flags map_read = 1, map_write = 2, map_write_invalidate = 4;
inline constexpr UInt kernel_name = 0x1190, kernel_arguments = 0x1191, argument_access = 0x1197,
                      argument_type_qualifier = 0x1199;
inline constexpr UInt access_read_only = 0x11A0, access_write_only = 0x11A1;
inline constexpr Flags qualifier_const = 1;
inline constexpr UInt image_element_bytes = 0x1111;
inline constexpr UInt exec_svm_pointers = 0x11B6;
inline constexpr UInt event_status = 0x11D3;
inline constexpr Int complete = 0;
inline constexpr UInt queue_device = 0x1091, device_name = 0x102B, device_version = 0x102F, device_platform = 0x1031,
                      device_unified = 0x1035, device_free_amd = 0x4039;
inline constexpr UInt layer_version = 0x4240, layer_version_100 = 100;
inline constexpr UInt layer_name = 0x4241;
inline constexpr Int invalid_value = -30;

struct BufferRegion {
    Size origin, bytes;
};
struct ImageFormat {
    UInt order, type;
};
struct ImageDescription {
    UInt type;
    Size width, height, depth, array_size, row_pitch, slice_pitch;
    UInt levels, samples;
    Object buffer;
};

}  // namespace firsttouch::opencl_layer
