#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>

#include "bindings/bindings.hpp"
#include "device/device.hpp"
#include "events/events.hpp"

namespace nb = nanobind;

namespace firsttouch {
namespace {

// The only event source of the process. It is never destroyed, because CUPTI may deliver records until the process
// ends.
EventSource*& source() {
    static EventSource* instance = nullptr;
    return instance;
}

EventSource& require_source() {
    if (source() == nullptr) throw Unavailable("no events are being recorded; call events_start first");
    return *source();
}

nb::list take() {
    std::vector<MemoryEvent> events;
    {
        const nb::gil_scoped_release release;
        events = require_source().take();
    }
    std::map<std::uint64_t, std::string> symbols;
    nb::list rows;
    for (const MemoryEvent& e : events) {
        const auto [symbol, is_new] = symbols.try_emplace(e.instruction);
        if (is_new) symbol->second = describe_instruction(e.instruction);
        rows.append(nb::make_tuple(e.kind, e.start, e.end, e.address, e.bytes, e.count, e.source, e.target, e.cause,
                                   symbol->second));
    }
    return rows;
}

// Waits for CUPTI's buffers without the interpreter lock.
template <class Call>
auto unlocked(Call&& call) {
    const nb::gil_scoped_release release;
    return call();
}

nb::list phases(std::size_t first) {
    const TimedPhases timed = unlocked([&] { return require_source().phases(first); });
    nb::list rows;
    for (const PhaseTotals& phase : timed.phases) {
        nb::list causes, kinds;
        for (const PhaseTotals::OfCause& of : phase.causes)
            causes.append(nb::make_tuple(kind_name(of.kind), cause_name(of.kind, of.cause), of.count, of.bytes,
                                         of.faults, of.summed_ns, of.busy_ns));
        for (const PhaseTotals::OfKind& of : phase.kinds)
            kinds.append(nb::make_tuple(kind_name(of.kind), of.busy_ns, of.uncertain_ns));
        rows.append(nb::make_tuple(phase.name, timed.clock(phase.start_ns), phase.end_ns - phase.start_ns, causes,
                                   kinds, phase.to_device_ns, phase.to_host_ns, phase.fault_ns));
    }
    return rows;
}

nb::tuple course() {
    const TimedCourse timed = unlocked([&] { return require_source().course(); });
    nb::list rows;
    for (const EventCourse::CauseCourse& of : timed.rows) {
        nb::list counts, bytes, busy;
        for (const EventCourse::Bin& bin : of.bins)
            counts.append(bin.count), bytes.append(bin.bytes), busy.append(bin.busy_ns);
        rows.append(nb::make_tuple(kind_name(of.kind), cause_name(of.kind, of.cause), counts, bytes, busy));
    }
    return nb::make_tuple(timed.start, timed.bin_ns, rows);
}

}  // namespace

void bind_events(nb::module_& m) {
    m.def(
        "events_start",
        [] {
            if (source() == nullptr) source() = new EventSource(cupti::Cupti::instance());
            return source()->kinds();
        },
        "Starts recording the unified-memory events of this process. Returns the kinds of events recorded.\n\n"
        "CUDA must be initialised. Recording lasts until the process ends. Raises Unavailable with the reason.");
    m.def("migration_causes", &migration_cause_names, "Returns why bytes may move, as causes of events name it.");
    m.def("events_take", &take,
          nb::sig("def events_take() -> list[tuple[str, float, float, int, int, int, str, str, str, str]]"),
          "Returns the first 2^19 events recorded since the last call, of completed work.\n\n"
          "Each is (kind, start, end, address, bytes, count, source, target, cause, symbol).\n"
          "Times are in seconds of time.monotonic().");
    m.def(
        "events_dropped", [] { return require_source().dropped(); },
        "Returns the number of records lost since the last call because the buffers were full.");
    m.def(
        "events_unlisted", [] { return require_source().unlisted(); },
        "Returns the number of events since the last call that are in the totals, but that events_take did not "
        "return.");
    m.def(
        "events_restart", [] { require_source().restart(); },
        "Forgets all totals of events. A phase without a name begins.");
    m.def(
        "events_mark",
        [](const std::string& phase, bool restart_course) { return require_source().mark(phase, restart_course); },
        nb::arg("phase"), nb::arg("restart_course") = false,
        "Begins a phase, by which totals are kept, and returns its index. restart_course: so does events_course.");
    m.def("events_phases", &phases, nb::arg("first") = 0,
          nb::sig("def events_phases(first: int = 0) -> list[tuple[str, float, int, "
                  "list[tuple[str, str, int, int, int, int, int]], list[tuple[str, int, int]], int, int, int]]"),
          "Returns the totals of all events up to the last events_take, by phase, from index `first` on.\n\n"
          "Each is (name, start, ns, causes, kinds, to_device_ns, to_host_ns, fault_ns). start is in seconds of\n"
          "time.monotonic(). Each of causes is (kind, cause, count, bytes, faults, sum_ns, busy_ns), each of kinds\n"
          "(kind, busy_ns, uncertain_ns).");
    m.def("events_course", &course,
          nb::sig("def events_course() -> tuple[float, int, "
                  "list[tuple[str, str, list[int], list[int], list[int]]]]"),
          "Returns the course of events over time up to the last events_take: (start, bin_ns, rows).\n\n"
          "start is in seconds of time.monotonic(). Each row is (kind, cause, counts, bytes, busy_ns), by bin. Counts\n"
          "and bytes are in the bin in which an event ends.");
}

}  // namespace firsttouch
