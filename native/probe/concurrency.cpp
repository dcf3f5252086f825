#include <algorithm>
#include <array>

#include "host/clock.hpp"
#include "probe/at_once.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

constexpr int max_iterations_alone = 10;  // of a sample of one agent alone
constexpr double sampling_seconds = 5;    // if three samples would take longer, fewer are taken

// Integers [first, first + count) of the array, in a buffer of their own.
struct Extent {
    const Buffer* buffer;
    std::uint64_t first, count;
};

// Integers [first, end) of the array.
struct Range {
    std::uint64_t first, end;
};

// The array that both agents update, and the CPU's copy of it if the memories are separate. The GPU has the first part
// in even iterations, and as many integers at the end in odd ones; the CPU has the others.
class Parts {
  public:
    Parts(Lab& lab, const Buffer& array, const Buffer* second, const Buffer* copy, const ConcurrencyRequest& request)
        : lab_(lab), request_(request), copy_back_(lab.device().stream()),
          increment_(lab.kernel("halves", "halves_increment")),
          team_(request.threads > 0 ? request.threads : usable_processors()) {
        for (const Buffer* buffer : {&array, second})
            if (buffer != nullptr) {
                const std::uint64_t count = buffer->size() / sizeof(std::uint32_t);
                on_gpu_.push_back({buffer, integers_, count});
                integers_ += count;
            }
        on_cpu_ = on_gpu_;
        if (copy != nullptr) on_cpu_ = {{copy, 0, integers_}};
        separate_ = copy != nullptr;
        of_gpu_ = request.gpu_bytes.value_or(integers_ * sizeof(std::uint32_t) / 2) / sizeof(std::uint32_t);
        const std::uint64_t of_cpu = integers_ - of_gpu_;
        edges_ = {0, std::min(of_gpu_, of_cpu), std::max(of_gpu_, of_cpu), integers_};
    }

    // What each agent has in an iteration, by its parity.
    Range part_of(Agent agent, std::size_t parity) const {
        const std::uint64_t cut = parity == 0 ? of_gpu_ : integers_ - of_gpu_;
        return (agent == Agent::gpu) == (parity == 0) ? Range{0, cut} : Range{cut, integers_};
    }

    void fill() {
        in_each(on_cpu_, {0, integers_}, [&](const Extent& memory, std::uint64_t at, const Range& range) {
            const HostView view(*memory.buffer);
            run_on_team(team_, "halves_fill", view.as<std::uint32_t>(), at, range.first, range.end - range.first,
                        request_.seed);
        });
        if (separate_) copy({0, integers_}, Agent::gpu);
        added_ = {};
    }

    void start_gpu(std::size_t parity) {
        in_each(on_gpu_, part_of(Agent::gpu, parity), [&](const Extent& memory, std::uint64_t at, const Range& range) {
            const std::uint64_t count = range.end - range.first;
            const Argument list[] = {*memory.buffer, at, count};
            lab_.device().launch(lab_.stream(), increment_, lab_.grid_for(count), list);
        });
    }
    void wait_for_gpu() { lab_.device().wait(lab_.stream()); }
    void run_cpu(std::size_t parity) {
        in_each(on_cpu_, part_of(Agent::cpu, parity), [&](const Extent& memory, std::uint64_t at, const Range& range) {
            const HostView view(*memory.buffer);
            run_on_team(team_, "halves_increment", view.as<std::uint32_t>(), at, range.end - range.first);
        });
    }
    // Copies to each agent the part that the other has updated, in both directions at once.
    void swap_copies(std::size_t parity) {
        queue_copy(*copy_back_, part_of(Agent::gpu, parity), Agent::cpu);
        queue_copy(lab_.stream(), part_of(Agent::cpu, parity), Agent::gpu);
        lab_.device().wait(*copy_back_);
        wait_for_gpu();
    }

