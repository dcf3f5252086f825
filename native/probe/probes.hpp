// The measuring loops on any device, written against device.hpp alone. Each verifies what it moved.
#pragma once

#include "host/loops.hpp"
#include "probe/lab.hpp"

namespace firsttouch {

struct ChaseRequest {
    Agent agent = Agent::cpu;
    Agent first_touch = Agent::cpu;  // who writes the cycle
    std::size_t stride = 64;         // bytes between nodes: a cache line
    std::size_t group_bytes = 0;     // 0: one random cycle; else nodes of a page are visited together
    std::size_t hops = 100'000;      // loads a sample, rounded up to a multiple of 32
    std::size_t last_level = 0;      // bytes of the last cache: a full traversal warms what may fit
    std::uint64_t seed = 1;
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
// Samples: GB/s, every byte counted once, queued back to back. Counters: latency_us, the median of single copies
// from the call to their completion as the host sees it.
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

struct CountedTriadRequest {
    Allocator allocator = Allocator::malloc;
    std::size_t bytes = 0;                   // of each of the three arrays
    std::string event = "dtlb-load-misses";  // or "page-faults"
    std::uint64_t seed = 1;
};
// A triad by one CPU thread. Samples: ns per 64 bytes of the three arrays. Counters: per_mib, the events of that thread
// in user mode per MiB of them. Throws Unavailable where the event cannot be counted, before anything is allocated.
Outcome counted_triad(Lab& lab, const CountedTriadRequest& request, const Stop& stop);

}  // namespace firsttouch
