#include "events/events.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>

#include "device/device.hpp"
#include "events/home_process.hpp"
#include "events/names.hpp"
#include "host/clock.hpp"

namespace firsttouch {

using namespace cupti;

namespace {

constexpr std::size_t buffer_bytes = 1 << 20;
constexpr std::size_t max_buffers = 64;
constexpr std::size_t max_records = 1 << 19;  // kept one by one between two calls of take: 56 MiB

struct alignas(8) RecordBuffer {
    std::array<std::uint8_t, buffer_bytes> bytes;
};

// A record as it is stored: of the fields that newer layouts add, only the devices of thrashing.
struct StoredRecord {
    CounterRecord record;
    std::array<std::uint64_t, 2> processors;  // bit mask of devices 0 to 127
};

// Names of the values of `flags`. Why bytes moved: a prefetch call; a fault; the driver's prefetching around a fault;
// freeing memory; moving pages that one side often accesses remotely.
constexpr std::array no_names = {""};
constexpr std::array migration_causes = {"", "prefetch", "fault", "speculative", "eviction", "access_counter"};
constexpr std::array access_types = {"", "read", "write", "atomic", "prefetch"};
constexpr std::array remote_map_causes = {"", "coherence", "thrashing", "policy", "out_of_memory", "eviction"};

// Which fields of a counter's record are valid.
struct RecordFormat {
    int counter_kind;
    const char* kind;
    std::span<const char* const> causes;  // names of the values of flags
    bool has_bytes = false;               // value is a number of bytes
    bool has_end = false;
    bool has_source = false, has_target = false;
};
constexpr RecordFormat record_formats[] = {
    {.counter_kind = bytes_h2d,
     .kind = "h2d",
     .causes = migration_causes,
     .has_bytes = true,
     .has_end = true,
     .has_source = true,
     .has_target = true},
    {.counter_kind = bytes_d2h,
     .kind = "d2h",
     .causes = migration_causes,
     .has_bytes = true,
     .has_end = true,
     .has_source = true,
     .has_target = true},
    {.counter_kind = cpu_page_fault, .kind = "cpu_fault", .causes = access_types},
    {.counter_kind = gpu_page_fault, .kind = "gpu_fault", .causes = access_types, .has_end = true, .has_source = true},
    {.counter_kind = thrashing, .kind = "thrashing", .causes = no_names, .has_bytes = true},
    {.counter_kind = throttling, .kind = "throttling", .causes = no_names, .has_end = true, .has_source = true},
    {.counter_kind = remote_map,
     .kind = "remote_map",
     .causes = remote_map_causes,
     .has_bytes = true,
     .has_source = true,
     .has_target = true},
    {.counter_kind = bytes_d2d,
     .kind = "d2d",
     .causes = migration_causes,
     .has_bytes = true,
     .has_end = true,
     .has_source = true,
     .has_target = true},
};
constexpr std::uint32_t in_cpu = 1;  // a flag of thrashing and throttling: the CPU takes part

const RecordFormat* format_of(int counter_kind) {
    const auto format = std::ranges::find(record_formats, counter_kind, &RecordFormat::counter_kind);
    return format == std::end(record_formats) ? nullptr : format;
}

// The kinds of the totals: the positions of their formats. d2d moves neither to nor from the host.
std::vector<KindOfEvent> kinds_of_totals() {
    const auto timed_as = [](const RecordFormat& format) {
        if (format.counter_kind == bytes_h2d) return TimedAs::move_to_device;
        if (format.counter_kind == bytes_d2h) return TimedAs::move_to_host;
        if (format.counter_kind == gpu_page_fault) return TimedAs::fault;
        return format.has_end ? TimedAs::itself : TimedAs::nothing;
    };
    std::vector<KindOfEvent> kinds;
    for (const RecordFormat& format : record_formats) kinds.push_back({format.kind, timed_as(format)});
    return kinds;
}

// Adds up all records that CUPTI's callbacks deliver, and stores the first ones. The callbacks have no user pointer and
// run on CUPTI's threads, possibly late, so there is one instance that is never destroyed.
class Recorder {
  public:
    static Recorder& instance() {
        static Recorder* const recorder = new Recorder;
        return *recorder;
    }

