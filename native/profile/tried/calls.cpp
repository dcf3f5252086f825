// The driver's functions that are watched, under the names by which runtimes and programs find them.
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <string_view>

#include "events/driver_calls.hpp"
#include "profile/tried/driver.hpp"
#include "profile/tried/memory.hpp"

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

std::uint64_t hash_of(Address address, std::size_t bytes) {
    const auto* next = reinterpret_cast<const unsigned char*>(address);
    std::uint64_t hash = bytes, word = 0;
    for (; bytes >= sizeof word; bytes -= sizeof word, next += sizeof word) {
        memcpy(&word, next, sizeof word);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    for (; bytes > 0; --bytes, ++next) hash = (hash ^ *next) * 1099511628211u;
    return hash;
}

bool is_captured(Stream stream) {
    int status = 0;
    return stream != nullptr && ask_driver("cuStreamIsCapturing", stream, &status) == 0 && status != 0;
}

template <int variant>
Result wait_for(Stream stream) {
    const Stream of_thread = reinterpret_cast<Stream>(2);  // CU_STREAM_PER_THREAD
    return ask_driver("cuStreamSynchronize", stream == nullptr && variant == 1 ? of_thread : stream);
}

std::string_view worded(const std::optional<Block>& host) {
    return host ? "an array of the heap" : "memory that is no array of the heap";
}

struct Sides {
    bool is_to_host;
    Address host, device;
    std::optional<Block> array, block;

    Sides(bool is_to_host, Address host, Address device)
        : is_to_host(is_to_host), host(host), device(device), array(find(host, Side::host)),
          block(find(device, Side::device)) {}

    bool is_paired() const { return (array && array->pair >= 0) || (block && block->pair >= 0); }
    bool is_foreseen() const {
        return settings().foreseen->contains(
            {array ? array->known : Known{}, block ? block->known : Known{}, is_to_host});
    }
    void check(std::size_t bytes) const {
        if (settings().is_unified() && is_paired() && !is_foreseen())
            leave("a copy of %zu bytes joins %s and a block of the device that the plan keeps apart", bytes,
                  worded(array).data());
    }
};

struct Copied {
    std::size_t bytes;
    Stream stream;
    bool is_asynchronous;
};

// A copy between host and device. `make` asks the driver for it.
template <int variant, class Make>
Result copy(const Sides& sides, const Copied& copied, Make make) {
    const auto [bytes, stream, is_asynchronous] = copied;
    const bool is_page_locked = sides.array && sides.array->is_page_locked;
    const bool is_noted = settings().notes() && !is_captured(stream);
    const bool is_one = settings().is_unified() && sides.host == sides.device;
    std::uint64_t hash = 0;
    if (is_noted && !sides.is_to_host) {
        if (is_one) wait_for<variant>(stream);
        hash = hash_of(sides.host, bytes);
    }
    Result result = 0;
    if (is_one) {
        if (is_captured(stream)) leave("a copy between an array and its block is captured into a graph");
        counts().left_out += 1, counts().left_out_bytes += bytes;
        if (settings().strategy == Strategy::prefetch && (!sides.is_to_host || !is_asynchronous || !is_page_locked)) {
            constexpr int processor = -1;
            const int place = sides.is_to_host ? processor : settings().device;
            counts().refused_hints += ask_driver("cuMemPrefetchAsync", sides.host, bytes, place, stream) != 0;
        }
        // The wait stays: of a copy that blocks, and of one from the device to memory that is not locked.
        if (!is_asynchronous || (sides.is_to_host && !is_page_locked)) result = wait_for<variant>(stream);
    } else {
        sides.check(bytes);
        counts().made += 1, counts().made_bytes += bytes;
        result = make();
        // Copies from or to memory that is not locked have read or written the array when they return.
        if (is_asynchronous && result == 0 && sides.array && sides.array->is_ours && !is_page_locked)
            result = wait_for<variant>(stream);
    }
    if (is_noted && sides.is_to_host) {
        if (is_asynchronous) wait_for<variant>(stream);
        hash = hash_of(sides.host, bytes);
    }
    if (is_noted)
        note("C %c %d %zu %016llx\n", sides.is_to_host ? 'd' : 'u', static_cast<int>(gettid()), bytes,
             static_cast<unsigned long long>(hash));
    return result;
}

Address address_of(const void* pointer) { return reinterpret_cast<Address>(pointer); }

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

// A copy whose direction the driver finds out by its addresses, of which one that no block has is the host's. Those of
// paired memory may be of either side: other copies than that between both then have to be foreseen.
template <int variant, class Make>
Result copy_by_address(Address target, Address source, const Copied& copied, Make make) {
    const auto from = find(source, Side::device), to = find(target, Side::device);
    if (from && to && target == source) {
        const int pair = from->pair;
        const bool is_to_host = pair >= 0 && settings().pairs[static_cast<std::size_t>(pair)].is_copied_back;
        return copy<variant>({is_to_host, target, source}, copied, make);
    }
    if (from.has_value() != to.has_value())
        return copy<variant>({from.has_value(), from ? target : source, from ? source : target}, copied, make);
    const Sides back(true, target, source), in(false, source, target);
    if (settings().is_unified() && (back.array || in.array) && !back.is_foreseen() && !in.is_foreseen())
        (back.array ? back : in).check(copied.bytes);
    return make();
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
    if (!is_watching()) return go_on<of_alloc, variant>(out, bytes);
    const Known known = known_now(bytes, Role::block);
    if (known.key == 0) return go_on<of_alloc, variant>(out, bytes);
    int pair = -1;
    const Address base = planned(known, bytes, Side::device, pair);
    if (base != 0) {
        *out = base;
    } else if (settings().mode == Mode::run && settings().strategy == Strategy::managed_device) {
        const PlanLock lock;
        if ((*out = get_memory(bytes, nullptr)) == 0) return 2;  // CUDA_ERROR_OUT_OF_MEMORY
        add({.base = *out, .bytes = bytes, .known = known, .is_ours = true}, Side::device);
        return 0;
    } else if (const Result result = go_on<of_alloc, variant>(out, bytes); result != 0) {
        return result;
    }
    add({.base = *out, .bytes = bytes, .known = known, .pair = pair, .is_ours = base != 0}, Side::device);
    return 0;
}
template <int variant>
Result free_block(Address address) {
    if (is_watching() && address != 0 && release(address, Side::device) == Released::ours) return 0;
    return go_on<of_free, variant>(address);
}

template <class Make>
Result allocate_page_locked(void** out, std::size_t bytes, Make make) {
    if (!is_watching() || bytes < settings().least) return make();
    const Known known = known_now(bytes, Role::page_locked);
    if (known.key == 0) return make();
    int pair = -1;
    const Address base = settings().is_unified() ? planned(known, bytes, Side::host, pair) : 0;
    if (base != 0)
        *out = reinterpret_cast<void*>(base);
    else if (const Result result = make(); result != 0)
        return result;
    add({.base = address_of(*out),
         .bytes = bytes,
         .known = known,
         .pair = pair,
         .is_page_locked = true,
         .is_ours = base != 0},
        Side::host);
    return 0;
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
    if (is_watching() && address != nullptr && release(address_of(address), Side::host) == Released::ours) return 0;
    return go_on<of_free_host, variant>(address);
}
// Memory of this library is not locked, nor is it unlocked: managed memory cannot be, other is already.
// What the program had from malloc outlives the device's context.
template <int variant>
Result reset(int device) {
    if (is_watching() && has_array_of_ours()) return ask_driver("cuCtxSynchronize");
    return go_on<of_reset, variant>(device);
}
template <int variant>
Result lock(void* address, std::size_t bytes, unsigned flags) {
    if (!is_watching()) return go_on<of_register, variant>(address, bytes, flags);
    const auto array = find(address_of(address), Side::host);
    const Result result = array && array->is_ours ? 0 : go_on<of_register, variant>(address, bytes, flags);
    if (result == 0) lock_pages(address_of(address), true);
    return result;
}
template <int variant>
Result unlock(void* address) {
    if (!is_watching()) return go_on<of_unregister, variant>(address);
    const auto array = find(address_of(address), Side::host);
    lock_pages(address_of(address), false);
    if (array && array->is_ours) return ask_driver("cuCtxSynchronize");
    return go_on<of_unregister, variant>(address);
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
