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
    std::size_t group_bytes = 0;     // 0: one random cycle; else nodes of a page are visited together
    std::size_t hops = 100'000;      // loads a sample, rounded up to a multiple of 32
    std::size_t last_level = 0;      // bytes of the last cache: a full traversal warms what may fit
    std::uint64_t seed = 1;
    std::size_t bytes = 0;  // of the buffer's start that the cycle spans; 0: all
    bool past_l1 = false;   // a device's loads bypass its first-level cache, if it has such loads
};
// Samples: ns per load. Counters: nodes, cycles_per_load where the device counts them. errors: wrong nodes, plus one
// if the walk did not end where the cycle's closed form says.
Outcome chase(Lab& lab, const Buffer& buffer, const ChaseRequest& request, const Stop& stop);

struct StreamRequest {
    StreamOp op = StreamOp::triad;
    Agent agent = Agent::cpu;
    Agent first_touch = Agent::cpu;
    int threads = 0;           // CPU: 0 is all
    bool nontemporal = false;  // CPU stores
    std::size_t passes = 1;    // over the arrays in each timed run: the cache sweep
    std::uint64_t seed = 1;
};
// Samples: GB/s, bytes read plus bytes written by the kernel over all passes. On a device the launch shape is searched
// first and reported (counters threads, unroll, blocks).
Outcome stream(Lab& lab, const Buffer& a, const Buffer& b, const Buffer& c, const StreamRequest& request,
               const Stop& stop);

enum class Engine : std::uint8_t { copy_engine, kernel, cpu };
struct CopyRequest {
    Engine engine = Engine::copy_engine;
    std::size_t bytes = 0;
    int streams = 1;
    std::size_t chunk = 0;  // bytes of each of the copies that one transfer is cut into; 0: whole
    std::uint64_t seed = 1;
};
// Samples: GB/s of copies queued back to back, each byte counted once. Counters: latency_us, the median of single
// copies from the call to their completion, timed by the host.
Outcome copy(Lab& lab, const Buffer& target, const Buffer& source, const CopyRequest& request, const Stop& stop);

struct AllocationRequest {
    Allocator allocator = Allocator::malloc;
    std::size_t bytes = 0;
    int chunks = 100;
    int warmups = 10;
};
// Samples: ns per allocation. Counters: free_ns, the median per free.
Outcome allocation(Lab& lab, const AllocationRequest& request, const Stop& stop);

struct FaultRequest {
    Allocator allocator = Allocator::mmap;
    Pages pages = Pages::base;
    std::size_t page_bytes = 4096;
    std::size_t count = 1;  // pages touched
    std::string scenario;   // "cpu-1", "cpu-n", "gpu-major", "gpu-minor", "prefault+minor"
    int warmups = 10;
    std::uint64_t seed = 1;
};
// Samples: ns per page, the run on a fresh mapping minus a second run on the same. Counters: first_ns, second_ns.
Outcome page_faults(Lab& lab, const FaultRequest& request, const Stop& stop);

enum class SharingMode : std::uint8_t { concurrent, lockstep, copying };
struct ConcurrencyRequest {
    SharingMode mode = SharingMode::lockstep;
    int iterations = 100;  // of a sample; the halves swap after each
    int threads = 0;       // CPU: 0 is all
    double longest = 20;   // most seconds of one sample
    std::uint64_t seed = 1;
};
// Samples: ms per iteration, in which CPU and GPU add one to every integer of a half each. `copy` is the CPU's own
// array for the mode copying. Counters: cpu_alone_ms, gpu_alone_ms (one agent adding to its half, the other idle),
// together_ms, overlap, copying_ms. errors: integers that were not counted up once an iteration. Throws Unavailable
// where the CPU may not use the memory while a kernel does, or where one sample would take longer than `longest`.
Outcome concurrency(Lab& lab, const Buffer& array, const Buffer* copy, const ConcurrencyRequest& request,
                    const Stop& stop);
