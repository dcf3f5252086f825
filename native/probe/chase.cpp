#include <algorithm>

#include "host/clock.hpp"
#include "host/counted.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

constexpr std::size_t hops_per_block = 32;  // the walks of CPU and device are unrolled by this factor
constexpr std::size_t max_line_bytes = 256;

std::size_t round_up_to_blocks(std::size_t hops) {
    return (hops + hops_per_block - 1) / hops_per_block * hops_per_block;
}

struct Cycle {
    Lab& lab;
    const Buffer& buffer;
    const ChaseRequest& request;
    ChaseOrder order;
    std::uint64_t base;  // the buffer's address on the agent that walks

    void write() {
        if (request.first_touch == Agent::gpu) {
            lab.at_owner(buffer, [&](Lab& owner) {
                owner.over(order.nodes, "chase", "chase_write", buffer, base, order.nodes, stride(), order.bits,
                           order.group, order.group_bits, order.inner_bits, order.key);
            });
        } else {
            const HostView view(buffer);
            const Affinity writing(request.writers);
            run_on_host("chase_write", 0, view.as<std::uint64_t>(), base, order.nodes, stride(), order.bits,
                        order.group, order.group_bits, order.inner_bits, order.key);
        }
    }
    std::uint64_t count_wrong_nodes() {
        if (request.agent == Agent::gpu) {
            lab.clear_results();
            lab.over(order.nodes, "chase", "chase_check", buffer, base, order.nodes, stride(), order.bits, order.group,
                     order.group_bits, order.inner_bits, order.key, lab.results());
            return lab.read_results(1)[0];
        }
        std::uint64_t errors = 0;
        const HostView view(buffer);
        run_on_host("chase_check", 0, static_cast<const std::uint64_t*>(view.as<std::uint64_t>()), base, order.nodes,
                    stride(), order.bits, order.group, order.group_bits, order.inner_bits, order.key, &errors);
        return errors;
    }
    std::uint64_t address(std::uint64_t step) const { return base + order.node_at(step) * request.stride; }
    std::uint64_t stride() const { return request.stride; }
    std::size_t bytes() const { return span(buffer, request); }
    static std::size_t span(const Buffer& over, const ChaseRequest& with) {
        return with.bytes > 0 ? std::min(with.bytes, over.size()) : over.size();
    }
    // Bytes of cache that the nodes occupy: a node wider than a cache line occupies one line.
    std::size_t footprint() const {
        return static_cast<std::size_t>(order.nodes) * std::min(request.stride, max_line_bytes);
    }
    // A whole traversal if the nodes may fit in a cache, otherwise enough hops to fill the TLBs.
    std::size_t warm_hops() const {
        const std::size_t all = static_cast<std::size_t>(order.nodes);
        return round_up_to_blocks(footprint() <= 2 * request.last_level ? all : std::min<std::size_t>(all, 20'000));
    }
};

Outcome walk_on_cpu(Cycle& cycle, const Stop& stop) {
    Outcome outcome;
    const HostView view(cycle.buffer);
    const Team pinned(1);
    std::uintptr_t p = cycle.address(0);
    const std::size_t warm = cycle.warm_hops(), hops = round_up_to_blocks(cycle.request.hops);
    std::uint64_t walked = warm;
    p = walk_host(p, warm);
    {
        const CountedRegion region(stop.counted);
        outcome.samples = sample(stop, [&] {
            const double start = now();
            p = walk_host(p, hops);
            const double spent = now() - start - clock_cost();
            walked += hops;
            return spent / static_cast<double>(hops) * 1e9;
        });
    }
    if (stop.counted) outcome.counters["hw_loads"] = static_cast<double>(walked - warm);
    outcome.errors = p != cycle.address(walked);
    return outcome;
}

Outcome walk_on_device(Cycle& cycle, const Stop& stop) {
    Outcome outcome;
    Lab& lab = cycle.lab;
    Device& device = lab.device();
    const auto state = device.allocate(lab.results().allocator(), 4096);
    const std::uint64_t start = cycle.address(0);
    lab.write(*state, 0, &start, 8);
    const Defines past_l1 = {{"HOP(p)", "LOAD_UNCACHED(p)"}};
    const Defines defines = cycle.request.past_l1 ? past_l1 : Defines{};
    Kernel& warming = lab.kernel("walk", "chase_walk", defines);
    Kernel& timed = lab.timed_kernel(stop.counted, "walk", "chase_walk", defines);
    const std::size_t hops = round_up_to_blocks(cycle.request.hops);
    std::uint64_t walked = 0;
    const auto launch = [&](Kernel& walk, std::uint64_t warm, std::uint64_t length, std::uint32_t samples) {
        const Argument list[] = {*state, lab.results(), warm, length, samples};
        device.launch(lab.stream(), walk, {1, 1}, list);
        walked += warm + length * samples;
    };
    const std::uint64_t words = cycle.bytes() / 8;
    lab.over(words, "walk", "read_words", cycle.buffer, words, lab.results());
    launch(warming, cycle.warm_hops(), hops_per_block, 1);
    device.wait(lab.stream());
    const std::uint64_t walked_before = walked;
    // First-level caches are invalidated between kernels, so each launch first walks again over nodes that may fit
    // one.
    const std::uint64_t rewarm_hops = cycle.footprint() <= 1024 * 1024 ? cycle.warm_hops() : 0;
    const bool has_clock = lab.read_results(2)[0] != 0;
    Sampler sampler(stop);
    std::vector<double> cycles;
    for (bool more = true; more;) {
        if (!has_clock) {
            const double seconds = device_seconds(lab, [&] { launch(timed, 0, hops, 1); });
            more = sampler.add(seconds / static_cast<double>(hops) * 1e9);
            continue;
        }
        constexpr std::uint32_t batch = 3;
        launch(timed, rewarm_hops, hops, batch);
        const auto results = lab.read_results(2 * batch);
        for (std::uint32_t s = 0; s < batch && more; ++s) {
            cycles.push_back(static_cast<double>(results[2 * s + 1]) / static_cast<double>(hops));
            more = sampler.add(static_cast<double>(results[2 * s]) / static_cast<double>(hops));
        }
    }
    outcome.samples = sampler.finish();
    if (has_clock) outcome.counters["cycles_per_load"] = summarise(cycles).median;
    if (stop.counted) outcome.counters["hw_loads"] = static_cast<double>(walked - walked_before);
    std::uint64_t reached = 0;
    lab.read(*state, 0, &reached, 8);
    outcome.errors = reached != cycle.address(walked);
    return outcome;
}

}  // namespace

Outcome chase(Lab& lab, const Buffer& buffer, const ChaseRequest& request, const Stop& stop) {
    const std::size_t bytes = Cycle::span(buffer, request);
    if (request.stride < 8 || request.stride % 8 != 0 || bytes < request.stride)
        throw std::invalid_argument(
            "the stride must be a multiple of 8 bytes, and the buffer must have at least one stride");
    Cycle cycle{lab, buffer, request, ChaseOrder(bytes, request.stride, request.group_bytes, request.seed), 0};
    if (request.agent == Agent::gpu) {
        cycle.base = lab.device_address(buffer);
    } else {
        const HostView view(buffer);
        cycle.base = reinterpret_cast<std::uint64_t>(view.data());
    }
    cycle.write();
    Outcome outcome = request.agent == Agent::gpu ? walk_on_device(cycle, stop) : walk_on_cpu(cycle, stop);
    outcome.errors += cycle.count_wrong_nodes();
    outcome.counters["nodes"] = static_cast<double>(cycle.order.nodes);
    return outcome;
}

}  // namespace firsttouch
