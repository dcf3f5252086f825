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

// The only source of this process. It lives until the process ends, since CUPTI may deliver records until then.
EventSource*& source() {
    static EventSource* one = nullptr;
    return one;
}

EventSource& started() {
    if (source() == nullptr) throw Unavailable("no events are being recorded; call events_start first");
    return *source();
}

nb::list take() {
    std::vector<MemoryEvent> events;
    {
        const nb::gil_scoped_release release;
        events = started().take();
    }
    std::map<std::uint64_t, std::string> places;
    nb::list rows;
    for (const MemoryEvent& e : events) {
        const auto [place, is_new] = places.try_emplace(e.instruction);
        if (is_new) place->second = describe_instruction(e.instruction);
        rows.append(nb::make_tuple(e.kind, e.start, e.end, e.address, e.bytes, e.count, e.source, e.target, e.cause,
                                   place->second));
    }
    return rows;
}

}  // namespace

void bind_events(nb::module_& m) {
    m.def(
        "events_start",
        [] {
            if (source() == nullptr) source() = new EventSource(cupti::Cupti::instance());
            return source()->kinds();
        },
        "Starts recording the unified-memory events of this process and returns the kinds recorded.\n\n"
        "CUDA must be initialised; recording ends with the process. Raises Unavailable with the reason.");
    m.def("events_take", &take,
          nb::sig("def events_take() -> list[tuple[str, float, float, int, int, int, str, str, str, str]]"),
          "Events recorded since the last call, of work that has ended.\n\nEach is (kind, start and end in seconds of "
          "time.monotonic(),\naddress, bytes, count, source, target, cause, symbol).");
    m.def(
        "events_dropped", [] { return started().dropped(); },
        "Records lost since the last call because the buffers were full.");
}

}  // namespace firsttouch
