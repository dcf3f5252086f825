// HIP's functions that are watched. They are symbols of one library, so that a preloaded library is in front of them.
#include <dlfcn.h>

#include "profile/inject/front/hip/calls.hpp"
#include "profile/tried/asked.hpp"
#include "profile/tried/queries.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace firsttouch::tried {

using hip_front::Array, hip_front::Copy2D, hip_front::Copy3D, hip_front::Extent, hip_front::Pitched, hip_front::Size;

namespace {

template <Name name, class... Parameters>
Result go_on(Parameters... parameters) {
    static std::atomic<void*> known{nullptr};
    void* function = known.load(std::memory_order_acquire);
    const Inside inside;
    if (function == nullptr) known = function = next_dlsym(RTLD_NEXT, name.text);
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

template <int variant = 0, class Make>
Result copy_of_kind(void* target, const void* source, int kind, const Copied& copied, Make make) {
    const Address to = address_of(target), from = address_of(source);
    if (!is_watching_hip() || copied.bytes == 0 || kind == host_to_host) return make();
    if (kind == device_to_device) return check_within_device(to, from, copied.bytes), make();
    if (kind == by_address) return copy_by_address<variant>(to, from, copied, make);
    const bool is_to_host = kind == device_to_host;
    return copy<variant>({is_to_host, is_to_host ? to : from, is_to_host ? from : to}, copied, make);
}

struct RowsAt {
    const void* address;
    Size pitch, height;  // of a slice
};
template <int variant = 0, class Make>
Result copy_rows(const RowsAt& target, const RowsAt& source, const Extent& extent, int kind, Stream stream,
                 bool is_asynchronous, Make make) {
    const auto& [width, height, depth] = extent;
    const auto is_whole = [&](const RowsAt& rows) {
        return (rows.pitch == width || height * depth <= 1) && (depth <= 1 || rows.height == height);
    };
    const Copied copied{width * height * depth, stream, is_asynchronous, is_whole(target) && is_whole(source)};
    return copy_of_kind<variant>(const_cast<void*>(target.address), source.address, kind, copied, make);
}
template <int variant = 0, class Make>
Result copy_slices(const Copy3D* copy, Stream stream, bool is_asynchronous, Make make) {
    if (copy == nullptr || copy->source_array != nullptr || copy->target_array != nullptr) return make();
    const auto begin = [](const Pitched& side, const hip_front::Position& at) {
        const Size row = at.z * side.height + at.y;
        return RowsAt{static_cast<const char*>(side.address) + row * side.pitch + at.x, side.pitch, side.height};
    };
    return copy_rows<variant>(begin(copy->target, copy->target_position), begin(copy->source, copy->source_position),
                              copy->extent, copy->kind, stream, is_asynchronous, make);
}
// Their kinds have other numbers in other versions of HIP.
template <class Make>
Result copy_sides(const Copy2D* copy, Stream stream, bool is_asynchronous, Make make) {
    const auto begin = [](const hip_front::Side2D& side) {
        const void* const base = side.device != nullptr ? side.device : side.host;
        return RowsAt{base == nullptr ? base : static_cast<const char*>(base) + side.y * side.pitch + side.x,
                      side.pitch, 0};
    };
    if (copy == nullptr || begin(copy->source).address == nullptr || begin(copy->target).address == nullptr)
        return make();
    return copy_rows(begin(copy->target), begin(copy->source), {copy->width, copy->height, 1}, by_address, stream,
                     is_asynchronous, make);
}

void* like(const std::optional<Query>& query, void* address) {
    return query ? reinterpret_cast<void*>(query->like) : address;
}
void translate(const Query& query, void*& answer) {
    answer = reinterpret_cast<void*>(query.translated(address_of(answer)));
}
std::optional<Query> query_with_hip(const void* address) {
    return is_watching_hip() ? query_of(address_of(address)) : std::nullopt;
}

void check_shared(const void* address) {
    const auto block = find(address_of(address), Side::device);
    if (settings().mode == Mode::run && block && block->is_ours)
        leave("the program shares a block of the device with another process (IPC), which is not tried");
}

struct PointerAttributes {  // hipPointerAttribute_t
    int type, device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned flags;
};

}  // namespace
}  // namespace firsttouch::tried

using namespace firsttouch::tried;

// CALL(name, parameters, arguments, look): a call that is passed on after a look at it.
#define CALL(name, parameters, arguments, look)                                                                        \
    EXPORTED Result name parameters {                                                                                  \
        if (is_watching_hip()) look;                                                                                   \
        return go_on<#name> arguments;                                                                                 \
    }

