#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <numeric>
#include <thread>

#include "host/clock.hpp"
#include "probe/at_once.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

constexpr std::uint64_t group_threads = 64;  // of a group; a single thread is a group of its own
constexpr std::size_t slot_words = 8;        // keeps the groups' round counts on separate cache lines
constexpr std::uint64_t startup_steps = 8;   // of every thread or group before rates are read
constexpr double max_startup_seconds = 0.5;
constexpr double max_window_seconds = 0.25;
constexpr int windows_per_run = 10;          // of a run that is read only at its end
constexpr double max_sampling_seconds = 20;  // even if the request allows more
constexpr double kernel_grace_seconds = 10;  // added to a run's time limit, after which a kernel ends without stop()
constexpr double target_round_seconds = 40e-6;

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// The progress of a side at a point in time. `steps` are those of its slowest thread or group.
struct Reading {
    double time = 0;
    std::uint64_t updates = 0;
    std::uint64_t steps = 0;
};

// The threads of the CPU or of the GPU, which increment between start() and stop().
class Side {
  public:
    Side() = default;
    Side(const Side&) = delete;
    Side& operator=(const Side&) = delete;
    virtual ~Side() = default;
    virtual void start(double longest) = 0;  // `longest`: seconds after which it may end without stop()
    virtual void stop() = 0;
    virtual void wait() = 0;  // until all threads have ended
    virtual Reading read() = 0;
};

class CpuSide : public Side {
  public:
    CpuSide(const Buffer& buffer, const AtomicsRequest& request)
        : buffer_(buffer), request_(request), threads_(static_cast<std::size_t>(request.cpu_threads)) {}
    ~CpuSide() override { stop(); }

    void start(double) override {
        stop_ = false;
        for (auto& thread : threads_) thread.done = 0;
        view_ = std::make_unique<HostView>(buffer_);
        done_ = std::async(std::launch::async, [this] {
            Team team(request_.cpu_threads);  // in another thread, because the caller reads the progress
            team.run([&](int member) {
                const auto number = static_cast<std::uint64_t>(member);
                const std::uint64_t seed = (request_.seed + number) * 0x9E3779B97F4A7C15ull >> 32;
                increment_host(request_.type, view_->data(), request_.elements, seed, stop_, threads_[number]);
            });
        });
    }
    void stop() override { stop_.store(true, std::memory_order_relaxed); }
    void wait() override {
        done_.get();
        view_.reset();
    }
    Reading read() override {
        Reading reading{.time = now(), .updates = 0, .steps = UINT64_MAX};
        for (const auto& thread : threads_) {
            const std::uint64_t done = thread.done.load(std::memory_order_relaxed);
            reading.updates += done;
            reading.steps = std::min(reading.steps, done / IncrementProgress::step);
        }
        return reading;
    }

  private:
    const Buffer& buffer_;
    const AtomicsRequest& request_;
    std::vector<IncrementProgress> threads_;
    std::atomic<bool> stop_{false};
    std::unique_ptr<HostView> view_;
    std::future<void> done_;  // declared last, so that it is destroyed before the members that the threads use
};

// A persistent kernel, with the memory in which the CPU reads its progress and stops it.
class GpuSide : public Side {
  public:
    GpuSide(Lab& lab, const Buffer& buffer, const AtomicsRequest& request)
        : lab_(lab), buffer_(buffer), request_(request),
          in_group_(std::min(group_threads, static_cast<std::uint64_t>(request.gpu_threads))),
          groups_(static_cast<std::uint32_t>(request.gpu_threads / in_group_)),
          kernel_(lab.kernel("atomics", "atomics_increment", defines(request))),
          host_control_(lab.device().allocate(lab.board().allocator(), control_bytes())) {
        // In host memory, every check of the stop word and every store of a round count would cross the link. Where the
        // memories are separate, both are in device memory, and the copy engine copies them to the host.
        if (!lab.shares_host_memory()) {
            device_control_ = lab.device().allocate(lab.results().allocator(), control_bytes());
            copies_ = lab.device().stream();
        }
    }
    ~GpuSide() override {
        stop();
        try {
            if (running_) lab_.device().wait(lab_.stream());  // the kernel uses the control memory until it ends
        } catch (const std::exception&) {
        }
    }

    // Searches for the number of updates that makes a round last about 40 us: short enough that the counts change
    // often, long enough that checking the stop word costs nothing. This increments the histogram.
    void choose_round() {
        constexpr std::uint64_t rounds = 64;
        constexpr std::uint32_t max_updates = 4096;
        trial(rounds);  // the first launch may include compilation
        while (true) {
            trial(rounds);
            round_seconds_ = seconds_ * groups_ / static_cast<double>(total_rounds());
            if (round_seconds_ >= target_round_seconds || updates_ >= max_updates) return;
            const double factor = std::clamp(target_round_seconds / round_seconds_, 1.5, 8.0);
            updates_ = std::min(max_updates, static_cast<std::uint32_t>(updates_ * factor + 1));
        }
    }

