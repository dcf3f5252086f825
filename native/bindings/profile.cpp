#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings/bindings.hpp"
#include "profile/process_files.hpp"

namespace nb = nanobind;

namespace firsttouch {
namespace {

nb::list read(const ProcessFiles& files) {
    nb::list rows;
    for (const ProcessCounters& found : files.read())
        rows.append(nb::make_tuple(found.key, found.resident_pages, found.minor_faults, found.major_faults,
                                   std::string(1, found.state)));
    return rows;
}

}  // namespace

void bind_profile(nb::module_& m) {
    nb::class_<ProcessFiles>(m, "ProcessFiles", "Reads the memory counters of processes from /proc.")
        .def(nb::init<std::string>(), nb::arg("root") = "/proc")
        .def("add", &ProcessFiles::add, nb::arg("key"), nb::arg("pid"),
             "Adds a process. Returns False if it is gone. key: names it in what read returns.")
        .def("remove", &ProcessFiles::remove, nb::arg("key"), "Forgets a process.")
        .def("read", &read, nb::sig("def read(self) -> list[tuple[int, int, int, int, str]]"),
             "Returns (key, resident pages, minor faults, major faults, state) of each process.\n\n"
             "State is a letter of /proc/PID/stat: 'Z' if it ended and nobody waited for it, '?' if it is gone.");
}

}  // namespace firsttouch
