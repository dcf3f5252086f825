// Totals of events: counts, bytes, times and their course, in memory that does not depend on the number of events.
// Times are nanoseconds on any one clock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace firsttouch {

struct Interval {
    std::uint64_t start = 0, end = 0;
};

// The length of the union of intervals that arrive in any order.
//
// It keeps the latest disjoint parts of the union, and of earlier parts only their length. It is exact as long as no
// interval arrives after `least_kept` disjoint ones that start after it. CUPTI delivers buffers of 1 MiB in any
// order, and the records of a buffer in any order; a buffer has at most 11,915 records, so even a buffer that is
// delivered after its successor changes nothing. Of an interval that comes later still, the part before the kept ones
// is not counted but added to `uncertain`: the union is at most that much longer than total().
class IntervalUnion {
  public:
    static constexpr std::size_t least_kept = 1 << 15;

    void add(std::uint64_t start, std::uint64_t end) {
        if (start < horizon_) {
            uncertain_ += std::min(end, horizon_) - start;
            start = horizon_;
        }
        if (end <= start) return;
        if (!pending_.empty() && start >= pending_.back().start && start <= pending_.back().end) {
            pending_.back().end = std::max(pending_.back().end, end);
            return;
        }
        pending_.push_back({start, end});
        if (pending_.size() == batch) merge();
    }
    std::uint64_t total();
    std::uint64_t uncertain() const { return uncertain_; }
    // Keeps the length alone, and frees the memory.
    void close();

  private:
    static constexpr std::size_t batch = 1 << 12;

    void merge();
    void retire(std::size_t count);

    std::vector<Interval> kept_, pending_;  // kept_ is sorted and disjoint
    std::uint64_t retired_ = 0, horizon_ = 0, uncertain_ = 0;
};

// What is counted of one kind and cause.
struct EventSums {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t faults = 0;
    std::uint64_t summed_ns = 0;  // of all durations
    EventSums& operator+=(const EventSums& other) {
        count += other.count, bytes += other.bytes, faults += other.faults, summed_ns += other.summed_ns;
        return *this;
    }
};

// What is done with the durations of a kind. The kinds of moves and faults share the time that nothing else explains.
enum class TimedAs { nothing, itself, move_to_device, move_to_host, fault };

struct KindOfEvent {
    const char* name = "";
    TimedAs timed = TimedAs::nothing;
};

constexpr std::size_t max_kinds = 8, max_causes = 8;

// One phase: the time from one mark to the next.
struct PhaseTotals {
    struct Busy {
        std::uint64_t busy_ns = 0, uncertain_ns = 0;  // union of the durations, and how much longer it may be
    };
    struct OfCause : EventSums, Busy {
        std::size_t kind = 0, cause = 0;
    };
    struct OfKind : Busy {
        std::size_t kind = 0;
    };
    std::string name;
    std::uint64_t start_ns = 0, end_ns = 0;
    std::vector<OfCause> causes;
    std::vector<OfKind> kinds;  // those with durations; copies of several causes may overlap
    // The phase divided into time with a copy to the device, otherwise with one to the host, otherwise with a fault.
    // The rest of the phase is undisturbed.
    std::uint64_t to_device_ns = 0, to_host_ns = 0, fault_ns = 0;
};

// Sums per bin of equal width. The width doubles whenever an event ends beyond the last bin.
class EventCourse {
  public:
    static constexpr std::size_t bins = 1024;
    struct Bin {
        std::uint64_t count = 0;
        std::uint64_t bytes = 0;    // both in the bin in which the event ends
        std::uint64_t busy_ns = 0;  // sum of the durations within the bin
    };
    struct CauseCourse {
        std::size_t kind = 0, cause = 0;
        std::vector<Bin> bins;  // up to the last bin of any kind that is not empty
    };

    void restart(std::uint64_t origin_ns);
    // Ignores events that began before the origin.
    void add(std::size_t kind, std::size_t cause, std::uint64_t start, std::uint64_t end, std::uint64_t bytes);
    std::uint64_t origin_ns() const { return origin_; }
    std::uint64_t width_ns() const { return std::uint64_t(1) << shift_; }
    std::vector<CauseCourse> rows() const;

  private:
    static constexpr int first_shift = 14;  // 16 us, so the bins reach 17 ms at first

    void double_width();

    std::uint64_t origin_ = 0;
    int shift_ = first_shift;
    std::size_t used_ = 0;
    std::array<std::unique_ptr<std::array<Bin, bins>>, max_kinds * max_causes> rows_;
};

// Totals by phase, kind and cause. An event is counted in the phase in which it starts, with its bytes and its whole
// duration; the union of durations is divided at the ends of phases, so it is never longer than a phase, and the unions
// of consecutive phases add up to that of all. Events that started before the first phase are ignored.
class EventTotals {
  public:
    explicit EventTotals(std::vector<KindOfEvent> kinds) : kinds_(std::move(kinds)) {}

    // Forgets everything. A phase without a name begins.
    void restart(std::uint64_t now);
    // Ends the phase and begins another. Returns its index. restart_course: the course begins now.
    std::size_t mark(std::string name, std::uint64_t now, bool restart_course = false);
    void add(std::size_t kind, std::size_t cause, std::uint64_t start, std::uint64_t end, std::uint64_t bytes,
             std::uint64_t faults);
    // The phases from index `first` on. The last one ends now.
    std::vector<PhaseTotals> phases(std::size_t first, std::uint64_t now);
    const EventCourse& course() const { return course_; }

  private:
    static constexpr std::size_t open_phases = 64;  // earlier ones keep lengths alone

    struct Cell {
        EventSums sums;
        IntervalUnion busy;
    };
    struct PhaseSums {
        std::string name;
        std::uint64_t start = 0;
        std::array<std::unique_ptr<Cell>, max_kinds * max_causes> causes;
        std::array<std::unique_ptr<IntervalUnion>, max_kinds> kinds;
        std::unique_ptr<IntervalUnion> moves, moves_and_faults;  // created at the first use, like all of these
        void close();
    };
    static IntervalUnion& created(std::unique_ptr<IntervalUnion>& owner) {
        if (owner == nullptr) owner = std::make_unique<IntervalUnion>();
        return *owner;
    }
    void add_busy(PhaseSums& phase, std::size_t kind, Cell& cell, std::uint64_t start, std::uint64_t end);

    std::vector<KindOfEvent> kinds_;
    std::vector<std::unique_ptr<PhaseSums>> phases_;  // in order of time
    EventCourse course_;
};

}  // namespace firsttouch