    // If the device has no clock, the limit is the number of rounds that it makes in that time when it runs alone.
    void start(double longest) override {
        launch(static_cast<std::uint64_t>(longest / std::min(round_seconds_, target_round_seconds)), longest);
    }
    void stop() override {
        word(0).store(1, std::memory_order_relaxed);
        if (device_control_ != nullptr) copy(*device_control_, *host_control_, 8);
    }
    void wait() override {
        finish();
        if (word(1).load(std::memory_order_relaxed) != 0)
            throw std::runtime_error("the kernel reached its time limit before it was stopped");
    }
    Reading read() override {
        const double before = now();
        if (device_control_ != nullptr) copy(*host_control_, *device_control_, control_bytes());
        const double time = (before + now()) / 2;
        const std::uint64_t rounds = total_rounds();
        return {.time = time, .updates = rounds * updates_ * in_group_, .steps = rounds};
    }
    // Returns the threads of groups that made progress in the last run. A group that was never resident made none.
    std::uint64_t threads_seen() const {
        std::uint64_t seen = 0;
        for (std::uint32_t group = 0; group < groups_; ++group) seen += rounds_of(group) > 0 ? in_group_ : 0;
        return seen;
    }

  private:
    static Defines defines(const AtomicsRequest& request) {
        const bool integers = request.type == Element::u64;
        return {{"TYPE", integers ? "ulong" : "double"},
                {"ADD",
                 std::string("ATOMIC_ADD_") + (integers ? "U64_" : "F64_") + (request.system ? "SYSTEM" : "DEVICE")}};
    }
    std::size_t control_bytes() const { return (1 + groups_) * slot_words * 8; }
    void copy(const Buffer& target, const Buffer& source, std::size_t bytes) {
        lab_.device().copy(*copies_, target, 0, source, 0, bytes);
        lab_.device().wait(*copies_);
    }
    std::atomic_ref<std::uint64_t> word(std::size_t at) const {
        return std::atomic_ref<std::uint64_t>(static_cast<std::uint64_t*>(host_control_->block().host)[at]);
    }
    std::uint64_t rounds_of(std::uint32_t group) const {
        return word((1 + group) * slot_words).load(std::memory_order_relaxed);
    }
    std::uint64_t total_rounds() const {
        std::uint64_t rounds = 0;
        for (std::uint32_t group = 0; group < groups_; ++group) rounds += rounds_of(group);
        return rounds;
    }
    void launch(std::uint64_t most_rounds, double longest) {
        std::memset(host_control_->block().host, 0, control_bytes());
        if (device_control_ != nullptr) copy(*device_control_, *host_control_, control_bytes());
        const Argument list[] = {buffer_,
                                 static_cast<std::uint32_t>(request_.elements),
                                 request_.seed,
                                 device_control_ != nullptr ? *device_control_ : *host_control_,
                                 updates_,
                                 most_rounds,
                                 static_cast<std::uint64_t>(longest * 1e9)};
        from_ = lab_.device().record(lab_.stream());
        lab_.device().launch(lab_.stream(), kernel_, {groups_, static_cast<std::uint32_t>(in_group_)}, list);
        running_ = true;
    }
    void finish() {
        const auto to = lab_.device().record(lab_.stream());
        lab_.device().wait(lab_.stream());
        running_ = false;
        seconds_ = lab_.device().elapsed(*from_, *to);
        read();
    }
    void trial(std::uint64_t rounds) {
        launch(rounds, 0.05);
        finish();
    }

    Lab& lab_;
    const Buffer& buffer_;
    const AtomicsRequest& request_;
    std::uint64_t in_group_;  // threads of each
    std::uint32_t groups_;
    Kernel& kernel_;
    std::unique_ptr<Buffer> host_control_, device_control_;  // the latter only if the memories are separate
    std::unique_ptr<Stream> copies_;
    std::unique_ptr<Event> from_;
    std::uint32_t updates_ = 1;  // of every thread per round
    double round_seconds_ = 0;
    double seconds_ = 0;  // of the last run
    bool running_ = false;
};

// Million updates per second of one run: the samples of all sides together, and the median of each.
struct Rates {
    Samples total;
    std::vector<double> sides;
};

using Sides = std::vector<Side*>;

std::vector<Reading> read(const Sides& sides) {
    std::vector<Reading> readings;
    for (Side* side : sides) readings.push_back(side->read());
    return readings;
}

