#include <algorithm>
#include <array>

#include "host/clock.hpp"
#include "probe/at_once.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

constexpr int max_iterations_alone = 10;  // of a sample of one agent alone
constexpr double sampling_seconds = 5;    // if three samples would take longer, fewer are taken

// Where an agent has one half of the array: in a buffer, from an integer on.
struct Half {
    const Buffer* buffer;
    std::uint64_t at;
};

// The array that both agents update, and the CPU's copy of it if the memories are separate.
class Halves {
  public:
    Halves(Lab& lab, const Buffer& array, const Buffer* second, const Buffer* copy, const ConcurrencyRequest& request)
        : lab_(lab), integers_(array.size() / sizeof(std::uint32_t) / (second != nullptr ? 1 : 2)),
          on_gpu_{Half{&array, 0}, second != nullptr ? Half{second, 0} : Half{&array, integers_}}, on_cpu_(on_gpu_),
          separate_(copy != nullptr), request_(request), copy_back_(lab.device().stream()),
          increment_(lab.kernel("halves", "halves_increment")),
          team_(request.threads > 0 ? request.threads : usable_processors()) {
        if (separate_) on_cpu_ = {Half{copy, 0}, Half{copy, integers_}};
    }

    void fill() {
        for (std::size_t half = 0; half < 2; ++half) {
            const HostView view(*on_cpu_[half].buffer);
            run_on_team(team_, "halves_fill", view.as<std::uint32_t>(), on_cpu_[half].at, half * integers_, integers_,
                        request_.seed);
        }
        if (separate_)
            for (std::size_t half = 0; half < 2; ++half) copy(on_gpu_[half], on_cpu_[half]);
        added_ = {};
    }

    void start_gpu(std::size_t half) {
        const Argument list[] = {*on_gpu_[half].buffer, on_gpu_[half].at, integers_};
        lab_.device().launch(lab_.stream(), increment_, lab_.grid_for(integers_), list);
    }
    void wait_for_gpu() { lab_.device().wait(lab_.stream()); }
    void run_cpu(std::size_t half) {
        const HostView view(*on_cpu_[half].buffer);
        run_on_team(team_, "halves_increment", view.as<std::uint32_t>(), on_cpu_[half].at, integers_);
    }
    // Copies to each agent the half that the other has updated, in both directions at once.
    void swap_copies(std::size_t half_of_gpu) {
        queue_copy(*copy_back_, on_cpu_[half_of_gpu], on_gpu_[half_of_gpu]);
        queue_copy(lab_.stream(), on_gpu_[1 - half_of_gpu], on_cpu_[1 - half_of_gpu]);
        lab_.device().wait(*copy_back_);
        wait_for_gpu();
    }

    // These return seconds per iteration. The agents swap halves after each iteration.
    double cpu_alone(int iterations) {
        return timed(iterations, [&](std::size_t half) {
            run_cpu(half);
            ++added_[half];
        });
    }
    double gpu_alone(int iterations) {
        return timed(iterations, [&](std::size_t half) {
            start_gpu(half);
            wait_for_gpu();
            ++added_[half];
        });
    }
    double together(int iterations) {
        return timed(iterations, [&](std::size_t half) {
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
        std::uint64_t errors = 0;
        for (std::size_t half = 0; half < 2; ++half) {
            if (separate_ && agent == Agent::gpu) copy(on_cpu_[half], on_gpu_[half]);
            const HostView view(*on_cpu_[half].buffer);
            run_on_team(team_, "halves_check", static_cast<const std::uint32_t*>(view.as<std::uint32_t>()),
                        on_cpu_[half].at, half * integers_, integers_, request_.seed, added_[half], &errors);
        }
        return errors;
    }

  private:
    void queue_copy(Stream& stream, const Half& target, const Half& source) {
        constexpr std::size_t size = sizeof(std::uint32_t);
        lab_.device().copy(stream, *target.buffer, target.at * size, *source.buffer, source.at * size,
                           integers_ * size);
    }
    void copy(const Half& target, const Half& source) {
        queue_copy(lab_.stream(), target, source);
        lab_.device().wait(lab_.stream());
    }
    template <class Iteration>
    double timed(int iterations, Iteration&& iteration) {
        const double start = now();
        for (int i = 0; i < iterations; ++i) iteration(static_cast<std::size_t>(i & 1));
        return (now() - start - clock_cost()) / iterations;
    }

    Lab& lab_;
    std::uint64_t integers_;  // of a half
    std::array<Half, 2> on_gpu_, on_cpu_;
    bool separate_;
    const ConcurrencyRequest& request_;
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

Outcome concurrency(Lab& lab, const Buffer& array, const Buffer* second, const Buffer* copy,
                    const ConcurrencyRequest& request, const Stop& stop) {
    const std::size_t size = array.size() + (second != nullptr ? second->size() : 0);
    if (request.iterations < 1) throw std::invalid_argument("iterations must be at least 1");
    if (size < 8 || size % 8 != 0 || (second != nullptr && second->size() != array.size()) ||
        (copy != nullptr && copy->size() != size))
        throw std::invalid_argument(
            "the size of the array must be a multiple of 8 bytes, its halves must have the same size, and so must the "
            "array and its copy");
    if ((request.mode == SharingMode::copying) != (copy != nullptr))
        throw std::invalid_argument("the strategy copying needs a copy of the array, and other strategies take none");
    for (const Buffer* half : {&array, second == nullptr ? &array : second}) {
        const AllocatorInfo& entry = lab.device().info(half->allocator());
        if (request.mode == SharingMode::concurrent && !usable_at_once(entry) && entry.disjoint != true)
            throw Unavailable("the CPU may not use " + to_string(half->allocator()) + " memory while a kernel does");
    }
    Outcome outcome;
    Halves halves(lab, array, second, copy, request);
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
