#include "host/clock.hpp"
#include "probe/probes.hpp"

namespace firsttouch {

Outcome allocation(Lab& lab, const AllocationRequest& request, const Stop& stop) {
    Device& device = lab.device();
    const auto count = static_cast<std::size_t>(request.chunks);
    if (request.bytes == 0 || request.chunks < 1) throw std::invalid_argument("bytes and chunks must be at least 1");
    std::size_t sum = 0;
    if (__builtin_mul_overflow(request.bytes, count, &sum)) sum = SIZE_MAX;  // exceeds every limit
    const Reservation reservation = device.reserve(request.allocator, sum);
    std::vector<Block> blocks(count);
    std::vector<double> frees;
    const auto trial = [&] {
        std::size_t allocated = 0;
        const auto free_blocks = [&] {
            for (std::size_t i = 0; i < allocated; ++i) device.release(blocks[i]);
        };
        const double start = now();
        double end = 0;
        try {
            for (; allocated < count; ++allocated)
                blocks[allocated] = device.obtain(request.allocator, request.bytes, Pages::policy);
            end = now();
        } catch (...) {
            free_blocks();
            throw;
        }
        const double free_start = now();
        free_blocks();
        frees.push_back((now() - free_start - clock_cost()) / static_cast<double>(count) * 1e9);
        return (end - start - clock_cost()) / static_cast<double>(count) * 1e9;
    };
    Outcome outcome;
    const double warm_start = now();
    for (int i = 0; i < request.warmups && now() - warm_start < stop.seconds / 4; ++i) trial();
    frees.clear();
    outcome.samples = sample(stop, trial);
    outcome.counters["free_ns"] = summarise(frees).median;

    // Verify one more block: write a pattern and read it back.
    const auto block = device.allocate(request.allocator, request.bytes);
    const Agent agent = lab.reaches(Agent::cpu, *block) ? Agent::cpu : Agent::gpu;
    lab.fill(*block, 1, agent);
    outcome.errors = lab.check(*block, 1, agent);
    return outcome;
}

}  // namespace firsttouch
