// The driver's functions that are watched, under the names by which runtimes and programs find them.
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <string_view>

#include "events/driver_calls.hpp"
#include "profile/tried/asked.hpp"
#include "profile/tried/queries.hpp"

extern "C" const char __ehdr_start __attribute__((visibility("hidden"))), _end __attribute__((visibility("hidden")));

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace firsttouch::tried {
namespace {

using cupti::Copy2D, cupti::Copy3D, cupti::CopyOfBatch, cupti::Handle;
using Size = std::size_t;

// A function of the driver. Variant 1 has the default stream of the thread as stream 0.
template <Name name, int variant>
std::atomic<void*> of_driver{nullptr};

template <Name name, int variant, class... Parameters>
Result go_on(Parameters... parameters) {
    std::atomic<void*>& known = of_driver<name, variant>;
    void* function = known.load(std::memory_order_acquire);
    if (function == nullptr) {
        function = driver_function((std::string(name.text) + "_v2").c_str());
        if (function == nullptr) function = driver_function(name.text);
        known = function;
    }
    if (function == nullptr) return no_such_function;
    const Inside inside;
    return reinterpret_cast<Result (*)(Parameters...)>(function)(parameters...);
}

// A call that is passed on after a look at it.
template <Name name, auto check, class... Parameters>
struct Checked {
    template <int variant>
    static Result call(Parameters... parameters) {
        if (is_watching()) check(parameters...);
        return go_on<name, variant>(parameters...);
    }
};

template <int variant>
Result to_device(Address target, const void* source, std::size_t bytes) {
    const auto make = [=] { return go_on<"cuMemcpyHtoD", variant>(target, source, bytes); };
    if (!is_watching() || bytes == 0) return make();
    return copy<variant>({false, address_of(source), target}, {bytes, nullptr, false}, make);
}
template <int variant>
Result to_host(void* target, Address source, std::size_t bytes) {
    const auto make = [=] { return go_on<"cuMemcpyDtoH", variant>(target, source, bytes); };
    if (!is_watching() || bytes == 0) return make();
    return copy<variant>({true, address_of(target), source}, {bytes, nullptr, false}, make);
}
template <int variant>
Result to_device_async(Address target, const void* source, std::size_t bytes, Stream stream) {
    const auto make = [=] { return go_on<"cuMemcpyHtoDAsync", variant>(target, source, bytes, stream); };
    if (!is_watching() || bytes == 0) return make();
    return copy<variant>({false, address_of(source), target}, {bytes, stream, true}, make);
}
template <int variant>
Result to_host_async(void* target, Address source, std::size_t bytes, Stream stream) {
    const auto make = [=] { return go_on<"cuMemcpyDtoHAsync", variant>(target, source, bytes, stream); };
    if (!is_watching() || bytes == 0) return make();
    return copy<variant>({true, address_of(target), source}, {bytes, stream, true}, make);
}

template <int variant>
Result copy_any(Address target, Address source, std::size_t bytes) {
    const auto make = [=] { return go_on<"cuMemcpy", variant>(target, source, bytes); };
    if (!is_watching() || bytes == 0) return make();
    return copy_by_address<variant>(target, source, {bytes, nullptr, false}, make);
}
template <int variant>
Result copy_any_async(Address target, Address source, std::size_t bytes, Stream stream) {
    const auto make = [=] { return go_on<"cuMemcpyAsync", variant>(target, source, bytes, stream); };
    if (!is_watching() || bytes == 0) return make();
    return copy_by_address<variant>(target, source, {bytes, stream, true}, make);
}

// Where a side of a copy of rows or slices begins; 0 if it is an array of the device.
Address begin_of(const cupti::Side2D& side) {
    if (side.type == cupti::array_memory) return 0;
    const Address base = side.type == cupti::host_memory ? address_of(side.host) : side.device;
    return base + side.y * side.pitch + side.x;
}
Address begin_of(const cupti::Side3D& side) {
    if (side.type == cupti::array_memory) return 0;
    const Address base = side.type == cupti::host_memory ? address_of(side.host) : side.device;
    return base + (side.z * side.height + side.y) * side.pitch + side.x;
}
bool is_whole(const Copy2D& rows, const cupti::Side2D& side) { return rows.height <= 1 || side.pitch == rows.width; }
bool is_whole(const Copy3D& rows, const cupti::Side3D& side) {
    const bool has_whole_rows = side.pitch == rows.width || (rows.height <= 1 && rows.depth <= 1);
    return has_whole_rows && (rows.depth <= 1 || side.height == rows.height);
}
std::size_t bytes_of(const Copy2D& rows) { return rows.width * rows.height; }
std::size_t bytes_of(const Copy3D& rows) { return rows.width * rows.height * rows.depth; }

template <int variant, class Rows, class Make>
Result copy_rows(const Rows* rows, Stream stream, bool is_asynchronous, Make make) {
    if (!is_watching() || rows == nullptr || bytes_of(*rows) == 0) return make();
    const bool is_from_array = rows->source.type == cupti::array_memory;
    const bool is_to_array = rows->target.type == cupti::array_memory;
    const Address source = begin_of(rows->source), target = begin_of(rows->target);
    const Copied copied{bytes_of(*rows), stream, is_asynchronous,
                        !is_from_array && !is_to_array && is_whole(*rows, rows->source) &&
                            is_whole(*rows, rows->target)};
    const bool is_in = rows->source.type == cupti::host_memory && rows->target.type != cupti::host_memory;
    const bool is_back = rows->target.type == cupti::host_memory && rows->source.type != cupti::host_memory;
    if (is_in || is_back)
        return copy<variant>({is_back, is_back ? target : source, is_back ? source : target}, copied, make);
    if (rows->source.type == cupti::unified_memory && rows->target.type == cupti::unified_memory)
        return copy_by_address<variant>(target, source, copied, make);
    if (rows->source.type == cupti::device_memory && rows->target.type == cupti::device_memory)
        check_within_device(target, source, copied.bytes);
    else if (!is_from_array && !is_to_array)
        check_by_address(target, source, copied.bytes);
    return make();
}
template <Name name, class Rows>
struct CopyRows {
    template <int variant>
    static Result now(const Rows* rows) {
        return copy_rows<variant>(rows, nullptr, false, [=] { return go_on<name, variant>(rows); });
    }
    template <int variant>
    static Result later(const Rows* rows, Stream stream) {
        return copy_rows<variant>(rows, stream, true, [=] { return go_on<name, variant>(rows, stream); });
    }
};

// Of an array of the device, which is none of a plan.
template <int variant, class Make>
Result copy_of_array(bool is_to_host, const void* host, const Copied& copied, Make make) {
    if (!is_watching() || copied.bytes == 0) return make();
    return copy<variant>({is_to_host, address_of(host), 0}, copied, make);
}
template <int variant>
Result to_array(Handle array, std::size_t at, const void* host, std::size_t bytes) {
    return copy_of_array<variant>(false, host, {bytes, nullptr, false, false},
                                  [=] { return go_on<"cuMemcpyHtoA", variant>(array, at, host, bytes); });
}
template <int variant>
Result to_array_async(Handle array, std::size_t at, const void* host, std::size_t bytes, Stream stream) {
    return copy_of_array<variant>(false, host, {bytes, stream, true, false},
                                  [=] { return go_on<"cuMemcpyHtoAAsync", variant>(array, at, host, bytes, stream); });
}
template <int variant>
Result from_array(void* host, Handle array, std::size_t at, std::size_t bytes) {
    return copy_of_array<variant>(true, host, {bytes, nullptr, false, false},
                                  [=] { return go_on<"cuMemcpyAtoH", variant>(host, array, at, bytes); });
}
template <int variant>
Result from_array_async(void* host, Handle array, std::size_t at, std::size_t bytes, Stream stream) {
    return copy_of_array<variant>(true, host, {bytes, stream, true, false},
                                  [=] { return go_on<"cuMemcpyAtoHAsync", variant>(host, array, at, bytes, stream); });
}

// Copies of a batch. `each` looks at those between addresses.
template <int variant, class Each, class Make>
Result copy_batch(std::size_t count, Stream stream, Each each, Make make) {
    bool waits = false;
    if (is_watching())
        for (std::size_t i = 0; i < count; ++i) waits |= each(i);
    const Result result = make();
    return waits && result == 0 ? wait_for<variant>(stream) : result;
}
bool is_of_pageable(const CopyOfBatch& copy) {
    const auto address = [](const cupti::Operand& side) {
        return side.type == cupti::pointer_operand ? Address{side.address} : 0;
    };
    return is_batched_of_pageable(address(copy.target), address(copy.source), copy.width * copy.height * copy.depth);
}
template <Name name, int variant, class... Last>
Result copy_all_of(const Address* targets, const Address* sources, const Size* sizes, Size count, Stream stream,
                   Last... last) {
    const auto each = [=](Size i) { return is_batched_of_pageable(targets[i], sources[i], sizes[i]); };
    return copy_batch<variant>(count, stream, each,
                               [=] { return go_on<name, variant>(targets, sources, sizes, count, last...); });
}
template <int variant>
Result copy_all(const Address* targets, const Address* sources, const Size* sizes, Size count, const void* attributes,
                const Size* indices, Size attribute_count, Size* failed, Stream stream) {
    return copy_all_of<"cuMemcpyBatchAsync", variant>(targets, sources, sizes, count, stream, attributes, indices,
                                                      attribute_count, failed, stream);
}
template <int variant>
Result copy_all_v2(const Address* targets, const Address* sources, const Size* sizes, Size count,
                   const void* attributes, const Size* indices, Size attribute_count, Stream stream) {
    return copy_all_of<"cuMemcpyBatchAsync_v2", variant>(targets, sources, sizes, count, stream, attributes, indices,
                                                         attribute_count, stream);
}
template <int variant>
Result copy_all_slices(Size count, const CopyOfBatch* copies, Size* failed, unsigned long long flags, Stream stream) {
    const auto each = [=](Size i) { return is_of_pageable(copies[i]); };
    return copy_batch<variant>(count, stream, each, [=] {
        return go_on<"cuMemcpy3DBatchAsync", variant>(count, copies, failed, flags, stream);
    });
}
template <int variant>
Result copy_all_slices_v2(Size count, const CopyOfBatch* copies, unsigned long long flags, Stream stream) {
    const auto each = [=](Size i) { return is_of_pageable(copies[i]); };
    return copy_batch<variant>(count, stream, each,
                               [=] { return go_on<"cuMemcpy3DBatchAsync_v2", variant>(count, copies, flags, stream); });
}

constexpr auto check_copy = [](Address target, Address source, std::size_t bytes, auto...) {
    check_within_device(target, source, bytes);
};
constexpr auto check_peer_copy = [](Address target, Handle, Address source, Handle, std::size_t bytes, auto...) {
    check_within_device(target, source, bytes);
};
constexpr auto check_filled = [](Address target, auto...) { check_fill(target); };
template <Name name, class... Last>
using Fill = Checked<name, check_filled, Address, Last...>;

// Another process cannot have memory that is an array and a block.
constexpr auto check_shared = [](void*, Address address) {
    const auto block = find(address, Side::device);
    if (settings().mode == Mode::run && block && block->is_ours)
        leave("the program shares a block of the device with another process (IPC), which is not tried");
};

template <int variant>
Result ask_attribute(void* value, int attribute, Address address) {
    const auto query = query_of(address);
    const Result result = go_on<"cuPointerGetAttribute", variant>(value, attribute, query ? query->like : address);
    if (query && result == 0) answer(*query, attribute, value);
    return result;
}
template <int variant>
Result ask_attributes(unsigned count, int* attributes, void** values, Address address) {
    const auto query = query_of(address);
    const Result result =
        go_on<"cuPointerGetAttributes", variant>(count, attributes, values, query ? query->like : address);
    if (query && result == 0)
        for (unsigned i = 0; i < count; ++i) answer(*query, attributes[i], values[i]);
    return result;
}
template <int variant>
Result set_attribute(const void* value, int attribute, Address address) {
    const auto query = query_of(address);
    return go_on<"cuPointerSetAttribute", variant>(value, attribute, query ? query->like : address);
}
template <int variant>
Result ask_range(Address* base, std::size_t* bytes, Address address) {
    const auto query = query_of(address);
    const Result result = go_on<"cuMemGetAddressRange", variant>(base, bytes, query ? query->like : address);
    if (query && result == 0) {
        if (base != nullptr) *base = query->block.base;
        if (bytes != nullptr) *bytes = query->block.bytes;
    }
    return result;
}
template <int variant>
Result ask_device_pointer(Address* out, void* host, unsigned flags) {
    const auto query = query_of(address_of(host));
    void* const asked = query ? reinterpret_cast<void*>(query->like) : host;
    const Result result = go_on<"cuMemHostGetDevicePointer", variant>(out, asked, flags);
    if (query && result == 0) *out = query->translated(*out);
    return result;
}
template <int variant>
Result ask_flags(unsigned* flags, void* host) {
    const auto query = query_of(address_of(host));
    return go_on<"cuMemHostGetFlags", variant>(flags, query ? reinterpret_cast<void*>(query->like) : host);
}

template <int variant>
Result allocate(Address* out, std::size_t bytes) {
    return allocate_block(out, bytes, [=] { return go_on<"cuMemAlloc", variant>(out, bytes); });
}
template <int variant>
Result free_block(Address address) {
    if (is_given_back(address, Side::device)) return 0;
    return go_on<"cuMemFree", variant>(address);
}

template <int variant>
Result free_block_on(Address address, Stream stream) {
    if (is_given_back(address, Side::device)) return 0;
    return go_on<"cuMemFreeAsync", variant>(address, stream);
}

template <int variant>
Result host_alloc(void** out, std::size_t bytes, unsigned flags) {
    return allocate_page_locked(out, bytes, [=] { return go_on<"cuMemHostAlloc", variant>(out, bytes, flags); });
}
template <int variant>
Result alloc_host(void** out, std::size_t bytes) {
    return allocate_page_locked(out, bytes, [=] { return go_on<"cuMemAllocHost", variant>(out, bytes); });
}
template <int variant>
Result free_host(void* address) {
    if (is_given_back(address_of(address), Side::host)) return 0;
    return go_on<"cuMemFreeHost", variant>(address);
}
// What the program had from malloc outlives the device's context.
template <int variant>
Result reset(int device) {
    if (is_watching() && has_array_of_ours()) return ask_driver<"cuCtxSynchronize">();
    return go_on<"cuDevicePrimaryCtxReset", variant>(device);
}
template <int variant>
Result lock(void* address, std::size_t bytes, unsigned flags) {
    return lock_array(address, [=] { return go_on<"cuMemHostRegister", variant>(address, bytes, flags); });
}
template <int variant>
Result unlock(void* address) {
    return unlock_array(address, [=] { return go_on<"cuMemHostUnregister", variant>(address); });
}

// CALL(name, exported, its variant's end, parameters, arguments, function): what is watched. ALONE has no variant.
#define WATCHED_FUNCTIONS(CALL, ALONE)                                                                                 \
    ALONE("cuMemAlloc", cuMemAlloc_v2, (Address * p, Size n), (p, n), allocate)                                        \
    ALONE("cuMemFree", cuMemFree_v2, (Address p), (p), free_block)                                                     \
    CALL("cuMemFreeAsync", cuMemFreeAsync, _ptsz, (Address p, Stream q), (p, q), free_block_on)                        \
    ALONE("cuMemHostAlloc", cuMemHostAlloc, (void** p, Size n, unsigned f), (p, n, f), host_alloc)                     \
    ALONE("cuMemAllocHost", cuMemAllocHost_v2, (void** p, Size n), (p, n), alloc_host)                                 \
    ALONE("cuMemFreeHost", cuMemFreeHost, (void* p), (p), free_host)                                                   \
    ALONE("cuMemHostRegister", cuMemHostRegister_v2, (void* p, Size n, unsigned f), (p, n, f), lock)                   \
    ALONE("cuMemHostUnregister", cuMemHostUnregister, (void* p), (p), unlock)                                          \
    ALONE("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset_v2, (int d), (d), reset)                                  \
    CALL("cuMemcpyHtoD", cuMemcpyHtoD_v2, _ptds, (Address t, const void* s, Size n), (t, s, n), to_device)             \
    CALL("cuMemcpyDtoH", cuMemcpyDtoH_v2, _ptds, (void* t, Address s, Size n), (t, s, n), to_host)                     \
    CALL("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync_v2, _ptsz, (Address t, const void* s, Size n, Stream q), (t, s, n, q), \
         to_device_async)                                                                                              \
    CALL("cuMemcpyDtoHAsync", cuMemcpyDtoHAsync_v2, _ptsz, (void* t, Address s, Size n, Stream q), (t, s, n, q),       \
         to_host_async)                                                                                                \
    CALL("cuMemcpy", cuMemcpy, _ptds, (Address t, Address s, Size n), (t, s, n), copy_any)                             \
    CALL("cuMemcpyAsync", cuMemcpyAsync, _ptsz, (Address t, Address s, Size n, Stream q), (t, s, n, q),                \
         copy_any_async)                                                                                               \
    CALL("cuMemcpyDtoD", cuMemcpyDtoD_v2, _ptds, (Address t, Address s, Size n), (t, s, n),                            \
         Checked<"cuMemcpyDtoD", check_copy, Address, Address, Size>::call)                                            \
    CALL("cuMemcpyDtoDAsync", cuMemcpyDtoDAsync_v2, _ptsz, (Address t, Address s, Size n, Stream q), (t, s, n, q),     \
         Checked<"cuMemcpyDtoDAsync", check_copy, Address, Address, Size, Stream>::call)                               \
    CALL("cuMemcpyPeer", cuMemcpyPeer, _ptds, (Address t, Handle c, Address s, Handle d, Size n), (t, c, s, d, n),     \
         Checked<"cuMemcpyPeer", check_peer_copy, Address, Handle, Address, Handle, Size>::call)                       \
    CALL("cuMemcpyPeerAsync", cuMemcpyPeerAsync, _ptsz, (Address t, Handle c, Address s, Handle d, Size n, Stream q),  \
         (t, c, s, d, n, q),                                                                                           \
         Checked<"cuMemcpyPeerAsync", check_peer_copy, Address, Handle, Address, Handle, Size, Stream>::call)          \
    CALL("cuMemcpy2D", cuMemcpy2D_v2, _ptds, (const Copy2D* c), (c), CopyRows<"cuMemcpy2D", Copy2D>::now)              \
    CALL("cuMemcpy2DUnaligned", cuMemcpy2DUnaligned_v2, _ptds, (const Copy2D* c), (c),                                 \
         CopyRows<"cuMemcpy2DUnaligned", Copy2D>::now)                                                                 \
    CALL("cuMemcpy2DAsync", cuMemcpy2DAsync_v2, _ptsz, (const Copy2D* c, Stream q), (c, q),                            \
         CopyRows<"cuMemcpy2DAsync", Copy2D>::later)                                                                   \
    CALL("cuMemcpy3D", cuMemcpy3D_v2, _ptds, (const Copy3D* c), (c), CopyRows<"cuMemcpy3D", Copy3D>::now)              \
    CALL("cuMemcpy3DAsync", cuMemcpy3DAsync_v2, _ptsz, (const Copy3D* c, Stream q), (c, q),                            \
         CopyRows<"cuMemcpy3DAsync", Copy3D>::later)                                                                   \
    CALL("cuMemcpy3DPeer", cuMemcpy3DPeer, _ptds, (const Copy3D* c), (c), CopyRows<"cuMemcpy3DPeer", Copy3D>::now)     \
    CALL("cuMemcpy3DPeerAsync", cuMemcpy3DPeerAsync, _ptsz, (const Copy3D* c, Stream q), (c, q),                       \
         CopyRows<"cuMemcpy3DPeerAsync", Copy3D>::later)                                                               \
    CALL("cuMemcpyHtoA", cuMemcpyHtoA_v2, _ptds, (Handle a, Size o, const void* s, Size n), (a, o, s, n), to_array)    \
    CALL("cuMemcpyAtoH", cuMemcpyAtoH_v2, _ptds, (void* t, Handle a, Size o, Size n), (t, a, o, n), from_array)        \
    CALL("cuMemcpyHtoAAsync", cuMemcpyHtoAAsync_v2, _ptsz, (Handle a, Size o, const void* s, Size n, Stream q),        \
         (a, o, s, n, q), to_array_async)                                                                              \
    CALL("cuMemcpyAtoHAsync", cuMemcpyAtoHAsync_v2, _ptsz, (void* t, Handle a, Size o, Size n, Stream q),              \
         (t, a, o, n, q), from_array_async)                                                                            \
    CALL("cuMemcpyBatchAsync", cuMemcpyBatchAsync, _ptsz,                                                              \
         (const Address* t, const Address* s, const Size* n, Size count, const void* a, const Size* i, Size m,         \
          Size* failed, Stream q),                                                                                     \
         (t, s, n, count, a, i, m, failed, q), copy_all)                                                               \
    CALL("cuMemcpyBatchAsync_v2", cuMemcpyBatchAsync_v2, _ptsz,                                                        \
         (const Address* t, const Address* s, const Size* n, Size count, const void* a, const Size* i, Size m,         \
          Stream q),                                                                                                   \
         (t, s, n, count, a, i, m, q), copy_all_v2)                                                                    \
    CALL("cuMemcpy3DBatchAsync", cuMemcpy3DBatchAsync, _ptsz,                                                          \
         (Size count, const CopyOfBatch* c, Size* failed, unsigned long long f, Stream q), (count, c, failed, f, q),   \
         copy_all_slices)                                                                                              \
    CALL("cuMemcpy3DBatchAsync_v2", cuMemcpy3DBatchAsync_v2, _ptsz,                                                    \
         (Size count, const CopyOfBatch* c, unsigned long long f, Stream q), (count, c, f, q), copy_all_slices_v2)     \
    CALL("cuMemsetD8", cuMemsetD8_v2, _ptds, (Address t, unsigned char v, Size n), (t, v, n),                          \
         Fill<"cuMemsetD8", unsigned char, Size>::call)                                                                \
    CALL("cuMemsetD8Async", cuMemsetD8Async, _ptsz, (Address t, unsigned char v, Size n, Stream q), (t, v, n, q),      \
         Fill<"cuMemsetD8Async", unsigned char, Size, Stream>::call)                                                   \
    CALL("cuMemsetD2D8", cuMemsetD2D8_v2, _ptds, (Address t, Size p, unsigned char v, Size w, Size h),                 \
         (t, p, v, w, h), Fill<"cuMemsetD2D8", Size, unsigned char, Size, Size>::call)                                 \
    CALL("cuMemsetD2D8Async", cuMemsetD2D8Async, _ptsz,                                                                \
         (Address t, Size p, unsigned char v, Size w, Size h, Stream q), (t, p, v, w, h, q),                           \
         Fill<"cuMemsetD2D8Async", Size, unsigned char, Size, Size, Stream>::call)                                     \
    CALL("cuMemsetD16", cuMemsetD16_v2, _ptds, (Address t, unsigned short v, Size n), (t, v, n),                       \
         Fill<"cuMemsetD16", unsigned short, Size>::call)                                                              \
    CALL("cuMemsetD16Async", cuMemsetD16Async, _ptsz, (Address t, unsigned short v, Size n, Stream q), (t, v, n, q),   \
         Fill<"cuMemsetD16Async", unsigned short, Size, Stream>::call)                                                 \
    CALL("cuMemsetD2D16", cuMemsetD2D16_v2, _ptds, (Address t, Size p, unsigned short v, Size w, Size h),              \
         (t, p, v, w, h), Fill<"cuMemsetD2D16", Size, unsigned short, Size, Size>::call)                               \
    CALL("cuMemsetD2D16Async", cuMemsetD2D16Async, _ptsz,                                                              \
         (Address t, Size p, unsigned short v, Size w, Size h, Stream q), (t, p, v, w, h, q),                          \
         Fill<"cuMemsetD2D16Async", Size, unsigned short, Size, Size, Stream>::call)                                   \
    CALL("cuMemsetD32", cuMemsetD32_v2, _ptds, (Address t, unsigned v, Size n), (t, v, n),                             \
         Fill<"cuMemsetD32", unsigned, Size>::call)                                                                    \
    CALL("cuMemsetD32Async", cuMemsetD32Async, _ptsz, (Address t, unsigned v, Size n, Stream q), (t, v, n, q),         \
         Fill<"cuMemsetD32Async", unsigned, Size, Stream>::call)                                                       \
    CALL("cuMemsetD2D32", cuMemsetD2D32_v2, _ptds, (Address t, Size p, unsigned v, Size w, Size h), (t, p, v, w, h),   \
         Fill<"cuMemsetD2D32", Size, unsigned, Size, Size>::call)                                                      \
    CALL("cuMemsetD2D32Async", cuMemsetD2D32Async, _ptsz, (Address t, Size p, unsigned v, Size w, Size h, Stream q),   \
         (t, p, v, w, h, q), Fill<"cuMemsetD2D32Async", Size, unsigned, Size, Size, Stream>::call)                     \
    ALONE("cuIpcGetMemHandle", cuIpcGetMemHandle, (void* h, Address p), (h, p),                                        \
          Checked<"cuIpcGetMemHandle", check_shared, void*, Address>::call)                                            \
    ALONE("cuPointerGetAttribute", cuPointerGetAttribute, (void* v, int a, Address p), (v, a, p), ask_attribute)       \
    ALONE("cuPointerGetAttributes", cuPointerGetAttributes, (unsigned n, int* a, void** v, Address p), (n, a, v, p),   \
          ask_attributes)                                                                                              \
    ALONE("cuPointerSetAttribute", cuPointerSetAttribute, (const void* v, int a, Address p), (v, a, p), set_attribute) \
    ALONE("cuMemGetAddressRange", cuMemGetAddressRange_v2, (Address * b, Size * n, Address p), (b, n, p), ask_range)   \
    ALONE("cuMemHostGetDevicePointer", cuMemHostGetDevicePointer_v2, (Address * d, void* p, unsigned f), (d, p, f),    \
          ask_device_pointer)                                                                                          \
    ALONE("cuMemHostGetFlags", cuMemHostGetFlags, (unsigned* f, void* p), (f, p), ask_flags)

struct Watched {
    std::string_view name;
    void* watching[2];  // by variant
    std::atomic<void*>* of_driver[2];
};
template <class Function>
void* pointer(Function* function) {
    return reinterpret_cast<void*>(function);
}
#define ALONE(name, exported, parameters, arguments, ...)                                                              \
    {name, {pointer(&__VA_ARGS__<0>), pointer(&__VA_ARGS__<1>)}, {&of_driver<name, 0>, &of_driver<name, 1>}},
#define CALL(name, exported, variant, parameters, arguments, ...) ALONE(name, , , , __VA_ARGS__)
const Watched watched[] = {WATCHED_FUNCTIONS(CALL, ALONE)};
#undef CALL
#undef ALONE

// The name of the function that is handed out: of two, the parameters differ from version to version.
std::string_view watched_name(std::string_view name, int version) {
    constexpr int first_with_other_parameters = 13000;
    for (const std::string_view other : {"cuMemcpyBatchAsync_v2", "cuMemcpy3DBatchAsync_v2"}) {
        if (name == other) return other;
        if (version >= first_with_other_parameters && other.starts_with(name) && other.size() == name.size() + 3)
            return other;
    }
    if (name.ends_with("_v2")) name.remove_suffix(3);
    return name;
}

// Whether a function is of this library, as is what the loader finds in all that is loaded.
bool is_own(const void* function) {
    const auto* const address = static_cast<const char*>(function);
    return address >= &__ehdr_start && address < &_end;
}

// What to hand out for a function of the driver that was found.
void* in_place_of(std::string_view name, void* found, bool of_thread, int version) {
    if (found == nullptr || is_own(found)) return found;
    for (const std::string_view end : {"_ptds", "_ptsz"})
        if (name.ends_with(end)) name.remove_suffix(end.size()), of_thread = true;
    name = watched_name(name, version);
    for (const Watched& function : watched) {
        if (function.name != name) continue;
        *function.of_driver[of_thread] = found;
        return function.watching[of_thread];
    }
    return found;
}

using Ask = Result (*)(const char*, void**, int, std::uint64_t);
using AskWithStatus = Result (*)(const char*, void**, int, std::uint64_t, int*);
std::atomic<Ask> ask_next{nullptr};
std::atomic<AskWithStatus> ask_next_with_status{nullptr};

Result get_function(const char* name, void** function, int version, std::uint64_t flags);
Result get_function_with_status(const char* name, void** function, int version, std::uint64_t flags, int* status);

// cuGetProcAddress is asked for through itself; from version 12.0 on it has one parameter more.
void replace(const char* name, void** function, int version, std::uint64_t flags) {
    constexpr std::uint64_t of_thread = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
    if (function == nullptr || *function == nullptr) return;
    if (strcmp(name, "cuGetProcAddress") != 0) {
        *function = in_place_of(name, *function, (flags & of_thread) != 0, version);
    } else if (version >= 12000) {
        if (*function != reinterpret_cast<void*>(&get_function_with_status))
            ask_next_with_status = reinterpret_cast<AskWithStatus>(*function);
        *function = reinterpret_cast<void*>(&get_function_with_status);
    } else {
        if (*function != reinterpret_cast<void*>(&get_function)) ask_next = reinterpret_cast<Ask>(*function);
        *function = reinterpret_cast<void*>(&get_function);
    }
}
Result get_function(const char* name, void** function, int version, std::uint64_t flags) {
    const Result result = ask_next.load()(name, function, version, flags);
    if (result == 0) replace(name, function, version, flags);
    return result;
}
Result get_function_with_status(const char* name, void** function, int version, std::uint64_t flags, int* status) {
    const Result result = ask_next_with_status.load()(name, function, version, flags, status);
    if (result == 0) replace(name, function, version, flags);
    return result;
}

void* found_by_name(void* handle, const char* name) {
    void* found = next_dlsym(handle, name);
    if (inside != 0) return found;
    const bool has_status = strcmp(name, "cuGetProcAddress_v2") == 0;
    if (!has_status && strcmp(name, "cuGetProcAddress") != 0) return in_place_of(name, found, false, 0);
    constexpr int without_status = 11000, with_status = 12000;
    replace("cuGetProcAddress", &found, has_status ? with_status : without_status, 0);
    return found;
}

}  // namespace
}  // namespace firsttouch::tried

using namespace firsttouch::tried;

// Other names are looked up as if the caller had asked, in its place: the call is the last of this function.
EXPORTED void* dlsym(void* handle, const char* name) {
    if (name[0] != 'c' || name[1] != 'u' || settings().mode == Mode::off) return next_dlsym(handle, name);
    return found_by_name(handle, name);
}

// Of programs that are linked with the driver itself.
#define ALONE(name, exported, parameters, arguments, ...)                                                              \
    EXPORTED Result exported parameters { return __VA_ARGS__<0> arguments; }
#define CALL(name, exported, variant, parameters, arguments, ...)                                                      \
    ALONE(name, exported, parameters, arguments, __VA_ARGS__)                                                          \
    EXPORTED Result exported##variant parameters { return __VA_ARGS__<1> arguments; }
WATCHED_FUNCTIONS(CALL, ALONE)
#undef CALL
#undef ALONE
