#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <system_error>

#include "bindings/bindings.hpp"
#include "events/names.hpp"
#include "profile/perf.hpp"

namespace nb = nanobind;

namespace firsttouch {
namespace {

using namespace nb::literals;

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

// Names and paths are bytes to the kernel; those that are not UTF-8 get Python's surrogates, as os.fsdecode gives them.
nb::object text(const std::string& bytes) {
    return nb::steal(PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
}

// Raises OSError with the number of the error and the call that failed.
template <class Call>
auto raising_os_error(Call&& body) {
    try {
        return body();
    } catch (const std::system_error& error) {
        const std::string what = error.what();
        const nb::tuple arguments = nb::make_tuple(error.code().value(), what.substr(0, what.find(':')));
        PyErr_SetObject(PyExc_OSError, arguments.ptr());
        throw nb::python_error();
    }
}

nb::tuple read(PerfEvents& events, bool rest) {
    PerfEvents::Batch batch;
    {
        const nb::gil_scoped_release release;
        batch = events.read(rest);
    }
    const PerfRecords& records = batch.records;
    nb::list starts, names, ends, mappings, samples, lines;
    for (const ThreadStart& r : records.starts) starts.append(nb::make_tuple(seconds(r.ns), r.pid, r.parent));
    for (const NameChange& r : records.names)
        names.append(nb::make_tuple(seconds(r.ns), r.pid, text(r.name), r.executed));
    for (const ThreadEnd& r : batch.processes) ends.append(nb::make_tuple(seconds(r.ns), r.pid));
    for (const NewMapping& r : records.mappings)
        mappings.append(nb::make_tuple(seconds(r.ns), r.pid, r.address, r.length, r.offset, text(r.file)));
    for (const FaultSample& r : records.samples)
        samples.append(nb::make_tuple(seconds(r.ns), r.pid, r.tid, r.instruction, r.address,
                                      nb::bytes(r.stack.data(), sizeof(r.stack)), r.line, r.is_sure));
    for (const python::CodePlace& line : batch.lines)
        lines.append(nb::make_tuple(text(line.file), text(line.function), line.line));
    return nb::make_tuple(starts, names, ends, mappings, samples, records.lost, lines);
}

// Returns a C++ name as written in a program, any other name as it is.
std::string demangle(const std::string& name) { return demangled(name).value_or(std::string(without_file(name))); }

}  // namespace

void bind_perf(nb::module_& m) {
    nb::class_<PerfEvents>(m, "PerfEvents", "Perf events on a tree of processes. Times are those of time.monotonic().")
        .def(
            "__init__",
            [](PerfEvents* self, int pid, std::uint32_t every, bool enable_on_exec) {
                raising_os_error([&] { new (self) PerfEvents(pid, every, enable_on_exec); });
            },
            "pid"_a, "every"_a = 0, "enable_on_exec"_a = true,
            "every: one of how many page faults in user mode is sampled; 0: none.\n\n"
            "enable_on_exec: the process is about to execute a program, and the events begin then. Otherwise they\n"
            "begin now, in the process and its descendants.\n"
            "Raises OSError with the name of the call that failed: perf_event_open or mmap.")
        .def("read", &read, "rest"_a = false,
             nb::sig("def read(self, rest: bool = False) -> tuple[list[tuple[float, int, int]], "
                     "list[tuple[float, int, str, bool]], list[tuple[float, int]], "
                     "list[tuple[float, int, int, int, int, str]], list[tuple[float, int, int, int, int, bytes, int, "
                     "bool]], int, "
                     "list[tuple[str, str, int]]]"),
             "Returns what was told since the last call up to a millisecond ago or, with rest, up to now.\n\n"
             "(starts, names, ends, mappings, samples, lost, lines), each in the order of time: starts of processes "
             "(t, pid,\n"
             "parent); names (t, pid, name, whether by exec); ends of processes (t, pid); mappings (t, pid, address,\n"
             "length, offset, file); sampled faults (t, pid, tid, instruction, address, top of the stack, "
             "number of\na line of Python or 0, whether it was that line before and after); lost records; the lines "
             "that have\nnumbers for the first time, from 1 on (file, function, line).")
        .def(
            "counted", [](const PerfEvents& events) { return raising_os_error([&] { return events.counted(); }); },
            "Returns how many page faults in user mode there were so far; 0 if none are sampled. Raises OSError.")
        .def_prop_ro("why_no_lines", &PerfEvents::why_no_lines,
                     "Why lines of Python are not read in some process; '' if there is no reason to name.")
        .def_prop_ro("attached", &PerfEvents::attached, "The processes that were there at the begin.");
    m.def("demangle", &demangle, "name"_a, "Returns a C++ name as written in a program, any other name as it is.");
}

}  // namespace firsttouch
