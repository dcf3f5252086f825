#include "events/events.hpp"

#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>

#include "device/device.hpp"
#include "host/clock.hpp"

namespace firsttouch {

using namespace cupti;

namespace {

constexpr std::size_t buffer_bytes = 1 << 20;
constexpr std::size_t most_buffers = 64;
constexpr std::size_t most_records = 1 << 19;  // held between two calls of take, 56 MiB

struct alignas(8) RecordBuffer {
    std::array<std::uint8_t, buffer_bytes> bytes;
};

// A record without what follows it in the newest layout, save the devices of thrashing.
struct Held {
    CounterRecord record;
    std::array<std::uint64_t, 2> processors;  // devices 0 to 127
};

// Where CUPTI's callbacks store records. They carry no user pointer and run on CUPTI's threads, possibly late, so it
// lives until the process ends.
class Recorder {
  public:
    static Recorder& instance() {
        static Recorder* const one = new Recorder;
        return *one;
    }

    // Throws Unavailable where events are being recorded already.
    void begin(const Functions& api, std::uint32_t version) {
        const std::scoped_lock lock(mutex_);
        if (api_ != nullptr) throw Unavailable("unified-memory events are being recorded in this process already");
        api_ = &api;
        has_processors_ = version >= version_with_processors;
        held_.clear();
        lost_ = 0;
    }
    void end() {
        const std::scoped_lock lock(mutex_);
        api_ = nullptr;
    }
    bool has_processors() const { return has_processors_; }

    std::vector<Held> take() {
        const std::scoped_lock lock(mutex_);
        return std::exchange(held_, {});
    }
    std::uint64_t take_lost() {
        const std::scoped_lock lock(mutex_);
        return std::exchange(lost_, 0);
    }

    // The callbacks. CUPTI counts the records for which it got no buffer.
    static void request(std::uint8_t** buffer, std::size_t* size, std::size_t* most) noexcept {
        RecordBuffer* const given = instance().lend();
        *buffer = given == nullptr ? nullptr : given->bytes.data();
        *size = given == nullptr ? 0 : buffer_bytes;
        *most = 0;  // as many as have room
    }
    static void complete(void*, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) noexcept {
        if (buffer != nullptr) instance().accept(buffer, valid);
    }

