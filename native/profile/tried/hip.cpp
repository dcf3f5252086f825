// HIP's functions that are watched. They are symbols of one library, so that a preloaded library is in front of them.
#include <dlfcn.h>

#include "profile/inject/front/hip/calls.hpp"
#include "profile/tried/asked.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace firsttouch::tried {

using hip_front::Size;

namespace {

template <class... Parameters>
Result go_on(const char* name, Parameters... parameters) {
    const Inside inside;
    void* const function = next_dlsym(RTLD_NEXT, name);
    if (function == nullptr) return hip_front::no_device;
    return reinterpret_cast<Result (*)(Parameters...)>(function)(parameters...);
}

// Whether a call is watched, which is then one of a program that uses HIP.
bool is_watching_hip() {
    if (!is_watching()) return false;
    settings().is_hip = true;
    return true;
}

enum Kind : int { host_to_host, host_to_device, device_to_host, device_to_device, by_address };

template <class Make>
Result copy_of_kind(void* target, const void* source, int kind, const Copied& copied, Make make) {
    const Address to = address_of(target), from = address_of(source);
    if (!is_watching_hip() || copied.bytes == 0 || kind == host_to_host || kind == device_to_device) return make();
    if (kind == by_address) return copy_by_address<0>(to, from, copied, make);
    const bool is_to_host = kind == device_to_host;
    return copy<0>({is_to_host, is_to_host ? to : from, is_to_host ? from : to}, copied, make);
}

template <class Make>
Result copy_of_rows(void* target, const void* source, Size bytes, int kind, Make make) {
    if (is_watching_hip() && (kind == host_to_device || kind == device_to_host)) {
        const Address to = address_of(target), from = address_of(source);
        const bool is_to_host = kind == device_to_host;
        Sides(is_to_host, is_to_host ? to : from, is_to_host ? from : to).check(bytes);
    }
    return make();
}

}  // namespace
}  // namespace firsttouch::tried

using namespace firsttouch::tried;

EXPORTED Result hipMalloc(void** out, Size bytes) {
    const auto make = [=] { return go_on("hipMalloc", out, bytes); };
    return is_watching_hip() ? allocate_block(reinterpret_cast<Address*>(out), bytes, make) : make();
}
EXPORTED Result hipFree(void* address) {
    return is_given_back(address_of(address), Side::device) ? 0 : go_on("hipFree", address);
}
#define OF_HOST(name)                                                                                                  \
    EXPORTED Result name(void** out, Size bytes, unsigned flags) {                                                     \
        const auto make = [=] { return go_on(#name, out, bytes, flags); };                                             \
        return is_watching_hip() ? allocate_page_locked(out, bytes, make) : make();                                    \
    }
OF_HOST(hipHostMalloc)
OF_HOST(hipHostAlloc)
#undef OF_HOST
#define OF_HOST(name)                                                                                                  \
    EXPORTED Result name(void** out, Size bytes) {                                                                     \
        const auto make = [=] { return go_on(#name, out, bytes); };                                                    \
        return is_watching_hip() ? allocate_page_locked(out, bytes, make) : make();                                    \
    }
OF_HOST(hipMallocHost)
OF_HOST(hipMemAllocHost)
#undef OF_HOST
EXPORTED Result hipHostFree(void* address) {
    return is_given_back(address_of(address), Side::host) ? 0 : go_on("hipHostFree", address);
}
EXPORTED Result hipFreeHost(void* address) {
    return is_given_back(address_of(address), Side::host) ? 0 : go_on("hipFreeHost", address);
}
EXPORTED Result hipHostRegister(void* address, Size bytes, unsigned flags) {
    return lock_array(address, [=] { return go_on("hipHostRegister", address, bytes, flags); });
}
EXPORTED Result hipHostUnregister(void* address) {
    return unlock_array(address, [=] { return go_on("hipHostUnregister", address); });
}
EXPORTED Result hipDeviceReset() {
    return is_watching_hip() && has_array_of_ours() ? ask_driver("cuCtxSynchronize") : go_on("hipDeviceReset");
}

EXPORTED Result hipMemcpy(void* target, const void* source, Size bytes, int kind) {
    const auto make = [=] { return go_on("hipMemcpy", target, source, bytes, kind); };
    return copy_of_kind(target, source, kind, {bytes, nullptr, false}, make);
}
EXPORTED Result hipMemcpyAsync(void* target, const void* source, Size bytes, int kind, Stream stream) {
    const auto make = [=] { return go_on("hipMemcpyAsync", target, source, bytes, kind, stream); };
    return copy_of_kind(target, source, kind, {bytes, stream, true}, make);
}
EXPORTED Result hipMemcpyWithStream(void* target, const void* source, Size bytes, int kind, Stream stream) {
    const auto make = [=] { return go_on("hipMemcpyWithStream", target, source, bytes, kind, stream); };
    return copy_of_kind(target, source, kind, {bytes, stream, false}, make);
}
EXPORTED Result hipMemcpyHtoD(void* target, void* source, Size bytes) {
    const auto make = [=] { return go_on("hipMemcpyHtoD", target, source, bytes); };
    return copy_of_kind(target, source, host_to_device, {bytes, nullptr, false}, make);
}
EXPORTED Result hipMemcpyDtoH(void* target, void* source, Size bytes) {
    const auto make = [=] { return go_on("hipMemcpyDtoH", target, source, bytes); };
    return copy_of_kind(target, source, device_to_host, {bytes, nullptr, false}, make);
}
EXPORTED Result hipMemcpyHtoDAsync(void* target, void* source, Size bytes, Stream stream) {
    const auto make = [=] { return go_on("hipMemcpyHtoDAsync", target, source, bytes, stream); };
    return copy_of_kind(target, source, host_to_device, {bytes, stream, true}, make);
}
EXPORTED Result hipMemcpyDtoHAsync(void* target, void* source, Size bytes, Stream stream) {
    const auto make = [=] { return go_on("hipMemcpyDtoHAsync", target, source, bytes, stream); };
    return copy_of_kind(target, source, device_to_host, {bytes, stream, true}, make);
}
EXPORTED Result hipMemcpy2D(void* target, Size to_pitch, const void* source, Size from_pitch, Size width, Size height,
                            int kind) {
    return copy_of_rows(target, source, width * height, kind, [=] {
        return go_on("hipMemcpy2D", target, to_pitch, source, from_pitch, width, height, kind);
    });
}
EXPORTED Result hipMemcpy2DAsync(void* target, Size to_pitch, const void* source, Size from_pitch, Size width,
                                 Size height, int kind, Stream stream) {
    return copy_of_rows(target, source, width * height, kind, [=] {
        return go_on("hipMemcpy2DAsync", target, to_pitch, source, from_pitch, width, height, kind, stream);
    });
}
