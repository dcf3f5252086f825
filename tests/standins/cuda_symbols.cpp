// The driver's functions by their names in libcuda.so.1, and cuGetProcAddress, by which a runtime asks for them. What
// is preloaded into a program reaches the calls of the stand-in for the runtime here, as it reaches those of CUDA's.
//   STANDIN_CUDA_REACHES  1: the device says that it reaches plain memory of the host, as its kernels do
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
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
DRIVER cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned flags) { return lock(address, bytes, flags); }
DRIVER cuMemHostUnregister(void* address) { return unlock(address); }
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
// A slice of one row that comes back is how a profiler reads memory of the device, within calls of its own.
DRIVER cuMemcpy3D_v2(const firsttouch::cupti::Copy3D* slices) {
    if (slices->source.type == 2 && slices->target.type == 1 && slices->height == 1 && slices->depth == 1)
        return copy_now(address_of(slices->target.host), static_cast<Address>(slices->source.device), slices->width);
    return copy_slices(*slices);
}
DRIVER cuMemcpyDtoD_v2(Address target, Address source, std::size_t bytes) {
    return copy({target, source, bytes, on_device, false, nullptr});
}
DRIVER cuMemcpyPeer(Address target, void*, Address source, void*, std::size_t bytes) {
    return copy_between(target, source, bytes);
}
DRIVER cuMemcpyBatchAsync_v2(const Address* targets, const Address* sources, const std::size_t* sizes,
                             std::size_t count, const void*, const std::size_t*, std::size_t, Stream* stream) {
    return copy_batch(targets, sources, sizes, count, stream);
}
DRIVER cuMemsetD8_v2(Address target, unsigned char value, std::size_t bytes) {
    return fill(target, value, bytes, false, nullptr);
}
DRIVER cuMemsetD8Async(Address target, unsigned char value, std::size_t bytes, Stream* stream) {
    return fill(target, value, bytes, true, stream);
}

// What memory is. As the driver says it: of memory that it does not know, one attribute is an error, many are null.
DRIVER cuPointerGetAttribute(void* value, int attribute, Address address) {
    constexpr int type = 2, device_pointer = 3, host_pointer = 4, is_managed = 8, range_start = 11, range_bytes = 12;
    const Memory memory = memory_at(address);
    if (memory == pageable) return invalid_value;
    if (attribute == type) return *static_cast<unsigned*>(value) = memory == pinned ? 1 : 2, success;
    if (attribute == is_managed) return *static_cast<char*>(value) = memory == managed, success;
    Address& out = *static_cast<Address*>(value);
    if (attribute == host_pointer && memory == device) return invalid_value;
    if (attribute == device_pointer || attribute == host_pointer) return out = address, success;
    if (attribute == range_start) return out = range_at(address).start, success;
    if (attribute == range_bytes) return out = range_at(address).bytes, success;
    return invalid_value;
}
DRIVER cuPointerGetAttributes(unsigned count, const int* attributes, void** values, Address address) {
    constexpr int type = 2, is_managed = 8;
    for (unsigned i = 0; i < count; ++i) {
        const std::size_t bytes = attributes[i] == is_managed ? 1 : attributes[i] == type ? 4 : 8;
        std::memset(values[i], 0, bytes);
        cuPointerGetAttribute(values[i], attributes[i], address);
    }
    return success;
}
DRIVER cuMemGetAddressRange_v2(Address* start, std::size_t* bytes, Address address) {
    const Range range = range_at(address);
    if (range.bytes == 0) return not_found;
    if (start != nullptr) *start = range.start;
    if (bytes != nullptr) *bytes = range.bytes;
    return success;
}
DRIVER cuMemHostGetDevicePointer_v2(Address* device, void* host, unsigned) {
    if (memory_at(address_of(host)) != pinned) return invalid_value;
    return *device = address_of(host), success;
}
DRIVER cuIpcGetMemHandle(void* handle, Address address) {
    if (memory_at(address) != device) return invalid_value;
    return std::memset(handle, 0, 64), success;
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
