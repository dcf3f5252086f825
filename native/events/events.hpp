// Unified-memory events: what the driver migrated, faulted and mapped, on the clock of now(). docs/events.md says what
// each kind counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "events/cupti_api.hpp"

namespace firsttouch {

struct MemoryEvent {
    const char* kind = "";      // h2d, d2h, d2d, cpu_fault, gpu_fault, thrashing, throttling, remote_map
    double start = 0, end = 0;  // seconds; equal where the kind has no duration
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;        // of the region; 0 for faults and throttling
    std::uint64_t count = 1;        // the page faults that one gpu_fault stands for
    std::string source, target;     // "cpu", "cuda:0", several joined by '+', "" where the kind has none
    const char* cause = "";         // of a migration or a remote map, or the access of a fault; "" where not stated
    std::uint64_t instruction = 0;  // of a cpu_fault: the program counter
};

// From the clock of the records (ns) to that of now(), by two readings of both; beyond them at the rate of now().
struct ClockPair {
    std::uint64_t theirs = 0;
    double ours = 0;
};
struct ClockMap {
    ClockPair first, last;
    double operator()(std::uint64_t theirs) const;
};

// One record as an event. `processors` are the devices of a thrashing record as bits, null where the record has none.
MemoryEvent decode(const cupti::CounterRecord& record, const std::uint64_t* processors, const ClockMap& clock);

// "function+0x12", else "file+0x1234", else "": where a program counter of this process lies.
std::string describe_instruction(std::uint64_t address);

// Records from its construction until its end, of the whole process; one at a time.
class EventSource {
  public:
    // CUDA must be initialised in this process (cuInit). Throws Unavailable with one sentence where there are no
    // events.
    explicit EventSource(const cupti::Functions& api);
    ~EventSource();
    EventSource(const EventSource&) = delete;
    EventSource& operator=(const EventSource&) = delete;

    // Everything recorded since the last call, in no order. Work on the devices must have ended before, or its events
    // come with a later call. Throws VendorError.
    std::vector<MemoryEvent> take();
    // Records lost since the last call, for want of room.
    std::uint64_t dropped();
    // What is recorded here: the kinds that the library accepted.
    const std::vector<std::string>& kinds() const { return kinds_; }

  private:
    void check(cupti::Result result, const char* call) const;
    void configure();
    ClockPair read_clocks() const;

    const cupti::Functions& api_;
    cupti::Subscriber subscriber_ = nullptr;
    std::uint32_t version_ = 0;
    std::vector<std::string> kinds_;
    ClockPair since_;
};

}  // namespace firsttouch