enum class Prefetch : std::uint8_t { none, whole, iteration };
struct MigrationRequest {
    Allocator allocator = Allocator::managed;
    std::size_t bytes = 0;
    bool copied = false;             // no migration: copies before the first and after the last pass
    std::size_t run_bytes = 128;     // a pass takes so many bytes (a power of two)
    std::size_t stride_bytes = 128;  // at the start of every stride of so many bytes
    bool shuffled = false;           // in random order
    bool sequential = false;         // by one thread, in order
    bool update = true;              // adds one to every word taken; else reads it
    std::vector<Advice> advice;
    Prefetch prefetch = Prefetch::none;
    int streams = 1;  // of a whole prefetch
    Agent starts_on = Agent::cpu;
    int iterations = 12;
    std::uint64_t seed = 1;
};
// One step of a repetition on the clock of now(), and what it took: for a pass the device's time.
struct Phase {
    std::string name;
    double start = 0, end = 0, seconds = 0;
    bool counted = false;  // in the sample
};
struct MigrationOutcome : Outcome {
    std::vector<std::vector<Phase>> repetitions;
};
// Passes of a kernel over a fresh buffer that an agent initialised, then a read of all of it by the CPU. Samples: ms of
// advice, prefetch or copy, and all passes. Counters: NAME_ms of every phase (initialise, advise, prefetch, copy_in,
// iteration_0, ..., cpu_read), medians over repetitions. errors: words that do not hold what the passes left, and sums
// that do not agree.
MigrationOutcome migration(Lab& lab, const MigrationRequest& request, const Stop& stop);
struct AtomicsRequest {
    Element type = Element::u64;
    bool system = true;          // scope of the GPU's atomic adds: the system, or the device alone
    std::uint64_t elements = 1;  // at most 2^31
    int cpu_threads = 0;
    int gpu_threads = 0;       // in groups of 64
    bool read_at_end = false;  // progress is read before and after a run only
    double window = 0.01;      // seconds between two readings of the progress, at least
    std::uint64_t seed = 1;
};
// Samples: million updates per second of both sides together. Where both sides take part, each is measured alone before
// they run together. Counters: cpu_rate and gpu_rate; of both sides cpu_alone, gpu_alone, cpu_relative, gpu_relative;
// increments, and found, the sum of the histogram; gpu_threads_seen, those of groups that ever moved. With read_at_end
// runs without a reading alternate with runs that are read, and read_ratio is the median of the latter over that of the
// former. errors: lost or spurious increments, plus elements with impossible values.
Outcome atomics(Lab& lab, const Buffer& buffer, const AtomicsRequest& request, const Stop& stop);
struct CountedTriadRequest {
    Allocator allocator = Allocator::malloc;
    std::size_t bytes = 0;                   // of each of the three arrays
    std::string event = "dtlb-load-misses";  // or "page-faults"
    std::uint64_t seed = 1;
};
// A triad by one CPU thread. Samples: ns per 64 bytes of the three arrays. Counters: per_mib, the events of that thread
// in user mode per MiB of them. Throws Unavailable where the event cannot be counted, before anything is allocated.
Outcome counted_triad(Lab& lab, const CountedTriadRequest& request, const Stop& stop);

struct CachingRequest {
    Agent agent = Agent::cpu;
    std::uint64_t threads = 1;
    std::size_t stride = 8;  // bytes from one thread's entry to the next; 0: all threads update one entry, and race
    bool even_only = false;  // odd threads do nothing
    bool uncached = false;   // loads bypass the first-level cache; for a GPU whose language has such loads
    std::uint64_t seed = 1;
};
// Samples: ns per update as a thread sees it, a load and a store of its entry. Counters: updates of each thread; kept,
// of one shared entry, the fraction of updates that was not lost. errors: words with wrong values.
Outcome caching(Lab& lab, const Buffer& buffer, const CachingRequest& request, const Stop& stop);

// Whether an agent caches memory, judged by time: dependent loads that cycle through 4 KiB of the buffer, and loads
// over all of it in random order. Samples: ns per load of the former. Counters: reread_ns, cold_ns, their medians.
inline constexpr std::size_t reread_bytes = 4096;
Outcome reread(Lab& lab, const Buffer& buffer, Agent agent, std::uint64_t seed, const Stop& stop);

struct LockingRequest {
    int cpu_threads = 1;         // competitors on the CPU, 0: none
    int gpu_groups = 1;          // on the GPU, one thread each; no more than are resident at once
    std::uint64_t sections = 1;  // critical sections of a sample at least, of all competitors together
    std::uint64_t inside = 16;   // accesses to the region in a section, each to a line of its own
    std::uint64_t outside = 0;   // accesses to the competitor's own words between sections
    double patience = 2;         // seconds without a section, besides accesses outside, that count as a livelock
    double longest = 15;         // seconds of a sample at most; it may then have had fewer sections
    bool stuck = false;          // for tests: an agent that does not take part holds the lock forever
    std::uint64_t seed = 1;
};
// Samples: ns per critical section, time of all over sections of all. The competitors' own words are obtained like the
// region. Counters: sections_a_sample, sections_in_all, cpu_sections_per_s, gpu_sections_per_s, and of both cpu_share.
// errors: words of the region or of competitors that do not add up, and sections that an agent's own lock lost. Throws
// std::runtime_error ("livelock: ...") where no section is entered, Unavailable where both are to compete and one does
// not see what the other stores.
Outcome locking(Lab& lab, const Buffer& region, const LockingRequest& request, const Stop& stop);

}  // namespace firsttouch
