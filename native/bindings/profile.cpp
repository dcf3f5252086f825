#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "device/device.hpp"
#include "profile/folder.hpp"
#include "profile/inject/core/journal.hpp"
#include "profile/page_tracker.hpp"
#include "profile/perf.hpp"
#include "profile/process_sampler.hpp"

namespace nb = nanobind;

namespace firsttouch {
namespace {

nb::tuple take(ProcessSampler& sampler) {
    const Readings readings = sampler.take();
    nb::list processes, totals;
    for (const ProcessReading& each : readings.processes)
        processes.append(nb::make_tuple(each.time, each.key, each.counters.resident_pages, each.counters.minor_faults,
                                        each.counters.major_faults, std::string(1, each.state)));
    for (const TotalReading& each : readings.totals)
        totals.append(nb::make_tuple(each.time, each.counters.resident_pages, each.counters.minor_faults,
                                     each.counters.major_faults, each.processes, each.counters.shared_pages,
                                     each.least_pages));
    return nb::make_tuple(processes, totals, readings.ticks, readings.late);
}

// The letters by which Python's module struct knows the types of fields.
template <class Type>
constexpr const char* letter = nullptr;
template <>
constexpr const char* letter<inject::u8> = "B";
template <>
constexpr const char* letter<inject::u16> = "H";
template <>
constexpr const char* letter<inject::u32> = "I";
template <>
constexpr const char* letter<inject::u64> = "Q";
template <>
constexpr const char* letter<inject::i32> = "i";
template <>
constexpr const char* letter<inject::i64> = "q";
template <>
constexpr const char* letter<inject::Kind> = "H";
template <>
constexpr const char* letter<inject::Magic> = "8s";

nb::dict journal_layout(std::uint32_t of_version) {
    using namespace inject;
    if (of_version < 1 || of_version > journal_version)
        throw nb::value_error(("versions up to " + std::to_string(journal_version) + " are read").c_str());
    nb::dict layout;
    const char* structure_name = nullptr;
    int kind_number = 0;
    bool is_known = false;
    std::string format;
    nb::list fields;
    const auto begin = [&](const char* name, int number, std::uint32_t since) {
        structure_name = name, kind_number = number, is_known = since <= of_version, format = "<", fields = nb::list();
    };
#define RECORD(kind, number, structure, version) begin(#kind, number, version);
#define PART(name, structure, version) begin(#name, 0, version);
#define FIELD(type, name, version)                                                                                     \
    if (version <= of_version) format += letter<type>, fields.append(#name);
#define UNUSED(bytes, version)                                                                                         \
    if (version <= of_version) format += #bytes "x";
#define FORMERLY_UNUSED(type, name, version)                                                                           \
    if (version <= of_version) {                                                                                       \
        format += letter<type>, fields.append(#name);                                                                  \
    } else {                                                                                                           \
        format += std::to_string(sizeof(type)) + "x";                                                                  \
    }
#define END(structure)                                                                                                 \
    if (is_known) layout[structure_name] = nb::make_tuple(kind_number, format, nb::tuple(fields));
#include "profile/inject/core/records.def"
    return layout;
}

// Where the records of a block of a journal are, up to the first that is not complete.
nb::tuple scan_records(const nb::bytes& block) {
    std::vector<std::uint32_t> offsets, ends;
    std::vector<std::uint16_t> kinds;
    const auto* const begin = static_cast<const char*>(block.data());
    std::size_t at = 0;
    bool is_broken = false;
    while (at + sizeof(inject::RecordHeader) <= block.size()) {
        inject::RecordHeader header;
        std::memcpy(&header, begin + at, sizeof header);
        if (header.size == 0 || header.size > block.size() - at) break;
        is_broken = header.size % 8 != 0;
        if (is_broken) break;
        if (const auto kind = static_cast<std::uint16_t>(header.kind); kind != 0) {
            offsets.push_back(static_cast<std::uint32_t>(at + sizeof header));
            ends.push_back(static_cast<std::uint32_t>(at + header.size));
            kinds.push_back(kind);
        }
        at += header.size;
    }
    const auto as_bytes = [](const auto& column) { return nb::bytes(column.data(), column.size() * sizeof column[0]); };
    return nb::make_tuple(as_bytes(offsets), as_bytes(ends), as_bytes(kinds), at, is_broken);
}

// Empty: pages can be tracked.
std::string why_no_page_tracking() {
    try {
        PageTracker tracker;
        return "";
    } catch (const Unavailable& reason) {
        return reason.what();
    }
}

// Where the compiler has the fields.
nb::dict journal_offsets() {
    using namespace inject;
    nb::dict offsets;
    nb::dict fields;
    const char* structure_name = nullptr;
    const auto begin = [&](const char* name) { structure_name = name, fields = nb::dict(); };
#define RECORD(kind, number, structure, version)                                                                       \
    {                                                                                                                  \
        using Structure = structure;                                                                                   \
        begin(#kind);
#define PART(name, structure, version)                                                                                 \
    {                                                                                                                  \
        using Structure = structure;                                                                                   \
        begin(#name);
#define FIELD(type, name, version) fields[#name] = nb::make_tuple(offsetof(Structure, name), sizeof(Structure::name));
#define END(structure)                                                                                                 \
    offsets[structure_name] = nb::make_tuple(sizeof(Structure), fields);                                               \
    }
#include "profile/inject/core/records.def"
    return offsets;
}

}  // namespace

void bind_profile(nb::module_& m) {
    m.def("journal_layout", &journal_layout, nb::arg("version"),
          nb::sig("def journal_layout(version: int) -> dict[str, tuple[int, str, tuple[str, ...]]]"),
          "The structures of a journal of the injected library, by name: the number of its kind (0: no record), its\n"
          "format for the module struct, and its fields. Raises ValueError, which says what is read, for another "
          "version.");
    m.def(
        "add_to_journal_sum",
        [](std::uint32_t sum, const nb::bytes& records) {
            return inject::add_to_sum(sum, records.data(), records.size() / 8 * 8);
        },
        nb::arg("sum"), nb::arg("records"),
        "The sum of a journal's records that its header states, going on from the sum of those before.");
    m.def("scan_records", &scan_records, nb::arg("block"),
          nb::sig("def scan_records(block: bytes) -> tuple[bytes, bytes, bytes, int, bool]"),
          "The complete records of a block of a journal: (offsets, ends, kinds, bytes, broken).\n\n"
          "The first three are arrays of u32, u32 and u16: where the content of each record begins and ends in the\n"
          "block, and its kind. bytes: of the complete records. broken: the next one has a size that is none.");
    nb::class_<Folder>(m, "NumberFolder",
                       "Folds a sequence of numbers: what recurs becomes a repeat, with a number of its own.")
        .def(nb::init<std::size_t, std::size_t>(), nb::arg("longest"), nb::arg("candidates"),
             "longest: the most numbers of a round; candidates: how many places of a number are tried.")
        .def("add", &Folder::add, "A new number, which stands for no repeat.")
        .def("append", nb::overload_cast<Folder::Number>(&Folder::append), nb::arg("number"),
             "Appends a number. Raises IndexError for one that `add` did not return.")
        .def("append_timed", nb::overload_cast<Folder::Number, double>(&Folder::append), nb::arg("number"),
             nb::arg("seconds"), "Appends a number, and adds to the seconds that it took.")
        .def("sequence", &Folder::sequence, "What was appended, folded.")
        .def("repeat", &Folder::repeat, nb::arg("number"),
             "The count and the numbers of a repeat; (0, []) for another number.")
        .def("seconds", &Folder::seconds, nb::arg("number"), "The sum of the seconds of a number, and their count.")
        .def("__len__", [](const Folder& folder) { return folder.sequence().size(); });
    m.def("why_no_page_tracking", &why_no_page_tracking,
          "Why this kernel does not tell this process which of its pages are written, in a sentence; '' if it does.");
    m.def("journal_offsets", &journal_offsets,
          nb::sig("def journal_offsets() -> dict[str, tuple[int, dict[str, tuple[int, int]]]]"),
          "The size of each structure of a journal in C++, and the offset and size of each of its fields, to compare.");
    nb::class_<ProcessSampler>(m, "ProcessSampler",
                               "Reads the memory counters of processes from /proc, in a thread of its own.")
        .def(nb::init<std::string>(), nb::arg("root") = "/proc")
        .def("add", &ProcessSampler::add, nb::arg("key"), nb::arg("pid"),
             "Adds a process. Returns False if it is gone. key: names it in what take returns.")
        .def("remove", &ProcessSampler::remove, nb::arg("key"), "Forgets a process.")
        .def(
            "start",
            [](ProcessSampler& sampler, double interval, const PerfEvents* events, int signal) {
                const nb::gil_scoped_release release;
                std::function<bool()> hurry;
                if (events != nullptr && signal != 0) hurry = [events] { return events->is_waiting(); };
                sampler.start(interval, std::move(hurry), signal);
            },
            nb::arg("interval"), nb::arg("events") = nb::none(), nb::arg("signal") = 0, nb::keep_alive<1, 3>(),
            "Begins to read all processes each `interval` seconds.\n\n"
            "events: if these have something to tell at a tick, the signal is sent to the thread that calls this.")
        .def(
            "stop",
            [](ProcessSampler& sampler) {
                const nb::gil_scoped_release release;
                sampler.stop();
            },
            "Ends the thread.")
        .def("tick", &ProcessSampler::tick, "Reads all processes once, where no thread was started.")
        .def("take", &take,
             nb::sig("def take(self) -> tuple[list[tuple[float, int, int, int, int, str]], "
                     "list[tuple[float, int, int, int, int, int, int]], int, int]"),
             "Returns what was read since the last call: (processes, totals, ticks, late).\n\n"
             "Each of processes is (time, key, resident pages, minor faults, major faults, state), each of totals\n"
             "(time, resident pages, minor faults, major faults, processes, shared pages, resident pages at least if "
             "each\n"
             "counts once). There is one where a value changed. Times are seconds of time.monotonic(). State is a "
             "letter\n"
             "of /proc/PID/stat: 'Z' if the process ended and\n"
             "nobody waited for it, '?' if it is gone. ticks and late count since the start.");
}

}  // namespace firsttouch
