#include <algorithm>
#include <cmath>
#include <optional>

#include "host/clock.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

constexpr double most_of_point = 0.5;  // the part of a point's time that both loops may take

// Seconds per block of one loop of allocations and of the loop of frees after it.
struct LoopTimes {
    double allocate = 0, free = 0, touch = 0;
    double all() const { return allocate + free + touch; }
};

// Says what to request instead of loops that take too long.
std::string advice(std::size_t count, double loop, double limit) {
    const auto seconds = [](double value) { return std::to_string(static_cast<long long>(std::ceil(value))); };
    const auto fewer = static_cast<long long>(static_cast<double>(count) * most_of_point * limit / loop);
    std::string text = "allocating and freeing " + std::to_string(count) + " blocks would take about " + seconds(loop) +
                       " s, and this point may take " + seconds(limit) + " s: --timeout " +
                       seconds(1.1 * loop / most_of_point) + " allows it";
    if (fewer > 0) text += ", and --set chunks=" + std::to_string(fewer) + " takes fewer blocks";
    return text;
}

class Blocks {
  public:
    Blocks(Lab& lab, const AllocationRequest& request)
        : lab_(lab), device_(lab.device()), request_(request), blocks_(static_cast<std::size_t>(request.chunks)) {}

    // Allocates `count` blocks, and frees them.
    LoopTimes run(std::size_t count) {
        if (request_.touched_by) return run_touched(count);
        std::size_t allocated = 0;
        const auto free_blocks = [&] {
            for (std::size_t i = 0; i < allocated; ++i) device_.release(blocks_[i]);
        };
        const double start = now();
        double end = 0;
        try {
            for (; allocated < count; ++allocated)
                blocks_[allocated] = device_.obtain(request_.allocator, request_.bytes, Pages::policy);
            end = now();
        } catch (...) {
            free_blocks();
            throw;
        }
        const double free_start = now();
        free_blocks();
        const double blocks = static_cast<double>(count);
        return {(end - start - clock_cost()) / blocks, (now() - free_start - clock_cost()) / blocks};
    }
    LoopTimes run() { return run(blocks_.size()); }

  private:
    // The same with blocks that an agent writes before they are freed.
    LoopTimes run_touched(std::size_t count) {
        std::vector<std::unique_ptr<Buffer>> buffers;
        const double start = now();
        for (std::size_t i = 0; i < count; ++i) buffers.push_back(device_.allocate(request_.allocator, request_.bytes));
        const double touch_start = now();
        for (const auto& buffer : buffers) lab_.fill(*buffer, 1, *request_.touched_by);
        const double free_start = now();
        for (const auto& buffer : buffers) buffer->release();
        const double end = now(), blocks = static_cast<double>(count);
        return {(touch_start - start - clock_cost()) / blocks, (end - free_start - clock_cost()) / blocks,
                (free_start - touch_start) / blocks};
    }

    Lab& lab_;
    Device& device_;
    const AllocationRequest& request_;
    std::vector<Block> blocks_;
};

}  // namespace

Outcome allocation(Lab& lab, const AllocationRequest& request, const Stop& stop) {
    Device& device = lab.device();
    if (request.bytes == 0 || request.chunks < 1) throw std::invalid_argument("bytes and chunks must be at least 1");
    const auto count = static_cast<std::size_t>(request.chunks);
    std::size_t sum = 0;
    if (__builtin_mul_overflow(request.bytes, count, &sum)) sum = SIZE_MAX;  // exceeds every limit
    std::optional<Reservation> reservation;
    if (!request.touched_by) reservation.emplace(device.reserve(request.allocator, sum));
    Blocks blocks(lab, request);
    blocks.run(1);  // the first block may include one-time work of the driver
    double loop = blocks.run(1).all() * static_cast<double>(count);
    if (loop > most_of_point * request.limit) throw Unavailable(advice(count, loop, request.limit));
    const double warm_start = now();
    for (int i = 0; i < request.warmups && loop < request.three_samples && now() - warm_start < stop.seconds / 4; ++i)
        loop = blocks.run().all() * static_cast<double>(count);
    Stop rule = stop;
    rule.min_samples = std::clamp(static_cast<int>(request.three_samples / std::max(loop, 1e-9)), 1, stop.min_samples);
    std::vector<double> others;
    Outcome outcome;
    outcome.samples = sample(rule, [&] {
        const LoopTimes times = blocks.run();
        others.push_back((request.frees ? times.allocate : times.free) * 1e9);
        return (request.frees ? times.free : times.allocate) * 1e9;
    });
    outcome.counters[request.frees ? "allocate_ns" : "free_ns"] = summarise(others).median;
    reservation.reset();

    // Verify one more block: write a pattern and read it back.
    const auto block = device.allocate(request.allocator, request.bytes);
    const Agent agent = request.touched_by.value_or(lab.reaches(Agent::cpu, *block) ? Agent::cpu : Agent::gpu);
    lab.fill(*block, 1, agent);
    outcome.errors = lab.check(*block, 1, agent);
    return outcome;
}

}  // namespace firsttouch
