#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "bindings/handle.hpp"
#include "comm/comm.hpp"
#include "host/activity.hpp"
#include "probe/access.hpp"
#include "probe/frame.hpp"
#include "probe/probes.hpp"
#include "probe/together.hpp"

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

Element element_from(const std::string& name) {
    if (name == "u64") return Element::u64;
    if (name == "f64") return Element::f64;
    throw std::invalid_argument("'" + name + "' is not an element type; element types are u64 and f64");
}

// Returns whether `name` is `second`. Throws if it is neither `first` nor `second`.
bool is_second(const std::string& name, const char* first, const char* second) {
    if (name == first || name == second) return name == second;
    throw std::invalid_argument("'" + name + "' is neither " + first + " nor " + second);
}

EntryLoads entry_loads_from(const std::string& name) {
    static const char* const names[] = {"cached", "uncached", "bypass-l1", "staged"};
    for (int i = 0; i < 4; ++i)
        if (name == names[i]) return static_cast<EntryLoads>(i);
    throw std::invalid_argument("'" + name + "' is not a kind of load");
}

Engine engine_from(const std::string& name) {
    if (name == "copy-engine") return Engine::copy_engine;
    if (name == "kernel") return Engine::kernel;
    if (name == "cpu") return Engine::cpu;
    if (name == "peer-call") return Engine::peer_call;
    throw std::invalid_argument("'" + name + "' is not an engine");
}

Collective operation_from(const std::string& name) {
    static const std::map<std::string, Collective> operations = {
        {"all-reduce", Collective::all_reduce}, {"reduce-scatter", Collective::reduce_scatter},
        {"all-gather", Collective::all_gather}, {"broadcast", Collective::broadcast},
        {"reduce", Collective::reduce},         {"all-to-all", Collective::all_to_all}};
    if (const auto operation = operations.find(name); operation != operations.end()) return operation->second;
    throw std::invalid_argument("'" + name + "' is not a collective operation");
}

// Calls `work` with the GIL released.
template <class Work>
auto without_gil(Work&& work) {
    nb::gil_scoped_release release;
    return work();
}

SharingMode sharing_mode_from(const std::string& name) {
    if (name == "concurrent") return SharingMode::concurrent;
    if (name == "lockstep") return SharingMode::lockstep;
    if (name == "copying") return SharingMode::copying;
    throw std::invalid_argument("'" + name + "' is not a strategy; strategies are concurrent, lockstep and copying");
}

Advice advice_from(const std::string& name) {
    static const char* const names[] = {"read-mostly", "preferred-gpu", "preferred-cpu", "accessed-by-gpu",
                                        "accessed-by-cpu"};
    for (int i = 0; i < 5; ++i)
        if (name == names[i]) return static_cast<Advice>(i);
    throw std::invalid_argument("'" + name + "' is not memory advice");
}

TurnMethod turn_method_from(const std::string& name) {
    static const char* const names[] = {"shared", "prefetched", "copied", "launched", "queued"};
    for (int i = 0; i < 5; ++i)
        if (name == names[i]) return static_cast<TurnMethod>(i);
    throw std::invalid_argument("'" + name + "' is not a way to take turns");
}

Prefetch prefetch_from(const std::string& name) {
    if (name == "none") return Prefetch::none;
    if (name == "whole") return Prefetch::whole;
    if (name == "iteration") return Prefetch::iteration;
    if (name == "back") return Prefetch::back;
    throw std::invalid_argument("'" + name + "' is not a prefetch mode; modes are none, whole, iteration and back");
}

}  // namespace