    // These return seconds per iteration. The agents swap ends after each iteration.
    double cpu_alone(int iterations) {
        return timed(iterations, [&](std::size_t parity) {
            run_cpu(parity);
            count(part_of(Agent::cpu, parity));
        });
    }
    double gpu_alone(int iterations) {
        return timed(iterations, [&](std::size_t parity) {
            start_gpu(parity);
            wait_for_gpu();
            count(part_of(Agent::gpu, parity));
        });
    }
    double together(int iterations) {
        return timed(iterations, [&](std::size_t parity) {
            start_gpu(parity);
            if (request_.mode == SharingMode::lockstep) wait_for_gpu();
            run_cpu(parity);
            if (request_.mode != SharingMode::lockstep) wait_for_gpu();
            if (separate_) {
                const double start = now();
                swap_copies(parity);
                copying_ += now() - start;
            }
            count({0, integers_});
        });
    }
    // Returns the seconds spent on copies since the last call.
    double take_copying() { return std::exchange(copying_, 0); }

    // Returns the number of wrong integers in the agent's memory.
    std::uint64_t count_wrong(Agent agent) {
        std::uint64_t errors = 0;
        if (separate_ && agent == Agent::gpu) copy({0, integers_}, Agent::cpu);
        for (std::size_t i = 0; i < added_.size(); ++i)
            in_each(on_cpu_, {edges_[i], edges_[i + 1]},
                    [&](const Extent& memory, std::uint64_t at, const Range& range) {
                        const HostView view(*memory.buffer);
                        run_on_team(team_, "halves_check", static_cast<const std::uint32_t*>(view.as<std::uint32_t>()),
                                    at, range.first, range.end - range.first, request_.seed, added_[i], &errors);
                    });
        return errors;
    }

  private:
    // Calls run(memory, at, part) for the part of a range in each buffer; `at` is its place there.
    template <class Run>
    static void in_each(const std::vector<Extent>& memories, const Range& range, Run&& run) {
        for (const Extent& memory : memories) {
            const Range part{std::max(range.first, memory.first), std::min(range.end, memory.first + memory.count)};
            if (part.first < part.end) run(memory, part.first - memory.first, part);
        }
    }
    // Between the array and its copy, to the memory of an agent.
    void queue_copy(Stream& stream, const Range& range, Agent to) {
        constexpr std::size_t size = sizeof(std::uint32_t);
        const Buffer& of_cpu = *on_cpu_.front().buffer;
        in_each(on_gpu_, range, [&](const Extent& memory, std::uint64_t at, const Range& part) {
            const std::size_t bytes = (part.end - part.first) * size;
            if (to == Agent::gpu)
                lab_.device().copy(stream, *memory.buffer, at * size, of_cpu, part.first * size, bytes);
            else
                lab_.device().copy(stream, of_cpu, part.first * size, *memory.buffer, at * size, bytes);
        });
    }
    void copy(const Range& range, Agent to) {
        queue_copy(lab_.stream(), range, to);
        lab_.device().wait(lab_.stream());
    }
    void count(const Range& range) {
        for (std::size_t i = 0; i < added_.size(); ++i)
            added_[i] += edges_[i] >= range.first && edges_[i + 1] <= range.end;
    }
    template <class Iteration>
    double timed(int iterations, Iteration&& iteration) {
        const double start = now();
        for (int i = 0; i < iterations; ++i) iteration(static_cast<std::size_t>(i & 1));
        return (now() - start - clock_cost()) / iterations;
    }

    Lab& lab_;
    std::uint64_t integers_ = 0, of_gpu_ = 0;
    std::vector<Extent> on_gpu_, on_cpu_;
    bool separate_ = false;
    const ConcurrencyRequest& request_;
    std::unique_ptr<Stream> copy_back_;
    Kernel& increment_;
    Team team_;
    std::array<std::uint64_t, 4> edges_{};  // where parts begin and end
    std::array<std::uint32_t, 3> added_{};  // to each integer between two edges
    double copying_ = 0;
};

