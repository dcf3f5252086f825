// Unified-memory events: migrations, page faults and mappings by the driver, with times on the clock of now().
// docs/events.md defines each kind.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "events/cupti_api.hpp"
#include "events/fetching.hpp"
#include "events/totals.hpp"

namespace firsttouch {

struct MemoryEvent {
    const char* kind = "";      // h2d, d2h, d2d, cpu_fault, gpu_fault, thrashing, throttling, remote_map
    double start = 0, end = 0;  // seconds; equal where the kind has no duration
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;        // size of the region; 0 for faults and throttling
    std::uint64_t count = 1;        // number of page faults in a gpu_fault
    std::string source, target;     // "cpu", "cuda:0", several joined by '+'; "" if the kind has none
    const char* cause = "";         // of a migration or remote map, or the access type of a fault; "" if unknown
    std::uint64_t instruction = 0;  // program counter of a cpu_fault
};

// Converts times on CUPTI's clock to the clock of now(): interpolates between two simultaneous readings of both clocks,
// and extrapolates outside them as if both had the same rate.
struct ClockPair {
    std::uint64_t cupti_ns = 0;
    double host_seconds = 0;
};
struct ClockMap {
    ClockPair first, last;
    double operator()(std::uint64_t cupti_ns) const;
};

// Converts a record to an event. `processors` has the devices of a thrashing record as a bit mask; it is null if the
// record's version has no such field.
MemoryEvent decode(const cupti::CounterRecord& record, const std::uint64_t* processors, const ClockMap& clock);

// Returns the location of a program counter of this process as "function+0x12", or "file+0x1234" if the function is
// unknown, or "" if the file is unknown too.
std::string describe_instruction(std::uint64_t address);

// Totals with the clock by which their times are converted.
struct TimedPhases {
    std::vector<PhaseTotals> phases;
    ClockMap clock;
};
struct TimedCourse {
    double start = 0;  // on the clock of now()
    std::uint64_t bin_ns = 0;
    std::vector<EventCourse::CauseCourse> rows;
};
// The names of a kind and of a cause in totals.
const char* kind_name(std::size_t kind);
// Why bytes may move.
std::vector<std::string> migration_cause_names();
const char* cause_name(std::size_t kind, std::size_t cause);

// Receives records one at a time, from any thread, instead of the totals and lists of an EventSource.
class RecordSink {
  public:
    virtual ~RecordSink() = default;
    virtual void event(const cupti::CounterRecord& record, const std::uint64_t* processors) noexcept = 0;
    virtual void unknown(const cupti::Record& record) noexcept = 0;  // of any other kind
};

// The steps in which recording begins. They throw Unavailable with the reason. CUDA must be initialised for the last.
cupti::Subscriber subscribe(const cupti::Functions& api, cupti::Callback callback, void* user);
// All records go to the sink, until stop_recording returns.
void record_into(const cupti::Functions& api, RecordSink& sink);
void stop_recording();
// Returns how many unified-memory events this process has received.
std::uint64_t events_until_now() noexcept;
// Enables the counters of all events that CUPTI accepts. Returns their kinds.
std::vector<std::string> enable_counters(const cupti::Functions& api);

// Reads both clocks at the same time. Throws VendorError.
ClockPair read_clocks(const cupti::Functions& api);

// Returns what a failed call means, in one sentence.
std::string why_failed(const cupti::Functions& api, cupti::Result result, const char* call);

// Records the events of the whole process during its lifetime, and fetches them regularly. Only one may exist at a
// time.
class EventSource {
  public:
    // CUDA must be initialised in this process (cuInit). Throws Unavailable with the reason if events cannot be
    // recorded.
    explicit EventSource(const cupti::Functions& api);
    ~EventSource();
    EventSource(const EventSource&) = delete;
    EventSource& operator=(const EventSource&) = delete;

    // Returns the first 2^19 events recorded since the last call, in no particular order. Events of work that has not
    // completed are returned by a later call. Throws VendorError.
    std::vector<MemoryEvent> take();
    // Returns the number of events since the last call that are in the totals, but that take did not return.
    std::uint64_t unlisted();
    // Returns the number of records lost since the last call because buffers were full.
    std::uint64_t dropped();

    // Forgets all totals. A phase without a name begins.
    void restart();
    // Begins a phase. Events are assigned to phases by their start. Returns the index of the phase. restart_course: the
    // course of events over time begins again.
    std::size_t mark(const std::string& phase, bool restart_course = false);
    // Totals of all events up to the last call of take, by phase from index `first` on.
    TimedPhases phases(std::size_t first);
    TimedCourse course();
    // The kinds of events recorded, that is, those that CUPTI accepted.
    const std::vector<std::string>& kinds() const { return kinds_; }

  private:
    void check(cupti::Result result, const char* call) const;
    cupti::Result fetch() noexcept;

    const cupti::Functions& api_;
    cupti::Subscriber subscriber_;
    std::vector<std::string> kinds_;
    ClockPair last_clocks_;    // at the last call of take
    ClockPair origin_clocks_;  // at the last call of restart
    std::mutex fetch_mutex_;   // what a fetch in another thread has begun is complete when it is unlocked
    Fetching fetching_;
};

}  // namespace firsttouch
