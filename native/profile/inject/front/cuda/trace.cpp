#include "profile/inject/front/cuda/trace.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "profile/inject/front/cuda/exact.hpp"
#include "profile/inject/core/undisturbed.hpp"

namespace firsttouch::inject {
namespace {

constexpr std::size_t most_shapes = 1 << 16;
constexpr std::uint64_t clocks_ns = 400'000'000;
constexpr std::uint8_t fill = 255;  // the direction of a fill

template <class Record>
const Record& as(const cupti::Record& record) {
    return reinterpret_cast<const Record&>(record);
}

}  // namespace

Trace::Trace(const cupti::Functions& api, Recording& recording)
    : api_(api), journal_(recording.journal), texts_(recording.texts), places_(recording.places),
      recorder_(recording.recorder), watch_(recording.watch.get()), calls_(recording.recorder) {
    recording.reads_device_by([this](void* target, std::uint64_t source, std::size_t bytes) {
        return !recorder_.is_capturing() && calls_.driver().read(target, source, bytes);
    });
}

std::unique_ptr<Trace> Trace::start(const cupti::Functions& api, Recording& recording) {
    if (api.enable_callback == nullptr) throw Unavailable("this CUPTI has no function cuptiEnableCallback");
    std::unique_ptr<Trace> trace(new Trace(api, recording));
    trace->subscriber_ = subscribe(api, &on_callback, trace.get());
    const auto call_back = [&](int domain, std::uint32_t id) {
        api.enable_callback(1, trace->subscriber_, domain, id);
    };
    call_back(cupti::driver_calls, cupti::call_init);
    call_back(cupti::resources, cupti::context_created);
    call_back(cupti::resources, cupti::context_ends);
    for (const std::uint32_t id : cupti::allocating_calls) call_back(cupti::driver_calls, id);
    for (const std::uint32_t id : Calls::numbers()) call_back(cupti::driver_calls, id);
    for (const std::uint32_t id : cupti::node_making_calls) call_back(cupti::driver_calls, id);
    return trace;
}

Trace::~Trace() {
    finish();
    if (subscriber_ != nullptr) api_.unsubscribe(subscriber_);
    if (enabled_) stop_recording();
}

// CUPTI's order: the driver is initialised, then records are enabled, then the first context is created. Where the end
// of cuInit was missed, the first context or allocation takes its place. A forked process cannot use CUDA, and the
// mutexes and buffers are those of its parent.
void Trace::on_callback(void* user, int domain, std::uint32_t id, const void* data) noexcept {
    Trace& trace = *static_cast<Trace*>(user);
    if (!trace.home_.is_here()) return;
    const Undisturbed undisturbed;
    if (domain == cupti::resources) {
        if (id == cupti::context_created) return trace.enable();
        if (trace.ready_) trace.flush(0);  // with a context, its records go
        return;
    }
    if (domain != cupti::driver_calls || data == nullptr) return;
    const auto& call = *static_cast<const cupti::CallData*>(data);
    if (id == cupti::call_init) {
        if (call.site == cupti::leaving) trace.enable();
        return;
    }
    if (call.site != cupti::entering) {
        trace.graphs_.leave(call.correlation);
        return trace.calls_.leaving(id, call);
    }
    trace.enable();
    trace.calls_.entering(id, call);
    trace.write_place(id, call.correlation);
    trace.graphs_.enter(trace.calls_.use_of_graphs(id), call.correlation);
}

// Where an allocation is called.
void Trace::write_place(std::uint32_t id, std::uint32_t correlation) noexcept {
    if (std::ranges::count(cupti::allocating_calls, id) == 0) return;
    try {
        recorder_.write_place(correlation);
    } catch (...) {
        return;  // the allocation is recorded without its place
    }
}

void Trace::enable() noexcept {
    if (enabled_.load(std::memory_order_relaxed) || enabled_.exchange(true)) return;
    try {
        write_clocks();
        record_into(api_, *this);
        try {
            enable_counters(api_);
        } catch (const Unavailable& reason) {
            notice(Layer::trace, "no unified-memory events are recorded: ", reason.what());
        }
        std::uint32_t version = 0;
        if (api_.get_version(&version) == cupti::ok && cupti::has_known_layouts(version)) {
            enable_kind(cupti::memory_operations, "allocations");
            enable_kind(cupti::copies, "copies");
            enable_copies_between_devices(version);
            enable_kind(cupti::fills, "fills of memory");
            enable_kind(cupti::concurrent_kernels, "kernels");
        } else {
            notice(Layer::trace, "no allocations, copies and kernels are recorded: the records of CUPTI version " +
                                     std::to_string(version) + " are unknown; use CUPTI of CUDA 12 or 13");
        }
        const auto fetch = [](void* trace) noexcept {
            Trace& self = *static_cast<Trace*>(trace);
            self.flush(0);
            if (self.watch_ != nullptr) self.watch_->passes(monotonic_ns());
            return events_until_now();
        };
        if (!fetching_.start(fetch, this))
            notice(Layer::trace, "records reach the profile only at the program's end: no thread could be started");
        ready_ = true;
    } catch (const std::exception& reason) {
        notice(Layer::trace, "CUDA calls are not traced: ", reason.what());
    } catch (...) {
        notice(Layer::trace, "CUDA calls are not traced: unknown error");
    }
}

void Trace::enable_kind(int kind, const char* what) {
    if (const cupti::Result result = api_.enable(kind); result != cupti::ok)
        notice(Layer::trace,
               std::string("no ") + what + " are recorded: " + why_failed(api_, result, "cuptiActivityEnable"));
}

// Where there is one GPU, nothing is copied between GPUs.
void Trace::enable_copies_between_devices(std::uint32_t version) {
    if (!cupti::loses_times_of_graphs(version))
        return enable_kind(cupti::copies_between_devices, "copies between GPUs");
    int devices = 0;
    if (calls_.driver().device_count == nullptr || calls_.driver().device_count(&devices) != 0 || devices != 1)
        notice(Layer::trace,
               "no copies between GPUs are recorded: with them, the CUPTI of CUDA 12.9, 13.0 and 13.1 would end a "
               "program that uses CUDA graphs; that of CUDA 12.8 or older, or from 13.2 on, records them");
}

void Trace::finish() noexcept {
    if (!home_.is_here() || !ready_.exchange(false)) return;
    if (watch_ != nullptr) watch_->finish(monotonic_ns());
    if (!fetching_.stop()) return;  // CUPTI is stuck; the program must end
    flush(cupti::flush_all);
}

void Trace::flush(std::uint32_t flags) noexcept {
    try {
        api_.flush(flags);
        if (flags != 0 || monotonic_ns() >= next_clocks_) write_clocks();
        std::size_t dropped = 0;
        if (api_.dropped_records(nullptr, 0, &dropped) != cupti::ok) dropped = 0;
        if (const std::uint64_t lost = dropped + incomplete_.exchange(0); lost != 0) {
            const LostRecord record{.time = monotonic_ns(), .records = lost};
            journal_.append(Kind::lost, {Journal::bytes_of(record)});
        }
        if (const std::uint64_t unfinished = unfinished_.exchange(0); unfinished != 0) {
            const UnfinishedRecord record{.time = monotonic_ns(), .records = unfinished};
            journal_.append(Kind::unfinished, {Journal::bytes_of(record)});
        }
    } catch (...) {
        return;  // the next flush tries again
    }
}

void Trace::write_clocks() {
    const ClockPair clocks = read_clocks(api_);
    const ClocksRecord record{.stamp = clocks.cupti_ns,
                              .time = static_cast<std::uint64_t>(std::llround(clocks.host_seconds * 1e9))};
    journal_.append(Kind::clocks, {Journal::bytes_of(record)});
    next_clocks_ = monotonic_ns() + clocks_ns;
}

// The times of the journal are CUPTI's own, so the record is decoded on a clock that begins with it.
void Trace::event(const cupti::CounterRecord& record, const std::uint64_t* processors) noexcept {
    try {
        const ClockPair start{record.start, 0};
        const MemoryEvent event = decode(record, processors, {start, start});
        const EventRecord written{
            .start_stamp = record.start,
            .end_stamp = record.start + static_cast<std::uint64_t>(std::llround((event.end - event.start) * 1e9)),
            .address = event.address,
            .bytes = event.bytes,
            .count = event.count,
            .kind = texts_.number(event.kind),
            .cause = texts_.number(event.cause),
            .source = texts_.number(event.source),
            .target = texts_.number(event.target),
            .site = places_.of_instruction(event.instruction),
            .unused = {}};
        journal_.append(Kind::event, {Journal::bytes_of(written)});
    } catch (...) {  // a counter of a later version, or no memory
        incomplete_.fetch_add(1);
    }
}

std::uint32_t Trace::shape_of(const cupti::KernelRecord& kernel) {
    const std::array<std::int32_t, 6> shape{kernel.grid[0],  kernel.grid[1],  kernel.grid[2],
                                            kernel.block[0], kernel.block[1], kernel.block[2]};
    const std::scoped_lock lock(shapes_mutex_);
    if (const auto known = shapes_.find(shape); known != shapes_.end()) return known->second;
    if (shapes_.size() >= most_shapes) return 0;
    const auto number = static_cast<std::uint32_t>(shapes_.size() + 1);
    shapes_.emplace(shape, number);
    const auto size = [&](std::size_t i) { return static_cast<std::uint32_t>(shape[i]); };
    const ShapeRecord record{.number = number,
                             .grid_x = size(0),
                             .grid_y = size(1),
                             .grid_z = size(2),
                             .block_x = size(3),
                             .block_y = size(4),
                             .block_z = size(5),
                             .unused = {}};
    journal_.append(Kind::shape, {Journal::bytes_of(record)});
    return number;
}

void Trace::unknown(const cupti::Record& record) noexcept {
    try {
        const auto write_copy = [this](const auto& copy, std::uint32_t from, std::uint32_t to, std::uint8_t direction,
                                       std::uint8_t source, std::uint8_t target) {
            if (copy.end == 0) return void(unfinished_.fetch_add(1));
            const CopyRecord written{.start_stamp = copy.start,
                                     .end_stamp = copy.end,
                                     .bytes = copy.bytes,
                                     .device = copy.device,
                                     .stream = copy.stream,
                                     .correlation = copy.correlation,
                                     .source_device = from,
                                     .target_device = to,
                                     .direction = direction,
                                     .source = source,
                                     .target = target,
                                     .unused = {}};
            journal_.append(Kind::copy, {Journal::bytes_of(written)});
        };
        if (record.kind == cupti::copies) {
            const auto& copy = as<cupti::CopyRecord>(record);
            write_copy(copy, copy.device, copy.device, copy.direction, copy.source, copy.target);
        } else if (record.kind == cupti::copies_between_devices) {
            const auto& copy = as<cupti::PeerCopyRecord>(record);
            write_copy(copy, copy.source_device, copy.target_device, copy.direction, copy.source, copy.target);
        } else if (record.kind == cupti::fills) {
            const auto& copy = as<cupti::FillRecord>(record);
            write_copy(copy, copy.device, copy.device, fill, 0, static_cast<std::uint8_t>(copy.memory));
        } else if (record.kind == cupti::concurrent_kernels) {
            const auto& kernel = as<cupti::KernelRecord>(record);
            if (kernel.end == 0) return void(unfinished_.fetch_add(1));
            const KernelRecord written{.start_stamp = kernel.start,
                                       .end_stamp = kernel.end,
                                       .device = kernel.device,
                                       .stream = kernel.stream,
                                       .correlation = kernel.correlation,
                                       .name = texts_.number(kernel.name == nullptr ? "" : kernel.name),
                                       .graph_node = kernel.graph_node,
                                       .shape = shape_of(kernel),
                                       .graph = kernel.graph};
            journal_.append(Kind::kernel, {Journal::bytes_of(written)});
        } else if (record.kind == cupti::memory_operations) {
            const auto& memory = as<cupti::MemoryRecord>(record);
            const MemoryRecord written{.stamp = memory.timestamp,
                                       .address = memory.address,
                                       .bytes = memory.bytes,
                                       .operation = static_cast<std::uint32_t>(memory.operation),
                                       .memory = static_cast<std::uint32_t>(memory.memory),
                                       .device = memory.device,
                                       .correlation = memory.correlation,
                                       .site = places_.of_instruction(memory.instruction),
                                       .name = texts_.number(memory.name == nullptr ? "" : memory.name)};
            journal_.append(Kind::memory, {Journal::bytes_of(written)});
        }
    } catch (...) {
        incomplete_.fetch_add(1);
    }
}

namespace {

// A CUPTI that the program has loaded already comes first, because two would exclude each other.
void show_cupti() {
    std::vector<std::string> paths;
    for (const char* const name : {"libcupti.so.13", "libcupti.so.12"})
        if (void* const loaded = dlopen(name, RTLD_LAZY | RTLD_NOLOAD); loaded != nullptr) {
            dlclose(loaded);
            paths.emplace_back(name);
        }
    const char* const named = secure_getenv("FIRSTTOUCH_PROFILE_CUPTI");
    std::string_view rest = named == nullptr ? "" : named;
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find(':'), rest.size());
        if (end > 0) paths.emplace_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (!paths.empty()) set_library_paths("cupti", std::move(paths));
}

// Never freed: CUPTI may call back for as long as the process runs.
Trace* running = nullptr;

void start_tracing() noexcept {
    const Undisturbed undisturbed;
    try {
        if (is_one("FIRSTTOUCH_EVENTS"))
            throw Unavailable("it records unified-memory events itself, because FIRSTTOUCH_EVENTS is 1");
        show_cupti();
        Recording* const recording = Recording::of_this_process();
        if (recording == nullptr) return;
        running = Trace::start(cupti::Cupti::instance(), *recording).release();
        at_exit([] { running->finish(); });
    } catch (const std::exception& reason) {
        notice(Layer::trace, "this process is not traced: ", reason.what());
    } catch (...) {
        notice(Layer::trace, "this process is not traced: unknown error");
    }
}

}  // namespace
}  // namespace firsttouch::inject

// The driver calls this within cuInit, if CUDA_INJECTION64_PATH names this library.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
    using namespace firsttouch::inject;
    static std::atomic<bool> is_called{false};
    const char* const patch = secure_getenv("FIRSTTOUCH_EXACT");
    if ((patch == nullptr && !is_one("FIRSTTOUCH_TRACE")) || journal() == nullptr || is_called.exchange(true)) return 1;
    patch == nullptr ? start_tracing() : start_exact(patch);
    return 1;
}
