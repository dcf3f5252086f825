#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "bindings/handle.hpp"
#include "probe/access.hpp"
#include "probe/probes.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace firsttouch {
namespace {

StreamOp op_from(const std::string& name) {
    static const char* const names[] = {"copy", "scale", "add", "triad", "read", "write"};
    for (int i = 0; i < 6; ++i)
        if (name == names[i]) return static_cast<StreamOp>(i);
    throw std::invalid_argument("'" + name + "' is not a stream kernel");
}

Engine engine_from(const std::string& name) {
    if (name == "copy-engine") return Engine::copy_engine;
    if (name == "kernel") return Engine::kernel;
    if (name == "cpu") return Engine::cpu;
    throw std::invalid_argument("'" + name + "' is not an engine");
}

Strategy strategy_from(const std::string& name) {
    if (name == "concurrent") return Strategy::concurrent;
    if (name == "lockstep") return Strategy::lockstep;
    if (name == "copying") return Strategy::copying;
    throw std::invalid_argument("'" + name + "' is no strategy; choose concurrent, lockstep or copying");
}

}  // namespace

void bind_probe(nb::module_& m) {
    nb::class_<Stop>(m, "Stop", "When to stop sampling.")
        .def(
            "__init__",
            [](Stop* self, double tolerance, double seconds, int min_samples, int max_samples) {
                new (self) Stop{tolerance, seconds, min_samples, max_samples};
            },
            nb::kw_only(), "tolerance"_a, "seconds"_a, "min_samples"_a = 3, "max_samples"_a = 1000)
        .def_ro("tolerance", &Stop::tolerance)
        .def_ro("seconds", &Stop::seconds);
    nb::class_<Outcome>(m, "Outcome", "Samples of one point, wrong words found, further counters.")
        .def_prop_ro("samples", [](const Outcome& o) { return o.samples.values; })
        .def_prop_ro("stopped_by", [](const Outcome& o) { return o.samples.stopped_by; })
        .def_ro("errors", &Outcome::errors)
        .def_ro("counters", &Outcome::counters);
    m.def(
        "summarise",
        [](std::vector<double> values) {
            const Statistics s = summarise(std::move(values));
            return std::make_tuple(s.n, s.median, s.p5, s.p95, s.min, s.max, s.ci_low, s.ci_high);
        },
        "values"_a, "n, median, p5, p95, min, max, and the 95 % interval of the median.");
    m.def(
        "stream_bytes", [](const std::string& op) { return stream_bytes(op_from(op)); }, "op"_a);
    m.def("stream_instructions", &stream_instructions);

    m.def(
        "chase",
        [](DeviceHandle& d, BufferHandle& buffer, const std::string& agent, const std::string& first_touch,
           std::size_t stride, std::size_t group_bytes, std::size_t hops, std::size_t last_level, std::uint64_t seed,
           const Stop& stop) {
            const ChaseRequest request{
                agent_from(agent), agent_from(first_touch), stride, group_bytes, hops, last_level, seed};
            nb::gil_scoped_release release;
            return chase(d.lab, buffer.get(), request, stop);
        },
        "device"_a, "buffer"_a, nb::kw_only(), "agent"_a, "first_touch"_a, "stride"_a, "group_bytes"_a = 0,
        "hops"_a = 100'000, "last_level"_a = 0, "seed"_a, "stop"_a, "Dependent loads; ns per load.");
    m.def(
        "stream",
        [](DeviceHandle& d, BufferHandle& a, BufferHandle& b, BufferHandle& c, const std::string& op,
           const std::string& agent, const std::string& first_touch, int threads, bool nontemporal, std::size_t passes,
           std::uint64_t seed, const Stop& stop) {
            const StreamRequest request{
                op_from(op), agent_from(agent), agent_from(first_touch), threads, nontemporal, passes, seed};
            nb::gil_scoped_release release;
            return stream(d.lab, a.get(), b.get(), c.get(), request, stop);
        },
        "device"_a, "a"_a, "b"_a, "c"_a, nb::kw_only(), "op"_a, "agent"_a, "first_touch"_a, "threads"_a = 0,
        "nontemporal"_a = false, "passes"_a = 1, "seed"_a, "stop"_a, "STREAM; GB/s of bytes read plus written.");
    m.def(
        "copy",
        [](DeviceHandle& d, BufferHandle& target, BufferHandle& source, const std::string& engine, std::size_t bytes,
           int streams, std::size_t chunk, std::uint64_t seed, const Stop& stop) {
            const CopyRequest request{engine_from(engine), bytes, streams, chunk, seed};
            nb::gil_scoped_release release;
            return copy(d.lab, target.get(), source.get(), request, stop);
        },
        "device"_a, "target"_a, "source"_a, nb::kw_only(), "engine"_a, "bytes"_a, "streams"_a = 1, "chunk"_a = 0,
        "seed"_a, "stop"_a, "One-way copies; GB/s, each byte counted once.");
    m.def(
        "allocation",
        [](DeviceHandle& d, const std::string& allocator, std::size_t bytes, int chunks, int warmups,
           const Stop& stop) {
            const AllocationRequest request{allocator_from(allocator), bytes, chunks, warmups};
            nb::gil_scoped_release release;
            return allocation(d.lab, request, stop);
        },
        "device"_a, nb::kw_only(), "allocator"_a, "bytes"_a, "chunks"_a = 100, "warmups"_a = 10, "stop"_a,
        "ns per allocation, memory not touched.");
    m.def(
        "page_faults",
        [](DeviceHandle& d, const std::string& allocator, const std::string& pages, std::size_t page_bytes,
           std::size_t count, const std::string& scenario, int warmups, std::uint64_t seed, const Stop& stop) {
            const FaultRequest request{
                allocator_from(allocator), pages_from(pages), page_bytes, count, scenario, warmups, seed};
            nb::gil_scoped_release release;
            return page_faults(d.lab, request, stop);
        },
        "device"_a, nb::kw_only(), "allocator"_a, "pages"_a, "page_bytes"_a, "count"_a, "scenario"_a, "warmups"_a = 10,
        "seed"_a, "stop"_a, "ns per page of the first touch, less a second touch.");
    m.def(
        "concurrency",
        [](DeviceHandle& d, BufferHandle& array, BufferHandle* copy, const std::string& strategy, int iterations,
           int threads, double longest, std::uint64_t seed, const Stop& stop) {
            const ConcurrencyRequest request{strategy_from(strategy), iterations, threads, longest, seed};
            const Buffer* own = copy == nullptr ? nullptr : &copy->get();
            nb::gil_scoped_release release;
            return concurrency(d.lab, array.get(), own, request, stop);
        },
        "device"_a, "array"_a, "copy"_a.none(), nb::kw_only(), "strategy"_a, "iterations"_a = 100, "threads"_a = 0,
        "longest"_a = 20.0, "seed"_a, "stop"_a, "CPU and GPU count up a half each and swap; ms per iteration.");
    m.def(
        "locking",
        [](DeviceHandle& d, BufferHandle& region, int cpu_threads, int gpu_groups, std::uint64_t sections,
           std::uint64_t inside, std::uint64_t outside, double patience, double longest, bool stuck, std::uint64_t seed,
           const Stop& stop) {
            const LockingRequest request{cpu_threads, gpu_groups, sections, inside, outside,
                                         patience,    longest,    stuck,    seed};
            nb::gil_scoped_release release;
            return locking(d.lab, region.get(), request, stop);
        },
        "device"_a, "region"_a, nb::kw_only(), "cpu_threads"_a, "gpu_groups"_a, "sections"_a, "inside"_a = 16,
        "outside"_a = 0, "patience"_a = 2.0, "longest"_a = 15.0, "stuck"_a = false, "seed"_a, "stop"_a,
        "Critical sections under a lock that both agents compete for; ns per section.");
    m.def(
        "try_access",
        [](DeviceHandle& d, BufferHandle& buffer, const std::string& agent, std::uint64_t seed) {
            nb::gil_scoped_release release;
            return try_access(d.lab, buffer.get(), agent_from(agent), seed);
        },
        "device"_a, "buffer"_a, "agent"_a, "seed"_a,
        "Wrong words after the agent used the buffer by its bare address. May end the process.");
}

}  // namespace firsttouch