void bind_probe(nb::module_& m) {
    nb::class_<Stop>(m, "Stop", "When to stop sampling.")
        .def(
            "__init__",
            [](Stop* self, double tolerance, double seconds, int min_samples, int max_samples, bool counted) {
                new (self) Stop{tolerance, seconds, min_samples, max_samples, counted};
            },
            nb::kw_only(), "tolerance"_a, "seconds"_a, "min_samples"_a = 3, "max_samples"_a = 1000, "counted"_a = false)
        .def_ro("tolerance", &Stop::tolerance)
        .def_ro("seconds", &Stop::seconds);
    nb::class_<Outcome>(m, "Outcome", "The result of a probe: samples, the number of wrong words, other counters.")
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
        "values"_a, "Returns n, median, p5, p95, min, max, and the two ends of the median's 95 % interval.");
    m.def(
        "stream_bytes", [](const std::string& op) { return stream_bytes(op_from(op)); }, "op"_a);
    m.def("stream_instructions", &stream_instructions);

    m.def(
        "chase",
        [](DeviceHandle& d, BufferHandle& buffer, const std::string& agent, const std::string& first_touch,
           std::size_t stride, std::size_t group_bytes, std::size_t hops, std::size_t last_level_bytes, bool bypass_l1,
           std::uint64_t seed, std::vector<int> writers, const Stop& stop) {
            const ChaseRequest request{.agent = agent_from(agent),
                                       .first_touch = agent_from(first_touch),
                                       .stride = stride,
                                       .group_bytes = group_bytes,
                                       .hops = hops,
                                       .last_level = last_level_bytes,
                                       .seed = seed,
                                       .past_l1 = bypass_l1,
                                       .writers = std::move(writers)};
            nb::gil_scoped_release release;
            return chase(d.lab, buffer.get(), request, stop);
        },
        "device"_a, "buffer"_a, nb::kw_only(), "agent"_a, "first_touch"_a, "stride"_a, "group_bytes"_a = 0,
        "hops"_a = 100'000, "last_level_bytes"_a = 0, "bypass_l1"_a = false, "seed"_a, "writers"_a = std::vector<int>{},
        "stop"_a,
        "Measures dependent loads. Samples: ns per load. writers: the processors on which the CPU writes the cycle; "
        "none "
        "means those of the calling thread.");
    m.def(
        "stream",
        [](DeviceHandle& d, BufferHandle& a, BufferHandle& b, BufferHandle& c, const std::string& op,
           const std::string& agent, const std::string& first_touch, std::vector<int> threads, bool nontemporal,
           std::size_t passes, std::uint64_t seed, std::tuple<int, std::uint32_t, std::uint32_t> shape,
           std::vector<std::vector<int>> writers, bool element_per_thread, bool activity, const Stop& stop) {
            const auto& [unroll, group, blocks] = shape;
            const StreamRequest request{
                op_from(op), agent_from(agent),       agent_from(first_touch), std::move(threads), nontemporal, passes,
                seed,        {unroll, group, blocks}, std::move(writers),      element_per_thread, activity};
            nb::gil_scoped_release release;
            return stream(d.lab, a.get(), b.get(), c.get(), request, stop);
        },
        "device"_a, "a"_a, "b"_a, "c"_a, nb::kw_only(), "op"_a, "agent"_a, "first_touch"_a,
        "threads"_a = std::vector<int>{0}, "nontemporal"_a = false, "passes"_a = 1, "seed"_a,
        "shape"_a = std::make_tuple(0, 0u, 0u), "writers"_a = std::vector<std::vector<int>>{},
        "element_per_thread"_a = false, "activity"_a = false, "stop"_a,
        "Runs a STREAM kernel. Samples: GB/s, bytes read plus bytes written. threads: numbers of CPU threads, of which "
        "the fastest is measured; 0 means all. shape: unroll, threads in a block and blocks of a device's launches; "
        "unroll 0 searches the fastest. writers: for each array, the processors on which the CPU fills it; none means "
        "those of the calling thread. element_per_thread: a device's kernel has one thread for each element. activity: "
        "adds what the processors do during the samples, as the counters interrupts_per_s, tlb_loads_per_s and "
        "tlb_loads_per_mib.");
    m.def("why_no_tlb_loads", &why_no_tlb_loads, "Why the loads through the data TLB cannot be counted here, or ''.");
    m.def(
        "copy",
        [](DeviceHandle& d, BufferHandle& target, BufferHandle& source, const std::string& engine, std::size_t bytes,
           int streams, std::size_t chunk, int threads, BufferHandle* second_target, BufferHandle* second_source,
           bool second_by_owner, const std::optional<std::string>& touched_by, std::vector<int> target_processors,
           std::vector<int> source_processors, bool anew, std::uint64_t seed, const Stop& stop) {
            const auto buffer = [](BufferHandle* handle) { return handle == nullptr ? nullptr : &handle->get(); };
            CopyRequest request{
                engine_from(engine),   bytes,          streams, chunk, seed, threads, buffer(second_target),
                buffer(second_source), second_by_owner};
            if (touched_by) request.touched_by = agent_from(*touched_by);
            request.target_processors = std::move(target_processors);
            request.source_processors = std::move(source_processors);
            request.anew = anew;
            nb::gil_scoped_release release;
            return copy(d.lab, target.get(), source.get(), request, stop);
        },
        "device"_a, "target"_a, "source"_a, nb::kw_only(), "engine"_a, "bytes"_a, "streams"_a = 1, "chunk"_a = 0,
        "threads"_a = 0, "second_target"_a = nb::none(), "second_source"_a = nb::none(), "second_by_owner"_a = false,
        "touched_by"_a = nb::none(), "target_processors"_a = std::vector<int>{},
        "source_processors"_a = std::vector<int>{}, "anew"_a = false, "seed"_a, "stop"_a,
        "Measures copies one way or, with a second target and source, of both at once. Samples: GB/s, each byte "
        "counted once. second_by_owner: the device of its source queues the second copy. threads: of the CPU; 0 means "
        "all. touched_by: the agent that writes the buffers first, where it "
        "has access; the CPU does so on the processors of the side. anew: each sample is one copy of pages touched "
        "anew.");
    m.def(
        "message",
        [](DeviceHandle& d, Comm& comm, BufferHandle& source, BufferHandle& target, std::size_t bytes, int peer,
           BufferHandle* staging, bool device_addresses, std::uint64_t seed, const Stop& stop) {
            const MessageRequest request{bytes, peer, seed, staging == nullptr ? nullptr : &staging->get(),
                                         device_addresses};
            nb::gil_scoped_release release;
            return message(d.lab, comm, source.get(), target.get(), request, stop);
        },
        "device"_a, "comm"_a, "source"_a, "target"_a, nb::kw_only(), "bytes"_a, "other"_a, "staging"_a = nb::none(),
        "device_addresses"_a = false, "seed"_a, "stop"_a,
        "Measures messages to another rank, which calls it too. Samples: GB/s of windows, on the lower rank only.");
    nb::class_<CollectiveOutcome, Outcome>(m, "CollectiveOutcome", "An Outcome of several ranks.")
        .def_ro("errors_of_ranks", &CollectiveOutcome::errors_of_ranks, "The wrong numbers of each rank in the call.");
    using Member = std::tuple<DeviceHandle*, Comm*, BufferHandle*, BufferHandle*, std::optional<BufferHandle*>,
                              std::optional<BufferHandle*>>;
    m.def(
        "collective",
        [](const std::vector<Member>& members, const std::string& operation, std::size_t block, bool device_addresses,
           std::uint64_t seed, const Stop& stop) {
            const auto buffer = [](std::optional<BufferHandle*> handle) {
                return handle ? &(*handle)->get() : nullptr;
            };
            std::vector<CollectiveRank> ranks;
            for (const auto& [d, comm, source, target, staged_source, staged_target] : members) {
                if (d == nullptr || comm == nullptr || source == nullptr || target == nullptr)
                    throw std::invalid_argument("a rank has a device, its end of the library, a source and a target");
                ranks.push_back(
                    {d->lab, *comm, source->get(), target->get(), buffer(staged_source), buffer(staged_target)});
            }
            const CollectiveRequest request{operation_from(operation), block, seed, device_addresses};
            nb::gil_scoped_release release;
            return collective(ranks, request, stop);
        },
        "ranks"_a, nb::kw_only(), "operation"_a, "block"_a, "device_addresses"_a = false, "seed"_a, "stop"_a,
        "Measures an operation of all ranks, which call it at once, each with itself; or one process calls it with all "
        "of them. ranks: of each its device, its end of the library, source and target, and for staging the host "
        "memory of both. block: numbers of 4 bytes in a block. Samples: microseconds of the slowest rank, on rank 0 "
        "only.");
    m.def(
        "allocation",
        [](DeviceHandle& d, const std::string& allocator, std::size_t bytes, const std::string& call, int chunks,
           int warmups, double limit, const std::optional<std::string>& touched_by, const Stop& stop) {
            AllocationRequest request{allocator_from(allocator), bytes, chunks, warmups,
                                      is_second(call, "allocate", "free")};
            request.limit = limit;
            if (touched_by) request.touched_by = agent_from(*touched_by);
            nb::gil_scoped_release release;
            return allocation(d.lab, request, stop);
        },
        "device"_a, nb::kw_only(), "allocator"_a, "bytes"_a, "call"_a = "allocate", "chunks"_a = 100, "warmups"_a = 10,
        "limit"_a = 30.0, "touched_by"_a = nb::none(), "stop"_a,
        "Measures allocations or frees. Samples: ns per call. touched_by: the agent that writes every block before it "
        "is freed; without it no memory is touched.");
    m.def(
        "page_faults",
        [](DeviceHandle& d, const std::string& allocator, const std::string& pages, std::size_t page_bytes,
           std::size_t count, std::size_t least_bytes, const std::string& scenario, bool load, int threads, int warmups,
           std::uint64_t seed, const Stop& stop) {
            const FaultRequest request{allocator_from(allocator),
                                       pages_from(pages),
                                       page_bytes,
                                       count,
                                       least_bytes,
                                       scenario,
                                       load,
                                       threads,
                                       warmups,
                                       seed};
            nb::gil_scoped_release release;
            return page_faults(d.lab, request, stop);
        },
        "device"_a, nb::kw_only(), "allocator"_a, "pages"_a, "page_bytes"_a, "count"_a, "least_bytes"_a = 0,
        "scenario"_a, "load"_a = false, "threads"_a = 0, "warmups"_a = 10, "seed"_a, "stop"_a,
        "Measures page faults. Samples: ns per page of a first touch minus a second touch.\n\n"
        "Raises Unavailable if pages are there before the first touch, or if huge pages are not given.");
    nb::class_<MigrationOutcome, Outcome>(m, "MigrationOutcome", "An Outcome with the phases of every repetition.")
        .def_prop_ro(
            "repetitions",
            [](const MigrationOutcome& o) {
                std::vector<std::vector<std::tuple<std::string, double, double>>> out;
                for (const auto& phases : o.repetitions) {
                    out.emplace_back();
                    for (const RepetitionStep& phase : phases)
                        out.back().emplace_back(phase.name, phase.start, phase.end);
                }
                return out;
            },
            "For each repetition, its phases in order: (name, start, end), in seconds of time.monotonic().");
    m.def(
        "migration",
        [](DeviceHandle& d, const std::string& allocator, std::size_t bytes, bool copied, std::size_t run_bytes,
           std::size_t stride_bytes, bool shuffled, bool sequential, bool update,
           const std::vector<std::string>& advice, const std::string& prefetch, int streams,
           const std::string& starts_on, int iterations, std::uint64_t seed, const Stop& stop) {
            MigrationRequest request{.allocator = allocator_from(allocator),
                                     .bytes = bytes,
                                     .copied = copied,
                                     .run_bytes = run_bytes,
                                     .stride_bytes = stride_bytes,
                                     .shuffled = shuffled,
                                     .sequential = sequential,
                                     .update = update,
                                     .prefetch = prefetch_from(prefetch),
                                     .streams = streams,
                                     .starts_on = agent_from(starts_on),
                                     .iterations = iterations,
                                     .seed = seed};
            for (const std::string& name : advice) request.advice.push_back(advice_from(name));
            nb::gil_scoped_release release;
            return migration(d.lab, request, stop);
        },
        "device"_a, nb::kw_only(), "allocator"_a, "bytes"_a, "copied"_a = false, "run_bytes"_a = 128,
        "stride_bytes"_a = 128, "shuffled"_a = false, "sequential"_a = false, "update"_a = true,
        "advice"_a = std::vector<std::string>{}, "prefetch"_a = "none", "streams"_a = 1, "starts_on"_a = "cpu",
        "iterations"_a = 12, "seed"_a, "stop"_a,
        "Measures passes of a kernel over a buffer that an agent initialised, then a read by the CPU.\n\n"
        "Samples: ms of all passes.");
    m.def(
        "take_turns",
        [](DeviceHandle& d, const std::string& allocator, std::size_t bytes, const std::string& method, bool update,
           int updates, const std::vector<std::string>& advice, int turns, double gap, std::uint64_t seed,
           const Stop& stop) {
            TurnsRequest request{.allocator = allocator_from(allocator),
                                 .bytes = bytes,
                                 .method = turn_method_from(method),
                                 .update = update,
                                 .updates = updates,
                                 .turns = turns,
                                 .gap = gap,
                                 .seed = seed};
            for (const std::string& name : advice) request.advice.push_back(advice_from(name));
            nb::gil_scoped_release release;
            return take_turns(d.lab, request, stop);
        },
        "device"_a, nb::kw_only(), "allocator"_a, "bytes"_a = 8, "method"_a = "shared", "update"_a = false,
        "updates"_a = 0, "advice"_a = std::vector<std::string>{}, "turns"_a = 1, "gap"_a = 0.0, "seed"_a, "stop"_a,
        "Measures turns of a kernel and the CPU over a small new block. Samples: us per turn. gap: seconds between "
        "turns.");
    m.def(
        "concurrency",
        [](DeviceHandle& d, BufferHandle& array, BufferHandle* second, BufferHandle* copy, const std::string& strategy,
           int iterations, int threads, double max_seconds, std::optional<std::size_t> gpu_bytes, std::uint64_t seed,
           const Stop& stop) {
            const ConcurrencyRequest request{
                sharing_mode_from(strategy), iterations, threads, max_seconds, seed, gpu_bytes};
            const Buffer* second_half = second == nullptr ? nullptr : &second->get();
            const Buffer* cpu_copy = copy == nullptr ? nullptr : &copy->get();
            nb::gil_scoped_release release;
            return concurrency(d.lab, array.get(), second_half, cpu_copy, request, stop);
        },
        "device"_a, "array"_a, nb::kw_only(), "second"_a = nb::none(), "copy"_a = nb::none(), "strategy"_a,
        "iterations"_a = 100, "threads"_a = 0, "max_seconds"_a = 20.0, "gpu_bytes"_a = nb::none(), "seed"_a, "stop"_a,
        "CPU and GPU each increment one part of an array, and swap its ends after each iteration.\n\n"
        "gpu_bytes: the GPU's part; None: half of the array.\n"
        "second: a buffer that holds the CPU's first part, if array holds only the GPU's.\n"
        "Samples: ms per iteration.");
    m.def(
        "atomics",
        [](DeviceHandle& d, BufferHandle& buffer, const std::string& type, const std::string& scope,
           std::uint64_t elements, int cpu_threads, int gpu_threads, const std::string& reading, double window,
           std::uint64_t seed, const Stop& stop) {
            const AtomicsRequest request{
                element_from(type), is_second(scope, "device", "system"),  elements, cpu_threads,
                gpu_threads,        is_second(reading, "progress", "end"), window,   seed};
            nb::gil_scoped_release release;
            return atomics(d.lab, buffer.get(), request, stop);
        },
        "device"_a, "buffer"_a, nb::kw_only(), "type"_a, "scope"_a, "elements"_a, "cpu_threads"_a, "gpu_threads"_a,
        "reading"_a = "progress", "window"_a = 0.01, "seed"_a, "stop"_a,
        "CPU, GPU or both increment a histogram atomically. Samples: million updates per second, of both together.");
    m.def(
        "counted_triad",
        [](DeviceHandle& d, const std::string& allocator, std::size_t bytes, const std::string& event,
           std::uint64_t seed, const Stop& stop) {
            const CountedTriadRequest request{allocator_from(allocator), bytes, event, seed};
            return without_gil([&] { return counted_triad(d.lab, request, stop); });
        },
        "device"_a, nb::kw_only(), "allocator"_a, "bytes"_a, "event"_a = "dtlb-load-misses", "seed"_a, "stop"_a,
        "Counts a hardware event during a triad of one CPU thread. Raises Unavailable if it cannot be counted.");
    m.def(
        "caching",
        [](DeviceHandle& d, BufferHandle& buffer, const std::string& agent, std::uint64_t threads, std::size_t stride,
           std::uint64_t entries, bool even_only, const std::string& loads, std::uint64_t seed, const Stop& stop) {
            const CachingRequest request{agent_from(agent),       threads, stride, entries, even_only,
                                         entry_loads_from(loads), seed};
            nb::gil_scoped_release release;
            return caching(d.lab, buffer.get(), request, stop);
        },
        "device"_a, "buffer"_a, nb::kw_only(), "agent"_a, "threads"_a, "stride"_a, "entries"_a = 0,
        "even_only"_a = false, "loads"_a = "cached", "seed"_a, "stop"_a,
        "Each thread updates its entry with a load and a store. Samples: ns per update.\n\n"
        "entries: the threads update each of these once in a run. Samples: ns per entry.");
    m.attr("REREAD_BYTES") = reread_bytes;
    m.def(
        "reread",
        [](DeviceHandle& d, BufferHandle& buffer, const std::string& agent, std::uint64_t seed, const Stop& stop) {
            nb::gil_scoped_release release;
            return reread(d.lab, buffer.get(), agent_from(agent), seed, stop);
        },
        "device"_a, "buffer"_a, nb::kw_only(), "agent"_a, "seed"_a, "stop"_a,
        "Measures whether the agent caches the memory. Samples: ns per load of 4 KiB that are read repeatedly.\n\n"
        "Counters reread_ns and cold_ns: these loads, and loads over the whole buffer.");
    m.def(
        "locking",
        [](DeviceHandle& d, BufferHandle& region, int cpu_threads, int gpu_groups, int group_threads,
           std::uint64_t sections, std::uint64_t inside, std::uint64_t outside, double livelock_seconds,
           double max_seconds, bool block_lock, bool flushed, std::uint64_t seed, const Stop& stop) {
            const LockingRequest request{cpu_threads,      gpu_groups,  group_threads, sections, inside, outside,
                                         livelock_seconds, max_seconds, block_lock,    seed,     flushed};
            nb::gil_scoped_release release;
            return locking(d.lab, region.get(), request, stop);
        },
        "device"_a, "region"_a, nb::kw_only(), "cpu_threads"_a, "gpu_groups"_a, "group_threads"_a = 1, "sections"_a,
        "inside"_a = 16, "outside"_a = 0, "livelock_seconds"_a = 2.0, "max_seconds"_a = 15.0, "block_lock"_a = false,
        "flushed"_a = false, "seed"_a, "stop"_a,
        "Threads of both agents compete for a lock.\n\n"
        "Samples: ns per critical section. block_lock is for tests: the lock is never released. flushed: the "
        "fences of a section are taken to write caches back, where stores are otherwise visible at synchronisation "
        "only.");
    m.def(
        "store_to_frame",
        [](DeviceHandle& d, bool wait) {
            const FrameStore result = without_gil([&] { return store_to_frame(d.lab, wait); });
            return std::make_pair(result.seen == result.expected, result.overwritten);
        },
        "device"_a, nb::kw_only(), "wait"_a,
        "A kernel stores to a local variable of the function that launches it.\n\n"
        "wait: the function returns after the kernel; otherwise at once, and a second function takes the place of its "
        "frame. Returns whether the variable was set before its function returned, and how many words of the second "
        "function's frame the kernel changed. Kernels must reach plain host memory.");
    m.def(
        "try_access",
        [](DeviceHandle& d, BufferHandle& buffer, const std::string& agent, std::uint64_t seed) {
            nb::gil_scoped_release release;
            return try_access(d.lab, buffer.get(), agent_from(agent), seed);
        },
        "device"_a, "buffer"_a, "agent"_a, "seed"_a,
        "Returns the number of wrong words after the agent used the buffer by its address. May crash the process.");
    m.def(
        "try_coherence",
        [](DeviceHandle& d, BufferHandle& buffer) {
            const Coherence result = without_gil([&] { return try_coherence(d.lab, buffer.get()); });
            nb::dict out;
            out["gpu_saw"] = result.gpu_saw;
            out["cpu_saw"] = result.cpu_saw;
            out["rounds"] = result.rounds;
            out["answered"] = result.answered;
            out["round_trip_ns"] = result.round_trip_ns;
            return out;
        },
        "device"_a, "buffer"_a, nb::sig("def try_coherence(device: Device, buffer: Buffer) -> dict[str, float]"),
        "Counts the changes of a word that each agent saw while a kernel ran and the other agent stored to it.\n\n"
        "May crash the process.");
    m.def(
        "try_halves",
        [](DeviceHandle& d, BufferHandle& buffer) {
            const Halves result = without_gil([&] { return try_halves(d.lab, buffer.get()); });
            nb::dict out;
            out["errors"] = result.errors;
            out["cpu_passes"] = result.cpu_passes;
            out["gpu_passes"] = result.gpu_passes;
            out["seconds"] = result.seconds;
            return out;
        },
        "device"_a, "buffer"_a, nb::sig("def try_halves(device: Device, buffer: Buffer) -> dict[str, float]"),
        "Counts the wrong words after CPU and GPU each worked on one half at the same time. May crash the process.");
    m.def(
        "try_shared_adds",
        [](DeviceHandle& d, BufferHandle& buffer) {
            const SharedAdds result = without_gil([&] { return try_shared_adds(d.lab, buffer.get()); });
            nb::dict out;
            out["by_cpu"] = result.by_cpu;
            out["by_gpu"] = result.by_gpu;
            out["sum"] = result.sum;
            out["mixed"] = result.mixed;
            return out;
        },
        "device"_a, "buffer"_a, nb::sig("def try_shared_adds(device: Device, buffer: Buffer) -> dict[str, int]"),
        "CPU and GPU add to one word at the same time.\n\n"
        "Returns how often each added, and the sum that the word holds. May crash the process.");
    m.def(
        "try_moves",
        [](DeviceHandle& d, BufferHandle& buffer, std::uint64_t seed) {
            const Moves result = without_gil([&] { return try_moves(d.lab, buffer.get(), seed); });
            nb::dict out;
            out["page_bytes"] = result.page_bytes;
            out["pages"] = result.pages;
            out["present"] = result.present;
            out["touched"] = result.touched;
            out["left_by_one"] = result.left_by_one;
            out["left_by_all"] = result.left_by_all;
            out["region_first"] = result.region_first;
            out["region"] = result.region;
            out["back"] = result.back;
            out["node_before"] = result.node_before;
            out["node_by_all"] = result.node_by_all;
            out["errors"] = result.errors;
            return out;
        },
        "device"_a, "buffer"_a, "seed"_a,
        nb::sig("def try_moves(device: Device, buffer: Buffer, seed: int) -> dict[str, typing.Any]"),
        "Finds out which pages leave the CPU's page tables when the GPU touches one word, and then one word in every "
        "page.");
}

}  // namespace firsttouch