// Waits until every side makes progress. Returns an interval between readings, in seconds, that is long enough for the
// slowest side. A side without progress does not block the others: its rate will be 0.
double window_for(const Sides& sides, double least) {
    const double start = now();
    const auto moving = [&] {
        return std::ranges::all_of(sides, [](Side* side) { return side->read().steps >= startup_steps; });
    };
    while (!moving() && now() - start < max_startup_seconds) sleep_for(least / 10);
    return std::clamp(2 * (now() - start), least, max_window_seconds);
}

Rates sample_rates(const Sides& sides, double least_window, const Stop& stop) {
    const double window = window_for(sides, least_window);
    std::vector<std::vector<double>> values(sides.size());
    Sampler sampler(stop);
    sleep_for(window);  // warm-up
    auto last = read(sides);
    for (bool more = true; more;) {
        sleep_for(window);
        auto next = read(sides);
        double total = 0;
        for (std::size_t i = 0; i < sides.size(); ++i) {
            const auto updates = static_cast<double>(next[i].updates - last[i].updates);
            values[i].push_back(updates / (next[i].time - last[i].time) * 1e-6);
            total += values[i].back();
        }
        more = sampler.add(total);
        last = std::move(next);
    }
    Rates rates{sampler.finish(), {}};
    for (auto& side_values : values) rates.sides.push_back(summarise(std::move(side_values)).median);
    return rates;
}

class Histogram {
  public:
    Histogram(Lab& lab, const Buffer& buffer, const AtomicsRequest& request)
        : lab_(lab), buffer_(buffer), request_(request) {}

    void zero(Agent agent) {
        if (agent == Agent::gpu) {
            lab_.over(request_.elements, "histogram", "histogram_zero", buffer_, request_.elements);
            lab_.device().wait(lab_.stream());
        } else {
            const HostView view(buffer_);
            run_on_host("histogram_zero", 0, view.as<std::uint64_t>(), request_.elements);
        }
    }

    // Adds the deviation of the sum and the elements with impossible values to `errors`.
    void check(Agent agent, std::uint64_t increments) {
        const auto [sum, impossible] = sum_by(agent, increments);
        expected += increments;
        counted += sum;
        errors += (sum > increments ? sum - increments : increments - sum) + impossible;
    }

    std::uint64_t expected = 0, counted = 0, errors = 0;

  private:
    std::pair<std::uint64_t, std::uint64_t> sum_by(Agent agent, std::uint64_t max_updates) {
        const std::string entry = request_.type == Element::u64 ? "histogram_sum_u64" : "histogram_sum_f64";
        if (agent == Agent::gpu) {
            lab_.clear_results();
            lab_.over(request_.elements, "histogram", entry, buffer_, request_.elements, max_updates, lab_.results());
            const auto result = lab_.read_results(2);
            return {result[0], result[1]};
        }
        std::uint64_t result[2] = {};
        const HostView view(buffer_);
        run_on_host(entry, 0, static_cast<const void*>(view.data()), request_.elements, max_updates, result);
        return {result[0], result[1]};
    }

    Lab& lab_;
    const Buffer& buffer_;
    const AtomicsRequest& request_;
};

class AtomicContention {
  public:
    AtomicContention(Lab& lab, const Buffer& buffer, const AtomicsRequest& request)
        : request_(request), histogram_(lab, buffer, request) {
        if (request.cpu_threads > 0) cpu_ = std::make_unique<CpuSide>(buffer, request);
        if (request.gpu_threads > 0) {
            gpu_ = std::make_unique<GpuSide>(lab, buffer, request);
            histogram_.zero(Agent::gpu);
            gpu_->choose_round();
        }
    }

    Sides all() const {
        Sides sides;
        if (cpu_ != nullptr) sides.push_back(cpu_.get());
        if (gpu_ != nullptr) sides.push_back(gpu_.get());
        return sides;
    }

    // Zeroes the histogram, measures the rates in windows, and checks the histogram.
    Rates measure_in_windows(const Sides& sides, Stop stop) {
        Rates rates;
        stop.seconds = std::min(stop.seconds, max_sampling_seconds);
        run(sides, stop.seconds, [&] { rates = sample_rates(sides, request_.window, stop); });
        return rates;
    }

    // Returns million updates per second between two readings that are windows_per_run windows apart. `between` is the
    // number of further readings in between, whose values are not used.
    double measure_in_one_interval(const Sides& sides, int between) {
        const double seconds = windows_per_run * request_.window;
        double rate = 0;
        run(sides, 2 * seconds, [&] {
            window_for(sides, request_.window);
            sleep_for(request_.window);  // warm-up
            const auto first = read(sides);
            for (int i = 0; i <= between; ++i) {
                sleep_for(seconds / (between + 1));
                if (i < between) read(sides);
            }
            const auto last = read(sides);
            for (std::size_t i = 0; i < sides.size(); ++i)
                rate += static_cast<double>(last[i].updates - first[i].updates) / (last[i].time - first[i].time) * 1e-6;
        });
        return rate;
    }

