// The driver's functions that are watched, under the names by which runtimes and programs find them.
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <string_view>

#include "events/driver_calls.hpp"
#include "profile/tried/asked.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace firsttouch::tried {
namespace {

enum Function : unsigned {
    of_alloc,
    of_free,
    of_host_alloc,
    of_alloc_host,
    of_free_host,
    of_register,
    of_unregister,
    of_to_device,
    of_to_host,
    of_to_device_async,
    of_to_host_async,
    of_copy,
    of_copy_async,
    of_rows,
    of_rows_async,
    of_rows_unaligned,
    of_reset,
    functions
};
constexpr std::string_view names[functions] = {"cuMemAlloc",
                                               "cuMemFree",
                                               "cuMemHostAlloc",
                                               "cuMemAllocHost",
                                               "cuMemFreeHost",
                                               "cuMemHostRegister",
                                               "cuMemHostUnregister",
                                               "cuMemcpyHtoD",
                                               "cuMemcpyDtoH",
                                               "cuMemcpyHtoDAsync",
                                               "cuMemcpyDtoHAsync",
                                               "cuMemcpy",
                                               "cuMemcpyAsync",
                                               "cuMemcpy2D",
                                               "cuMemcpy2DAsync",
                                               "cuMemcpy2DUnaligned",
                                               "cuDevicePrimaryCtxReset"};
// Each in two variants: 1 has the default stream of the thread as stream 0.
std::atomic<void*> of_driver[functions][2];

template <unsigned function, int variant, class... Parameters>
Result go_on(Parameters... parameters) {
    void* found = of_driver[function][variant].load();
    if (found == nullptr) {
        const std::string name{names[function]};
        found = driver_function((name + "_v2").c_str());
        if (found == nullptr) found = driver_function(name.c_str());
    }
    constexpr Result no_such_function = 500;
    if (found == nullptr) return no_such_function;
    const Inside inside;
    return reinterpret_cast<Result (*)(Parameters...)>(found)(parameters...);
}

template <int variant>
Result to_device(Address target, const void* source, std::size_t bytes) {
    const auto make = [=] { return go_on<of_to_device, variant>(target, source, bytes); };
    if (!is_watching() || bytes == 0) return make();
    return copy<variant>({false, address_of(source), target}, {bytes, nullptr, false}, make);
}
template <int variant>
Result to_host(void* target, Address source, std::size_t bytes) {
    const auto make = [=] { return go_on<of_to_host, variant>(target, source, bytes); };
    if (!is_watching() || bytes == 0) return make();
    return copy<variant>({true, address_of(target), source}, {bytes, nullptr, false}, make);
}
template <int variant>
Result to_device_async(Address target, const void* source, std::size_t bytes, Stream stream) {
    const auto make = [=] { return go_on<of_to_device_async, variant>(target, source, bytes, stream); };
    if (!is_watching() || bytes == 0) return make();
    return copy<variant>({false, address_of(source), target}, {bytes, stream, true}, make);
}
template <int variant>
Result to_host_async(void* target, Address source, std::size_t bytes, Stream stream) {
    const auto make = [=] { return go_on<of_to_host_async, variant>(target, source, bytes, stream); };
    if (!is_watching() || bytes == 0) return make();
    return copy<variant>({true, address_of(target), source}, {bytes, stream, true}, make);
}

template <int variant>
Result copy_any(Address target, Address source, std::size_t bytes) {
    const auto make = [=] { return go_on<of_copy, variant>(target, source, bytes); };
    if (!is_watching() || bytes == 0) return make();
    return copy_by_address<variant>(target, source, {bytes, nullptr, false}, make);
}
template <int variant>
Result copy_any_async(Address target, Address source, std::size_t bytes, Stream stream) {
    const auto make = [=] { return go_on<of_copy_async, variant>(target, source, bytes, stream); };
    if (!is_watching() || bytes == 0) return make();
    return copy_by_address<variant>(target, source, {bytes, stream, true}, make);
}

// Copies of rows stay, and are none that a plan has between an array and its block.
void check_rows(const cupti::Copy2D* rows) {
    constexpr int of_host = 1;
    if (!is_watching() || rows == nullptr || (rows->source.type == of_host) == (rows->target.type == of_host)) return;
    const bool is_to_host = rows->target.type == of_host;
    const cupti::Side2D &host = is_to_host ? rows->target : rows->source,
                        &device = is_to_host ? rows->source : rows->target;
    Sides(is_to_host, address_of(host.host), device.device).check(rows->width * rows->height);
}
template <int variant>
Result copy_rows(const cupti::Copy2D* rows) {
    return check_rows(rows), go_on<of_rows, variant>(rows);
}
template <int variant>
Result copy_rows_unaligned(const cupti::Copy2D* rows) {
    return check_rows(rows), go_on<of_rows_unaligned, variant>(rows);
}
template <int variant>
Result copy_rows_async(const cupti::Copy2D* rows, Stream stream) {
    return check_rows(rows), go_on<of_rows_async, variant>(rows, stream);
}

template <int variant>
Result allocate(Address* out, std::size_t bytes) {
    return allocate_block(out, bytes, [=] { return go_on<of_alloc, variant>(out, bytes); });
}
template <int variant>
Result free_block(Address address) {
    if (is_given_back(address, Side::device)) return 0;
    return go_on<of_free, variant>(address);
}

template <int variant>
Result host_alloc(void** out, std::size_t bytes, unsigned flags) {
    return allocate_page_locked(out, bytes, [=] { return go_on<of_host_alloc, variant>(out, bytes, flags); });
}
template <int variant>
Result alloc_host(void** out, std::size_t bytes) {
    return allocate_page_locked(out, bytes, [=] { return go_on<of_alloc_host, variant>(out, bytes); });
}
template <int variant>
Result free_host(void* address) {
    if (is_given_back(address_of(address), Side::host)) return 0;
    return go_on<of_free_host, variant>(address);
}
// What the program had from malloc outlives the device's context.
template <int variant>
Result reset(int device) {
    if (is_watching() && has_array_of_ours()) return ask_driver("cuCtxSynchronize");
    return go_on<of_reset, variant>(device);
}
template <int variant>
Result lock(void* address, std::size_t bytes, unsigned flags) {
    return lock_array(address, [=] { return go_on<of_register, variant>(address, bytes, flags); });
}
template <int variant>
Result unlock(void* address) {
    return unlock_array(address, [=] { return go_on<of_unregister, variant>(address); });
}

#define BOTH(function)                                                                                                 \
    { reinterpret_cast<void*>(&function<0>), reinterpret_cast<void*>(&function<1>) }
void* const watched[functions][2] = {BOTH(allocate),
                                     BOTH(free_block),
                                     BOTH(host_alloc),
                                     BOTH(alloc_host),
                                     BOTH(free_host),
                                     BOTH(lock),
                                     BOTH(unlock),
                                     BOTH(to_device),
                                     BOTH(to_host),
                                     BOTH(to_device_async),
                                     BOTH(to_host_async),
                                     BOTH(copy_any),
                                     BOTH(copy_any_async),
                                     BOTH(copy_rows),
                                     BOTH(copy_rows_async),
                                     BOTH(copy_rows_unaligned),
                                     BOTH(reset)};
#undef BOTH

// What to hand out for a function of the driver that was found.
void* in_place_of(std::string_view name, void* found, bool of_thread) {
    if (found == nullptr) return found;
    for (const std::string_view end : {"_ptds", "_ptsz"})
        if (name.ends_with(end)) name.remove_suffix(end.size()), of_thread = true;
    if (name.ends_with("_v2")) name.remove_suffix(3);
    for (unsigned function = 0; function < functions; ++function) {
        if (names[function] != name) continue;
        if (found == watched[function][0] || found == watched[function][1]) return found;
        of_driver[function][of_thread] = found;
        return watched[function][of_thread];
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
        *function = in_place_of(name, *function, (flags & of_thread) != 0);
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
    if (!has_status && strcmp(name, "cuGetProcAddress") != 0) return in_place_of(name, found, false);
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
EXPORTED Result cuMemAlloc_v2(Address* out, std::size_t bytes) { return allocate<0>(out, bytes); }
EXPORTED Result cuMemFree_v2(Address address) { return free_block<0>(address); }
EXPORTED Result cuMemHostAlloc(void** out, std::size_t bytes, unsigned flags) {
    return host_alloc<0>(out, bytes, flags);
}
EXPORTED Result cuMemAllocHost_v2(void** out, std::size_t bytes) { return alloc_host<0>(out, bytes); }
EXPORTED Result cuMemFreeHost(void* address) { return free_host<0>(address); }
EXPORTED Result cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned flags) {
    return lock<0>(address, bytes, flags);
}
EXPORTED Result cuMemHostUnregister(void* address) { return unlock<0>(address); }
EXPORTED Result cuMemcpyHtoD_v2(Address target, const void* source, std::size_t bytes) {
    return to_device<0>(target, source, bytes);
}
EXPORTED Result cuMemcpyDtoH_v2(void* target, Address source, std::size_t bytes) {
    return to_host<0>(target, source, bytes);
}
EXPORTED Result cuMemcpyHtoDAsync_v2(Address target, const void* source, std::size_t bytes, Stream stream) {
    return to_device_async<0>(target, source, bytes, stream);
}
EXPORTED Result cuMemcpyDtoHAsync_v2(void* target, Address source, std::size_t bytes, Stream stream) {
    return to_host_async<0>(target, source, bytes, stream);
}
EXPORTED Result cuMemcpy(Address target, Address source, std::size_t bytes) {
    return copy_any<0>(target, source, bytes);
}
EXPORTED Result cuMemcpyAsync(Address target, Address source, std::size_t bytes, Stream stream) {
    return copy_any_async<0>(target, source, bytes, stream);
}
EXPORTED Result cuDevicePrimaryCtxReset_v2(int device) { return reset<0>(device); }
EXPORTED Result cuMemcpy2D_v2(const firsttouch::cupti::Copy2D* rows) { return copy_rows<0>(rows); }
EXPORTED Result cuMemcpy2DUnaligned_v2(const firsttouch::cupti::Copy2D* rows) { return copy_rows_unaligned<0>(rows); }
EXPORTED Result cuMemcpy2DAsync_v2(const firsttouch::cupti::Copy2D* rows, Stream stream) {
    return copy_rows_async<0>(rows, stream);
}