// Returns the median of one agent alone, on a newly filled array after one pass over all of it.
template <class Alone>
double measure_alone(Parts& parts, Agent agent, std::uint64_t& errors, const Stop& stop, int iterations, Alone&& run) {
    parts.fill();
    run(2);
    Stop part = stop;
    part.seconds = stop.seconds / 5;
    const double median =
        summarise(sample(part, [&] { return run(std::min(iterations, max_iterations_alone)); }).values).median;
    errors += parts.count_wrong(agent);
    return median;
}

}  // namespace

Outcome concurrency(Lab& lab, const Buffer& array, const Buffer* second, const Buffer* copy,
                    const ConcurrencyRequest& request, const Stop& stop) {
    const std::size_t size = array.size() + (second != nullptr ? second->size() : 0);
    const std::size_t of_gpu = request.gpu_bytes.value_or(size / 2);
    if (request.iterations < 1) throw std::invalid_argument("iterations must be at least 1");
    if (size < 8 || size % 4 != 0 || of_gpu % 4 != 0 || of_gpu > size ||
        (second != nullptr && array.size() != of_gpu) || (copy != nullptr && copy->size() != size))
        throw std::invalid_argument(
            "the array and the GPU's part of it must consist of whole integers, in two buffers the GPU's part must "
            "fill the first, and the array and its copy must have the same size");
    if ((request.mode == SharingMode::copying) != (copy != nullptr))
        throw std::invalid_argument("the strategy copying needs a copy of the array, and other strategies take none");
    for (const Buffer* half : {&array, second == nullptr ? &array : second}) {
        const AllocatorInfo& entry = lab.device().info(half->allocator());
        if (request.mode == SharingMode::concurrent && !usable_at_once(entry) && entry.disjoint != true)
            throw Unavailable("the CPU may not use " + to_string(half->allocator()) + " memory while a kernel does");
    }
    Outcome outcome;
    Parts parts(lab, array, second, copy, request);
    const double cpu = of_gpu == size ? 0
                                      : measure_alone(parts, Agent::cpu, outcome.errors, stop, request.iterations,
                                                      [&](int iterations) { return parts.cpu_alone(iterations); });
    const double gpu = of_gpu == 0 ? 0
                                   : measure_alone(parts, Agent::gpu, outcome.errors, stop, request.iterations,
                                                   [&](int iterations) { return parts.gpu_alone(iterations); });
    parts.fill();
    parts.together(2);  // after that each agent has accessed all that it will
    const double expected = parts.together(2) * request.iterations;
    if (expected > request.longest)
        throw Unavailable(std::to_string(request.iterations) + " iterations would take " +
                          std::to_string(static_cast<int>(expected)) +
                          " s, which exceeds the limit of a point: request fewer iterations");
    Stop limited = stop;
    limited.min_samples =
        std::clamp(static_cast<int>(std::max(sampling_seconds, stop.seconds) / expected), 1, stop.min_samples);
    std::vector<double> copying;
    parts.take_copying();
    outcome.samples = sample(limited, [&] {
        const double seconds = parts.together(request.iterations);
        copying.push_back(parts.take_copying() / request.iterations);
        return seconds * 1e3;
    });
    outcome.errors += parts.count_wrong(Agent::cpu);
    if (copy != nullptr) outcome.errors += parts.count_wrong(Agent::gpu);
    const double together = summarise(outcome.samples.values).median;
    outcome.counters = {{"cpu_alone_ms", cpu * 1e3},
                        {"gpu_alone_ms", gpu * 1e3},
                        {"together_ms", together},
                        {"overlap", (cpu + gpu) * 1e3 / together}};
    if (copy != nullptr) outcome.counters["copying_ms"] = summarise(copying).median * 1e3;
    return outcome;
}

}  // namespace firsttouch
