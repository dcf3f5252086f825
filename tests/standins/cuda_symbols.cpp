// The driver's functions by their names in libcuda.so.1, and cuGetProcAddress, by which a runtime asks for them. What
// is preloaded into a program reaches the calls of the stand-in for the runtime here, as it reaches those of CUDA's.
//   STANDIN_CUDA_REACHES  1: the device says that it reaches plain memory of the host, as its kernels do
#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "cuda_driver.hpp"
#include "events/driver_calls.hpp"

#define DRIVER extern "C" __attribute__((visibility("default"))) int

using namespace played;

namespace {

void* context() { return reinterpret_cast<void*>(std::uintptr_t{16}); }

Address address_of(const void* pointer) { return reinterpret_cast<Address>(pointer); }

Address address_of(const firsttouch::cupti::Side2D& side) {
    return side.type == 1 ? address_of(side.host) : static_cast<Address>(side.device);
}

int copy_2d(const firsttouch::cupti::Copy2D& rows, bool is_asynchronous, Stream* stream) {
    const Direction direction = rows.source.type == 1 ? to_device : rows.target.type == 1 ? to_host : on_device;
    return copy_rows({address_of(rows.target), address_of(rows.source), rows.width, direction, is_asynchronous, stream},
                     {rows.height, rows.target.pitch, rows.source.pitch});
}

}  // namespace

DRIVER cuInit(unsigned) { return initialise(); }
DRIVER cuDeviceGet(int* device, int number) { return *device = number, number == 0 ? success : 101; }
DRIVER cuDeviceGetAttribute(int* value, int attribute, int) {
    constexpr int reaches_plain_memory = 88;
    const char* const text = std::getenv("STANDIN_CUDA_REACHES");
    return *value = attribute == reaches_plain_memory && text != nullptr && *text == '1' ? 1 : 0, success;
}
DRIVER cuDevicePrimaryCtxRetain(void** out, int) { return *out = context(), success; }
DRIVER cuDevicePrimaryCtxReset_v2(int) { return release_all(); }
DRIVER cuCtxGetCurrent(void** out) { return *out = context(), success; }
DRIVER cuCtxSetCurrent(void*) { return success; }
DRIVER cuCtxGetDevice(int* device) { return *device = 0, success; }
DRIVER cuCtxSynchronize() { return wait_for_context(); }
DRIVER cuStreamSynchronize(Stream* stream) { return wait_for_stream(stream); }
DRIVER cuStreamIsCapturing(const Stream* stream, int* status) {
    return *status = stream != nullptr && stream->captured != nullptr ? 1 : 0, success;
}
DRIVER cuMemGetInfo_v2(std::size_t* free, std::size_t* total) { return memory_info(free, total); }
DRIVER cuMemAlloc_v2(Address* out, std::size_t bytes) { return allocate(out, bytes); }
DRIVER cuMemAllocManaged(Address* out, std::size_t bytes, unsigned flags) {
    return allocate_managed(out, bytes, flags);
}
DRIVER cuMemFree_v2(Address address) { return release(address); }
DRIVER cuMemHostAlloc(void** out, std::size_t bytes, unsigned flags) { return allocate_pinned(out, bytes, flags); }
DRIVER cuMemFreeHost(void* address) { return release_pinned(address); }
DRIVER cuMemcpy(Address target, Address source, std::size_t bytes) {
    return copy({target, source, bytes, on_host, false, nullptr, false});
}
DRIVER cuMemcpyAsync(Address target, Address source, std::size_t bytes, Stream* stream) {
    return copy({target, source, bytes, on_host, true, stream, false});
}
DRIVER cuMemcpyHtoD_v2(Address target, const void* source, std::size_t bytes) {
    return copy({target, address_of(source), bytes, to_device, false, nullptr});
}
DRIVER cuMemcpyDtoH_v2(void* target, Address source, std::size_t bytes) {
    return copy({address_of(target), source, bytes, to_host, false, nullptr});
}
DRIVER cuMemcpyHtoDAsync_v2(Address target, const void* source, std::size_t bytes, Stream* stream) {
    return copy({target, address_of(source), bytes, to_device, true, stream});
}
DRIVER cuMemcpyDtoHAsync_v2(void* target, Address source, std::size_t bytes, Stream* stream) {
    return copy({address_of(target), source, bytes, to_host, true, stream});
}
DRIVER cuMemcpy2DUnaligned_v2(const firsttouch::cupti::Copy2D* rows) { return copy_2d(*rows, false, nullptr); }
DRIVER cuMemcpy2DAsync_v2(const firsttouch::cupti::Copy2D* rows, Stream* stream) {
    return copy_2d(*rows, true, stream);
}
// Of a slice of one row, as a profiler reads memory of the device.
DRIVER cuMemcpy3D_v2(const firsttouch::cupti::Copy3D* slices) {
    if (slices->source.type != 2 || slices->target.type != 1 || slices->height != 1 || slices->depth != 1) return 1;
    return copy_now(address_of(slices->target.host), static_cast<Address>(slices->source.device), slices->width);
}
DRIVER cuMemPrefetchAsync(Address address, std::size_t bytes, int device, Stream* stream) {
    return prefetch(address, bytes, device < 0 ? 2 : 1, device < 0 ? 0 : device, stream);
}
DRIVER cuMemAdvise(Address address, std::size_t bytes, int advice, int device) {
    return advise(address, bytes, advice, device < 0 ? 2 : 1, device < 0 ? 0 : device);
}

// A function by its name without a suffix, in its newest version.
DRIVER cuGetProcAddress_v2(const char* name, void** function, int, std::uint64_t, int* status) {
    static void* const self = dlopen("libcuda.so.1", RTLD_NOW);
    *function = dlsym(self, (std::string(name) + "_v2").c_str());
    if (*function == nullptr) *function = dlsym(self, name);
    if (status != nullptr) *status = *function == nullptr ? 1 : 0;
    return *function == nullptr ? not_found : success;
}
