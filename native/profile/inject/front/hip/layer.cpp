// Tells the recorder of a HIP program's memory, copies, kernels and waits. Its functions stand in for those of the
// runtime, either in the tables that the runtime hands to tools, or as the functions that the preloaded library exports
// (native/profile/preload/hip.cpp). Never ran on an AMD GPU.
#include <sys/mman.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "profile/inject/core/front.hpp"
#include "profile/inject/front/hip/calls.hpp"
#include "profile/inject/front/hip/graphs.hpp"
#include "profile/inject/front/hip/kernels.hpp"

namespace firsttouch::hip_front {
namespace {

using inject::Asked;
using inject::Block;
using inject::Direction;
using inject::FrontCall;
using inject::Memory;
using inject::Order;
using inject::RecordedCall;
using inject::Recorder;
using inject::Transfer;
using inject::WaitFor;

constexpr std::uint64_t most_slices = 1 << 16;

// The runtime's own functions. A table replaces those that were found by name, perhaps while another thread calls.
struct Real {
#define CALL(place, name, parameters, arguments) std::atomic<Error(*) parameters> name{nullptr};
    FIRSTTOUCH_HIP_CALLS(CALL)
    FIRSTTOUCH_HIP_QUESTIONS(CALL)
#undef CALL
#define CALL(place, type, name, parameters, arguments) std::atomic<type(*) parameters> name{nullptr};
    FIRSTTOUCH_HIP_COMPILER_CALLS(CALL)
#undef CALL
};
Real real;

// Never freed: programs may call while they end.
Kernels& kernels() {
    static Kernels& made = *new Kernels;
    return made;
}

Graphs& graphs() {
    static Graphs& made = *new Graphs;
    return made;
}

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

// A question that fails must not leave its error where the program looks for that of its own calls.
template <class Function, class... Arguments>
Error ask(const std::atomic<Function>& function, Arguments... arguments) {
    const Function known = function.load(std::memory_order_relaxed);
    if (known == nullptr) return no_device;
    const auto peek = real.hipPeekAtLastError.load(std::memory_order_relaxed);
    const auto forget = real.hipGetLastError.load(std::memory_order_relaxed);
    const bool had_none = peek != nullptr && forget != nullptr && peek() == 0;
    const Error error = known(arguments...);
    if (error != 0 && had_none) forget();
    return error;
}

// Of major * 10^7 + minor * 10^5 + patch.
std::string version_text(int version) {
    return version <= 0 ? ""
                        : std::to_string(version / 10'000'000) + "." + std::to_string(version / 100'000 % 100) + "." +
                              std::to_string(version % 100'000);
}

// The structure of a device's properties differs between versions, but begins with its name, and has the architecture
// as a text such as "gfx90a:sramecc+:xnack-".
std::string architecture_in(std::string_view properties) {
    for (std::size_t at = 0; (at = properties.find("gfx", at)) != std::string_view::npos; ++at)
        if (at > 0 && properties[at - 1] == '\0') return std::string(properties.substr(at).data());
    return "";
}

// Once, after a call that succeeded.
void tell_runtime(Recorder& recorder) {
    static std::atomic<bool> is_told{false};
    if (is_told.load(std::memory_order_relaxed) || is_told.exchange(true)) return;
    constexpr std::size_t most_bytes = 16 << 10;
    std::vector<char> properties(most_bytes + 1);
    int device = 0, version = 0;
    if (ask(real.hipGetDevice, &device) != 0 ||
        (ask(real.hipGetDevicePropertiesR0600, properties.data(), device) != 0 &&
         ask(real.hipGetDeviceProperties, properties.data(), device) != 0))
        std::ranges::fill(properties, '\0');
    if (ask(real.hipRuntimeGetVersion, &version) != 0) version = 0;
    recorder.runs_on("HIP", version_text(version), properties.data(), architecture_in({properties.data(), most_bytes}));
    if (inject::Recording* const recording = inject::Recording::of_this_process(); recording != nullptr)
        recording->reads_device_by([&recorder](void* target, std::uint64_t source, std::size_t bytes) {
            return !recorder.is_capturing() &&
                   ask(real.hipMemcpyDtoH, target, reinterpret_cast<void*>(source), bytes) == 0;
        });
}

void tell_managed(Recorder& recorder, const RecordedCall& of) {
    for (const ManagedVariable& variable : kernels().take_managed())
        recorder.begin_block(address_of(*variable.address),
                             {.bytes = variable.variable.bytes, .memory = Memory::managed_static}, of,
                             variable.variable.name);
}

constexpr auto nothing = [](Recorder&, const RecordedCall&) {};
constexpr auto device_changes = [](Recorder& recorder, const RecordedCall&) { recorder.changes_device(); };

// Makes a call, and tells of it if it succeeded. before, after: steps with the recorder and the call.
template <class Before, class Call, class After>
Error recorded(Before&& before, Call&& call, After&& after) {
    const FrontCall front;
    if constexpr (!std::is_same_v<std::remove_cvref_t<Before>, std::remove_cv_t<decltype(nothing)>>) front.tell(before);
    const Error error = call();
    if (error == 0)
        front.tell([&](Recorder& recorder, const RecordedCall& of) {
            tell_runtime(recorder);
            tell_managed(recorder, of);
            after(recorder, of);
        });
    return error;
}
#define REAL(name, ...) [&] { return real.name.load(std::memory_order_relaxed)(__VA_ARGS__); }

// ----------------------------------------------------------------------------------------------------------- streams

enum class Default : std::uint64_t { of_process = 1, of_thread = 2 };  // what a null stream is

std::uint64_t stream_key(Stream stream, Default null = Default::of_process) {
    constexpr auto per_thread = static_cast<std::uint64_t>(Default::of_thread);  // hipStreamPerThread
    std::uint64_t key = address_of(stream);
    if (key == 0) key = static_cast<std::uint64_t>(null);
    return key == per_thread ? std::uint64_t(inject::this_thread_id()) << 32 | key : key;
}

// A stream that waits for an event of one that is captured is captured too, as only the runtime knows.
bool is_captured(Recorder& recorder, Stream stream) {
    if (!recorder.is_capturing()) return false;
    if (recorder.is_captured(stream_key(stream))) return true;
    int status = 0;
    return address_of(stream) > static_cast<std::uint64_t>(Default::of_thread) &&
           ask(real.hipStreamIsCapturing, stream, &status) == 0 && status != 0;
}

// Keeps what is asked of a stream that is captured. step: makes it.
template <class Made>
void capture(Recorder& recorder, std::uint64_t key, Made&& step) {
    if (!recorder.is_capturing()) return;
    // Of the default stream of a thread, the key is no handle, and only this library's own calls begin its capture.
    const bool is_handle = static_cast<std::uint32_t>(key) > static_cast<std::uint32_t>(Default::of_thread);
    if (recorder.is_captured(key) || (is_handle && is_captured(recorder, reinterpret_cast<Stream>(key))))
        graphs().add_captured(key, step());
}
Graphs::Step step_of(const Asked& asked) {
    Graphs::Step step{.copies = asked.more};
    step.copies.insert(step.copies.begin(), asked.transfer);
    return step;
}

template <class Call>
Error waited(WaitFor what, Call&& call, std::uint64_t stream = 0) {
    return recorded(nothing, call,
                    [&](Recorder& recorder, const RecordedCall& of) { recorder.waited(what, of, stream); });
}
// Programs ask again and again: the answer counts once.
template <class Call>
Error queried(WaitFor what, Call&& call) {
    return recorded(nothing, call, [&](Recorder& recorder, const RecordedCall& of) {
        if (recorder.has_work()) recorder.waited(what, of);
    });
}

Error w_hipDeviceSynchronize() { return waited(WaitFor::context, REAL(hipDeviceSynchronize)); }
Error w_hipCtxSynchronize() { return waited(WaitFor::context, REAL(hipCtxSynchronize)); }
Error w_hipStreamSynchronize(Stream q) { return waited(WaitFor::stream, REAL(hipStreamSynchronize, q), stream_key(q)); }
Error w_hipStreamSynchronize_spt(Stream q) {
    return waited(WaitFor::stream, REAL(hipStreamSynchronize_spt, q), stream_key(q, Default::of_thread));
}
Error w_hipEventSynchronize(Handle e) { return waited(WaitFor::event, REAL(hipEventSynchronize, e)); }
Error w_hipStreamQuery(Stream q) { return queried(WaitFor::stream, REAL(hipStreamQuery, q)); }
Error w_hipStreamQuery_spt(Stream q) { return queried(WaitFor::stream, REAL(hipStreamQuery_spt, q)); }
Error w_hipEventQuery(Handle e) { return queried(WaitFor::event, REAL(hipEventQuery, e)); }

template <class Call>
Error begin_capture(std::uint64_t stream, Call&& call) {
    return recorded(nothing, call, [&](Recorder& recorder, const RecordedCall&) {
        recorder.begin_capture(stream);
        graphs().begin_capture(stream);
    });
}
// One that became invalid ends without a graph. It goes on only if the wrong thread tried to end it.
template <class Call>
Error end_capture(std::uint64_t stream, const Handle* graph, Call&& call) {
    constexpr Error wrong_thread = 908;  // hipErrorStreamCaptureWrongThread
    const FrontCall front;
    const Error error = call();
    if (error != wrong_thread)
        front.tell([&](Recorder& recorder, const RecordedCall&) {
            recorder.end_capture(stream);
            graphs().end_capture(stream, error == 0 && graph != nullptr ? *graph : nullptr);
        });
    return error;
}
Error w_hipStreamBeginCapture(Stream q, int mode) {
    return begin_capture(stream_key(q), REAL(hipStreamBeginCapture, q, mode));
}
Error w_hipStreamBeginCapture_spt(Stream q, int mode) {
    return begin_capture(stream_key(q, Default::of_thread), REAL(hipStreamBeginCapture_spt, q, mode));
}
Error w_hipStreamBeginCaptureToGraph(Stream q, Handle g, const Handle* d, const void* data, Size n, int mode) {
    return begin_capture(stream_key(q), REAL(hipStreamBeginCaptureToGraph, q, g, d, data, n, mode));
}
Error w_hipStreamEndCapture(Stream q, Handle* g) {
    return end_capture(stream_key(q), g, REAL(hipStreamEndCapture, q, g));
}
Error w_hipStreamEndCapture_spt(Stream q, Handle* g) {
    return end_capture(stream_key(q, Default::of_thread), g, REAL(hipStreamEndCapture_spt, q, g));
}
// Another stream may get the handle of one that is destroyed.
Error w_hipStreamDestroy(Stream q) {
    const auto end = [&](Recorder& recorder, const RecordedCall&) {
        recorder.end_capture(stream_key(q));
        graphs().end_capture(stream_key(q), nullptr);
    };
    return recorded(end, REAL(hipStreamDestroy, q), nothing);
}

// ------------------------------------------------------------------------------------------------------------ memory

// block: made from what the call has written.
template <class Call, class Made>
Error allocated(Call&& call, Made&& made) {
    return recorded(nothing, call, [&](Recorder& recorder, const RecordedCall& of) {
        const std::pair<const void*, Block> block = made();
        recorder.begin_block(address_of(block.first), block.second, of);
    });
}
template <class Call>
Error allocated(void** at, Size bytes, Memory memory, Call&& call) {
    return allocated(call, [&] { return std::pair<const void*, Block>(*at, {.bytes = bytes, .memory = memory}); });
}

Error w_hipMalloc(void** p, Size n) { return allocated(p, n, Memory::device, REAL(hipMalloc, p, n)); }
Error w_hipExtMallocWithFlags(void** p, Size n, unsigned f) {
    return allocated(p, n, Memory::device, REAL(hipExtMallocWithFlags, p, n, f));
}
Error w_hipMallocManaged(void** p, Size n, unsigned f) {
    return allocated(p, n, Memory::managed, REAL(hipMallocManaged, p, n, f));
}
Error w_hipHostMalloc(void** p, Size n, unsigned f) {
    return allocated(p, n, Memory::pinned, REAL(hipHostMalloc, p, n, f));
}
Error w_hipHostAlloc(void** p, Size n, unsigned f) {
    return allocated(p, n, Memory::pinned, REAL(hipHostAlloc, p, n, f));
}
Error w_hipExtHostAlloc(void** p, Size n, unsigned f) {
    return allocated(p, n, Memory::pinned, REAL(hipExtHostAlloc, p, n, f));
}
Error w_hipMallocHost(void** p, Size n) { return allocated(p, n, Memory::pinned, REAL(hipMallocHost, p, n)); }
Error w_hipMemAllocHost(void** p, Size n) { return allocated(p, n, Memory::pinned, REAL(hipMemAllocHost, p, n)); }
Error w_hipMallocPitch(void** p, Size* pitch, Size w, Size h) {
    return allocated(REAL(hipMallocPitch, p, pitch, w, h), [&] {
        return std::pair<const void*, Block>(*p, {.bytes = *pitch * h, .memory = Memory::device});
    });
}
Error w_hipMemAllocPitch(void** p, Size* pitch, Size w, Size h, unsigned e) {
    return allocated(REAL(hipMemAllocPitch, p, pitch, w, h, e), [&] {
        return std::pair<const void*, Block>(*p, {.bytes = *pitch * h, .memory = Memory::device});
    });
}
Error w_hipMalloc3D(Pitched* p, Extent n) {
    return allocated(REAL(hipMalloc3D, p, n), [&] {
        return std::pair<const void*, Block>(
            p->address, {.bytes = p->pitch * n.height * std::max<Size>(n.depth, 1), .memory = Memory::device});
    });
}
Error w_hipMemMap(void* p, Size n, Size from, Handle h, unsigned long long f) {
    return allocated(&p, n, Memory::device, REAL(hipMemMap, p, n, from, h, f));
}
Error w_hipMemUnmap(void* p, Size n) {
    const auto end = [&](Recorder& recorder, const RecordedCall& of) { recorder.end_blocks_in(address_of(p), n, of); };
    return recorded(end, REAL(hipMemUnmap, p, n), nothing);
}
Error w_hipMemAddressReserve(void** p, Size n, Size to, void* at, unsigned long long f) {
    return recorded(nothing, REAL(hipMemAddressReserve, p, n, to, at, f),
                    [&](Recorder& recorder, const RecordedCall&) { recorder.reserve(address_of(*p), n); });
}
Error w_hipMemAddressFree(void* p, Size n) {
    const auto end = [&](Recorder& recorder, const RecordedCall&) { recorder.reserve(address_of(p), 0); };
    return recorded(end, REAL(hipMemAddressFree, p, n), nothing);
}
Error w_hipHostRegister(void* p, Size n, unsigned f) {
    return allocated(REAL(hipHostRegister, p, n, f), [&] {
        return std::pair<const void*, Block>(p, {.bytes = n, .memory = Memory::pinned, .is_registered = true});
    });
}

// Memory of a stream that is captured is a node of a graph: it is there when the graph is launched.
template <class Call>
Error allocated_in_order(void** at, Size bytes, Stream stream, Call&& call) {
    return recorded(nothing, call, [&](Recorder& recorder, const RecordedCall& of) {
        const Block block{.bytes = bytes, .memory = Memory::device, .is_ordered = true};
        if (!is_captured(recorder, stream)) return recorder.begin_block(address_of(*at), block, of);
        recorder.expect(address_of(*at), block);
        graphs().add_captured(stream_key(stream), {.begins = address_of(*at), .block = block});
    });
}
Error w_hipMallocAsync(void** p, Size n, Stream q) {
    return allocated_in_order(p, n, q, REAL(hipMallocAsync, p, n, q));
}
Error w_hipMallocFromPoolAsync(void** p, Size n, Handle pool, Stream q) {
    return allocated_in_order(p, n, q, REAL(hipMallocFromPoolAsync, p, n, pool, q));
}
Error w_hipFreeAsync(void* p, Stream q) {
    const auto end = [&](Recorder& recorder, const RecordedCall& of) {
        if (!is_captured(recorder, q)) return recorder.end_block(address_of(p), of), void();
        graphs().add_captured(stream_key(q), {.ends = address_of(p)});
    };
    return recorded(end, REAL(hipFreeAsync, p, q), nothing);
}

// The runtime waits for what may still use the memory, but not if it was allocated in the order of a stream.
template <class Call>
Error freed(const void* at, Call&& call) {
    bool waits = false;
    const auto end = [&](Recorder& recorder, const RecordedCall& of) {
        const std::optional<Block> ended = recorder.end_block(address_of(at), of);
        waits = ended && !ended->is_ordered;
    };
    return recorded(end, call, [&](Recorder& recorder, const RecordedCall& of) {
        if (waits && recorder.has_work()) recorder.waited(WaitFor::free, of);
    });
}
Error w_hipFree(void* p) { return freed(p, REAL(hipFree, p)); }
Error w_hipHostFree(void* p) { return freed(p, REAL(hipHostFree, p)); }
Error w_hipFreeHost(void* p) { return freed(p, REAL(hipFreeHost, p)); }
Error w_hipHostUnregister(void* p) { return freed(p, REAL(hipHostUnregister, p)); }

Error w_hipMemGetInfo(Size* f, Size* n) {
    return recorded(nothing, REAL(hipMemGetInfo, f, n), [&](Recorder& recorder, const RecordedCall&) {
        recorder.asked_for_free_memory(f == nullptr ? 0 : *f, n == nullptr ? 0 : *n);
    });
}

// ------------------------------------------------------------------------------------------- arrays and static
// variables

// Bytes of an element of an array, which has its handle for an address.
class Elements {
  public:
    void set(Array array, Size bytes) {
        const std::scoped_lock lock(mutex_);
        if (bytes == 0)
            known_.erase(array);
        else
            known_[array] = bytes;
    }
    Size of(Array array) {
        const std::scoped_lock lock(mutex_);
        const auto found = known_.find(array);
        return found == known_.end() ? 1 : found->second;
    }

  private:
    std::mutex mutex_;
    std::unordered_map<Array, Size> known_;
};
Elements& elements() {
    static Elements& made = *new Elements;
    return made;
}

template <class Call>
Error array_allocated(const Array* array, const ChannelFormat* format, const Extent& extent, Call&& call) {
    return allocated(call, [&] {
        const auto bytes = static_cast<Size>(format->x + format->y + format->z + format->w) / 8;
        elements().set(*array, bytes);
        const Size rows = std::max<Size>(extent.height, 1) * std::max<Size>(extent.depth, 1);
        return std::pair<const void*, Block>(*array, {.bytes = extent.width * rows * bytes, .memory = Memory::array});
    });
}
Error w_hipMallocArray(Array* a, const ChannelFormat* c, Size w, Size h, unsigned f) {
    return array_allocated(a, c, {w, h, 1}, REAL(hipMallocArray, a, c, w, h, f));
}
Error w_hipMalloc3DArray(Array* a, const ChannelFormat* c, Extent n, unsigned f) {
    return array_allocated(a, c, n, REAL(hipMalloc3DArray, a, c, n, f));
}
template <class Call>
Error array_freed(Array array, Call&& call) {
    const auto end = [&](Recorder& recorder, const RecordedCall& of) {
        elements().set(array, 0);
        recorder.end_block(address_of(array), of);
    };
    return recorded(end, call, nothing);
}
Error w_hipFreeArray(Array a) { return array_freed(a, REAL(hipFreeArray, a)); }
Error w_hipArrayDestroy(Array a) { return array_freed(a, REAL(hipArrayDestroy, a)); }

void begin_variable(Recorder& recorder, const RecordedCall& of, const void* at, const Variable& variable) {
    recorder.begin_block(address_of(at), {.bytes = variable.bytes, .memory = Memory::device_static}, of,
                         variable.name.empty() ? "?" : variable.name);
}
// Where a variable of the device is; 0: unknown.
std::uint64_t symbol_address(Recorder& recorder, const RecordedCall& of, const void* symbol) {
    void* at = nullptr;
    if (ask(real.hipGetSymbolAddress, &at, symbol) != 0 || at == nullptr) return 0;
    if (const Variable variable = kernels().variable(symbol); variable.bytes > 0)
        begin_variable(recorder, of, at, variable);
    return address_of(at);
}
Error w_hipGetSymbolAddress(void** p, const void* y) {
    return recorded(nothing, REAL(hipGetSymbolAddress, p, y), [&](Recorder& recorder, const RecordedCall& of) {
        if (const Variable variable = kernels().variable(y); variable.bytes > 0)
            begin_variable(recorder, of, *p, variable);
    });
}
Error w_hipModuleGetGlobal(void** p, Size* n, Handle m, const char* name) {
    return recorded(nothing, REAL(hipModuleGetGlobal, p, n, m, name), [&](Recorder& recorder, const RecordedCall& of) {
        if (p != nullptr && n != nullptr) begin_variable(recorder, of, *p, {name, *n});
    });
}

// ------------------------------------------------------------------------------------------------------------ copies

// The direction that a program names is a hint: addresses decide (Recorder::find_direction).
Direction direction_of(int kind) {
    switch (kind) {
    case host_to_host:
        return Direction::within_host;
    case host_to_device:
        return Direction::to_device;
    case device_to_host:
        return Direction::to_host;
    case device_to_device:
        return Direction::within_devices;
    default:
        return Direction::unknown;
    }
}

enum class Returns : bool { when_done, at_once };

template <class Call>
Error copied(const Asked& asked, Call&& call) {
    return recorded([&](Recorder& recorder, const RecordedCall& of) { recorder.before_copies(asked, of); }, call,
                    [&](Recorder& recorder, const RecordedCall& of) {
                        recorder.after_copies(asked, of);
                        capture(recorder, asked.stream, [&] { return step_of(asked); });
                    });
}
Asked plain(const void* target, const void* source, Size bytes, int kind, std::uint64_t stream,
            Returns returns = Returns::when_done) {
    const Direction direction = direction_of(kind);
    return {.transfer = {.target = address_of(target),
                         .source = address_of(source),
                         .bytes = bytes,
                         .direction = direction,
                         .is_certain = direction != Direction::unknown,
                         .is_async = returns == Returns::at_once},
            .stream = stream};
}

const std::uint64_t null_stream = stream_key(nullptr);
std::uint64_t null_stream_of_thread() { return stream_key(nullptr, Default::of_thread); }

Error w_hipMemcpy(void* t, const void* s, Size n, int k) {
    return copied(plain(t, s, n, k, null_stream), REAL(hipMemcpy, t, s, n, k));
}
Error w_hipMemcpy_spt(void* t, const void* s, Size n, int k) {
    return copied(plain(t, s, n, k, null_stream_of_thread()), REAL(hipMemcpy_spt, t, s, n, k));
}
Error w_hipMemcpyAsync(void* t, const void* s, Size n, int k, Stream q) {
    return copied(plain(t, s, n, k, stream_key(q), Returns::at_once), REAL(hipMemcpyAsync, t, s, n, k, q));
}
Error w_hipMemcpyAsync_spt(void* t, const void* s, Size n, int k, Stream q) {
    return copied(plain(t, s, n, k, stream_key(q, Default::of_thread), Returns::at_once),
                  REAL(hipMemcpyAsync_spt, t, s, n, k, q));
}
Error w_hipMemcpyWithStream(void* t, const void* s, Size n, int k, Stream q) {
    return copied(plain(t, s, n, k, stream_key(q)), REAL(hipMemcpyWithStream, t, s, n, k, q));
}
Error w_hipMemcpyHtoD(void* t, void* s, Size n) {
    return copied(plain(t, s, n, host_to_device, null_stream), REAL(hipMemcpyHtoD, t, s, n));
}
Error w_hipMemcpyDtoH(void* t, void* s, Size n) {
    return copied(plain(t, s, n, device_to_host, null_stream), REAL(hipMemcpyDtoH, t, s, n));
}
Error w_hipMemcpyDtoD(void* t, void* s, Size n) {
    return copied(plain(t, s, n, device_to_device, null_stream), REAL(hipMemcpyDtoD, t, s, n));
}
Error w_hipMemcpyHtoDAsync(void* t, void* s, Size n, Stream q) {
    return copied(plain(t, s, n, host_to_device, stream_key(q), Returns::at_once),
                  REAL(hipMemcpyHtoDAsync, t, s, n, q));
}
Error w_hipMemcpyDtoHAsync(void* t, void* s, Size n, Stream q) {
    return copied(plain(t, s, n, device_to_host, stream_key(q), Returns::at_once),
                  REAL(hipMemcpyDtoHAsync, t, s, n, q));
}
Error w_hipMemcpyDtoDAsync(void* t, void* s, Size n, Stream q) {
    return copied(plain(t, s, n, device_to_device, stream_key(q), Returns::at_once),
                  REAL(hipMemcpyDtoDAsync, t, s, n, q));
}
Error w_hipMemcpyPeer(void* t, int td, const void* s, int sd, Size n) {
    return copied(plain(t, s, n, device_to_device, null_stream), REAL(hipMemcpyPeer, t, td, s, sd, n));
}
Error w_hipMemcpyPeerAsync(void* t, int td, const void* s, int sd, Size n, Stream q) {
    return copied(plain(t, s, n, device_to_device, stream_key(q), Returns::at_once),
                  REAL(hipMemcpyPeerAsync, t, td, s, sd, n, q));
}

// To or from a symbol, whose address is asked for in the call.
template <class Made, class Call>
Error symbol_copied(const void* symbol, Made&& made, Call&& call) {
    Asked asked;
    return recorded(
        [&](Recorder& recorder, const RecordedCall& of) {
            if (const std::uint64_t at = symbol_address(recorder, of, symbol); at != 0) {
                asked = made(reinterpret_cast<char*>(at));
                recorder.before_copies(asked, of);
            }
        },
        call,
        [&](Recorder& recorder, const RecordedCall& of) {
            if (asked.transfer.bytes == 0) return;
            recorder.after_copies(asked, of);
            capture(recorder, asked.stream, [&] { return step_of(asked); });
        });
}
Error w_hipMemcpyToSymbol(const void* y, const void* s, Size n, Size o, int k) {
    return symbol_copied(
        y, [&](char* at) { return plain(at + o, s, n, k, null_stream); }, REAL(hipMemcpyToSymbol, y, s, n, o, k));
}
Error w_hipMemcpyToSymbol_spt(const void* y, const void* s, Size n, Size o, int k) {
    return symbol_copied(
        y, [&](char* at) { return plain(at + o, s, n, k, null_stream_of_thread()); },
        REAL(hipMemcpyToSymbol_spt, y, s, n, o, k));
}
Error w_hipMemcpyToSymbolAsync(const void* y, const void* s, Size n, Size o, int k, Stream q) {
    return symbol_copied(
        y, [&](char* at) { return plain(at + o, s, n, k, stream_key(q), Returns::at_once); },
        REAL(hipMemcpyToSymbolAsync, y, s, n, o, k, q));
}
Error w_hipMemcpyToSymbolAsync_spt(const void* y, const void* s, Size n, Size o, int k, Stream q) {
    return symbol_copied(
        y, [&](char* at) { return plain(at + o, s, n, k, stream_key(q, Default::of_thread), Returns::at_once); },
        REAL(hipMemcpyToSymbolAsync_spt, y, s, n, o, k, q));
}
Error w_hipMemcpyFromSymbol(void* t, const void* y, Size n, Size o, int k) {
    return symbol_copied(
        y, [&](char* at) { return plain(t, at + o, n, k, null_stream); }, REAL(hipMemcpyFromSymbol, t, y, n, o, k));
}
Error w_hipMemcpyFromSymbol_spt(void* t, const void* y, Size n, Size o, int k) {
    return symbol_copied(
        y, [&](char* at) { return plain(t, at + o, n, k, null_stream_of_thread()); },
        REAL(hipMemcpyFromSymbol_spt, t, y, n, o, k));
}
Error w_hipMemcpyFromSymbolAsync(void* t, const void* y, Size n, Size o, int k, Stream q) {
    return symbol_copied(
        y, [&](char* at) { return plain(t, at + o, n, k, stream_key(q), Returns::at_once); },
        REAL(hipMemcpyFromSymbolAsync, t, y, n, o, k, q));
}
Error w_hipMemcpyFromSymbolAsync_spt(void* t, const void* y, Size n, Size o, int k, Stream q) {
    return symbol_copied(
        y, [&](char* at) { return plain(t, at + o, n, k, stream_key(q, Default::of_thread), Returns::at_once); },
        REAL(hipMemcpyFromSymbolAsync_spt, t, y, n, o, k, q));
}

// ------------------------------------------------------------------------------------------------------ rows and
// slices

struct Side {
    std::uint64_t address = 0;
    Size pitch = 0, rows = 0;  // of a slice
};

Transfer of_rows(const Side& target, const Side& source, Size width, Size rows, int kind, Returns returns) {
    Asked asked = plain(nullptr, nullptr, width, kind, 0, returns);
    Transfer& made = asked.transfer;
    made.target = target.address;
    made.source = source.address;
    if (rows <= 1 || (target.pitch == width && source.pitch == width)) {
        made.bytes = width * rows;
    } else {
        made.rows = rows;
        made.target_pitch = target.pitch;
        made.source_pitch = source.pitch;
    }
    return made;
}
Asked rows(const void* target, Size target_pitch, const void* source, Size source_pitch, Size width, Size height,
           int kind, std::uint64_t stream, Returns returns = Returns::when_done) {
    return {.transfer = of_rows({address_of(target), target_pitch}, {address_of(source), source_pitch}, width, height,
                                kind, returns),
            .stream = stream};
}

Error w_hipMemcpy2D(void* t, Size tp, const void* s, Size sp, Size w, Size h, int k) {
    return copied(rows(t, tp, s, sp, w, h, k, null_stream), REAL(hipMemcpy2D, t, tp, s, sp, w, h, k));
}
Error w_hipMemcpy2D_spt(void* t, Size tp, const void* s, Size sp, Size w, Size h, int k) {
    return copied(rows(t, tp, s, sp, w, h, k, null_stream_of_thread()), REAL(hipMemcpy2D_spt, t, tp, s, sp, w, h, k));
}
Error w_hipMemcpy2DAsync(void* t, Size tp, const void* s, Size sp, Size w, Size h, int k, Stream q) {
    return copied(rows(t, tp, s, sp, w, h, k, stream_key(q), Returns::at_once),
                  REAL(hipMemcpy2DAsync, t, tp, s, sp, w, h, k, q));
}
Error w_hipMemcpy2DAsync_spt(void* t, Size tp, const void* s, Size sp, Size w, Size h, int k, Stream q) {
    return copied(rows(t, tp, s, sp, w, h, k, stream_key(q, Default::of_thread), Returns::at_once),
                  REAL(hipMemcpy2DAsync_spt, t, tp, s, sp, w, h, k, q));
}
Error w_hipMemcpy2DToArray(Array t, Size x, Size y, const void* s, Size sp, Size w, Size h, int k) {
    return copied(rows(t, w, s, sp, w, h, k, null_stream), REAL(hipMemcpy2DToArray, t, x, y, s, sp, w, h, k));
}
Error w_hipMemcpy2DToArrayAsync(Array t, Size x, Size y, const void* s, Size sp, Size w, Size h, int k, Stream q) {
    return copied(rows(t, w, s, sp, w, h, k, stream_key(q), Returns::at_once),
                  REAL(hipMemcpy2DToArrayAsync, t, x, y, s, sp, w, h, k, q));
}
Error w_hipMemcpy2DFromArray(void* t, Size tp, Array s, Size x, Size y, Size w, Size h, int k) {
    return copied(rows(t, tp, s, w, w, h, k, null_stream), REAL(hipMemcpy2DFromArray, t, tp, s, x, y, w, h, k));
}
Error w_hipMemcpy2DFromArrayAsync(void* t, Size tp, Array s, Size x, Size y, Size w, Size h, int k, Stream q) {
    return copied(rows(t, tp, s, w, w, h, k, stream_key(q), Returns::at_once),
                  REAL(hipMemcpy2DFromArrayAsync, t, tp, s, x, y, w, h, k, q));
}
Error w_hipMemcpyToArray(Array t, Size x, Size y, const void* s, Size n, int k) {
    return copied(plain(t, s, n, k, null_stream), REAL(hipMemcpyToArray, t, x, y, s, n, k));
}
Error w_hipMemcpyFromArray(void* t, Array s, Size x, Size y, Size n, int k) {
    return copied(plain(t, s, n, k, null_stream), REAL(hipMemcpyFromArray, t, s, x, y, n, k));
}
Error w_hipMemcpyHtoA(Array t, Size x, const void* s, Size n) {
    return copied(plain(t, s, n, host_to_device, null_stream), REAL(hipMemcpyHtoA, t, x, s, n));
}
Error w_hipMemcpyAtoH(void* t, Array s, Size x, Size n) {
    return copied(plain(t, s, n, device_to_host, null_stream), REAL(hipMemcpyAtoH, t, s, x, n));
}

Error w_hipMemcpyAtoHAsync(void* t, Array s, Size x, Size n, Stream q) {
    return copied(plain(t, s, n, device_to_host, stream_key(q), Returns::at_once),
                  REAL(hipMemcpyAtoHAsync, t, s, x, n, q));
}
Error w_hipMemcpyHtoAAsync(Array t, Size x, const void* s, Size n, Stream q) {
    return copied(plain(t, s, n, host_to_device, stream_key(q), Returns::at_once),
                  REAL(hipMemcpyHtoAAsync, t, x, s, n, q));
}
Error w_hipMemcpyAtoD(void* t, Array s, Size x, Size n) {
    return copied(plain(t, s, n, device_to_device, null_stream), REAL(hipMemcpyAtoD, t, s, x, n));
}
Error w_hipMemcpyDtoA(Array t, Size x, void* s, Size n) {
    return copied(plain(t, s, n, device_to_device, null_stream), REAL(hipMemcpyDtoA, t, x, s, n));
}
Error w_hipMemcpyAtoA(Array t, Size x, Array s, Size y, Size n) {
    return copied(plain(t, s, n, device_to_device, null_stream), REAL(hipMemcpyAtoA, t, x, s, y, n));
}

Side side_of(Array array, const Position& at, const Pitched& memory, Size width, Size height) {
    if (array != nullptr) return {address_of(array), width, height};
    return {address_of(memory.address) + (at.z * memory.height + at.y) * memory.pitch + at.x, memory.pitch,
            memory.height};
}
// One transfer if the slices follow each other, else one each. Where an array is copied, widths are in its elements.
Asked slices(const Copy3D& copy, std::uint64_t stream, Returns returns) {
    const Array array = copy.source_array != nullptr ? copy.source_array : copy.target_array;
    const Size width = copy.extent.width * (array == nullptr ? 1 : elements().of(array));
    const Size height = std::max<Size>(copy.extent.height, 1), depth = std::max<Size>(copy.extent.depth, 1);
    Side target = side_of(copy.target_array, copy.target_position, copy.target, width, height);
    Side source = side_of(copy.source_array, copy.source_position, copy.source, width, height);
    Asked asked{.stream = stream};
    if (depth == 1 || (target.rows == height && source.rows == height)) {
        asked.transfer = of_rows(target, source, width, height * depth, copy.kind, returns);
        return asked;
    }
    for (Size slice = 0; slice < std::min<Size>(depth, most_slices); ++slice) {
        const Transfer one = of_rows(target, source, width, height, copy.kind, returns);
        if (slice == 0)
            asked.transfer = one;
        else
            asked.more.push_back(one);
        if (copy.target_array == nullptr) target.address += target.pitch * target.rows;
        if (copy.source_array == nullptr) source.address += source.pitch * source.rows;
    }
    return asked;
}
// Of which kind a side's memory is has other numbers in other versions, so that the pointer that is set decides.
Side side_of(const Side2D& side, Size width) {
    if (side.array != nullptr && side.host == nullptr && side.device == nullptr)
        return {address_of(side.array), width, 0};
    const void* const start =
        side.device == nullptr || (side.host != nullptr && side.type == 0) ? side.host : side.device;
    return {address_of(start) + side.y * side.pitch + side.x, side.pitch == 0 ? width : side.pitch, 0};
}
Asked rows(const Copy2D& copy, std::uint64_t stream, Returns returns) {
    constexpr int unknown = 4;  // hipMemcpyDefault
    return {.transfer = of_rows(side_of(copy.target, copy.width), side_of(copy.source, copy.width), copy.width,
                                copy.height, unknown, returns),
            .stream = stream};
}
Error w_hipMemcpyParam2D(const Copy2D* c) {
    if (c == nullptr) return REAL(hipMemcpyParam2D, c)();
    return copied(rows(*c, null_stream, Returns::when_done), REAL(hipMemcpyParam2D, c));
}
Error w_hipMemcpyParam2DAsync(const Copy2D* c, Stream q) {
    if (c == nullptr) return REAL(hipMemcpyParam2DAsync, c, q)();
    return copied(rows(*c, stream_key(q), Returns::at_once), REAL(hipMemcpyParam2DAsync, c, q));
}
Error w_hipDrvMemcpy2DUnaligned(const Copy2D* c) {
    if (c == nullptr) return REAL(hipDrvMemcpy2DUnaligned, c)();
    return copied(rows(*c, null_stream, Returns::when_done), REAL(hipDrvMemcpy2DUnaligned, c));
}
Error w_hipMemcpyBatchAsync(void** t, void** s, Size* b, Size n, void* a, Size* i, Size m, Size* failed, Stream q) {
    Asked asked{.stream = stream_key(q)};
    constexpr int unknown = 4;
    for (Size each = 0; t != nullptr && s != nullptr && b != nullptr && each < n; ++each) {
        const Transfer one = plain(t[each], s[each], b[each], unknown, 0, Returns::at_once).transfer;
        if (each == 0)
            asked.transfer = one;
        else
            asked.more.push_back(one);
    }
    return copied(asked, REAL(hipMemcpyBatchAsync, t, s, b, n, a, i, m, failed, q));
}
Error w_hipMemcpy3D(const Copy3D* c) {
    if (c == nullptr) return REAL(hipMemcpy3D, c)();
    return copied(slices(*c, null_stream, Returns::when_done), REAL(hipMemcpy3D, c));
}
Error w_hipMemcpy3D_spt(const Copy3D* c) {
    if (c == nullptr) return REAL(hipMemcpy3D_spt, c)();
    return copied(slices(*c, null_stream_of_thread(), Returns::when_done), REAL(hipMemcpy3D_spt, c));
}
Error w_hipMemcpy3DAsync(const Copy3D* c, Stream q) {
    if (c == nullptr) return REAL(hipMemcpy3DAsync, c, q)();
    return copied(slices(*c, stream_key(q), Returns::at_once), REAL(hipMemcpy3DAsync, c, q));
}
Error w_hipMemcpy3DAsync_spt(const Copy3D* c, Stream q) {
    if (c == nullptr) return REAL(hipMemcpy3DAsync_spt, c, q)();
    return copied(slices(*c, stream_key(q, Default::of_thread), Returns::at_once), REAL(hipMemcpy3DAsync_spt, c, q));
}

// ------------------------------------------------------------------------------------- fills, prefetches and advice

Transfer fill_of(const void* target, Size width, Size height, Size pitch) {
    const bool is_one_row = height <= 1 || pitch == width;
    return {.target = address_of(target),
            .bytes = width * (is_one_row ? std::max<Size>(height, 1) : 1),
            .rows = is_one_row ? 1 : height,
            .target_pitch = is_one_row ? 0 : pitch};
}
template <class Call>
Error filled(const void* target, Size width, Size height, Size pitch, std::uint64_t stream, Call&& call) {
    return recorded(device_changes, call, [&](Recorder& recorder, const RecordedCall& of) {
        recorder.filled(address_of(target), width, height, pitch, stream, of);
        capture(recorder, stream, [&] { return Graphs::Step{.fills = {fill_of(target, width, height, pitch)}}; });
    });
}
Error w_hipMemset(void* t, int v, Size n) { return filled(t, n, 1, 0, null_stream, REAL(hipMemset, t, v, n)); }
Error w_hipMemset_spt(void* t, int v, Size n) {
    return filled(t, n, 1, 0, null_stream_of_thread(), REAL(hipMemset_spt, t, v, n));
}
Error w_hipMemsetAsync(void* t, int v, Size n, Stream q) {
    return filled(t, n, 1, 0, stream_key(q), REAL(hipMemsetAsync, t, v, n, q));
}
Error w_hipMemsetAsync_spt(void* t, int v, Size n, Stream q) {
    return filled(t, n, 1, 0, stream_key(q, Default::of_thread), REAL(hipMemsetAsync_spt, t, v, n, q));
}
Error w_hipMemsetD8(void* t, unsigned char v, Size n) {
    return filled(t, n, 1, 0, null_stream, REAL(hipMemsetD8, t, v, n));
}
Error w_hipMemsetD8Async(void* t, unsigned char v, Size n, Stream q) {
    return filled(t, n, 1, 0, stream_key(q), REAL(hipMemsetD8Async, t, v, n, q));
}
Error w_hipMemsetD16(void* t, unsigned short v, Size n) {
    return filled(t, n * sizeof v, 1, 0, null_stream, REAL(hipMemsetD16, t, v, n));
}
Error w_hipMemsetD16Async(void* t, unsigned short v, Size n, Stream q) {
    return filled(t, n * sizeof v, 1, 0, stream_key(q), REAL(hipMemsetD16Async, t, v, n, q));
}
Error w_hipMemsetD32(void* t, int v, Size n) {
    return filled(t, n * sizeof v, 1, 0, null_stream, REAL(hipMemsetD32, t, v, n));
}
Error w_hipMemsetD32Async(void* t, int v, Size n, Stream q) {
    return filled(t, n * sizeof v, 1, 0, stream_key(q), REAL(hipMemsetD32Async, t, v, n, q));
}
Error w_hipMemset2D(void* t, Size tp, int v, Size w, Size h) {
    return filled(t, w, h, tp, null_stream, REAL(hipMemset2D, t, tp, v, w, h));
}
Error w_hipMemset2D_spt(void* t, Size tp, int v, Size w, Size h) {
    return filled(t, w, h, tp, null_stream_of_thread(), REAL(hipMemset2D_spt, t, tp, v, w, h));
}
Error w_hipMemset2DAsync(void* t, Size tp, int v, Size w, Size h, Stream q) {
    return filled(t, w, h, tp, stream_key(q), REAL(hipMemset2DAsync, t, tp, v, w, h, q));
}
Error w_hipMemset2DAsync_spt(void* t, Size tp, int v, Size w, Size h, Stream q) {
    return filled(t, w, h, tp, stream_key(q, Default::of_thread), REAL(hipMemset2DAsync_spt, t, tp, v, w, h, q));
}
Error w_hipMemsetD2D8(void* t, Size p, unsigned char v, Size w, Size h) {
    return filled(t, w * 1, h, p, null_stream, REAL(hipMemsetD2D8, t, p, v, w, h));
}
Error w_hipMemsetD2D8Async(void* t, Size p, unsigned char v, Size w, Size h, Stream q) {
    return filled(t, w * 1, h, p, stream_key(q), REAL(hipMemsetD2D8Async, t, p, v, w, h, q));
}
Error w_hipMemsetD2D16(void* t, Size p, unsigned short v, Size w, Size h) {
    return filled(t, w * 2, h, p, null_stream, REAL(hipMemsetD2D16, t, p, v, w, h));
}
Error w_hipMemsetD2D16Async(void* t, Size p, unsigned short v, Size w, Size h, Stream q) {
    return filled(t, w * 2, h, p, stream_key(q), REAL(hipMemsetD2D16Async, t, p, v, w, h, q));
}
Error w_hipMemsetD2D32(void* t, Size p, unsigned v, Size w, Size h) {
    return filled(t, w * 4, h, p, null_stream, REAL(hipMemsetD2D32, t, p, v, w, h));
}
Error w_hipMemsetD2D32Async(void* t, Size p, unsigned v, Size w, Size h, Stream q) {
    return filled(t, w * 4, h, p, stream_key(q), REAL(hipMemsetD2D32Async, t, p, v, w, h, q));
}
template <class Call>
Error box_filled(const Pitched& target, const Extent& extent, std::uint64_t stream, Call&& call) {
    return recorded(device_changes, call, [&](Recorder& recorder, const RecordedCall& of) {
        for (Size slice = 0; slice < std::min<Size>(extent.depth, most_slices); ++slice) {
            const char* const at = static_cast<const char*>(target.address) + slice * target.height * target.pitch;
            recorder.filled(address_of(at), extent.width, extent.height, target.pitch, stream, of);
            capture(recorder, stream,
                    [&] { return Graphs::Step{.fills = {fill_of(at, extent.width, extent.height, target.pitch)}}; });
        }
    });
}
Error w_hipMemset3D(Pitched t, int v, Extent n) { return box_filled(t, n, null_stream, REAL(hipMemset3D, t, v, n)); }
Error w_hipMemset3D_spt(Pitched t, int v, Extent n) {
    return box_filled(t, n, null_stream_of_thread(), REAL(hipMemset3D_spt, t, v, n));
}
Error w_hipMemset3DAsync(Pitched t, int v, Extent n, Stream q) {
    return box_filled(t, n, stream_key(q), REAL(hipMemset3DAsync, t, v, n, q));
}
Error w_hipMemset3DAsync_spt(Pitched t, int v, Extent n, Stream q) {
    return box_filled(t, n, stream_key(q, Default::of_thread), REAL(hipMemset3DAsync_spt, t, v, n, q));
}

template <class Call>
Error prefetched(const void* at, Size bytes, int device, Stream stream, Call&& call) {
    return recorded(nothing, call, [&](Recorder& recorder, const RecordedCall& of) {
        recorder.ordered(Order::prefetch, {.target = address_of(at), .bytes = bytes, .rows = 1, .device = device},
                         stream_key(stream), of);
    });
}
template <class Call>
Error advised(const void* at, Size bytes, int advice, int device, Call&& call) {
    return recorded(nothing, call, [&](Recorder& recorder, const RecordedCall& of) {
        recorder.ordered(Order::advice,
                         {.target = address_of(at),
                          .bytes = bytes,
                          .rows = 1,
                          .device = device,
                          .advice = static_cast<std::uint16_t>(advice)},
                         0, of);
    });
}
int device_of(const Location& place) { return place.type == location_device ? place.id : -1; }
Error w_hipMemPrefetchAsync(const void* p, Size n, int d, Stream q) {
    return prefetched(p, n, d, q, REAL(hipMemPrefetchAsync, p, n, d, q));
}
Error w_hipMemPrefetchAsync_v2(const void* p, Size n, Location d, unsigned f, Stream q) {
    return prefetched(p, n, device_of(d), q, REAL(hipMemPrefetchAsync_v2, p, n, d, f, q));
}
Error w_hipMemAdvise(const void* p, Size n, int a, int d) {
    return advised(p, n, a, d, REAL(hipMemAdvise, p, n, a, d));
}
Error w_hipMemAdvise_v2(const void* p, Size n, int a, Location d) {
    return advised(p, n, a, device_of(d), REAL(hipMemAdvise_v2, p, n, a, d));
}

// ---------------------------------------------------------------------------------------------------------- launches

template <class Call>
Error launched(const void* kernel, void* const* parameters, void* const* extra, std::uint64_t stream,
               std::uint8_t flags, Call&& call) {
    return recorded(device_changes, call, [&](Recorder& recorder, const RecordedCall& of) {
        void* const handle = const_cast<void*>(kernel);
        const char* const name = kernels().name_of(handle);
        recorder.launched(kernels(), handle, name, parameters, extra, stream, flags, of);
        capture(recorder, stream, [&] {
            return Graphs::Step{.arguments = recorder.number_arguments(kernels(), handle, name, parameters, extra)};
        });
    });
}
Error w_hipLaunchKernel(const void* f, Dim3 g, Dim3 b, void** a, Size m, Stream q) {
    return launched(f, a, nullptr, stream_key(q), 0, REAL(hipLaunchKernel, f, g, b, a, m, q));
}
Error w_hipLaunchKernel_spt(const void* f, Dim3 g, Dim3 b, void** a, Size m, Stream q) {
    return launched(f, a, nullptr, stream_key(q, Default::of_thread), 0, REAL(hipLaunchKernel_spt, f, g, b, a, m, q));
}
Error w_hipLaunchKernelExC(const LaunchShape* c, const void* f, void** a) {
    if (c == nullptr) return REAL(hipLaunchKernelExC, c, f, a)();
    return launched(f, a, nullptr, stream_key(c->stream), 0, REAL(hipLaunchKernelExC, c, f, a));
}
Error w_hipDrvLaunchKernelEx(const DriverLaunchShape* c, Handle f, void** a, void** e) {
    if (c == nullptr) return REAL(hipDrvLaunchKernelEx, c, f, a, e)();
    return launched(f, a, e, stream_key(c->stream), 0, REAL(hipDrvLaunchKernelEx, c, f, a, e));
}
Error w_hipExtLaunchKernel(const void* f, Dim3 g, Dim3 b, void** a, Size m, Stream q, Handle from, Handle to,
                           int flags) {
    return launched(f, a, nullptr, stream_key(q), 0, REAL(hipExtLaunchKernel, f, g, b, a, m, q, from, to, flags));
}
Error w_hipLaunchCooperativeKernel(const void* f, Dim3 g, Dim3 b, void** a, unsigned m, Stream q) {
    return launched(f, a, nullptr, stream_key(q), inject::cooperative,
                    REAL(hipLaunchCooperativeKernel, f, g, b, a, m, q));
}
Error w_hipLaunchCooperativeKernel_spt(const void* f, Dim3 g, Dim3 b, void** a, unsigned m, Stream q) {
    return launched(f, a, nullptr, stream_key(q, Default::of_thread), inject::cooperative,
                    REAL(hipLaunchCooperativeKernel_spt, f, g, b, a, m, q));
}
Error w_hipModuleLaunchKernel(Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                              unsigned m, Stream q, void** a, void** e) {
    return launched(f, a, e, stream_key(q), 0, REAL(hipModuleLaunchKernel, f, gx, gy, gz, bx, by, bz, m, q, a, e));
}
Error w_hipModuleLaunchCooperativeKernel(Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                         unsigned bz, unsigned m, Stream q, void** a) {
    return launched(f, a, nullptr, stream_key(q), inject::cooperative,
                    REAL(hipModuleLaunchCooperativeKernel, f, gx, gy, gz, bx, by, bz, m, q, a));
}
Error w_hipExtModuleLaunchKernel(Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                 Size m, Stream q, void** a, void** e, Handle from, Handle to, unsigned flags) {
    return launched(f, a, e, stream_key(q), 0,
                    REAL(hipExtModuleLaunchKernel, f, gx, gy, gz, bx, by, bz, m, q, a, e, from, to, flags));
}
Error w_hipHccModuleLaunchKernel(Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                 Size m, Stream q, void** a, void** e, Handle from, Handle to) {
    return launched(f, a, e, stream_key(q), 0,
                    REAL(hipHccModuleLaunchKernel, f, gx, gy, gz, bx, by, bz, m, q, a, e, from, to));
}

// ------------------------------------------------------------------------------------------------------------ graphs

// step: made after the call, with the recorder.
template <class Call, class Made>
Error node_added(Handle graph, Call&& call, Made&& step) {
    return recorded(nothing, call, [&](Recorder& recorder, const RecordedCall& of) {
        if (std::optional<Graphs::Step> made = step(recorder, of); made)
            graphs().add(graph, std::move(*made));
        else
            graphs().add_unknown(graph);
    });
}
using MadeStep = std::optional<Graphs::Step>;
constexpr auto of_unknown_node = [](Recorder&, const RecordedCall&) { return MadeStep(); };

Error w_hipGraphAddKernelNode(Handle* n, Handle g, const Handle* d, Size c, const KernelNode* k) {
    return node_added(g, REAL(hipGraphAddKernelNode, n, g, d, c, k), [&](Recorder& recorder, const RecordedCall&) {
        void* const handle = const_cast<void*>(k->function);
        const char* const name = kernels().name_of(handle);
        return MadeStep({.arguments = recorder.number_arguments(kernels(), handle, name, k->parameters, k->extra)});
    });
}
Error w_hipGraphAddMemcpyNode(Handle* n, Handle g, const Handle* d, Size c, const Copy3D* copy) {
    return node_added(g, REAL(hipGraphAddMemcpyNode, n, g, d, c, copy), [&](Recorder&, const RecordedCall&) {
        return MadeStep(step_of(slices(*copy, 0, Returns::at_once)));
    });
}
Error w_hipGraphAddMemcpyNode1D(Handle* n, Handle g, const Handle* d, Size c, void* t, const void* s, Size m, int k) {
    return node_added(g, REAL(hipGraphAddMemcpyNode1D, n, g, d, c, t, s, m, k), [&](Recorder&, const RecordedCall&) {
        return MadeStep(step_of(plain(t, s, m, k, 0, Returns::at_once)));
    });
}
Error w_hipGraphAddMemcpyNodeFromSymbol(Handle* n, Handle g, const Handle* d, Size c, void* t, const void* y, Size m,
                                        Size o, int k) {
    return node_added(g, REAL(hipGraphAddMemcpyNodeFromSymbol, n, g, d, c, t, y, m, o, k),
                      [&](Recorder& recorder, const RecordedCall& of) {
                          const std::uint64_t at = symbol_address(recorder, of, y);
                          const void* const source = reinterpret_cast<const void*>(at + o);
                          return at == 0 ? MadeStep() : step_of(plain(t, source, m, k, 0, Returns::at_once));
                      });
}
Error w_hipGraphAddMemcpyNodeToSymbol(Handle* n, Handle g, const Handle* d, Size c, const void* y, const void* s,
                                      Size m, Size o, int k) {
    return node_added(g, REAL(hipGraphAddMemcpyNodeToSymbol, n, g, d, c, y, s, m, o, k),
                      [&](Recorder& recorder, const RecordedCall& of) {
                          const std::uint64_t at = symbol_address(recorder, of, y);
                          const void* const target = reinterpret_cast<const void*>(at + o);
                          return at == 0 ? MadeStep() : step_of(plain(target, s, m, k, 0, Returns::at_once));
                      });
}
Error w_hipGraphAddMemsetNode(Handle* n, Handle g, const Handle* d, Size c, const FillNode* f) {
    return node_added(g, REAL(hipGraphAddMemsetNode, n, g, d, c, f), [&](Recorder&, const RecordedCall&) {
        return MadeStep({.fills = {fill_of(f->target, f->width * f->value_bytes, f->height, f->pitch)}});
    });
}
Error w_hipGraphAddMemAllocNode(Handle* n, Handle g, const Handle* d, Size c, AllocationNode* a) {
    return node_added(g, REAL(hipGraphAddMemAllocNode, n, g, d, c, a), [&](Recorder& recorder, const RecordedCall&) {
        const Block block{.bytes = a->bytes, .memory = Memory::device, .is_ordered = true};
        recorder.expect(address_of(a->address), block);
        return MadeStep({.begins = address_of(a->address), .block = block});
    });
}
Error w_hipGraphAddMemFreeNode(Handle* n, Handle g, const Handle* d, Size c, void* p) {
    return node_added(g, REAL(hipGraphAddMemFreeNode, n, g, d, c, p),
                      [&](Recorder&, const RecordedCall&) { return MadeStep({.ends = address_of(p)}); });
}
Error w_hipGraphAddNode(Handle* n, Handle g, const Handle* d, Size c, void* p) {
    return node_added(g, REAL(hipGraphAddNode, n, g, d, c, p), of_unknown_node);
}
Error w_hipDrvGraphAddMemcpyNode(Handle* n, Handle g, const Handle* d, Size c, const void* copy, void* context) {
    return node_added(g, REAL(hipDrvGraphAddMemcpyNode, n, g, d, c, copy, context), of_unknown_node);
}
Error w_hipDrvGraphAddMemsetNode(Handle* n, Handle g, const Handle* d, Size c, const void* fill, void* context) {
    return node_added(g, REAL(hipDrvGraphAddMemsetNode, n, g, d, c, fill, context), of_unknown_node);
}
Error w_hipGraphAddChildGraphNode(Handle* n, Handle g, const Handle* d, Size c, Handle child) {
    return recorded(nothing, REAL(hipGraphAddChildGraphNode, n, g, d, c, child),
                    [&](Recorder&, const RecordedCall&) { graphs().add_all_of(g, child); });
}
Error w_hipGraphClone(Handle* g, Handle of) {
    return recorded(nothing, REAL(hipGraphClone, g, of),
                    [&](Recorder&, const RecordedCall&) { graphs().add_all_of(*g, of); });
}
// Another graph may get its handle.
Error w_hipGraphDestroy(Handle g) {
    const auto end = [&](Recorder&, const RecordedCall&) { graphs().forget(g); };
    return recorded(end, REAL(hipGraphDestroy, g), nothing);
}
Error w_hipGraphExecDestroy(Handle e) {
    const auto end = [&](Recorder&, const RecordedCall&) { graphs().forget_executable(e); };
    return recorded(end, REAL(hipGraphExecDestroy, e), nothing);
}
template <class Call>
Error instantiated(const Handle* executable, Handle graph, Call&& call) {
    return recorded(nothing, call, [&](Recorder&, const RecordedCall&) { graphs().instantiate(*executable, graph); });
}
Error w_hipGraphInstantiate(Handle* e, Handle g, Handle* n, char* log, Size m) {
    return instantiated(e, g, REAL(hipGraphInstantiate, e, g, n, log, m));
}
Error w_hipGraphInstantiateWithFlags(Handle* e, Handle g, unsigned long long f) {
    return instantiated(e, g, REAL(hipGraphInstantiateWithFlags, e, g, f));
}
Error w_hipGraphInstantiateWithParams(Handle* e, Handle g, void* p) {
    return instantiated(e, g, REAL(hipGraphInstantiateWithParams, e, g, p));
}
Error w_hipGraphExecUpdate(Handle e, Handle g, Handle* n, int* result) {
    return instantiated(&e, g, REAL(hipGraphExecUpdate, e, g, n, result));
}

template <class Call>
Error graph_launched(Handle executable, std::uint64_t stream, Call&& call) {
    return recorded(device_changes, call, [&](Recorder& recorder, const RecordedCall& of) {
        recorder.launched_graph(graphs().steps_of(executable).get(), stream, of);
    });
}
Error w_hipGraphLaunch(Handle g, Stream q) { return graph_launched(g, stream_key(q), REAL(hipGraphLaunch, g, q)); }
Error w_hipGraphLaunch_spt(Handle g, Stream q) {
    return graph_launched(g, stream_key(q, Default::of_thread), REAL(hipGraphLaunch_spt, g, q));
}

// ----------------------------------------------------------------------------------------------------------- modules

template <class Call>
Error loaded(const Handle* module, const void* image, Call&& call) {
    return recorded(nothing, call, [&](Recorder&, const RecordedCall&) {
        KernelParameters found;
        add_kernels(readable_from(image), found);
        kernels().add_loaded(*module, std::move(found));
    });
}
Error w_hipModuleLoadData(Handle* m, const void* image) { return loaded(m, image, REAL(hipModuleLoadData, m, image)); }
Error w_hipModuleLoadDataEx(Handle* m, const void* image, unsigned n, int* o, void** v) {
    return loaded(m, image, REAL(hipModuleLoadDataEx, m, image, n, o, v));
}
Error w_hipModuleLoad(Handle* m, const char* file) {
    return recorded(nothing, REAL(hipModuleLoad, m, file), [&](Recorder&, const RecordedCall&) {
        const int opened = open(file, O_RDONLY | O_CLOEXEC);
        struct stat state {};
        if (opened < 0) return;
        void* const content = fstat(opened, &state) == 0 && state.st_size > 0
                                  ? mmap(nullptr, static_cast<Size>(state.st_size), PROT_READ, MAP_PRIVATE, opened, 0)
                                  : MAP_FAILED;
        close(opened);
        if (content == MAP_FAILED) return;
        KernelParameters found;
        add_kernels({static_cast<const char*>(content), static_cast<Size>(state.st_size)}, found);
        munmap(content, static_cast<Size>(state.st_size));
        kernels().add_loaded(*m, std::move(found));
    });
}
Error w_hipModuleUnload(Handle m) {
    return recorded([&](Recorder&, const RecordedCall&) { kernels().remove_module(m); }, REAL(hipModuleUnload, m),
                    nothing);
}
Error w_hipModuleGetFunction(Handle* f, Handle m, const char* name) {
    return recorded(nothing, REAL(hipModuleGetFunction, f, m, name),
                    [&](Recorder&, const RecordedCall&) { kernels().add_kernel(*f, m, name); });
}

// What a program registers before its main function: no call of its own, and nothing is written of it.
template <class Step>
void registered(Step&& step) {
    const inject::Undisturbed undisturbed;
    try {
        step();
    } catch (...) {
        return;  // no memory
    }
}
void** w___hipRegisterFatBinary(const void* wrapper) {
    constexpr std::uint32_t magic = 0x48495046;  // "HIPF"
    struct Wrapper {
        std::uint32_t magic, version;
        const void* image;
    };
    void** const module = real.__hipRegisterFatBinary.load(std::memory_order_relaxed)(wrapper);
    const auto* const of = static_cast<const Wrapper*>(wrapper);
    if (module != nullptr && of != nullptr && of->magic == magic)
        registered([&] { kernels().add_linked(module, of->image); });
    return module;
}
void w___hipRegisterFunction(void** m, const void* f, char* symbol, const char* name, unsigned most, void* t, void* b,
                             void* n, void* g, int* w) {
    registered([&] { kernels().add_kernel(f, m, name); });
    REAL(__hipRegisterFunction, m, f, symbol, name, most, t, b, n, g, w)();
}
void w___hipRegisterVar(void** m, void* variable, char* symbol, char* name, int ext, Size bytes, int constant,
                        int global) {
    registered([&] { kernels().add_variable(variable, {name, bytes}); });
    REAL(__hipRegisterVar, m, variable, symbol, name, ext, bytes, constant, global)();
}
void w___hipRegisterManagedVar(void* m, void** pointer, void* initial, const char* name, Size bytes,
                               unsigned alignment) {
    registered([&] { kernels().add_managed({m, pointer, {name, bytes}}); });
    REAL(__hipRegisterManagedVar, m, pointer, initial, name, bytes, alignment)();
}
void w___hipUnregisterFatBinary(void** m) {
    registered([&] { kernels().remove_module(m); });
    REAL(__hipUnregisterFatBinary, m)();
}

// ------------------------------------------------------------------------------------------------------------- doors

struct Table {
    void** entries;
    Size count;

    // A table of an older runtime has fewer functions, and of a null one nothing is known.
    template <class Function>
    bool find(Size place, std::atomic<Function>& function) const {
        if (place >= count || entries[place] == nullptr) return false;
        function.store(reinterpret_cast<Function>(entries[place]), std::memory_order_relaxed);
        return true;
    }
    template <class Function>
    void replace(Size place, std::atomic<Function>& function, Function mine) const {
        if (find(place, function)) entries[place] = reinterpret_cast<void*>(mine);
    }
};
std::atomic<bool> has_table{false}, has_compiler_table{false};

void put_into(const Table& table) {
    if (has_table.exchange(true)) return;
#define CALL(place, name, parameters, arguments) table.find(place, real.name);
    FIRSTTOUCH_HIP_QUESTIONS(CALL)
#undef CALL
#define CALL(place, name, parameters, arguments) table.replace(place, real.name, &w_##name);
    FIRSTTOUCH_HIP_CALLS(CALL)
#undef CALL
}
void put_into_compiler(const Table& table) {
    if (has_compiler_table.exchange(true)) return;
#define CALL(place, type, name, parameters, arguments) table.replace(place, real.name, &w_##name);
    FIRSTTOUCH_HIP_COMPILER_CALLS(CALL)
#undef CALL
}

}  // namespace
}  // namespace firsttouch::hip_front

// A runtime that hands its tables to tools calls this through the preloaded library, before it uses them. Only those of
// the first runtime of a process are watched.
extern "C" __attribute__((visibility("default"))) void firsttouch_hip_table(const char* name, void* table) noexcept {
    using namespace firsttouch::hip_front;
    if (name == nullptr || table == nullptr || firsttouch::inject::Recording::of_this_process() == nullptr) return;
    Size bytes = 0;
    std::memcpy(&bytes, table, sizeof bytes);
    if (bytes < sizeof bytes) return;
    const Table of{reinterpret_cast<void**>(static_cast<char*>(table) + sizeof bytes),
                   (bytes - sizeof bytes) / sizeof(void*)};
    const std::string_view what = name;
    if (what == "hip") put_into(of);
    if (what == "hip_compiler") put_into_compiler(of);
}

// For a program that calls the runtime through the preloaded library. exported: the runtime's functions, in the order
// of FIRSTTOUCH_HIP_CALLS and then FIRSTTOUCH_HIP_COMPILER_CALLS, null where it has none; called: what is called
// instead. The runtime's own are, if nothing is to be recorded or its table was replaced.
extern "C" __attribute__((visibility("default"))) void
firsttouch_hip_functions(void* (*find)(const char*), void* const* exported, void** called) noexcept {
    using namespace firsttouch::hip_front;
    const bool is_recorded = firsttouch::inject::Recording::of_this_process() != nullptr;
    std::size_t i = 0;
    const auto take = [&](auto& function, auto mine, bool has_table) {
        using Function = decltype(mine);
        const bool is_mine = is_recorded && !has_table && exported[i] != nullptr;
        if (is_mine) function.store(reinterpret_cast<Function>(exported[i]), std::memory_order_relaxed);
        __atomic_store_n(&called[i], is_mine ? reinterpret_cast<void*>(mine) : exported[i], __ATOMIC_RELEASE);
        ++i;
    };
#define CALL(place, name, parameters, arguments) take(real.name, &w_##name, has_table);
    FIRSTTOUCH_HIP_CALLS(CALL)
#undef CALL
#define CALL(place, type, name, parameters, arguments) take(real.name, &w_##name, has_compiler_table);
    FIRSTTOUCH_HIP_COMPILER_CALLS(CALL)
#undef CALL
    if (!is_recorded || has_table) return;
    const auto look_up = [&](auto& function, const char* name) {
        using Function = decltype(function.load());
        function.store(reinterpret_cast<Function>(find(name)), std::memory_order_relaxed);
    };
#define CALL(place, name, parameters, arguments) look_up(real.name, #name);
    FIRSTTOUCH_HIP_QUESTIONS(CALL)
#undef CALL
}
