#include <algorithm>
#include <array>

#include "host/clock.hpp"
#include "probe/at_once.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

constexpr int max_iterations_alone = 10;  // of a sample of one agent alone
constexpr double sampling_seconds = 5;    // if three samples would take longer, fewer are taken

// The array that both agents update, and the CPU's copy of it if the memories are separate.
class Halves {
  public:
    Halves(Lab& lab, const Buffer& array, const Buffer* copy, const ConcurrencyRequest& request)
        : lab_(lab), array_(array), cpu_array_(copy != nullptr ? *copy : array), separate_(copy != nullptr),
          request_(request), integers_(array.size() / 8 * 2), copy_back_(lab.device().stream()),
          increment_(lab.kernel("halves", "halves_increment")),
          team_(request.threads > 0 ? request.threads : usable_processors()) {}

    void fill() {
        const HostView view(cpu_array_);
        run_on_team(team_, "halves_fill", view.as<std::uint32_t>(), integers_, request_.seed);
        if (separate_) copy(array_, cpu_array_, 0, 2 * half_bytes());
        added_ = {};
    }

    void start_gpu(int half) {
        const std::uint64_t n = integers_ / 2, first = static_cast<std::uint64_t>(half) * n;
        const Argument list[] = {array_, first, n};
        lab_.device().launch(lab_.stream(), increment_, lab_.grid_for(n), list);
    }
    void wait_for_gpu() { lab_.device().wait(lab_.stream()); }
    void run_cpu(int half) {
        const std::uint64_t n = integers_ / 2, first = static_cast<std::uint64_t>(half) * n;
        const HostView view(cpu_array_);
        run_on_team(team_, "halves_increment", view.as<std::uint32_t>(), first, n);
    }
    // Copies to each agent the half that the other has updated, in both directions at once.
    void swap_copies(int half_of_gpu) {
        const std::size_t done_by_gpu = static_cast<std::size_t>(half_of_gpu) * half_bytes();
        const std::size_t done_by_cpu = half_bytes() - done_by_gpu;
        lab_.device().copy(*copy_back_, cpu_array_, done_by_gpu, array_, done_by_gpu, half_bytes());
        lab_.device().copy(lab_.stream(), array_, done_by_cpu, cpu_array_, done_by_cpu, half_bytes());
        lab_.device().wait(*copy_back_);
        wait_for_gpu();
    }

    // These return seconds per iteration. The agents swap halves after each iteration.
    double cpu_alone(int iterations) {
        return timed(iterations, [&](int half) {
            run_cpu(half);
            ++added_[index(half)];
        });
    }
    double gpu_alone(int iterations) {
        return timed(iterations, [&](int half) {
            start_gpu(half);
            wait_for_gpu();
            ++added_[index(half)];
        });
    }
    double together(int iterations) {
        return timed(iterations, [&](int half) {
            start_gpu(half);
            if (request_.mode == SharingMode::lockstep) wait_for_gpu();
            run_cpu(1 - half);
            if (request_.mode != SharingMode::lockstep) wait_for_gpu();
            if (separate_) {
                const double start = now();
                swap_copies(half);
                copying_ += now() - start;
            }
            ++added_[0];
            ++added_[1];
        });
    }
    // Returns the seconds spent on copies since the last call.
    double take_copying() { return std::exchange(copying_, 0); }

    // Returns the number of wrong integers in the agent's memory.
    std::uint64_t count_wrong(Agent agent) {
        if (separate_ && agent == Agent::gpu) copy(cpu_array_, array_, 0, 2 * half_bytes());
        std::uint64_t errors = 0;
        const HostView view(cpu_array_);
        run_on_team(team_, "halves_check", static_cast<const std::uint32_t*>(view.as<std::uint32_t>()), integers_,
                    request_.seed, added_[0], added_[1], &errors);
        return errors;
    }

