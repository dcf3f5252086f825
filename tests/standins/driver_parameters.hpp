// Parameters of the driver's calls that the stand-in for it plays, with the names and layouts of CUPTI's
// generated_cuda_meta.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace played {

using Device = std::uint64_t;  // an address of the device
using Handle = void*;

struct cuMemAlloc_v2_params {
    Device* dptr;
    std::size_t bytesize;
};
struct cuMemAllocPitch_v2_params {
    Device* dptr;
    std::size_t* pPitch;
    std::size_t WidthInBytes, Height;
    unsigned int ElementSizeBytes;
};
struct cuMemAllocAsync_params {
    Device* dptr;
    std::size_t bytesize;
    Handle hStream;
};
struct cuMemAllocManaged_params {
    Device* dptr;
    std::size_t bytesize;
    unsigned int flags;
};
struct cuMemHostAlloc_params {
    void** pp;
    std::size_t bytesize;
    unsigned int Flags;
};
struct cuMemFree_v2_params {
    Device dptr;
};
struct cuMemFreeAsync_params {
    Device dptr;
    Handle hStream;
};
struct cuMemFreeHost_params {
    void* p;
};
struct cuMemHostRegister_v2_params {
    void* p;
    std::size_t bytesize;
    unsigned int Flags;
};
struct cuMemHostUnregister_params {
    void* p;
};
struct cuMemcpy_params {
    Device dst, src;
    std::size_t ByteCount;
};
struct cuMemcpyAsync_params {
    Device dst, src;
    std::size_t ByteCount;
    Handle hStream;
};
struct cuMemcpyHtoD_v2_params {
    Device dstDevice;
    const void* srcHost;
    std::size_t ByteCount;
};
struct cuMemcpyHtoDAsync_v2_params {
    Device dstDevice;
    const void* srcHost;
    std::size_t ByteCount;
    Handle hStream;
};
struct cuMemcpyDtoH_v2_params {
    void* dstHost;
    Device srcDevice;
    std::size_t ByteCount;
};
struct cuMemcpyDtoHAsync_v2_params {
    void* dstHost;
    Device srcDevice;
    std::size_t ByteCount;
    Handle hStream;
};
struct cuMemcpyDtoD_v2_params {
    Device dstDevice, srcDevice;
    std::size_t ByteCount;
};
struct cuMemcpyDtoDAsync_v2_params {
    Device dstDevice, srcDevice;
    std::size_t ByteCount;
    Handle hStream;
};
struct Side2D {
    std::size_t x, y;
    int memory;
    void* host;
    Device device;
    Handle array;
    std::size_t pitch;
};
struct Copy2D {  // CUDA_MEMCPY2D
    Side2D source, target;
    std::size_t width, height;
};
struct cuMemcpy2DUnaligned_v2_params {
    const Copy2D* pCopy;
};
struct cuMemcpy2DAsync_v2_params {
    const Copy2D* pCopy;
    Handle hStream;
};
struct cuMemsetD8_v2_params {
    Device dstDevice;
    unsigned char uc;
    std::size_t N;
};
struct cuMemsetD8Async_params {
    Device dstDevice;
    unsigned char uc;
    std::size_t N;
    Handle hStream;
};
struct Place {  // CUmemLocation
    int type, id;
};
struct cuMemPrefetchAsync_v2_params {
    Device devPtr;
    std::size_t count;
    Place location;
    unsigned int flags;
    Handle hStream;
};
struct cuMemAdvise_v2_params {
    Device devPtr;
    std::size_t count;
    int advice;
    Place location;
};
struct cuLaunchKernel_params {
    Handle f;
    unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    Handle hStream;
    void** kernelParams;
    void** extra;
};
struct cuLaunchCooperativeKernel_params {
    Handle f;
    unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    Handle hStream;
    void** kernelParams;
};
struct cuStreamSynchronize_params {
    Handle hStream;
};
struct cuEventSynchronize_params {
    Handle hEvent;
};
struct cuMemGetInfo_v2_params {
    std::size_t* free;
    std::size_t* total;
};
struct cuLibraryLoadData_params {
    Handle* library;
    const void* code;
    int* jitOptions;
    void** jitOptionsValues;
    unsigned int numJitOptions;
    int* libraryOptions;
    void** libraryOptionValues;
    unsigned int numLibraryOptions;
};

}  // namespace played
