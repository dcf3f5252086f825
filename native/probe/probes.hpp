// The probes: measuring loops for any device, using only device.hpp. Each verifies the data it moved.
#pragma once

#include "host/increments.hpp"
#include "host/loops.hpp"
#include "device/lab.hpp"

namespace firsttouch {

struct ChaseRequest {
    Agent agent = Agent::cpu;
    Agent first_touch = Agent::cpu;  // the agent that writes the cycle
    std::size_t stride = 64;         // bytes between nodes: a cache line
    std::size_t group_bytes = 0;     // 0: one random cycle; otherwise nodes of the same group are visited together
    std::size_t hops = 100'000;      // loads per sample, rounded up to a multiple of 32
    std::size_t last_level = 0;      // bytes of the last-level cache; nodes that may fit are warmed by a full traversal
    std::uint64_t seed = 1;
    std::size_t bytes = 0;          // that the cycle spans from the start of the buffer; 0: all
    bool past_l1 = false;           // a device's loads bypass its first-level cache, if it has such loads
    std::vector<int> writers = {};  // the processors on which the CPU writes the cycle; none: those of this thread
};
// Samples: ns per load. Counters: nodes, cycles_per_load where the device counts them, hw_loads (all loads that the
// profiler saw) if the sample is counted. errors: wrong nodes, plus one if the walk did not end where the cycle's
// closed form says.
Outcome chase(Lab& lab, const Buffer& buffer, const ChaseRequest& request, const Stop& stop);

// How a device's STREAM kernel is launched. unroll 0: the fastest shape is searched.
struct StreamShape {
    int unroll = 0;
    std::uint32_t threads = 0;  // in a block
    std::uint32_t blocks = 0;
};
struct StreamRequest {
    StreamOp op = StreamOp::triad;
    Agent agent = Agent::cpu;
    Agent first_touch = Agent::cpu;
    std::vector<int> threads = {0};  // numbers of CPU threads, of which the fastest is measured; 0: all
    bool nontemporal = false;        // CPU stores
    std::size_t passes = 1;          // over the arrays in each timed run: the cache sweep
    std::uint64_t seed = 1;
    StreamShape shape = {};                      // of a device's launches
    std::vector<std::vector<int>> writers = {};  // for each array, the processors on which the CPU fills it; none:
                                                 // those of this thread
    bool element_per_thread = false;  // a device's kernel has one thread for each element; there is no shape to search
    bool activity = false;            // counts what the processors do during the samples (HostActivity)
};
// Samples: GB/s, bytes read plus bytes written by the kernel over all passes. Counters on the CPU: threads, and with
// several numbers of them tried_N, the GB/s of N threads. On a device the launch shape is searched first, unless it is
// given, and reported (counters threads, unroll, blocks). A counted sample is one launch. `activity` adds the counters
// of HostActivity::end.
Outcome stream(Lab& lab, const Buffer& a, const Buffer& b, const Buffer& c, const StreamRequest& request,
               const Stop& stop);

// peer_call is the driver's copy that names both devices, which needs no access of one to the other's memory.
enum class Engine : std::uint8_t { copy_engine, kernel, cpu, peer_call };
struct CopyRequest {
    Engine engine = Engine::copy_engine;
    std::size_t bytes = 0;
    int streams = 1;
    std::size_t chunk = 0;  // bytes of each copy if one transfer is split into several; 0: not split
    std::uint64_t seed = 1;
    int threads = 0;  // of the CPU; 0: all
    // A second copy at once, on a stream of its own, such as the other way; both or none. Not by the CPU.
    const Buffer* second_target = nullptr;
    const Buffer* second_source = nullptr;
    bool second_by_owner = false;  // the device of its source queues the second copy, not that of the first
    // Who writes each buffer first, where it has access, otherwise the agent that has; none: the CPU where it has
    // access. The CPU does so on the processors of the buffer's side; the sides of the second copy are the other way
    // round. No processors: those of this thread.
    std::optional<Agent> touched_by = {};
    std::vector<int> target_processors = {}, source_processors = {};
    // Touch all pages anew before each sample, which is then one copy: for memory whose pages move when they are used.
    // Plain host memory gives its pages back first.
    bool anew = false;
};
// Samples: GB/s of copies queued back to back, each byte counted once; those of the second copy too. Counters:
// latency_us, the median of single copies from the call to their completion, timed by the host, with the ends of its
// 95 % interval latency_low_us and latency_high_us. Where the device copies whole into plain host memory of at least a
// page, new_pages_us, new_pages_low_us and new_pages_high_us are the same with the target's pages given back to the
// kernel before each copy. errors: wrong words of the targets. Throws Unavailable if the device has no such engine for
// this memory.
Outcome copy(Lab& lab, const Buffer& target, const Buffer& source, const CopyRequest& request, const Stop& stop);

class Comm;
struct MessageRequest {
    std::size_t bytes = 0;
    int peer = 1;  // the rank of the other side
    std::uint64_t seed = 1;
    // Host memory for two messages, through which the device copies; without it the library gets the addresses of
    // source and target, which the CPU must reach in place or the library must take.
    const Buffer* staging = nullptr;
    bool device_addresses = false;  // the library gets the device's addresses, not the CPU's
};
// Both ranks call it; the lower one leads. Samples of the leader: GB/s of messages from its source to the other's
// target, queued in windows back to back, each of which the other acknowledges. Counters of the leader: latency_us,
// half of a message there and back, with the ends of its 95 % interval latency_low_us and latency_high_us; window, the
// messages in one. The other has no samples. errors: wrong words of this rank's target. If the rank is the only one, it
// sends to itself, by the device's addresses; latency_us is then such a message from the call until it is there.
Outcome message(Lab& lab, Comm& comm, const Buffer& source, const Buffer& target, const MessageRequest& request,
                const Stop& stop);

enum class Collective : std::uint8_t;
struct CollectiveRequest {
    Collective operation{};
    std::size_t block = 0;  // numbers of 4 bytes in a block
    std::uint64_t seed = 1;
    bool device_addresses = false;  // the library gets the device's addresses, not the CPU's
};
struct CollectiveRank {
    Lab& lab;
    Comm& comm;
    const Buffer &source, &target;
    // Host memory for source and target, through which the device copies them; both or none. Without it the library
    // gets their addresses, which the CPU must reach in place or the library must take.
    const Buffer *staged_source = nullptr, *staged_target = nullptr;
};
struct CollectiveOutcome : Outcome {
    std::vector<std::uint64_t> errors_of_ranks;  // those of this process
};
// All ranks call it, each with itself, and rank 0 leads; or one process calls it with all ranks in their order, and one
// thread drives them. Samples of rank 0: microseconds of one operation, from the call until the rank can use its
// target, of the slowest rank; all begin together. Counters of rank 0: interval_us of operations that are queued back
// to back, of the slowest rank, and the ends of its 95 % interval interval_low_us and interval_high_us; if ranks are
// timed apart, mean_us and least_us over them. errors: wrong numbers of the targets. Throws Unavailable for more ranks
// than sums stay exact with.
CollectiveOutcome collective(std::span<const CollectiveRank> ranks, const CollectiveRequest& request, const Stop& stop);

struct AllocationRequest {
    Allocator allocator = Allocator::malloc;
    std::size_t bytes = 0;
    int chunks = 100;  // blocks that one loop allocates and a second one frees
    int warmups = 10;
    bool frees = false;                              // samples are frees, not allocations
    std::optional<Agent> touched_by = std::nullopt;  // writes every block before it is freed
    double limit = 30;         // seconds that the point may take; both loops may take half of them
    double three_samples = 5;  // seconds; if three samples would take longer, fewer are taken
};
// Samples: ns per allocation. Counters: free_ns, the median per free. With `frees`, samples: ns per free; counters:
// allocate_ns. With touched_by the guard charges each block, so its few nanoseconds are included. Fewer than three
// samples are taken where they would take too long. Throws Unavailable if already one would take more than half of
// `limit`.
Outcome allocation(Lab& lab, const AllocationRequest& request, const Stop& stop);

struct FaultRequest {
    Allocator allocator = Allocator::mmap;
    Pages pages = Pages::base;
    std::size_t page_bytes = 0;   // from one touch to the next
    std::size_t count = 1;        // pages touched
    std::size_t least_bytes = 0;  // of the block that holds them
    std::string scenario;         // "cpu", "gpu-major", "gpu-minor", "prefault+minor"
    bool load = false;            // the timed accesses are loads, otherwise stores
    int threads = 0;              // of the CPU; 0: all
    int warmups = 10;
    std::uint64_t seed = 1;
};
// Samples: ns per page, a first pass over a new block minus a second pass over the same block, of every trial.
// Counters: first_ns, second_ns, medians of the passes; cpu_threads, where the CPU's accesses are timed; shown_absent,
// 1 if in every trial the CPU's page tables showed no page of the block before the first touch, 0 if they could not be
// read. errors: pages with a wrong word or without a load. Throws Unavailable if pages were there before, or if huge
// pages were requested and not given.
Outcome page_faults(Lab& lab, const FaultRequest& request, const Stop& stop);

enum class SharingMode : std::uint8_t { concurrent, lockstep, copying };
struct ConcurrencyRequest {
    SharingMode mode = SharingMode::lockstep;
    int iterations = 100;  // per sample; the agents swap ends of the array after each
    int threads = 0;       // of the CPU; 0: all
    double longest = 20;   // maximum seconds of one sample
    std::uint64_t seed = 1;
    std::optional<std::size_t> gpu_bytes = std::nullopt;  // the GPU's part; without it half
};
// Samples: ms per iteration, in which CPU and GPU each add one to every integer of one part. `second`: holds the part
// with which the CPU starts, and `array` only that of the GPU; without it `array` holds both. `copy` is the CPU's array
// in the mode copying. Counters: cpu_alone_ms, gpu_alone_ms (one agent adding to its part, the other idle),
// together_ms, overlap, copying_ms. errors: integers that were not incremented once per iteration. Throws Unavailable
// if the CPU may not use the memory while a kernel does, or if one sample would take longer than `longest`.
Outcome concurrency(Lab& lab, const Buffer& array, const Buffer* second, const Buffer* copy,
                    const ConcurrencyRequest& request, const Stop& stop);
enum class Prefetch : std::uint8_t { none, whole, iteration, back };  // back: to the CPU, after the passes
struct MigrationRequest {
    Allocator allocator = Allocator::managed;
    std::size_t bytes = 0;
    bool copied = false;             // no migration: copies before the first and after the last pass
    std::size_t run_bytes = 128;     // a pass accesses this many bytes (a power of two)
    std::size_t stride_bytes = 128;  // at the start of every stride
    bool shuffled = false;           // in random order
    bool sequential = false;         // by one thread, in order
    bool update = true;              // adds one to every word accessed; otherwise reads it
    std::vector<Advice> advice;
    Prefetch prefetch = Prefetch::none;
    int streams = 1;  // of a prefetch of the whole buffer
    Agent starts_on = Agent::cpu;
    int iterations = 12;
    std::uint64_t seed = 1;
};
// One step of a repetition: start and end on the clock of now(), and its duration, which for a pass is the device's
// time.
struct RepetitionStep {
    std::string name;
    double start = 0, end = 0, seconds = 0;
    bool counted = false;  // included in the sample
};
struct MigrationOutcome : Outcome {
    std::vector<std::vector<RepetitionStep>> repetitions;
};
// Passes of a kernel over a new buffer that an agent initialised, then a read of the whole buffer by the CPU. Samples:
// ms of advice, prefetch or copy, and all passes. Counters: NAME_ms of every phase (initialise, advise, prefetch,
// copy_in, iteration_0, ..., prefetch_back, cpu_read), medians over repetitions. errors: wrong words after the passes,
// and wrong sums.
MigrationOutcome migration(Lab& lab, const MigrationRequest& request, const Stop& stop);

// What a turn does beside a kernel that adds one to every word: shared, the CPU uses the same memory; prefetched, the
// same with a prefetch to the device before the kernel and one to the CPU after it; copied, the kernel uses device
// memory, and the device copies to and from host memory; launched, nothing, and the CPU waits; queued, the CPU waits
// after the last turn only.
enum class TurnMethod : std::uint8_t { shared, prefetched, copied, launched, queued };
struct TurnsRequest {
    Allocator allocator = Allocator::managed;  // of the memory that the CPU uses
    std::size_t bytes = 8;
    TurnMethod method = TurnMethod::shared;
    bool update = false;  // the CPU adds one to every word, otherwise it reads them
    int updates = 0;  // if positive, words are doubles, to each of which the kernel adds one so often by atomics, in
                      // method shared
    std::vector<Advice> advice;
    int turns = 1;
    double gap = 0;  // seconds between two turns, in which the CPU is busy
    std::uint64_t seed = 1;
};
// A kernel and one thread of the CPU use a small block in turns, each waiting for the other. The block is new in each
// repetition, and the CPU writes it first. Samples: microseconds per turn, gaps not included. Counters, but for
// TurnMethod::queued: first_turn_us and slowest_turn_us, medians over repetitions; turn_us, the median of all turns
// after the first (of the first, if it is the only one), with its 95 % interval turn_low_us and turn_high_us; its parts
// kernel_us, from the launch until the CPU has waited, and cpu_us; turn_N_us for turns 0, 1, 2, 4, 8, ...; advise_us.
// errors: wrong words after the last turn, plus turns after which the CPU read wrong words. Throws Unavailable if the
// device does not take the advice or the prefetch.
Outcome take_turns(Lab& lab, const TurnsRequest& request, const Stop& stop);

struct AtomicsRequest {
    Element type = Element::u64;
    bool system = true;          // scope of the GPU's atomic adds: the system, otherwise the device
    std::uint64_t elements = 1;  // at most 2^31
    int cpu_threads = 0;
    int gpu_threads = 0;       // in groups of 64
    bool read_at_end = false;  // progress is read only before and after a run
    double window = 0.01;      // minimum seconds between two readings of the progress
    std::uint64_t seed = 1;
};
// Samples: million updates per second of both sides together. If both sides take part, each is measured alone first.
// Counters: cpu_rate and gpu_rate; for both sides cpu_alone, gpu_alone, cpu_relative, gpu_relative; increments; found,
// the sum of the histogram; gpu_threads_seen, the threads of groups that made progress. With read_at_end, runs without
// a reading alternate with runs that are read; read_ratio is the rate of the latter over that of the former. errors:
// lost or spurious increments, plus elements with impossible values.
Outcome atomics(Lab& lab, const Buffer& buffer, const AtomicsRequest& request, const Stop& stop);
struct CountedTriadRequest {
    Allocator allocator = Allocator::malloc;
    std::size_t bytes = 0;                   // of each of the three arrays
    std::string event = "dtlb-load-misses";  // or "page-faults"
    std::uint64_t seed = 1;
};
// A triad by one CPU thread. Samples: ns per 64 bytes of the three arrays. Counters: per_mib, the events of that thread
// in user mode per MiB of the arrays. Throws Unavailable if the event cannot be counted, before anything is allocated.
Outcome counted_triad(Lab& lab, const CountedTriadRequest& request, const Stop& stop);

// How a GPU loads an entry: through all caches; past the first-level cache, at the scope of the system or of the
// device, if its language has such loads; or through all caches into the local memory of a group, where it is updated.
enum class EntryLoads : std::uint8_t { cached, uncached, bypass_l1, staged };
struct CachingRequest {
    Agent agent = Agent::cpu;
    std::uint64_t threads = 1;
    std::size_t stride = 8;     // bytes between two entries; 0: all threads update one entry, and race
    std::uint64_t entries = 0;  // 0: one for each thread; otherwise the threads update each of them once in a run
    bool even_only = false;     // odd entries are not updated
    EntryLoads loads = EntryLoads::cached;
    std::uint64_t seed = 1;
};
// Samples: ns per update by one thread, a load and a store of its entry; in a single pass over `entries`, ns per
// updated entry. Counters: updates of each entry; for one shared entry kept, the fraction of updates that were not
// lost. errors: words with wrong values.
Outcome caching(Lab& lab, const Buffer& buffer, const CachingRequest& request, const Stop& stop);

// Shows by timing whether an agent caches memory: dependent loads that cycle through 4 KiB of the buffer, and loads
// from the whole buffer in random order. Samples: ns per load of the former. Counters: reread_ns, cold_ns, their
// medians.
inline constexpr std::size_t reread_bytes = 4096;
Outcome reread(Lab& lab, const Buffer& buffer, Agent agent, std::uint64_t seed, const Stop& stop);

struct LockingRequest {
    int cpu_threads = 1;         // competitors on the CPU; 0: none
    int gpu_groups = 1;          // groups of competitors on the GPU; at most as many as are resident at once
    int group_threads = 1;       // competitors in each group
    std::uint64_t sections = 1;  // minimum critical sections per sample, of all competitors together
    std::uint64_t inside = 16;   // accesses to the region in a section, each to another line
    std::uint64_t outside = 0;   // accesses to the competitor's private words between sections
    double patience = 2;         // seconds without a section, excluding accesses outside, that count as a livelock
    double longest = 15;         // maximum seconds of a sample, which may then have fewer sections
    bool stuck = false;          // for tests: an agent that does not take part holds the lock forever
    std::uint64_t seed = 1;
    bool flushed = false;  // the fences of a section are taken to write caches back, so that memory in which stores
                           // become visible at synchronisation only may be used by both agents
};
// Samples: ns per critical section, the elapsed time over the sections of all competitors. The competitors' private
// words come from the same allocator as the region. Counters: sections_a_sample, sections_in_all, cpu_sections_per_s,
// gpu_sections_per_s, gpu_threads_seen (GPU threads that had a section), and if both agents compete cpu_share. errors:
// wrong words of the region or of competitors, and sections that the lock of an agent lost. Throws std::runtime_error
// ("livelock: ...") if no section is entered, and Unavailable if both agents compete and cannot see each other's
// stores.
Outcome locking(Lab& lab, const Buffer& region, const LockingRequest& request, const Stop& stop);

}  // namespace firsttouch