    void report(Outcome& outcome) const {
        outcome.errors = histogram_.errors;
        outcome.counters["increments"] = static_cast<double>(histogram_.expected);
        outcome.counters["found"] = static_cast<double>(histogram_.counted);
        if (gpu_ != nullptr) outcome.counters["gpu_threads_seen"] = static_cast<double>(gpu_->threads_seen());
    }

  private:
    template <class Measure>
    void run(const Sides& sides, double seconds, Measure&& measure) {
        const bool uses_gpu = std::ranges::find(sides, gpu_.get()) != sides.end() && gpu_ != nullptr;
        const Agent agent = uses_gpu ? Agent::gpu : Agent::cpu;
        histogram_.zero(agent);
        for (Side* side : sides) side->start(2 * seconds + kernel_grace_seconds);
        measure();
        for (Side* side : sides) side->stop();
        for (Side* side : sides) side->wait();
        const auto ended = read(sides);
        histogram_.check(agent, std::accumulate(ended.begin(), ended.end(), std::uint64_t{0},
                                                [](std::uint64_t sum, const Reading& r) { return sum + r.updates; }));
    }

    const AtomicsRequest& request_;
    Histogram histogram_;
    std::unique_ptr<CpuSide> cpu_;
    std::unique_ptr<GpuSide> gpu_;
};

// Measures each side alone, then both together, and reports the ratio of the two rates of each.
void measure_contention(AtomicContention& contention, Outcome& outcome, Stop stop) {
    static constexpr const char* names[] = {"cpu", "gpu"};
    stop.seconds /= 3;
    const Sides sides = contention.all();
    std::vector<double> alone;
    for (Side* side : sides) alone.push_back(contention.measure_in_windows({side}, stop).sides[0]);
    Rates together = contention.measure_in_windows(sides, stop);
    for (std::size_t i = 0; i < sides.size(); ++i) {
        const std::string name = names[i];
        outcome.counters[name + "_alone"] = alone[i];
        outcome.counters[name + "_rate"] = together.sides[i];
        if (alone[i] > 0) outcome.counters[name + "_relative"] = together.sides[i] / alone[i];
    }
    outcome.samples = std::move(together.total);
}

// Alternates runs that are read only at the start and the end with runs that are read in every window.
void measure_reading_cost(AtomicContention& contention, Outcome& outcome, const Stop& stop) {
    const Sides sides = contention.all();
    std::vector<double> ratios;
    outcome.samples = sample(stop, [&] {
        const double unread = contention.measure_in_one_interval(sides, 0);
        const double read = contention.measure_in_one_interval(sides, windows_per_run - 1);
        if (unread > 0) ratios.push_back(read / unread);  // otherwise no thread was scheduled in that time
        return unread;
    });
    if (!ratios.empty()) outcome.counters["read_ratio"] = summarise(ratios).median;
}

void validate_request(Lab& lab, const Buffer& buffer, const AtomicsRequest& request) {
    if (request.elements == 0 || request.elements > std::uint64_t{1} << 31 || request.elements > buffer.size() / 8)
        throw std::invalid_argument("elements must be 1 to 2^31, and the buffer must have 8 bytes for each");
    if (request.cpu_threads < 0 || request.gpu_threads < 0 ||
        (request.gpu_threads > 1 && request.gpu_threads % group_threads != 0) ||
        request.cpu_threads + request.gpu_threads == 0)
        throw std::invalid_argument("there must be at least one thread, and gpu_threads must be 1 or a multiple of 64");
    const AllocatorInfo& entry = lab.device().info(buffer.allocator());
    if (request.cpu_threads > 0 && request.gpu_threads > 0 && !usable_at_once(entry))
        throw Unavailable(lab.device().name() + " does not state that the CPU may use " +
                          to_string(buffer.allocator()) + " memory while a kernel does");
}

}  // namespace

Outcome atomics(Lab& lab, const Buffer& buffer, const AtomicsRequest& request, const Stop& stop) {
    validate_request(lab, buffer, request);
    Outcome outcome;
    AtomicContention contention(lab, buffer, request);
    const Sides sides = contention.all();
    if (request.read_at_end) {
        measure_reading_cost(contention, outcome, stop);
    } else if (sides.size() == 2) {
        measure_contention(contention, outcome, stop);
    } else {
        Rates rates = contention.measure_in_windows(sides, stop);
        outcome.counters[request.cpu_threads > 0 ? "cpu_rate" : "gpu_rate"] = rates.sides[0];
        outcome.samples = std::move(rates.total);
    }
    contention.report(outcome);
    return outcome;
}

}  // namespace firsttouch