    // Throws Unavailable if events are already being recorded. If there is a sink, records go there alone.
    void begin(const Functions& api, std::uint32_t version, RecordSink* sink = nullptr) {
        const std::scoped_lock lock(mutex_);
        if (api_ != nullptr) throw Unavailable("unified-memory events are already being recorded in this process");
        api_ = &api;
        sink_ = sink;
        has_processors_ = version >= version_with_processors;
        records_.clear();
        unlisted_ = lost_ = 0;
    }
    void end() {
        const std::scoped_lock lock(mutex_);
        api_ = nullptr;
    }
    bool has_processors() const { return has_processors_; }

    std::vector<StoredRecord> take() {
        const std::scoped_lock lock(mutex_);
        return std::exchange(records_, {});
    }
    std::uint64_t take_lost() {
        const std::scoped_lock lock(mutex_);
        return std::exchange(lost_, 0);
    }
    std::uint64_t take_unlisted() {
        const std::scoped_lock lock(mutex_);
        return std::exchange(unlisted_, 0);
    }
    std::uint64_t events() const noexcept { return events_; }
    // Calls `use` with the totals. No record is added meanwhile.
    auto with_totals(auto&& use) {
        const std::scoped_lock lock(mutex_);
        return use(totals_);
    }

    // The callbacks. If there is no buffer, CUPTI drops records and counts them. A forked process, in which the mutex
    // may be locked for ever and CUPTI may still flush at the end, has none.
    static void request(std::uint8_t** bytes, std::size_t* size, std::size_t* record_limit) noexcept {
        RecordBuffer* const buffer = instance().home_.is_here() ? instance().take_buffer() : nullptr;
        *bytes = buffer == nullptr ? nullptr : buffer->bytes.data();
        *size = buffer == nullptr ? 0 : buffer_bytes;
        *record_limit = 0;  // no limit
    }
    static void complete(void*, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) noexcept {
        if (buffer != nullptr && instance().home_.is_here()) instance().read_buffer(buffer, valid);
    }

