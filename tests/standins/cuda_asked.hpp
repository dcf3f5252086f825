// How the stand-in for the runtime reaches the driver: as CUDA's runtime does, static or shared. It opens libcuda.so.1,
// asks dlsym for cuGetProcAddress_v2, and that for all other functions.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "cuda_driver.hpp"
#include "events/driver_calls.hpp"

namespace asked {

using namespace played;

template <class Function>
Function* function(const char* name) {
    using Ask = int(const char*, void**, int, std::uint64_t, int*);
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    static auto* const ask = reinterpret_cast<Ask*>(dlsym(driver, "cuGetProcAddress_v2"));
    void* found = nullptr;
    int status = 0;
    if (ask == nullptr || ask(name, &found, 13000, 0, &status) != success)
        std::fprintf(stderr, "the stand-in for CUDA: %s is not there\n", name), std::exit(99);
    return reinterpret_cast<Function*>(found);
}

inline int allocate(Address* out, std::size_t bytes) {
    static auto* const call = function<int(Address*, std::size_t)>("cuMemAlloc");
    return call(out, bytes);
}
inline int allocate_pinned(void** out, std::size_t bytes, unsigned flags) {
    static auto* const call = function<int(void**, std::size_t, unsigned)>("cuMemHostAlloc");
    return call(out, bytes, flags);
}
inline int release(Address address) {
    static auto* const call = function<int(Address)>("cuMemFree");
    return call(address);
}
inline int release_pinned(void* address) {
    static auto* const call = function<int(void*)>("cuMemFreeHost");
    return call(address);
}
inline int lock(void* address, std::size_t bytes, unsigned flags) {
    static auto* const call = function<int(void*, std::size_t, unsigned)>("cuMemHostRegister");
    return call(address, bytes, flags);
}
inline int unlock(void* address) {
    static auto* const call = function<int(void*)>("cuMemHostUnregister");
    return call(address);
}
inline int reset() {
    static auto* const call = function<int(int)>("cuDevicePrimaryCtxReset");
    return call(0);
}

inline int copy(const Copy& copy) {
    void* const to = reinterpret_cast<void*>(copy.target);
    const void* const from = reinterpret_cast<const void*>(copy.source);
    using On = Stream*;
    if (copy.bytes == 0) return success;
    if (!copy.is_direction_known || copy.direction == on_host) {
        static auto* const now = function<int(Address, Address, std::size_t)>("cuMemcpy");
        static auto* const later = function<int(Address, Address, std::size_t, On)>("cuMemcpyAsync");
        if (copy.is_asynchronous) return later(copy.target, copy.source, copy.bytes, copy.stream);
        return now(copy.target, copy.source, copy.bytes);
    }
    if (copy.direction == to_device) {
        static auto* const now = function<int(Address, const void*, std::size_t)>("cuMemcpyHtoD");
        static auto* const later = function<int(Address, const void*, std::size_t, On)>("cuMemcpyHtoDAsync");
        if (copy.is_asynchronous) return later(copy.target, from, copy.bytes, copy.stream);
        return now(copy.target, from, copy.bytes);
    }
    if (copy.direction == to_host) {
        static auto* const now = function<int(void*, Address, std::size_t)>("cuMemcpyDtoH");
        static auto* const later = function<int(void*, Address, std::size_t, On)>("cuMemcpyDtoHAsync");
        if (copy.is_asynchronous) return later(to, copy.source, copy.bytes, copy.stream);
        return now(to, copy.source, copy.bytes);
    }
    if (!copy.is_asynchronous) {
        static auto* const now = function<int(Address, Address, std::size_t)>("cuMemcpyDtoD");
        return now(copy.target, copy.source, copy.bytes);
    }
    return played::copy(copy);
}
inline int fill(Address target, unsigned char value, std::size_t bytes, bool is_asynchronous, Stream* stream) {
    static auto* const now = function<int(Address, unsigned char, std::size_t)>("cuMemsetD8");
    static auto* const later = function<int(Address, unsigned char, std::size_t, Stream*)>("cuMemsetD8Async");
    return is_asynchronous ? later(target, value, bytes, stream) : now(target, value, bytes);
}

inline int copy_rows(const Copy& copy, const Rows& rows) {
    namespace watched = firsttouch::cupti;
    const auto side = [](Address address, std::size_t pitch, bool is_host) -> watched::Side2D {
        if (is_host) return {0, 0, 1, reinterpret_cast<void*>(address), 0, nullptr, pitch};
        return {0, 0, 2, nullptr, address, nullptr, pitch};
    };
    const watched::Copy2D asked{side(copy.source, rows.source_pitch, copy.direction == to_device),
                                side(copy.target, rows.target_pitch, copy.direction == to_host), copy.bytes,
                                rows.count};
    static auto* const now = function<int(const watched::Copy2D*)>("cuMemcpy2DUnaligned");
    static auto* const later = function<int(const watched::Copy2D*, Stream*)>("cuMemcpy2DAsync");
    return copy.is_asynchronous ? later(&asked, copy.stream) : now(&asked);
}
inline int attributes(unsigned count, int* attributes, void** values, Address address) {
    static auto* const call = function<int(unsigned, int*, void**, Address)>("cuPointerGetAttributes");
    return call(count, attributes, values, address);
}

}  // namespace asked