EXPORTED Result hipMalloc(void** out, Size bytes) {
    const auto make = [=] { return go_on<"hipMalloc">(out, bytes); };
    return is_watching_hip() ? allocate_block(reinterpret_cast<Address*>(out), bytes, make) : make();
}
EXPORTED Result hipFree(void* address) {
    return is_given_back(address_of(address), Side::device) ? 0 : go_on<"hipFree">(address);
}
EXPORTED Result hipFreeAsync(void* address, Stream stream) {
    return is_given_back(address_of(address), Side::device) ? 0 : go_on<"hipFreeAsync">(address, stream);
}
#define OF_HOST(name, parameters, arguments)                                                                           \
    EXPORTED Result name parameters {                                                                                  \
        const auto make = [=] { return go_on<#name> arguments; };                                                      \
        return is_watching_hip() ? allocate_page_locked(out, bytes, make) : make();                                    \
    }
OF_HOST(hipHostMalloc, (void** out, Size bytes, unsigned flags), (out, bytes, flags))
OF_HOST(hipHostAlloc, (void** out, Size bytes, unsigned flags), (out, bytes, flags))
OF_HOST(hipMallocHost, (void** out, Size bytes), (out, bytes))
OF_HOST(hipMemAllocHost, (void** out, Size bytes), (out, bytes))
#undef OF_HOST
EXPORTED Result hipHostFree(void* address) {
    return is_given_back(address_of(address), Side::host) ? 0 : go_on<"hipHostFree">(address);
}
EXPORTED Result hipFreeHost(void* address) {
    return is_given_back(address_of(address), Side::host) ? 0 : go_on<"hipFreeHost">(address);
}
EXPORTED Result hipHostRegister(void* address, Size bytes, unsigned flags) {
    return lock_array(address, [=] { return go_on<"hipHostRegister">(address, bytes, flags); });
}
EXPORTED Result hipHostUnregister(void* address) {
    return unlock_array(address, [=] { return go_on<"hipHostUnregister">(address); });
}
EXPORTED Result hipDeviceReset() {
    return is_watching_hip() && has_array_of_ours() ? ask_driver<"cuCtxSynchronize">() : go_on<"hipDeviceReset">();
}

EXPORTED Result hipMemcpy(void* target, const void* source, Size bytes, int kind) {
    const auto make = [=] { return go_on<"hipMemcpy">(target, source, bytes, kind); };
    return copy_of_kind(target, source, kind, {bytes, nullptr, false}, make);
}
EXPORTED Result hipMemcpyAsync(void* target, const void* source, Size bytes, int kind, Stream stream) {
    const auto make = [=] { return go_on<"hipMemcpyAsync">(target, source, bytes, kind, stream); };
    return copy_of_kind(target, source, kind, {bytes, stream, true}, make);
}
EXPORTED Result hipMemcpyWithStream(void* target, const void* source, Size bytes, int kind, Stream stream) {
    const auto make = [=] { return go_on<"hipMemcpyWithStream">(target, source, bytes, kind, stream); };
    return copy_of_kind(target, source, kind, {bytes, stream, false}, make);
}
EXPORTED Result hipMemcpyHtoD(void* target, void* source, Size bytes) {
    const auto make = [=] { return go_on<"hipMemcpyHtoD">(target, source, bytes); };
    return copy_of_kind(target, source, host_to_device, {bytes, nullptr, false}, make);
}
EXPORTED Result hipMemcpyDtoH(void* target, void* source, Size bytes) {
    const auto make = [=] { return go_on<"hipMemcpyDtoH">(target, source, bytes); };
    return copy_of_kind(target, source, device_to_host, {bytes, nullptr, false}, make);
}
EXPORTED Result hipMemcpyHtoDAsync(void* target, void* source, Size bytes, Stream stream) {
    const auto make = [=] { return go_on<"hipMemcpyHtoDAsync">(target, source, bytes, stream); };
    return copy_of_kind(target, source, host_to_device, {bytes, stream, true}, make);
}
EXPORTED Result hipMemcpyDtoHAsync(void* target, void* source, Size bytes, Stream stream) {
    const auto make = [=] { return go_on<"hipMemcpyDtoHAsync">(target, source, bytes, stream); };
    return copy_of_kind(target, source, device_to_host, {bytes, stream, true}, make);
}
EXPORTED Result hipMemcpy_spt(void* target, const void* source, Size bytes, int kind) {
    const auto make = [=] { return go_on<"hipMemcpy_spt">(target, source, bytes, kind); };
    return copy_of_kind<1>(target, source, kind, {bytes, nullptr, false}, make);
}
EXPORTED Result hipMemcpyAsync_spt(void* target, const void* source, Size bytes, int kind, Stream stream) {
    const auto make = [=] { return go_on<"hipMemcpyAsync_spt">(target, source, bytes, kind, stream); };
    return copy_of_kind<1>(target, source, kind, {bytes, stream, true}, make);
}

#define ROWS(name, variant)                                                                                            \
    EXPORTED Result name(void* t, Size tp, const void* s, Size sp, Size w, Size h, int kind) {                         \
        return copy_rows<variant>({t, tp, 0}, {s, sp, 0}, {w, h, 1}, kind, nullptr, false,                             \
                                  [=] { return go_on<#name>(t, tp, s, sp, w, h, kind); });                             \
    }
#define ROWS_ON(name, variant)                                                                                         \
    EXPORTED Result name(void* t, Size tp, const void* s, Size sp, Size w, Size h, int kind, Stream q) {               \
        return copy_rows<variant>({t, tp, 0}, {s, sp, 0}, {w, h, 1}, kind, q, true,                                    \
                                  [=] { return go_on<#name>(t, tp, s, sp, w, h, kind, q); });                          \
    }
ROWS(hipMemcpy2D, 0)
ROWS(hipMemcpy2D_spt, 1)
ROWS_ON(hipMemcpy2DAsync, 0)
ROWS_ON(hipMemcpy2DAsync_spt, 1)
#undef ROWS
#undef ROWS_ON
#define SLICES(name, variant)                                                                                          \
    EXPORTED Result name(const Copy3D* copy) {                                                                         \
        return copy_slices<variant>(copy, nullptr, false, [=] { return go_on<#name>(copy); });                         \
    }
#define SLICES_ON(name, variant)                                                                                       \
    EXPORTED Result name(const Copy3D* copy, Stream stream) {                                                          \
        return copy_slices<variant>(copy, stream, true, [=] { return go_on<#name>(copy, stream); });                   \
    }
SLICES(hipMemcpy3D, 0)
SLICES(hipMemcpy3D_spt, 1)
SLICES_ON(hipMemcpy3DAsync, 0)
SLICES_ON(hipMemcpy3DAsync_spt, 1)
#undef SLICES
#undef SLICES_ON
EXPORTED Result hipMemcpyParam2D(const Copy2D* copy) {
    return copy_sides(copy, nullptr, false, [=] { return go_on<"hipMemcpyParam2D">(copy); });
}
EXPORTED Result hipMemcpyParam2DAsync(const Copy2D* copy, Stream stream) {
    return copy_sides(copy, stream, true, [=] { return go_on<"hipMemcpyParam2DAsync">(copy, stream); });
}
EXPORTED Result hipDrvMemcpy2DUnaligned(const Copy2D* copy) {
    return copy_sides(copy, nullptr, false, [=] { return go_on<"hipDrvMemcpy2DUnaligned">(copy); });
}

// Of an array of the device, which is none of a plan.
#define TO_ARRAY(name, parameters, arguments, bytes, stream, is_asynchronous)                                          \
    EXPORTED Result name parameters {                                                                                  \
        const Copied copied{bytes, stream, is_asynchronous, false};                                                    \
        return copy_of_kind(nullptr, s, host_to_device, copied, [=] { return go_on<#name> arguments; });               \
    }
#define FROM_ARRAY(name, parameters, arguments, bytes, stream, is_asynchronous)                                        \
    EXPORTED Result name parameters {                                                                                  \
        const Copied copied{bytes, stream, is_asynchronous, false};                                                    \
        return copy_of_kind(t, nullptr, device_to_host, copied, [=] { return go_on<#name> arguments; });               \
    }
TO_ARRAY(hipMemcpyHtoA, (Array t, Size x, const void* s, Size n), (t, x, s, n), n, nullptr, false)
TO_ARRAY(hipMemcpyHtoAAsync, (Array t, Size x, const void* s, Size n, Stream q), (t, x, s, n, q), n, q, true)
FROM_ARRAY(hipMemcpyAtoH, (void* t, Array s, Size x, Size n), (t, s, x, n), n, nullptr, false)
FROM_ARRAY(hipMemcpyAtoHAsync, (void* t, Array s, Size x, Size n, Stream q), (t, s, x, n, q), n, q, true)
#undef TO_ARRAY
#undef FROM_ARRAY

EXPORTED Result hipMemcpyBatchAsync(void** t, void** s, Size* n, Size count, void* a, Size* i, Size m, Size* failed,
                                    Stream stream) {
    bool waits = false;
    if (is_watching_hip())
        for (Size k = 0; k < count; ++k) waits |= is_batched_of_pageable(address_of(t[k]), address_of(s[k]), n[k]);
    const Result result = go_on<"hipMemcpyBatchAsync">(t, s, n, count, a, i, m, failed, stream);
    return waits && result == 0 ? wait_for<0>(stream) : result;
}

CALL(hipMemcpyDtoD, (void* t, void* s, Size n), (t, s, n), check_within_device(address_of(t), address_of(s), n))
CALL(hipMemcpyDtoDAsync, (void* t, void* s, Size n, Stream q), (t, s, n, q),
     check_within_device(address_of(t), address_of(s), n))
CALL(hipMemcpyPeer, (void* t, int td, const void* s, int sd, Size n), (t, td, s, sd, n),
     check_within_device(address_of(t), address_of(s), n))
CALL(hipMemcpyPeerAsync, (void* t, int td, const void* s, int sd, Size n, Stream q), (t, td, s, sd, n, q),
     check_within_device(address_of(t), address_of(s), n))

#define FILL(name, parameters, arguments) CALL(name, parameters, arguments, check_fill(address_of(t)))
FILL(hipMemset, (void* t, int v, Size n), (t, v, n))
FILL(hipMemset_spt, (void* t, int v, Size n), (t, v, n))
FILL(hipMemsetAsync, (void* t, int v, Size n, Stream q), (t, v, n, q))
FILL(hipMemsetAsync_spt, (void* t, int v, Size n, Stream q), (t, v, n, q))
FILL(hipMemset2D, (void* t, Size p, int v, Size w, Size h), (t, p, v, w, h))
FILL(hipMemset2D_spt, (void* t, Size p, int v, Size w, Size h), (t, p, v, w, h))
FILL(hipMemset2DAsync, (void* t, Size p, int v, Size w, Size h, Stream q), (t, p, v, w, h, q))
FILL(hipMemset2DAsync_spt, (void* t, Size p, int v, Size w, Size h, Stream q), (t, p, v, w, h, q))
FILL(hipMemsetD8, (void* t, unsigned char v, Size n), (t, v, n))
FILL(hipMemsetD8Async, (void* t, unsigned char v, Size n, Stream q), (t, v, n, q))
FILL(hipMemsetD16, (void* t, unsigned short v, Size n), (t, v, n))
FILL(hipMemsetD16Async, (void* t, unsigned short v, Size n, Stream q), (t, v, n, q))
FILL(hipMemsetD32, (void* t, int v, Size n), (t, v, n))
FILL(hipMemsetD32Async, (void* t, int v, Size n, Stream q), (t, v, n, q))
#undef FILL
CALL(hipMemset3D, (Pitched t, int v, Extent n), (t, v, n), check_fill(address_of(t.address)))
CALL(hipMemset3DAsync, (Pitched t, int v, Extent n, Stream q), (t, v, n, q), check_fill(address_of(t.address)))
CALL(hipIpcGetMemHandle, (void* handle, void* p), (handle, p), check_shared(p))
#undef CALL

EXPORTED Result hipPointerGetAttributes(PointerAttributes* attributes, const void* address) {
    const auto query = query_with_hip(address);
    const Result result = go_on<"hipPointerGetAttributes">(attributes, like(query, const_cast<void*>(address)));
    if (query && result == 0)
        translate(*query, attributes->device_pointer), translate(*query, attributes->host_pointer);
    return result;
}
EXPORTED Result hipPointerGetAttribute(void* value, int attribute, void* address) {
    const auto query = query_with_hip(address);
    const Result result = go_on<"hipPointerGetAttribute">(value, attribute, like(query, address));
    if (query && result == 0) answer(*query, attribute, value);
    return result;
}
EXPORTED Result hipDrvPointerGetAttributes(unsigned count, int* attributes, void** values, void* address) {
    const auto query = query_with_hip(address);
    const Result result = go_on<"hipDrvPointerGetAttributes">(count, attributes, values, like(query, address));
    if (query && result == 0)
        for (unsigned i = 0; i < count; ++i) answer(*query, attributes[i], values[i]);
    return result;
}
EXPORTED Result hipMemGetAddressRange(void** base, Size* bytes, void* address) {
    const auto query = query_with_hip(address);
    const Result result = go_on<"hipMemGetAddressRange">(base, bytes, like(query, address));
    if (query && result == 0) {
        if (base != nullptr) *base = reinterpret_cast<void*>(query->block.base);
        if (bytes != nullptr) *bytes = query->block.bytes;
    }
    return result;
}
EXPORTED Result hipHostGetDevicePointer(void** out, void* host, unsigned flags) {
    const auto query = query_with_hip(host);
    const Result result = go_on<"hipHostGetDevicePointer">(out, like(query, host), flags);
    if (query && result == 0) translate(*query, *out);
    return result;
}
EXPORTED Result hipHostGetFlags(unsigned* flags, void* host) {
    return go_on<"hipHostGetFlags">(flags, like(query_with_hip(host), host));
}
