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
    m.def("events_take", &take,
          nb::sig("def events_take() -> list[tuple[str, float, float, int, int, int, str, str, str, str]]"),
          "Returns the events recorded since the last call, of completed work.\n\n"
          "Each is (kind, start, end, address, bytes, count, source, target, cause, symbol).\n"
          "Times are in seconds of time.monotonic().");
    m.def(
        "events_dropped", [] { return require_source().dropped(); },
        "Returns the number of records lost since the last call because the buffers were full.");
}

}  // namespace firsttouch
