// The probes on real devices (the host, and OpenCL and CUDA where a driver is found), and on one that corrupts data.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <regex>
#include <thread>

#include "device/host/memory.hpp"
#include "devices.hpp"
#include "faulty.hpp"
#include "probe/together.hpp"
#include "support.hpp"

// OpenCL drivers keep some memory until the process ends.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
    return "leak:libpocl\nleak:libLLVM\nleak:libclang\nleak:libhwloc\nleak:<unknown module>\n";
}

namespace firsttouch {
namespace {

using Probes = OnDevice;

TEST_P(Probes, FillAndCheckByEveryAgentInEveryAllocator) {
    for (const auto& entry : available_allocators())
        for (const std::size_t bytes : {std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{4095}, MiB + 3}) {
            const auto buffer = device->allocate(entry.allocator, bytes);
            SCOPED_TRACE(to_string(entry.allocator) + " of " + std::to_string(bytes));
            for (const Agent writer : agents_of(*buffer)) {
                lab->fill(*buffer, 21, writer);
                for (const Agent reader : agents_of(*buffer)) EXPECT_EQ(lab->check(*buffer, 21, reader), 0u);
                for (const std::size_t at : {std::size_t{0}, bytes / 2, bytes - 1}) {
                    unsigned char byte = 0;
                    lab->read(*buffer, at, &byte, 1);
                    byte ^= 0x10;
                    lab->write(*buffer, at, &byte, 1);
                    for (const Agent reader : agents_of(*buffer)) EXPECT_EQ(lab->check(*buffer, 21, reader), 1u) << at;
                    byte ^= 0x10;
                    lab->write(*buffer, at, &byte, 1);
                }
            }
        }
}

TEST_P(Probes, Chase) {
    for (const auto& entry : available_allocators()) {
        const auto buffer = device->allocate(entry.allocator, 256 * 1024);
        for (const Agent agent : agents_of(*buffer))
            for (const Agent first : agents_of(*buffer))
                for (const std::size_t group : {std::size_t{0}, std::size_t{4096}}) {
                    SCOPED_TRACE(to_string(entry.allocator));
                    const ChaseRequest request{
                        .agent = agent, .first_touch = first, .group_bytes = group, .hops = 4000};
                    const Outcome outcome = chase(*lab, *buffer, request, brief);
                    expect_positive(outcome);
                    EXPECT_EQ(outcome.counters.at("nodes"), 4096);
                }
    }
}

TEST_P(Probes, ChaseOverOneNodeAndBadStrides) {
    const auto buffer = device->allocate(Allocator::malloc, 64);
    expect_positive(chase(*lab, *buffer, {.stride = 64, .hops = 6400}, brief));
    for (const std::size_t stride : {0, 4, 12, 128})
        EXPECT_THROW(chase(*lab, *buffer, {.stride = stride}, brief), std::invalid_argument);
}

TEST_P(Probes, Stream) {
    for (const auto& entry : available_allocators()) {
        if (entry.gpu == Access::none && GetParam() != "cpu" && entry.allocator != Allocator::malloc) continue;
        const auto a = device->allocate(entry.allocator, 256 * 1024), b = device->allocate(entry.allocator, 256 * 1024),
                   c = device->allocate(entry.allocator, 256 * 1024);
        for (const Agent agent : agents_of(*a))
            for (const StreamOp op :
                 {StreamOp::copy, StreamOp::scale, StreamOp::add, StreamOp::triad, StreamOp::read, StreamOp::write}) {
                SCOPED_TRACE(to_string(entry.allocator) + " operation " + std::to_string(static_cast<int>(op)));
                for (const bool nontemporal : {false, true})
                    if (agent == Agent::cpu || !nontemporal)
                        expect_positive(stream(
                            *lab, *a, *b, *c,
                            {.op = op, .agent = agent, .first_touch = agent, .nontemporal = nontemporal, .passes = 2},
                            brief));
            }
    }
}

TEST_P(Probes, StreamWithTheFastestNumberOfThreads) {
    const auto a = device->allocate(Allocator::malloc, 1 << 20), b = device->allocate(Allocator::malloc, 1 << 20),
               c = device->allocate(Allocator::malloc, 1 << 20);
    for (const StreamOp op : {StreamOp::triad, StreamOp::read}) {
        const Outcome outcome = stream(*lab, *a, *b, *c, {.op = op, .threads = {1, 3, 2}, .passes = 4}, brief);
        expect_positive(outcome);
        const double best = outcome.counters.at("tried_" + std::to_string(int(outcome.counters.at("threads"))));
        for (const int threads : {1, 2, 3}) EXPECT_GE(best, outcome.counters.at("tried_" + std::to_string(threads)));
    }
    EXPECT_EQ(stream(*lab, *a, *b, *c, {.threads = {2}}, brief).counters.count("tried_2"), 0u);
}

// A read writes partial sums to a, so a launch may not have more of them than a has elements.
TEST_P(Probes, StreamOverTheSmallestArrays) {
    for (const auto& entry : available_allocators()) {
        if (entry.gpu == Access::none && GetParam() != "cpu") continue;
        for (const std::size_t bytes : {64, 192, 1024, 4096}) {
            const auto a = device->allocate(entry.allocator, bytes), b = device->allocate(entry.allocator, bytes),
                       c = device->allocate(entry.allocator, bytes);
            const Agent agent = GetParam() == "cpu" ? Agent::cpu : Agent::gpu;
            SCOPED_TRACE(to_string(entry.allocator) + " of " + std::to_string(bytes));
            for (const StreamOp op : {StreamOp::triad, StreamOp::read}) {
                const StreamRequest request{.op = op, .agent = agent, .first_touch = agent};
                try {
                    expect_positive(stream(*lab, *a, *b, *c, request, brief));
                } catch (const std::invalid_argument& reason) {
                    const std::string why = reason.what();
                    EXPECT_TRUE(why.find("aligned to 64") != std::string::npos || op == StreamOp::read) << why;
                    EXPECT_LT(bytes, 4096u) << why;
                }
            }
        }
    }
}

TEST_P(Probes, Copy) {
    std::vector<Allocator> allocators;
    for (const auto& entry : available_allocators()) allocators.push_back(entry.allocator);
    for (const Allocator to : allocators) {
        const Allocator from = to == allocators.back() ? allocators.front() : allocators.back();
        for (const std::size_t bytes : {std::size_t{1}, std::size_t{4097}, std::size_t{256 * 1024}}) {
            SCOPED_TRACE(to_string(from) + " to " + to_string(to) + ", " + std::to_string(bytes));
            const auto target = device->allocate(to, bytes), source = device->allocate(from, bytes);
            expect_positive(copy(*lab, *target, *source, {.bytes = bytes}, brief));
            expect_positive(copy(*lab, *target, *source, {.bytes = bytes, .streams = 3, .chunk = 65536}, brief));
            if (lab->reaches(Agent::cpu, *target) && lab->reaches(Agent::cpu, *source))
                expect_positive(copy(*lab, *target, *source, {.engine = Engine::cpu, .bytes = bytes}, brief));
            if (lab->reaches(Agent::gpu, *target) && lab->reaches(Agent::gpu, *source))
                expect_positive(copy(*lab, *target, *source, {.engine = Engine::kernel, .bytes = bytes}, brief));
            EXPECT_THROW(copy(*lab, *target, *source, {.bytes = bytes + 1}, brief), std::invalid_argument);
            EXPECT_THROW(copy(*lab, *target, *source, {.bytes = 0}, brief), std::invalid_argument);
        }
    }
}

TEST_P(Probes, Allocation) {
    for (const auto& entry : available_allocators()) {
        SCOPED_TRACE(to_string(entry.allocator));
        const AllocationRequest request{.allocator = entry.allocator, .bytes = 65536, .chunks = 8, .warmups = 2};
        const Outcome outcome = allocation(*lab, request, brief);
        expect_sane(outcome);
        EXPECT_GT(outcome.counters.at("free_ns"), -1000);
        AllocationRequest frees = request;
        frees.frees = true;
        const Outcome freed = allocation(*lab, frees, brief);
        expect_sane(freed);
        EXPECT_GT(freed.counters.at("allocate_ns"), -1000);
        const auto block = device->allocate(entry.allocator, 64);
        for (const Agent agent : agents_of(*block)) {
            frees.touched_by = agent;
            expect_positive(allocation(*lab, frees, brief));
        }
    }
}

TEST_P(Probes, AllocationsAreRefusedBeforeAnyIsMade) {
    const ScopedVariable limit("FIRSTTOUCH_MAX_HOST", "1MiB");
    const AllocationRequest request{.allocator = Allocator::malloc, .bytes = 65536, .chunks = 17};
    EXPECT_THROW(allocation(*lab, request, brief), GuardRefused);
    const AllocationRequest overflowing{.allocator = Allocator::malloc, .bytes = SIZE_MAX / 4 + 1, .chunks = 4};
    EXPECT_THROW(allocation(*lab, overflowing, brief), GuardRefused) << "the product would overflow";
}

// The request's outcome, or nothing if the allocator's pages were there before.
std::optional<Outcome> faults_of(Lab& lab, const FaultRequest& request) {
    try {
        return page_faults(lab, request, brief);
    } catch (const Unavailable& reason) {
        EXPECT_TRUE(contains(reason.what(), "there before the first touch")) << reason.what();
        return std::nullopt;
    }
}

TEST_P(Probes, PageFaults) {
    for (const auto& entry : available_allocators()) {
        std::vector<std::string> scenarios;
        if (entry.cpu != Access::none) scenarios = {"cpu"};
        if (entry.gpu != Access::none) scenarios.emplace_back("gpu-major");
        if (entry.cpu != Access::none && entry.gpu != Access::none)
            scenarios.insert(scenarios.end(), {"gpu-minor", "prefault+minor"});
        for (const std::string& scenario : scenarios)
            for (const bool load : {false, true})
                for (const int threads : {0, 1}) {
                    SCOPED_TRACE(to_string(entry.allocator) + " " + scenario + (load ? " load" : " store"));
                    const auto outcome = faults_of(*lab, {.allocator = entry.allocator,
                                                          .page_bytes = base_page,
                                                          .count = 64,
                                                          .scenario = scenario,
                                                          .load = load,
                                                          .threads = threads,
                                                          .warmups = 1});
                    EXPECT_TRUE(outcome || entry.allocator != Allocator::mmap);
                    if (!outcome) continue;
                    expect_sane(*outcome);
                    EXPECT_GT(outcome->counters.at("first_ns"), 0);
                    const bool times_cpu = scenario == "cpu" || scenario == "prefault+minor";
                    EXPECT_EQ(outcome->counters.count("cpu_threads"), times_cpu);
                    if (times_cpu && threads == 1) {
                        EXPECT_EQ(outcome->counters.at("cpu_threads"), 1);
                    }
                    // The CPU's page tables cannot be read where it has no access.
                    EXPECT_EQ(outcome->counters.at("shown_absent"), entry.cpu != Access::none);
                }
    }
}

TEST_P(Probes, ChaseOverOneLinePerPage) {
    constexpr std::size_t pages = 64, stride = 4096 + 64;
    for (const auto& entry : available_allocators()) {
        SCOPED_TRACE(to_string(entry.allocator));
        const auto buffer = device->allocate(entry.allocator, pages * stride);
        for (const Agent agent : agents_of(*buffer)) {
            const ChaseRequest request{.agent = agent, .first_touch = agent, .stride = stride, .hops = 640};
            const Outcome outcome = chase(*lab, *buffer, request, brief);
            expect_positive(outcome);
            EXPECT_EQ(outcome.counters.at("nodes"), pages);
        }
    }
}

TEST_P(Probes, CountedTriad) {
    for (const auto& entry : available_allocators()) {
        if (entry.cpu == Access::none) continue;
        SCOPED_TRACE(to_string(entry.allocator));
        try {
            expect_positive(
                counted_triad(*lab, {.allocator = entry.allocator, .bytes = MiB, .event = "page-faults"}, brief));
        } catch (const Unavailable& reason) {
            EXPECT_TRUE(contains(reason.what(), "not allowed here"));
        }
    }
    EXPECT_THROW(counted_triad(*lab, {.bytes = MiB, .event = "rain"}, brief), std::invalid_argument);
}

TEST_P(Probes, BothAgentsAtOnceWhereTheDriverStatesSo) {
    int tried = 0;
    for (const auto& entry : available_allocators()) {
        SCOPED_TRACE(to_string(entry.allocator));
        const auto buffer = device->allocate(entry.allocator, MiB);
        if (entry.cpu != Access::direct || entry.gpu != Access::direct) {
            EXPECT_THROW(try_coherence(*lab, *buffer), Unavailable);
            EXPECT_THROW(try_halves(*lab, *buffer), Unavailable);
            EXPECT_THROW(try_shared_adds(*lab, *buffer), Unavailable);
            EXPECT_THROW(try_moves(*lab, *buffer, 1), Unavailable);
            continue;
        }
        if (entry.concurrent != true) continue;
        ++tried;
        const Coherence seen = repeat_until(
            [](const Coherence& found) {
                return found.gpu_saw > 0 && found.cpu_saw > 0 && found.rounds > 1 && found.answered == found.rounds;
            },
            [&] { return try_coherence(*lab, *buffer); });
        EXPECT_GT(seen.gpu_saw, 0u);
        EXPECT_GT(seen.cpu_saw, 0u);
        EXPECT_GT(seen.rounds, 1u);
        EXPECT_EQ(seen.answered, seen.rounds);
        EXPECT_GT(seen.round_trip_ns, 0);
        const Halves halves = try_halves(*lab, *buffer);
        EXPECT_EQ(halves.errors, 0u);
        EXPECT_GT(halves.gpu_passes, 1u);
        if (entry.shared_atomics == true) {
            const SharedAdds adds = try_shared_adds(*lab, *buffer);
            EXPECT_EQ(adds.sum, adds.by_cpu + adds.by_gpu);
            EXPECT_GT(adds.by_gpu, 0u);
        }
    }
    EXPECT_TRUE(GetParam() != "cpu" || tried == 0) << "the host runs no kernels at the same time as the CPU";
}

TEST_P(Probes, PagesThatMoveToTheGpuAreCounted) {
    for (const auto& entry : available_allocators()) {
        if (entry.cpu != Access::direct || entry.gpu != Access::direct) continue;
        SCOPED_TRACE(to_string(entry.allocator));
        const auto buffer = device->allocate(entry.allocator, 2 * MiB);
        try {
            const Moves moves = try_moves(*lab, *buffer, 4);
            EXPECT_EQ(moves.errors, 0u) << "data stay the same when pages move";
            EXPECT_LE(moves.left_by_one, moves.left_by_all);
            EXPECT_LE(moves.left_by_all, moves.present);
            EXPECT_LE(moves.region, moves.left_by_one);
            if (moves.region > 0) {
                EXPECT_LE(moves.region_first, moves.touched);
                EXPECT_GT(moves.region_first + moves.region, moves.touched);
            }
            EXPECT_TRUE(entry.managed || moves.left_by_all == 0);
        } catch (const Unavailable& reason) {
            EXPECT_TRUE(contains(reason.what(), "shows no page") || contains(reason.what(), "pagemap"));
        }
    }
}

TEST_P(Probes, Migration) {
    for (const auto& entry : available_allocators()) {
        if (entry.gpu == Access::none && GetParam() != "cpu") continue;
        for (const Agent starts : {Agent::cpu, Agent::gpu})
            for (const bool update : {false, true}) {
                SCOPED_TRACE(to_string(entry.allocator));
                MigrationRequest request{.allocator = entry.allocator, .bytes = MiB, .starts_on = starts};
                request.copied = entry.cpu == Access::none;
                request.update = update;
                request.shuffled = update;
                const MigrationOutcome outcome = migration(*lab, request, brief);
                expect_positive(outcome);
                EXPECT_EQ(outcome.repetitions.size(), outcome.samples.values.size());
            }
    }
}

// Numbers of CPU and GPU threads that may increment at once: those of each agent that can access the memory, and of
// both where the driver states shared atomics.
std::vector<std::pair<int, int>> thread_counts(const AllocatorInfo& entry) {
    std::vector<std::pair<int, int>> counts;
    if (entry.cpu != Access::none) counts.emplace_back(3, 0);
    if (entry.gpu != Access::none) counts.emplace_back(0, 640);
    if (entry.concurrent == true && entry.shared_atomics == true && counts.size() == 2)
        counts.insert(counts.end(), {{1, 64}, {2, 192}});
    return counts;
}

TEST_P(Probes, AtomicsLoseNoUpdate) {
    static constexpr std::pair<Element, std::uint64_t> histograms[] = {
        {Element::u64, 1}, {Element::f64, 1}, {Element::u64, 1000}, {Element::f64, 65536}};
    for (const auto& entry : available_allocators())
        for (const auto& [type, elements] : histograms) {
            const auto buffer = device->allocate(entry.allocator, elements * 8);
            for (const auto& [cpu, gpu] : thread_counts(entry)) {
                SCOPED_TRACE(to_string(entry.allocator) + " by " + std::to_string(cpu) + " and " + std::to_string(gpu) +
                             " on " + std::to_string(elements));
                const AtomicsRequest request{.type = type,
                                             .system = cpu > 0 || elements > 1,
                                             .elements = elements,
                                             .cpu_threads = cpu,
                                             .gpu_threads = gpu,
                                             .window = 0.001};
                const Outcome outcome = repeat_until(
                    [&](const Outcome& found) {
                        return found.counters.at("increments") > 0 &&
                               (gpu == 0 || found.counters.at("gpu_threads_seen") > 0);
                    },
                    [&] {
                        Outcome found = atomics(*lab, *buffer, request, very_brief);
                        expect_sane(found);
                        EXPECT_EQ(found.counters.at("found"), found.counters.at("increments"));
                        return found;
                    });
                EXPECT_GT(outcome.counters.at("increments"), 0);
                EXPECT_EQ(outcome.counters.contains("gpu_alone"), cpu > 0 && gpu > 0);
                if (gpu > 0) {
                    EXPECT_GT(outcome.counters.at("gpu_threads_seen"), 0);
                }
            }
        }
}

TEST_P(Probes, AtomicsAreCountedWithoutReadingsDuringTheRun) {
    const bool host_only = GetParam() == "cpu";
    const auto buffer = device->allocate(host_only ? Allocator::malloc : Allocator::device, 8192);
    const AtomicsRequest request{.elements = 1024,
                                 .cpu_threads = host_only ? 2 : 0,
                                 .gpu_threads = host_only ? 0 : 64,
                                 .read_at_end = true,
                                 .window = 0.005};
    const Outcome outcome = repeat_until([](const Outcome& found) { return found.counters.contains("read_ratio"); },
                                         [&] { return atomics(*lab, *buffer, request, very_brief); });
    expect_sane(outcome);
    EXPECT_GE(outcome.counters.at("read_ratio"), 0);
    EXPECT_EQ(outcome.counters.at("found"), outcome.counters.at("increments"));
}

TEST_P(Probes, AtomicsRefuseInvalidRequests) {
    const auto buffer = device->allocate(Allocator::malloc, 64);
    for (const AtomicsRequest& request :
         {AtomicsRequest{.elements = 0, .cpu_threads = 1}, AtomicsRequest{.elements = 9, .cpu_threads = 1},
          AtomicsRequest{.elements = (1ull << 31) + 1, .cpu_threads = 1}, AtomicsRequest{},
          AtomicsRequest{.cpu_threads = -1, .gpu_threads = 64}, AtomicsRequest{.gpu_threads = 63}})
        EXPECT_THROW(atomics(*lab, *buffer, request, very_brief), std::invalid_argument);
    for (const auto& entry : available_allocators()) {
        const auto other = device->allocate(entry.allocator, 64);
        const AtomicsRequest both{.cpu_threads = 1, .gpu_threads = 64};
        if (entry.concurrent != true) {
            EXPECT_THROW(atomics(*lab, *other, both, very_brief), Unavailable) << to_string(entry.allocator);
        }
    }
}

TEST_P(Probes, CachingUpdatesEveryEntryAndNothingElse) {
    for (const auto& entry : available_allocators())
        for (const std::size_t stride : {8, 32, 136}) {
            const auto buffer = device->allocate(entry.allocator, 130 * stride + 24);
            for (const Agent agent : agents_of(*buffer))
                for (const bool even : {false, true}) {
                    SCOPED_TRACE(to_string(entry.allocator) + ", stride " + std::to_string(stride));
                    const std::uint64_t threads = agent == Agent::cpu ? 3 : 129;
                    const CachingRequest request{
                        .agent = agent, .threads = threads, .stride = stride, .even_only = even};
                    expect_positive(caching(*lab, *buffer, request, very_brief));
                    if (agent == Agent::cpu) continue;
                    for (const EntryLoads loads : {EntryLoads::uncached, EntryLoads::bypass_l1, EntryLoads::staged}) {
                        CachingRequest other = request;
                        other.loads = loads;
                        expect_positive(caching(*lab, *buffer, other, very_brief));
                    }
                }
        }
}

TEST_P(Probes, ASinglePassUpdatesEveryEntryOnceInARun) {
    for (const auto& entry : available_allocators())
        for (const std::size_t stride : {8, 136}) {
            const auto buffer = device->allocate(entry.allocator, 1001 * stride + 24);
            for (const Agent agent : agents_of(*buffer))
                for (const std::uint64_t threads : {1, 3, 1001}) {
                    if (agent == Agent::cpu && threads > 3) continue;
                    SCOPED_TRACE(to_string(entry.allocator) + ", stride " + std::to_string(stride));
                    CachingRequest request{.agent = agent, .threads = threads, .stride = stride, .entries = 1001};
                    const Outcome all = caching(*lab, *buffer, request, very_brief);
                    expect_positive(all);
                    EXPECT_EQ(all.counters.at("updates"), static_cast<double>(all.samples.values.size() + 1));
                    request.even_only = true;
                    expect_positive(caching(*lab, *buffer, request, very_brief));
                    if (agent == Agent::cpu) continue;
                    request.loads = EntryLoads::staged;
                    expect_positive(caching(*lab, *buffer, request, very_brief));
                }
        }
}

TEST_P(Probes, CachingOfOneEntryKeepsSomeUpdates) {
    for (const auto& entry : available_allocators()) {
        const auto buffer = device->allocate(entry.allocator, 4096);
        for (const Agent agent : agents_of(*buffer))
            for (const std::uint64_t threads : {1, 4}) {
                const CachingRequest request{.agent = agent, .threads = threads, .stride = 0};
                const Outcome outcome = caching(*lab, *buffer, request, very_brief);
                expect_positive(outcome);
                EXPECT_GT(outcome.counters.at("kept"), 0);
                EXPECT_LE(outcome.counters.at("kept"), 1);
                if (threads == 1) {
                    EXPECT_EQ(outcome.counters.at("kept"), 1);
                }
            }
    }
}

TEST_P(Probes, CachingRefusesInvalidRequests) {
    const auto buffer = device->allocate(Allocator::malloc, 64);
    for (const CachingRequest& request :
         {CachingRequest{.threads = 0}, CachingRequest{.threads = 9}, CachingRequest{.stride = 7},
          CachingRequest{.threads = 1u << 31, .stride = 0}, CachingRequest{.threads = 2, .stride = 64},
          CachingRequest{.stride = 0, .entries = 8}, CachingRequest{.entries = 9},
          CachingRequest{.loads = EntryLoads::uncached}})
        EXPECT_THROW(caching(*lab, *buffer, request, very_brief), std::invalid_argument);
    EXPECT_THROW(reread(*lab, *buffer, Agent::cpu, 1, very_brief), std::invalid_argument);
}

TEST_P(Probes, Reread) {
    for (const auto& entry : available_allocators()) {
        const auto buffer = device->allocate(entry.allocator, MiB);
        for (const Agent agent : agents_of(*buffer)) {
            SCOPED_TRACE(to_string(entry.allocator));
            const Outcome outcome = reread(*lab, *buffer, agent, 5, brief);
            expect_positive(outcome);
            EXPECT_GT(outcome.counters.at("cold_ns"), 0);
            EXPECT_GT(outcome.counters.at("reread_ns"), 0);
        }
    }
}

TEST_P(Probes, DevicesStateFactsAndMemory) {
    const Facts facts = device->facts();
    ASSERT_FALSE(facts.empty());
    EXPECT_EQ(facts.front().first, "title");
    EXPECT_EQ(device->name(), GetParam());
    const DeviceMemory memory = device->memory();
    EXPECT_GT(memory.total, 64 * MiB);
    EXPECT_LE(memory.free, memory.total);
    for (const auto& entry : device->allocators()) EXPECT_EQ(entry.available, entry.reason.empty());
}

TEST_P(Probes, StreamsJoinAndAGateHoldsAStream) {
    const auto other = device->stream();
    const auto gate = device->hold(lab->stream());
    const auto from = device->record(lab->stream());
    device->join(*other, *from);
    const auto to = device->record(*other);
    gate->open();
    device->wait(lab->stream());
    device->wait(*other);
    EXPECT_GE(device->elapsed(*from, *to), 0);
    { const auto dropped = device->hold(*other); }
    device->wait(*other);
}

TEST_P(Probes, MissingAndBrokenKernelsAreNamed) {
    EXPECT_ANY_THROW(lab->kernel("pattern", "nothing"));
    const std::string message = message_of<std::runtime_error>([&] {
        device->compile({"broken", "KERNEL broken(GLOBAL ulong* p) { p[0] = undeclared_name; }", {}});
    });
    EXPECT_TRUE(contains(message, "broken"));
}

INSTANTIATE_TEST_SUITE_P(Device, Probes, every_device, kind_of);

class Faults : public testing::Test {
  protected:
    FaultyDevice device;
    Lab lab{device};
    const FaultRequest one_thread{.page_bytes = base_page, .count = 16, .scenario = "cpu", .threads = 1, .warmups = 0};
    // Stores the words of a touch with this seed.
    static void touch(const Block& block, std::uint64_t seed) {
        run_on_host("touch_pages", 1, static_cast<std::uint64_t*>(block.host), std::uint64_t{0}, std::uint64_t{16},
                    std::uint64_t{base_page / 8}, seed);
    }
};

TEST_F(Faults, PagesThatAreThereBeforeTheFirstTouchAreNotMeasured) {
    device.before_map = [&](const Block& block) { *static_cast<volatile char*>(block.host) = 1; };
    try {
        page_faults(lab, one_thread, brief);
        FAIL() << "measured";
    } catch (const Unavailable& reason) {
        EXPECT_TRUE(contains(reason.what(), "1 of 16 pages of mmap memory are there before the first touch"));
    }
    EXPECT_EQ(device.live_blocks, 0);
}

TEST_F(Faults, APageWithoutItsStoreIsCounted) {
    int maps = 0;
    device.before_map = [&](const Block& block) {
        // The maps of a trial: alignment, absence, two rounds, check.
        if (++maps == 5) static_cast<std::uint64_t*>(block.host)[base_page / 8 * 3] ^= 64;
    };
    EXPECT_EQ(page_faults(lab, one_thread, {.seconds = 0.05, .max_samples = 10}).errors, 1u);
}

TEST_F(Faults, ALoadThatReadsWhatNobodyStoredIsCounted) {
    int maps = 0;
    device.before_map = [&](const Block& block) {
        if (++maps == 4) touch(block, one_thread.seed + 2);
    };
    FaultRequest request = one_thread;
    request.load = true;
    EXPECT_EQ(page_faults(lab, request, {.seconds = 0.05, .max_samples = 10}).errors, 16u);
}

TEST_F(Faults, HugePagesThatTheKernelDoesNotGiveAreNotMeasured) {
    const FaultRequest request{
        .pages = Pages::huge, .page_bytes = huge_page, .count = 2, .scenario = "cpu", .threads = 1, .warmups = 0};
    device.before_map = [&](const Block& block) { madvise(block.base, block.reserved, MADV_NOHUGEPAGE); };
    try {
        page_faults(lab, request, brief);
        FAIL() << "measured";
    } catch (const Unavailable& reason) {
        const std::string all = std::to_string(2 * huge_page / base_page);
        EXPECT_TRUE(contains(reason.what(), "huge pages were requested, but the kernel mapped only 2 of the " + all));
    }
}

// As page-locked memory of 1 GiB: 100 blocks take longer than a sample of others, and are measured all the same.
TEST_F(Faults, SlowAllocationsTakeFewerSamples) {
    int obtained = 0;
    device.before_obtain = [&] { ++obtained, std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
    const AllocationRequest request{
        .allocator = Allocator::mmap, .bytes = 4096, .chunks = 4, .limit = 600, .three_samples = 0.02};
    const Outcome outcome = allocation(lab, request, {.tolerance = 0.1, .seconds = 0.001});
    EXPECT_EQ(outcome.samples.values.size(), 1u);
    EXPECT_GE(outcome.samples.values[0], 5e6);
    EXPECT_EQ(outcome.errors, 0u);
    EXPECT_EQ(obtained, 1 + 1 + 4 + 1) << "two single blocks, the sample, the block that is verified";
}

TEST_F(Faults, AllocationsThatTakeTooLongSayWhatToTypeInstead) {
    device.before_obtain = [&] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
    AllocationRequest request{.allocator = Allocator::mmap, .bytes = 4096, .chunks = 1'000'000, .limit = 3};
    std::string message = message_of<Unavailable>([&] { allocation(lab, request, brief); });
    EXPECT_TRUE(contains(message, "1000000 blocks would take about "));
    EXPECT_TRUE(contains(message, "this point may take 3 s: --timeout "));
    std::smatch number;
    ASSERT_TRUE(std::regex_search(message, number, std::regex("--set chunks=([0-9]+) takes fewer blocks"))) << message;
    request.chunks = std::stoi(number[1]);
    EXPECT_LE(request.chunks, 300) << "300 blocks of at least 5 ms each take 1.5 s";
    request = {.allocator = Allocator::mmap, .bytes = 4096, .chunks = 1, .limit = 0};
    message = message_of<Unavailable>([&] { allocation(lab, request, brief); });
    EXPECT_TRUE(contains(message, "--timeout "));
    EXPECT_FALSE(contains(message, "chunks=")) << "there is no smaller number of blocks";
    EXPECT_EQ(device.live_blocks, 0);
}

TEST_F(Faults, ACorruptedCycleIsCounted) {
    const auto buffer = device.allocate(Allocator::malloc, 65536);
    int maps = 0;
    device.before_map = [&](const Block& block) {
        if (++maps == 4) static_cast<std::uint64_t*>(block.host)[8] ^= 64;  // maps: base, write, walk, check
    };
    EXPECT_EQ(chase(lab, *buffer, {.hops = 320}, brief).errors, 1u);
    EXPECT_EQ(maps, 4);
}

TEST_F(Faults, AWalkThatLeavesItsCycleIsCounted) {
    const auto buffer = device.allocate(Allocator::malloc, 65536);
    int maps = 0;
    device.before_map = [&](const Block& block) {
        auto* words = static_cast<std::uint64_t*>(block.host);
        if (++maps == 3) words[0] = reinterpret_cast<std::uint64_t>(words);  // a node that leads to itself
    };
    EXPECT_EQ(chase(lab, *buffer, {.hops = 3200}, brief).errors, 2u);  // the end of the walk, and the node
}

TEST_F(Faults, ACorruptedArrayIsCounted) {
    const auto a = device.allocate(Allocator::malloc, 65536), b = device.allocate(Allocator::malloc, 65536),
               c = device.allocate(Allocator::malloc, 65536);
    int maps = 0;
    device.before_map = [&](const Block& block) {
        // maps: three fills, three arrays of the triad, check
        if (++maps == 7) static_cast<double*>(block.host)[777] += 1;
    };
    EXPECT_EQ(stream(lab, *a, *b, *c, {.op = StreamOp::triad}, brief).errors, 1u);
    EXPECT_EQ(maps, 7);
    maps = 0;
    device.before_map = [&](const Block& block) {
        if (++maps == 5) static_cast<double*>(block.host)[777] += 1;  // b, which is summed
    };
    EXPECT_EQ(stream(lab, *a, *b, *c, {.op = StreamOp::read}, brief).errors, 1u);
}

TEST_F(Faults, ACopyWithAWrongByteIsCounted) {
    const auto target = device.allocate(Allocator::malloc, 4099), source = device.allocate(Allocator::malloc, 4099);
    device.after_copy = [&](const Block& block) {
        if (block.host == target->block().host) static_cast<char*>(block.host)[1234] ^= 1;
    };
    EXPECT_EQ(copy(lab, *target, *source, {.bytes = 4096}, brief).errors, 2u);  // the byte, and the tail
    EXPECT_EQ(copy(lab, *target, *source, {.bytes = 4099}, brief).errors, 1u);
}

TEST_F(Faults, ACopyThatCopiesNothingIsCounted) {
    const auto target = device.allocate(Allocator::malloc, 4096), source = device.allocate(Allocator::malloc, 4096);
    device.after_copy = [&](const Block& block) {
        if (block.host == target->block().host) std::memset(block.host, 0, block.bytes);
    };
    EXPECT_EQ(copy(lab, *target, *source, {.bytes = 4096}, brief).errors, 512u);
}

TEST_F(Faults, AByteFlippedInEitherOfTwoCopiesAtOnceIsCounted) {
    const auto target = device.allocate(Allocator::mmap, 8192), source = device.allocate(Allocator::mmap, 8192),
               second_target = device.allocate(Allocator::mmap, 8192),
               second_source = device.allocate(Allocator::mmap, 8192);
    CopyRequest both{.bytes = 8192, .second_target = second_target.get(), .second_source = second_source.get()};
    const Outcome right = copy(lab, *target, *source, both, brief);
    EXPECT_EQ(right.errors, 0u);
    EXPECT_FALSE(right.counters.contains("new_pages_us"));
    for (const Buffer* flipped : {target.get(), second_target.get()}) {
        device.after_copy = [&](const Block& block) {
            if (block.host == flipped->block().host) static_cast<char*>(block.host)[8191] ^= 1;
        };
        EXPECT_EQ(copy(lab, *target, *source, both, brief).errors, 1u);
    }
    device.after_copy = [](const Block&) {};
    both.second_source = nullptr;
    EXPECT_THROW(copy(lab, *target, *source, both, brief), std::invalid_argument);
    both.second_source = second_source.get();
    both.engine = Engine::cpu;
    EXPECT_THROW(copy(lab, *target, *source, both, brief), std::invalid_argument);
    const CopyRequest named{.engine = Engine::peer_call, .bytes = 8192};
    EXPECT_TRUE(contains(message_of<Unavailable>([&] { copy(lab, *target, *source, named, brief); }),
                         "has no copy that names two devices"));
}

TEST_F(Faults, ACopyIntoNewPagesIsCheckedToo) {
    const auto target = device.allocate(Allocator::malloc, 4096), source = device.allocate(Allocator::malloc, 4096);
    EXPECT_GT(copy(lab, *target, *source, {.bytes = 4096}, brief).counters.at("new_pages_us"), 0);
    EXPECT_FALSE(copy(lab, *target, *source, {.bytes = 4096, .streams = 2}, brief).counters.contains("new_pages_us"));
    const auto part = device.allocate(Allocator::malloc, 100);
    EXPECT_FALSE(copy(lab, *part, *source, {.bytes = 100}, brief).counters.contains("new_pages_us")) << "no page";
}

TEST_F(Faults, AnAllocationThatFailsMidwayReleasesItsBlocks) {
    int obtained = 0;
    device.before_obtain = [&] {
        if (++obtained == 5) throw std::bad_alloc();
    };
    const AllocationRequest request{.allocator = Allocator::mmap, .bytes = 65536, .chunks = 8, .warmups = 1};
    EXPECT_THROW(allocation(lab, request, brief), std::bad_alloc);
    EXPECT_EQ(device.live_blocks, 0);
    const ScopedVariable limit("FIRSTTOUCH_MAX_HOST", "1MiB");
    EXPECT_EQ(device.allocate(Allocator::malloc, MiB)->size(), MiB) << "the reservation was given back";
}

TEST_F(Faults, CorruptedDataOfACountedTriadAreCounted) {
    int maps = 0;
    device.before_map = [&](const Block& block) {
        if (++maps == 4) static_cast<double*>(block.host)[777] += 1;  // maps: three arrays filled and counted, check
    };
    try {
        EXPECT_EQ(counted_triad(lab, {.bytes = 65536, .event = "page-faults"}, brief).errors, 1u);
    } catch (const Unavailable& reason) {
        GTEST_SKIP() << reason.what();
    }
    EXPECT_EQ(maps, 4);
    EXPECT_EQ(device.live_blocks, 0);
}

TEST_F(Faults, AnIncrementThatIsLostIsCounted) {
    const auto buffer = device.allocate(Allocator::malloc, 8 * 1000);
    int maps = 0;
    device.before_map = [&](const Block& block) {
        if (++maps == 3) static_cast<std::uint64_t*>(block.host)[500] -= 1;  // maps: zero, increment, check
    };
    const Outcome outcome = atomics(lab, *buffer, {.elements = 1000, .cpu_threads = 2, .window = 0.001}, very_brief);
    EXPECT_EQ(maps, 3);
    EXPECT_EQ(outcome.errors, 1u);
    EXPECT_EQ(outcome.counters.at("increments") - outcome.counters.at("found"), 1);
}

TEST_F(Faults, AnImpossibleElementIsCounted) {
    const auto buffer = device.allocate(Allocator::malloc, 8 * 1000);
    for (const double wrong : {0.5, -1e300, 1e300}) {
        int maps = 0;
        double before = 0;
        device.before_map = [&](const Block& block) {
            if (++maps != 3) return;
            double& element = static_cast<double*>(block.host)[7];
            before = element;
            element += wrong;
        };
        const AtomicsRequest request{.type = Element::f64, .elements = 1000, .cpu_threads = 1, .window = 0.001};
        const Outcome outcome = atomics(lab, *buffer, request, very_brief);
        EXPECT_EQ(outcome.errors, 1 + static_cast<std::uint64_t>(wrong == 0.5 ? 0 : before)) << wrong;
    }
}

TEST_F(Faults, AnUpdateThatIsLostIsCounted) {
    const auto buffer = device.allocate(Allocator::malloc, 4096);
    for (const std::size_t stride : {0, 64})
        for (const std::size_t word : {0, 8, 9}) {  // the first entry, the second, padding
            int maps = 0;
            device.before_map = [&](const Block& block) {
                if (++maps == 3) static_cast<std::uint64_t*>(block.host)[word] ^= 1ull << 63;  // before the check
            };
            const CachingRequest request{.threads = 2, .stride = stride};
            EXPECT_EQ(caching(lab, *buffer, request, very_brief).errors, 1u) << stride << " " << word;
            EXPECT_EQ(maps, 3);
        }
}

TEST_F(Faults, AWalkOverLessThanTheBufferLeavesTheRestAlone) {
    const auto buffer = device.allocate(Allocator::malloc, 65536);
    lab.fill(*buffer, 3, Agent::cpu);
    EXPECT_EQ(chase(lab, *buffer, {.hops = 320, .bytes = 4096}, brief).counters.at("nodes"), 64);
    EXPECT_EQ(lab.check(*buffer, 3, Agent::cpu), 64u) << "one word of every node";
}

}  // namespace
}  // namespace firsttouch