  private:
    RecordBuffer* lend() noexcept {
        const std::scoped_lock lock(mutex_);
        try {
            if (free_.empty() && buffers_.size() < most_buffers) {
                free_.reserve(most_buffers);
                buffers_.push_back(std::make_unique<RecordBuffer>());
                free_.push_back(buffers_.back().get());
            }
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
        if (free_.empty()) return nullptr;
        RecordBuffer* const given = free_.back();
        free_.pop_back();
        return given;
    }
    void accept(std::uint8_t* buffer, std::size_t valid) noexcept {
        const std::scoped_lock lock(mutex_);
        Record* record = nullptr;
        while (api_ != nullptr && api_->next_record(buffer, valid, &record) == ok)
            if (record->kind == unified_memory_counter) keep(record);
        const auto own = std::ranges::find_if(buffers_, [&](const auto& one) { return one->bytes.data() == buffer; });
        if (own != buffers_.end()) free_.push_back(own->get());
    }
    void keep(const Record* record) noexcept {
        if (held_.size() >= most_records) {
            ++lost_;
            return;
        }
        Held one{*reinterpret_cast<const CounterRecord*>(record), {}};
        if (has_processors_)
            std::copy_n(reinterpret_cast<const CounterRecord3*>(record)->processors, 2, one.processors.begin());
        try {
            held_.push_back(one);
        } catch (const std::bad_alloc&) {
            ++lost_;
        }
    }

    std::mutex mutex_;
    const Functions* api_ = nullptr;
    bool has_processors_ = false;
    std::vector<std::unique_ptr<RecordBuffer>> buffers_;
    std::vector<RecordBuffer*> free_;
    std::vector<Held> held_;
    std::uint64_t lost_ = 0;
};

// The names of flags, by number.
constexpr std::array no_names = {""};
constexpr std::array move_causes = {"", "prefetch", "fault", "speculative", "eviction", "access_counter"};
constexpr std::array accesses = {"", "read", "write", "atomic", "prefetch"};
constexpr std::array map_causes = {"", "coherence", "thrashing", "policy", "out_of_memory", "eviction"};

// How each counter's record reads: which of its fields mean something, and what.
struct Reading {
    int counter_kind;
    const char* kind;
    std::span<const char* const> flags;  // names of the cause
    bool sized = false;                  // value is bytes
    bool lasting = false;                // end means something
    bool from = false, to = false;       // source and target mean something
};
constexpr Reading readings[] = {
    {.counter_kind = bytes_h2d,
     .kind = "h2d",
     .flags = move_causes,
     .sized = true,
     .lasting = true,
     .from = true,
     .to = true},
    {.counter_kind = bytes_d2h,
     .kind = "d2h",
     .flags = move_causes,
     .sized = true,
     .lasting = true,
     .from = true,
     .to = true},
    {.counter_kind = cpu_page_fault, .kind = "cpu_fault", .flags = accesses},
    {.counter_kind = gpu_page_fault, .kind = "gpu_fault", .flags = accesses, .lasting = true, .from = true},
    {.counter_kind = thrashing, .kind = "thrashing", .flags = no_names, .sized = true},
    {.counter_kind = throttling, .kind = "throttling", .flags = no_names, .lasting = true, .from = true},
    {.counter_kind = remote_map, .kind = "remote_map", .flags = map_causes, .sized = true, .from = true, .to = true},
    {.counter_kind = bytes_d2d,
     .kind = "d2d",
     .flags = move_causes,
     .sized = true,
     .lasting = true,
     .from = true,
     .to = true},
};
constexpr std::uint32_t in_cpu = 1;  // the flag of thrashing and throttling

const Reading* reading_of(int counter_kind) {
    const auto found = std::ranges::find(readings, counter_kind, &Reading::counter_kind);
    return found == std::end(readings) ? nullptr : found;
}

std::string processor(std::uint32_t id) { return id == the_cpu ? "cpu" : "cuda:" + std::to_string(id); }

// The devices of a thrashing record, the CPU first.
std::string contenders(const CounterRecord& record, const std::uint64_t* processors) {
    const std::uint64_t mask[] = {processors == nullptr ? record.source : processors[0],
                                  processors == nullptr ? 0 : processors[1]};
    std::string names = (record.flags & in_cpu) != 0 ? "cpu" : "";
    for (std::uint32_t id = 0; id < 128; ++id) {
        if ((mask[id / 64] >> (id % 64) & 1) == 0) continue;
        if (!names.empty()) names += '+';
        names += processor(id);
    }
    return names;
}

struct Refusal {
    Result code;
    const char* sentence;
};
constexpr Refusal refusals[] = {
    {um_not_supported, "CUPTI offers no unified-memory events on this platform"},
    {um_not_on_device,
     "CUPTI offers no unified-memory events on one of the GPUs here; leave it out by CUDA_VISIBLE_DEVICES"},
    {um_not_without_peers,
     "CUPTI offers no unified-memory events across GPUs that do not reach each other's memory; show it one by "
     "CUDA_VISIBLE_DEVICES"},
    {um_not_with_mps, "CUPTI offers no unified-memory events under MPS; stop the MPS server"},
    {another_subscriber,
     "another tool holds CUPTI in this process (Nsight, cuda-gdb, compute-sanitizer or a framework's profiler); run "
     "without it"},
    {insufficient_privileges, "CUPTI lacks the permission to profile; be root, or load NVIDIA's module with "
                              "NVreg_RestrictProfilingToAdminUsers=0"},
    {virtualised_privileges, "this virtual GPU does not permit profiling; ask for it in the hypervisor"},
    {virtualised, "CUPTI does not work on this virtual GPU"},
    {confidential_computing, "CUPTI does not work in confidential computing mode"},
    {mig, "CUPTI does not work on this MIG device"},
    {wsl, "CUPTI does not work under this Windows Subsystem for Linux"},
    {not_initialised, "CUPTI does not start; its release may not fit the driver: install the one of the driver's CUDA"},
    {not_compatible, "CUPTI does not fit this driver; install the release of the driver's CUDA"},
};

std::string result_words(const Functions& api, Result result) {
    const char* words = nullptr;
    const bool known = api.get_result_string(result, &words) == ok && words != nullptr;
    return std::string(known ? words : "unknown error") + " (" + std::to_string(result) + ")";
}

Unavailable refusal(const Functions& api, Result result, const char* call) {
    const auto found = std::ranges::find(refusals, result, &Refusal::code);
    if (found != std::end(refusals)) return Unavailable(found->sentence);
    return Unavailable(std::string("CUPTI refused ") + call + ": " + result_words(api, result));
}

CounterConfig wanted(int counter_kind) {
    return {.scope = all_devices, .kind = counter_kind, .device = 0, .enable = 1};
}

}  // namespace

double ClockMap::operator()(std::uint64_t theirs) const {
    const auto since = [](std::uint64_t from, std::uint64_t to) {
        return static_cast<double>(std::int64_t(to - from));
    };
    if (theirs <= first.theirs) return first.ours + since(first.theirs, theirs) * 1e-9;
    if (theirs >= last.theirs) return last.ours + since(last.theirs, theirs) * 1e-9;
    return first.ours + (last.ours - first.ours) * since(first.theirs, theirs) / since(first.theirs, last.theirs);
}

MemoryEvent decode(const CounterRecord& record, const std::uint64_t* processors, const ClockMap& clock) {
    const Reading* const reading = reading_of(record.counter_kind);
    if (reading == nullptr) throw std::invalid_argument("not a counter known here");
    MemoryEvent event{.kind = reading->kind, .start = clock(record.start), .address = record.address};
    event.end = reading->lasting ? std::max(event.start, clock(record.end)) : event.start;
    if (reading->sized) event.bytes = record.value;
    if (record.flags < reading->flags.size()) event.cause = reading->flags[record.flags];
    if (reading->from) event.source = processor(record.source);
    if (reading->to) event.target = processor(record.target);
    if (record.counter_kind == gpu_page_fault) event.count = record.value;
    if (record.counter_kind == cpu_page_fault) event.source = "cpu", event.instruction = record.value;
    if (record.counter_kind == thrashing) event.source = contenders(record, processors);
    if (record.counter_kind == throttling && (record.flags & in_cpu) != 0) event.source = "cpu";
    return event;
}

std::string describe_instruction(std::uint64_t address) {
    Dl_info found{};
    char offset[32];
    if (address == 0 || dladdr(reinterpret_cast<const void*>(address), &found) == 0) return "";
    const bool named = found.dli_sname != nullptr;
    const void* const base = named ? found.dli_saddr : found.dli_fbase;
    std::snprintf(offset, sizeof offset, "+0x%llx",
                  static_cast<unsigned long long>(address - reinterpret_cast<std::uintptr_t>(base)));
    if (!named) {
        const std::string file = found.dli_fname == nullptr ? "" : found.dli_fname;
        return file.substr(file.rfind('/') + 1) + offset;
    }
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> plain(
        abi::__cxa_demangle(found.dli_sname, nullptr, nullptr, &status), &std::free);
    return std::string(plain != nullptr ? plain.get() : found.dli_sname) + offset;
}

EventSource::EventSource(const Functions& api) : api_(api) {
    // Every client must subscribe first: that is how two of them learn of each other.
    const auto ignore = [](void*, int, std::uint32_t, const void*) {};
    if (const Result result = api_.subscribe(&subscriber_, ignore, nullptr); result != ok)
        throw refusal(api_, result, "cuptiSubscribe");
    bool recording = false;
    try {
        if (api_.get_version(&version_) != ok) version_ = 0;
        Recorder::instance().begin(api_, version_);
        recording = true;
        const auto call = [&](Result result, const char* name) {
            if (result != ok) throw refusal(api_, result, name);
        };
        call(api_.register_callbacks(&Recorder::request, &Recorder::complete), "cuptiActivityRegisterCallbacks");
        configure();
        call(api_.enable(unified_memory_counter), "cuptiActivityEnable");
        since_ = read_clocks();
    } catch (...) {
        if (recording) Recorder::instance().end();
        api_.unsubscribe(subscriber_);
        throw;
    }
}

EventSource::~EventSource() {
    api_.disable(unified_memory_counter);
    api_.flush(0);
    Recorder::instance().end();
    api_.unsubscribe(subscriber_);
}

// All counters at once; where that is refused, those that are accepted one by one, then together.
void EventSource::configure() {
    std::vector<CounterConfig> all;
    for (const Reading& reading : readings) all.push_back(wanted(reading.counter_kind));
    const auto accepts = [&](std::vector<CounterConfig> some) {
        return api_.configure(some.data(), static_cast<std::uint32_t>(some.size()));
    };
    if (const Result result = accepts(all); result != ok) {
        std::erase_if(all, [&](const CounterConfig& one) { return accepts({one}) != ok; });
        if (all.empty() || accepts(all) != ok)
            throw refusal(api_, result, "cuptiActivityConfigureUnifiedMemoryCounter");
    }
    for (const CounterConfig& one : all) kinds_.emplace_back(reading_of(one.kind)->kind);
}

// Both clocks at one moment: the reading between the two closest readings of ours.
ClockPair EventSource::read_clocks() const {
    ClockPair best;
    double closest = 1e9;
    for (int i = 0; i < 5; ++i) {
        std::uint64_t theirs = 0;
        const double before = now();
        check(api_.get_timestamp(&theirs), "cuptiGetTimestamp");
        const double after = now();
        if (after - before < closest) best = {theirs, (before + after) / 2}, closest = after - before;
    }
    return best;
}

std::vector<MemoryEvent> EventSource::take() {
    check(api_.flush(0), "cuptiActivityFlushAll");
    const ClockPair until = read_clocks();
    const ClockMap clock{since_, until};
    since_ = until;
    std::vector<MemoryEvent> events;
    Recorder& recorder = Recorder::instance();
    for (const Held& held : recorder.take())
        if (reading_of(held.record.counter_kind) != nullptr)
            events.push_back(decode(held.record, recorder.has_processors() ? held.processors.data() : nullptr, clock));
    return events;
}

std::uint64_t EventSource::dropped() {
    std::size_t theirs = 0;
    check(api_.dropped_records(nullptr, 0, &theirs), "cuptiActivityGetNumDroppedRecords");
    return theirs + Recorder::instance().take_lost();
}

void EventSource::check(Result result, const char* call) const {
    if (result != ok) throw VendorError(std::string(call) + ": " + result_words(api_, result));
}

}  // namespace firsttouch