  private:
    RecordBuffer* take_buffer() noexcept {
        const std::scoped_lock lock(mutex_);
        try {
            if (free_.empty() && buffers_.size() < max_buffers) {
                free_.reserve(max_buffers);
                buffers_.push_back(std::make_unique<RecordBuffer>());
                free_.push_back(buffers_.back().get());
            }
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
        if (free_.empty()) return nullptr;
        RecordBuffer* const buffer = free_.back();
        free_.pop_back();
        return buffer;
    }
    // Stores the records of a buffer and makes it free again.
    void read_buffer(std::uint8_t* bytes, std::size_t valid) noexcept {
        const std::scoped_lock lock(mutex_);
        Record* record = nullptr;
        while (api_ != nullptr && api_->next_record(bytes, valid, &record) == ok) {
            if (record->kind == unified_memory_counter) ++events_;
            if (sink_ != nullptr)
                hand_over(record);
            else if (record->kind == unified_memory_counter)
                add(record);
        }
        const auto buffer = std::ranges::find_if(buffers_, [&](const auto& b) { return b->bytes.data() == bytes; });
        if (buffer != buffers_.end()) free_.push_back(buffer->get());
    }
    void hand_over(const Record* record) noexcept {
        if (record->kind != unified_memory_counter) return sink_->unknown(*record);
        const auto* const counter = reinterpret_cast<const CounterRecord*>(record);
        sink_->event(*counter, has_processors_ ? reinterpret_cast<const CounterRecord3*>(record)->processors : nullptr);
    }
    // Adds a record to the totals, and stores it if there is room.
    void add(const Record* record) noexcept {
        const auto& counter = *reinterpret_cast<const CounterRecord*>(record);
        const RecordFormat* const format = format_of(counter.counter_kind);
        if (format == nullptr) return;
        const std::size_t cause = counter.flags < format->causes.size() ? counter.flags : 0;
        try {
            totals_.add(static_cast<std::size_t>(format - record_formats), cause, counter.start,
                        format->has_end ? counter.end : counter.start, format->has_bytes ? counter.value : 0,
                        counter.counter_kind == gpu_page_fault ? counter.value : 0);
        } catch (const std::bad_alloc&) {
            ++lost_;
        }
        if (records_.size() >= max_records) {
            ++unlisted_;
            return;
        }
        StoredRecord stored{counter, {}};
        if (has_processors_)
            std::copy_n(reinterpret_cast<const CounterRecord3*>(record)->processors, 2, stored.processors.begin());
        try {
            records_.push_back(stored);
        } catch (const std::bad_alloc&) {
            ++unlisted_;
        }
    }

    const HomeProcess home_;
    std::mutex mutex_;
    const Functions* api_ = nullptr;
    RecordSink* sink_ = nullptr;
    bool has_processors_ = false;
    std::vector<std::unique_ptr<RecordBuffer>> buffers_;
    std::vector<RecordBuffer*> free_;
    std::vector<StoredRecord> records_;
    std::atomic<std::uint64_t> events_{0};
    std::uint64_t unlisted_ = 0;  // added to the totals, but not stored
    std::uint64_t lost_ = 0;      // not added, for lack of memory
    EventTotals totals_{kinds_of_totals()};
};

std::string processor_name(std::uint32_t id) { return id == cpu_id ? "cpu" : "cuda:" + std::to_string(id); }

// Returns the names of the processors of a thrashing record, the CPU first.
std::string thrashing_processors(const CounterRecord& record, const std::uint64_t* processors) {
    const std::uint64_t mask[] = {processors == nullptr ? record.source : processors[0],
                                  processors == nullptr ? 0 : processors[1]};
    std::string names = (record.flags & in_cpu) != 0 ? "cpu" : "";
    for (std::uint32_t id = 0; id < 128; ++id) {
        if ((mask[id / 64] >> (id % 64) & 1) == 0) continue;
        if (!names.empty()) names += '+';
        names += processor_name(id);
    }
    return names;
}

struct ErrorText {
    Result code;
    const char* text;
};
constexpr ErrorText error_texts[] = {
    {um_not_supported, "CUPTI does not support unified-memory events on this platform"},
    {um_not_on_device,
     "CUPTI does not support unified-memory events on one of the GPUs; exclude it with CUDA_VISIBLE_DEVICES"},
    {um_not_on_non_p2p_devices,
     "CUPTI does not support unified-memory events on GPUs without peer access to each other; select one with "
     "CUDA_VISIBLE_DEVICES"},
    {um_not_with_mps, "CUPTI does not support unified-memory events under MPS; stop the MPS server"},
    {another_subscriber,
     "another tool uses CUPTI in this process (Nsight, cuda-gdb, compute-sanitizer or a framework's profiler); run "
     "without it"},
    {insufficient_privileges, "CUPTI has no permission to profile; run as root, or load NVIDIA's kernel module with "
                              "NVreg_RestrictProfilingToAdminUsers=0"},
    {virtualised_privileges, "this virtual GPU does not permit profiling; enable it in the hypervisor"},
    {virtualised, "CUPTI does not work on this virtual GPU"},
    {confidential_computing, "CUPTI does not work in confidential computing mode"},
    {mig, "CUPTI does not work on this MIG device"},
    {wsl, "CUPTI does not work under this Windows Subsystem for Linux"},
    {not_initialised,
     "CUPTI failed to initialise; it may not match the driver: install the release for the driver's CUDA version"},
    {not_compatible, "CUPTI does not match this driver; install the release for the driver's CUDA version"},
};

std::string result_text(const Functions& api, Result result) {
    const char* text = nullptr;
    const bool known = api.get_result_string(result, &text) == ok && text != nullptr;
    return std::string(known ? text : "unknown error") + " (" + std::to_string(result) + ")";
}

void require(const Functions& api, Result result, const char* call) {
    if (result != ok) throw Unavailable(why_failed(api, result, call));
}

std::uint32_t version_of(const Functions& api) {
    std::uint32_t version = 0;
    return api.get_version(&version) == ok ? version : 0;
}

CounterConfig enabled_counter(int counter_kind) {
    return {.scope = all_devices, .kind = counter_kind, .device = 0, .enable = 1};
}

}  // namespace

double ClockMap::operator()(std::uint64_t cupti_ns) const {
    const auto difference = [](std::uint64_t from, std::uint64_t to) {
        return static_cast<double>(std::int64_t(to - from));
    };
    if (cupti_ns <= first.cupti_ns) return first.host_seconds + difference(first.cupti_ns, cupti_ns) * 1e-9;
    if (cupti_ns >= last.cupti_ns) return last.host_seconds + difference(last.cupti_ns, cupti_ns) * 1e-9;
    return first.host_seconds + (last.host_seconds - first.host_seconds) * difference(first.cupti_ns, cupti_ns) /
                                    difference(first.cupti_ns, last.cupti_ns);
}

MemoryEvent decode(const CounterRecord& record, const std::uint64_t* processors, const ClockMap& clock) {
    const RecordFormat* const format = format_of(record.counter_kind);
    if (format == nullptr) throw std::invalid_argument("unknown kind of counter");
    MemoryEvent event{.kind = format->kind, .start = clock(record.start), .address = record.address};
    event.end = format->has_end ? std::max(event.start, clock(record.end)) : event.start;
    if (format->has_bytes) event.bytes = record.value;
    if (record.flags < format->causes.size()) event.cause = format->causes[record.flags];
    if (format->has_source) event.source = processor_name(record.source);
    if (format->has_target) event.target = processor_name(record.target);
    if (record.counter_kind == gpu_page_fault) event.count = record.value;
    if (record.counter_kind == cpu_page_fault) event.source = "cpu", event.instruction = record.value;
    if (record.counter_kind == thrashing) event.source = thrashing_processors(record, processors);
    if (record.counter_kind == throttling && (record.flags & in_cpu) != 0) event.source = "cpu";
    return event;
}

std::string describe_instruction(std::uint64_t address) {
    Dl_info info{};
    char offset[32];
    if (address == 0 || dladdr(reinterpret_cast<const void*>(address), &info) == 0) return "";
    const bool has_symbol = info.dli_sname != nullptr;
    const void* const base = has_symbol ? info.dli_saddr : info.dli_fbase;
    std::snprintf(offset, sizeof offset, "+0x%llx",
                  static_cast<unsigned long long>(address - reinterpret_cast<std::uintptr_t>(base)));
    if (!has_symbol) {
        const std::string file = info.dli_fname == nullptr ? "" : info.dli_fname;
        return file.substr(file.rfind('/') + 1) + offset;
    }
    return demangled(info.dli_sname).value_or(info.dli_sname) + offset;
}

std::string why_failed(const Functions& api, Result result, const char* call) {
    const auto entry = std::ranges::find(error_texts, result, &ErrorText::code);
    if (entry != std::end(error_texts)) return entry->text;
    return std::string(call) + " failed: " + result_text(api, result);
}

Subscriber subscribe(const Functions& api, Callback callback, void* user) {
    Subscriber subscriber = nullptr;
    require(api, api.subscribe(&subscriber, callback, user), "cuptiSubscribe");
    return subscriber;
}

void record_into(const Functions& api, RecordSink& sink) {
    Recorder::instance().begin(api, version_of(api), &sink);
    const Result result = api.register_callbacks(&Recorder::request, &Recorder::complete);
    if (result != ok) stop_recording();
    require(api, result, "cuptiActivityRegisterCallbacks");
}

void stop_recording() { Recorder::instance().end(); }

std::uint64_t events_until_now() noexcept { return Recorder::instance().events(); }

// Configures all counters at once. If that fails, configures those that can be configured one by one.
std::vector<std::string> enable_counters(const Functions& api) {
    std::vector<CounterConfig> all;
    for (const RecordFormat& format : record_formats) all.push_back(enabled_counter(format.counter_kind));
    const auto configure = [&](std::vector<CounterConfig> configs) {
        return api.configure(configs.data(), static_cast<std::uint32_t>(configs.size()));
    };
    if (const Result result = configure(all); result != ok) {
        std::erase_if(all, [&](const CounterConfig& config) { return configure({config}) != ok; });
        require(api, all.empty() || configure(all) != ok ? result : ok, "cuptiActivityConfigureUnifiedMemoryCounter");
    }
    require(api, api.enable(unified_memory_counter), "cuptiActivityEnable");
    std::vector<std::string> kinds;
    for (const CounterConfig& config : all) kinds.emplace_back(format_of(config.kind)->kind);
    return kinds;
}

// CUPTI's clock between two readings of the host's clock. The best of five attempts.
ClockPair read_clocks(const Functions& api) {
    ClockPair best;
    double closest = 1e9;
    for (int i = 0; i < 5; ++i) {
        std::uint64_t cupti_ns = 0;
        const double before = now();
        if (const Result result = api.get_timestamp(&cupti_ns); result != ok)
            throw VendorError("cuptiGetTimestamp: " + result_text(api, result));
        const double after = now();
        if (after - before < closest) best = {cupti_ns, (before + after) / 2}, closest = after - before;
    }
    return best;
}

// Subscribing fails if another tool uses CUPTI in this process.
EventSource::EventSource(const Functions& api)
    : api_(api), subscriber_(subscribe(
                     api, [](void*, int, std::uint32_t, const void*) {}, nullptr)) {
    bool recording = false;
    try {
        Recorder::instance().begin(api_, version_of(api_));
        recording = true;
        require(api_, api_.register_callbacks(&Recorder::request, &Recorder::complete),
                "cuptiActivityRegisterCallbacks");
        kinds_ = enable_counters(api_);
        restart();
        const auto fetch_events = [](void* source) noexcept {
            static_cast<EventSource*>(source)->fetch();
            return events_until_now();
        };
        fetching_.start(fetch_events, this);  // without a thread, they are fetched by take alone
    } catch (...) {
        if (recording) Recorder::instance().end();
        api_.unsubscribe(subscriber_);
        throw;
    }
}

EventSource::~EventSource() {
    while (!fetching_.stop()) {
    }
    api_.disable(unified_memory_counter);
    api_.flush(0);
    Recorder::instance().end();
    api_.unsubscribe(subscriber_);
}

Result EventSource::fetch() noexcept {
    const std::scoped_lock lock(fetch_mutex_);
    return api_.flush(0);
}

std::vector<MemoryEvent> EventSource::take() {
    check(fetch(), "cuptiActivityFlushAll");
    const ClockPair clocks = read_clocks(api_);
    const ClockMap clock{last_clocks_, clocks};
    last_clocks_ = clocks;
    std::vector<MemoryEvent> events;
    Recorder& recorder = Recorder::instance();
    for (const StoredRecord& stored : recorder.take())
        if (format_of(stored.record.counter_kind) != nullptr)
            events.push_back(
                decode(stored.record, recorder.has_processors() ? stored.processors.data() : nullptr, clock));
    return events;
}

std::uint64_t EventSource::dropped() {
    std::size_t dropped = 0;
    check(api_.dropped_records(nullptr, 0, &dropped), "cuptiActivityGetNumDroppedRecords");
    return dropped + Recorder::instance().take_lost();
}

std::uint64_t EventSource::unlisted() { return Recorder::instance().take_unlisted(); }

void EventSource::restart() {
    origin_clocks_ = last_clocks_ = read_clocks(api_);
    Recorder::instance().with_totals([&](EventTotals& totals) { totals.restart(origin_clocks_.cupti_ns); });
}

// The time is read before the recorder is locked, since CUPTI's threads may hold a lock of CUPTI's while they wait for
// the recorder. A record can only be assigned wrongly if it starts, ends and is delivered between the two.
std::size_t EventSource::mark(const std::string& phase, bool restart_course) {
    std::uint64_t now = 0;
    check(api_.get_timestamp(&now), "cuptiGetTimestamp");
    return Recorder::instance().with_totals(
        [&](EventTotals& totals) { return totals.mark(phase, now, restart_course); });
}

TimedPhases EventSource::phases(std::size_t first) {
    const ClockPair clocks = read_clocks(api_);
    return {
        Recorder::instance().with_totals([&](EventTotals& totals) { return totals.phases(first, clocks.cupti_ns); }),
        {origin_clocks_, clocks}};
}

TimedCourse EventSource::course() {
    const ClockMap clock{origin_clocks_, read_clocks(api_)};
    return Recorder::instance().with_totals([&](EventTotals& totals) {
        const EventCourse& course = totals.course();
        return TimedCourse{clock(course.origin_ns()), course.width_ns(), course.rows()};
    });
}

std::vector<std::string> migration_cause_names() { return {migration_causes.begin() + 1, migration_causes.end()}; }

const char* kind_name(std::size_t kind) { return record_formats[kind].kind; }
const char* cause_name(std::size_t kind, std::size_t cause) { return record_formats[kind].causes[cause]; }

void EventSource::check(Result result, const char* call) const {
    if (result != ok) throw VendorError(std::string(call) + ": " + result_text(api_, result));
}

}  // namespace firsttouch