  private:
    static std::size_t index(int half) { return static_cast<std::size_t>(half); }
    std::size_t half_bytes() const { return integers_ / 2 * sizeof(std::uint32_t); }
    void copy(const Buffer& target, const Buffer& source, std::size_t offset, std::size_t bytes) {
        lab_.device().copy(lab_.stream(), target, offset, source, offset, bytes);
        lab_.device().wait(lab_.stream());
    }
    template <class Iteration>
    double timed(int iterations, Iteration&& iteration) {
        const double start = now();
        for (int i = 0; i < iterations; ++i) iteration(i & 1);
        return (now() - start - clock_cost()) / iterations;
    }

    Lab& lab_;
    const Buffer& array_;
    const Buffer& cpu_array_;
    bool separate_;
    const ConcurrencyRequest& request_;
    std::uint64_t integers_;
    std::unique_ptr<Stream> copy_back_;
    Kernel& increment_;
    Team team_;
    std::array<std::uint32_t, 2> added_{};
    double copying_ = 0;
};

// Returns the median of one agent alone, on a newly filled array after one pass over all of it.
template <class Alone>
double measure_alone(Halves& halves, Agent agent, std::uint64_t& errors, const Stop& stop, int iterations,
                     Alone&& run) {
    halves.fill();
    run(2);
    Stop part = stop;
    part.seconds = stop.seconds / 5;
    const double median =
        summarise(sample(part, [&] { return run(std::min(iterations, max_iterations_alone)); }).values).median;
    errors += halves.count_wrong(agent);
    return median;
}

}  // namespace

Outcome concurrency(Lab& lab, const Buffer& array, const Buffer* copy, const ConcurrencyRequest& request,
                    const Stop& stop) {
    if (request.iterations < 1) throw std::invalid_argument("iterations must be at least 1");
    if (array.size() < 8 || array.size() % 8 != 0 || (copy != nullptr && copy->size() != array.size()))
        throw std::invalid_argument(
            "the size of the array must be a multiple of 8 bytes, and the copy must have the same size");
    if ((request.mode == SharingMode::copying) != (copy != nullptr))
        throw std::invalid_argument("the strategy copying needs a copy of the array, and other strategies take none");
    const AllocatorInfo& entry = lab.device().info(array.allocator());
    if (request.mode == SharingMode::concurrent && !usable_at_once(entry) && entry.disjoint != true)
        throw Unavailable("the CPU may not use " + to_string(array.allocator()) + " memory while a kernel does");
    Outcome outcome;
    Halves halves(lab, array, copy, request);
    const double cpu = measure_alone(halves, Agent::cpu, outcome.errors, stop, request.iterations,
                                     [&](int iterations) { return halves.cpu_alone(iterations); });
    const double gpu = measure_alone(halves, Agent::gpu, outcome.errors, stop, request.iterations,
                                     [&](int iterations) { return halves.gpu_alone(iterations); });
    halves.fill();
    halves.together(2);  // after that each agent has accessed both halves
    const double expected = halves.together(2) * request.iterations;
    if (expected > request.longest)
        throw Unavailable(std::to_string(request.iterations) + " iterations would take " +
                          std::to_string(static_cast<int>(expected)) +
                          " s, which exceeds the limit of a point: request fewer iterations");
    Stop limited = stop;
    limited.min_samples =
        std::clamp(static_cast<int>(std::max(sampling_seconds, stop.seconds) / expected), 1, stop.min_samples);
    std::vector<double> copying;
    halves.take_copying();
    outcome.samples = sample(limited, [&] {
        const double seconds = halves.together(request.iterations);
        copying.push_back(halves.take_copying() / request.iterations);
        return seconds * 1e3;
    });
    outcome.errors += halves.count_wrong(Agent::cpu);
    if (copy != nullptr) outcome.errors += halves.count_wrong(Agent::gpu);
    const double together = summarise(outcome.samples.values).median;
    outcome.counters = {{"cpu_alone_ms", cpu * 1e3},
                        {"gpu_alone_ms", gpu * 1e3},
                        {"together_ms", together},
                        {"overlap", (cpu + gpu) * 1e3 / together}};
    if (copy != nullptr) outcome.counters["copying_ms"] = summarise(copying).median * 1e3;
    return outcome;
}

}  // namespace firsttouch
