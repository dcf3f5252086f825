// Totals of events against a slow recount, with records out of order, of no duration, and beyond the bins.
#include "events/totals.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

namespace firsttouch {
namespace {

enum Kinds : std::size_t { to_device, to_host, fault, mark_only };

std::vector<KindOfEvent> kinds() {
    return {{"h2d", TimedAs::move_to_device},
            {"d2h", TimedAs::move_to_host},
            {"gpu_fault", TimedAs::fault},
            {"cpu_fault", TimedAs::nothing}};
}

struct Event {
    std::size_t kind, cause;
    std::uint64_t start, end, bytes;
};

std::uint64_t length_of_union(std::vector<Interval> intervals) {
    std::ranges::sort(intervals, {}, &Interval::start);
    std::uint64_t total = 0, until = 0;
    for (const Interval& i : intervals) {
        if (i.end > std::max(i.start, until)) total += i.end - std::max(i.start, until);
        until = std::max(until, i.end);
    }
    return total;
}

// The union of the events of some kinds, within a span of time.
template <class Accepts>
std::uint64_t busy(const std::vector<Event>& events, std::uint64_t from, std::uint64_t to, Accepts&& accepts) {
    std::vector<Interval> found;
    for (const Event& e : events)
        if (e.start >= 1000 && accepts(e) && e.end > from && e.start < to)
            found.push_back({std::max(e.start, from), std::min(e.end, to)});
    return length_of_union(std::move(found));
}

// `count` events of several kinds with steps between their starts of at most 2 * `step`, delivered in an order that
// differs from that of time by fewer than `disorder` positions.
std::vector<Event> random_events(std::size_t count, std::uint64_t step, std::size_t disorder, unsigned seed) {
    std::mt19937_64 random(seed);
    std::vector<Event> events;
    std::uint64_t at = 1000;
    for (std::size_t i = 0; i < count; ++i) {
        at += random() % (2 * step);
        const std::size_t kind = random() % 4;
        const std::uint64_t length = kind == mark_only || random() % 8 == 0 ? 0 : random() % (4 * step);
        events.push_back({kind, random() % 3, at, at + length, random() % 5000});
    }
    for (std::size_t i = 0; i < count; i += disorder)
        std::shuffle(events.begin() + std::ptrdiff_t(i), events.begin() + std::ptrdiff_t(std::min(count, i + disorder)),
                     random);
    return events;
}

// Adds events to phases of about equal length and compares everything with a recount.
void compare_with_recount(const std::vector<Event>& events, std::size_t phase_count) {
    std::uint64_t last = 0;
    for (const Event& e : events) last = std::max(last, e.end);
    std::vector<std::uint64_t> marks;
    for (std::size_t i = 0; i < phase_count; ++i) marks.push_back(1000 + (last - 1000) / phase_count * i);
    EventTotals totals(kinds());
    totals.restart(marks[0]);
    for (std::size_t i = 1; i < phase_count; ++i) totals.mark(std::to_string(i), marks[i]);
    for (const Event& e : events) totals.add(e.kind, e.cause, e.start, e.end, e.bytes, 2);
    const auto phases = totals.phases(0, last + 1);
    ASSERT_EQ(phases.size(), phase_count);
    for (std::size_t i = 0; i < phase_count; ++i) {
        const PhaseTotals& phase = phases[i];
        const std::uint64_t from = marks[i], to = i + 1 < phase_count ? marks[i + 1] : last + 1;
        EXPECT_EQ(phase.end_ns - phase.start_ns, to - from);
        std::map<std::pair<std::size_t, std::size_t>, EventSums> sums;
        for (const Event& e : events)
            if (e.start >= from && e.start < to) sums[{e.kind, e.cause}] += EventSums{1, e.bytes, 2, e.end - e.start};
        for (const PhaseTotals::OfCause& of : phase.causes) {
            const EventSums expected = sums[{of.kind, of.cause}];
            EXPECT_EQ(of.count, expected.count);
            EXPECT_EQ(of.bytes, expected.bytes);
            EXPECT_EQ(of.faults, expected.faults);
            EXPECT_EQ(of.summed_ns, expected.summed_ns);
            EXPECT_EQ(of.uncertain_ns, 0u);
            EXPECT_EQ(of.busy_ns,
                      busy(events, from, to, [&](const Event& e) { return e.kind == of.kind && e.cause == of.cause; }));
            sums.erase({of.kind, of.cause});
        }
        EXPECT_TRUE(sums.empty());
        for (const PhaseTotals::OfKind& of : phase.kinds)
            EXPECT_EQ(of.busy_ns, busy(events, from, to, [&](const Event& e) { return e.kind == of.kind; }));
        const std::uint64_t device = busy(events, from, to, [](const Event& e) { return e.kind == to_device; });
        const std::uint64_t moves = busy(events, from, to, [](const Event& e) { return e.kind <= to_host; });
        const std::uint64_t all = busy(events, from, to, [](const Event& e) { return e.kind <= fault; });
        EXPECT_EQ(phase.to_device_ns, device);
        EXPECT_EQ(phase.to_host_ns, moves - device);
        EXPECT_EQ(phase.fault_ns, all - moves);
    }
    EventCourse::Bin sum, expected;
    for (const EventCourse::CauseCourse& of : totals.course().rows())
        for (const EventCourse::Bin& bin : of.bins)
            sum.count += bin.count, sum.bytes += bin.bytes, sum.busy_ns += bin.busy_ns;
    for (const Event& e : events) ++expected.count, expected.bytes += e.bytes, expected.busy_ns += e.end - e.start;
    EXPECT_EQ(sum.count, expected.count);
    EXPECT_EQ(sum.bytes, expected.bytes);
    EXPECT_EQ(sum.busy_ns, expected.busy_ns);
}

TEST(EventTotals, EqualARecountWhateverTheOrderWithinTheBound) {
    for (const std::size_t disorder : {1u, 100u, 20'000u})
        compare_with_recount(random_events(50'000, 500, disorder, 1), 5);
}

TEST(EventTotals, EqualARecountOfTenMillion) {
    if (std::getenv("FIRSTTOUCH_EXHAUSTIVE") == nullptr) GTEST_SKIP() << "FIRSTTOUCH_EXHAUSTIVE is not set";
    compare_with_recount(random_events(10'000'000, 300, 12'000, 2), 3);
}

TEST(EventTotals, AnIntervalThatComesTooLateIsUncertainAndNotLost) {
    IntervalUnion busy;
    for (std::uint64_t i = 0; i < 4 * IntervalUnion::least_kept; ++i) busy.add(100 + 10 * i, 105 + 10 * i);
    const std::uint64_t before = busy.total();
    EXPECT_EQ(before, 20 * IntervalUnion::least_kept);
    busy.add(100, 110);  // 5 of it are already counted
    EXPECT_EQ(busy.uncertain(), 10u);
    EXPECT_EQ(busy.total(), before);
    busy.add(100, 1'000'000'000);  // up to the kept intervals it is uncertain, and from there on counted
    EXPECT_GE(busy.total() + busy.uncertain(), 1'000'000'000u - 100);
    busy.close();
    const std::uint64_t closed = busy.total();
    busy.add(2'000'000'000, 2'000'000'007);
    EXPECT_EQ(busy.total(), closed + 7);
}

TEST(EventTotals, TheWholeAndItsPhasesAgreeOnBusyTime) {
    EventTotals parts(kinds()), whole(kinds());
    parts.restart(0), whole.restart(0);
    parts.mark("second", 50), parts.mark("third", 60);
    for (EventTotals* totals : {&parts, &whole}) {
        totals->add(to_device, 1, 10, 100, 7, 0);  // over all three phases, counted in the first
        totals->add(to_device, 2, 40, 70, 5, 0);
        totals->add(fault, 1, 55, 55, 0, 3);  // no duration
    }
    std::uint64_t sum = 0, summed = 0;
    for (const PhaseTotals& phase : parts.phases(0, 200)) {
        for (const auto& of : phase.kinds) sum += of.busy_ns;
        for (const auto& of : phase.causes) summed += of.summed_ns;
        EXPECT_LE(phase.to_device_ns, phase.end_ns - phase.start_ns);
    }
    EXPECT_EQ(sum, 90u);
    EXPECT_EQ(summed, 120u);
    EXPECT_EQ(whole.phases(0, 200)[0].kinds[0].busy_ns, 90u);
    EXPECT_EQ(parts.phases(1, 200).size(), 2u);
    EXPECT_EQ(parts.phases(1, 200)[0].name, "second");
    ASSERT_EQ(parts.phases(1, 200)[0].causes.size(), 3u);
    EXPECT_EQ(parts.phases(1, 200)[0].causes[2].faults, 3u);
}

TEST(EventTotals, EventsFromBeforeTheFirstPhaseAreIgnored) {
    EventTotals totals(kinds());
    totals.restart(1000);
    totals.add(to_device, 1, 999, 2000, 7, 0);
    EXPECT_TRUE(totals.phases(0, 3000)[0].causes.empty());
    EXPECT_TRUE(totals.course().rows().empty());
}

TEST(EventTotals, BinsGetWiderAndLoseNothing) {
    EventTotals totals(kinds());
    totals.restart(5);
    const std::uint64_t narrow = totals.course().width_ns();
    for (std::uint64_t at = 5; at < 3'600'000'000'000; at += 1'000'000'007)  // an hour
        totals.add(to_device, 1, at, at + 1'000'000, 4096, 0);
    totals.add(to_host, 1, 6, 3'600'000'000'000, 1, 0);  // over all bins
    const auto rows = totals.course().rows();
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_GT(totals.course().width_ns(), narrow);
    EXPECT_GE(totals.course().width_ns() * EventCourse::bins, 3'600'000'000'000u - 5);
    EXPECT_LT(totals.course().width_ns() * EventCourse::bins / 2, 3'600'000'000'000u);
    EXPECT_GT(rows[0].bins.size(), EventCourse::bins / 2);
    std::uint64_t bytes = 0, busy_back = 0;
    for (const auto& bin : rows[0].bins) bytes += bin.bytes;
    for (const auto& bin : rows[1].bins) busy_back += bin.busy_ns;
    EXPECT_EQ(bytes, 3600u * 4096u);
    EXPECT_EQ(busy_back, 3'600'000'000'000u - 6);
    totals.mark("again", 3'600'000'000'001, true);
    EXPECT_EQ(totals.course().width_ns(), narrow);
    EXPECT_TRUE(totals.course().rows().empty());
}

}  // namespace
}  // namespace firsttouch
