#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <numeric>
#include <thread>

#include "host/clock.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

constexpr std::uint64_t group_threads = 64;
constexpr std::size_t slot_words = 8;       // keeps the groups' round counts on separate cache lines
constexpr std::uint64_t signs_of_life = 8;  // steps of every thread or group before rates are read
constexpr double longest_wait = 0.5;        // seconds for those steps
constexpr double longest_window = 0.25;     // seconds
constexpr int windows_of_a_run = 10;        // where it is read at its end only
constexpr double longest_run = 20;          // seconds of reading, however long the sampling may take
constexpr double grace_of_the_kernel = 10;  // seconds after which a kernel that was not stopped ends by itself
constexpr double round_seconds_wanted = 40e-6;

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Progress of a side at a point in time. steps: of its slowest thread or group.
struct Reading {
    double time = 0;
    std::uint64_t updates = 0;
    std::uint64_t steps = 0;
};

// The CPU's threads or the GPU's, which increment from start to stop.
class Side {
  public:
    Side() = default;
    Side(const Side&) = delete;
    Side& operator=(const Side&) = delete;
    virtual ~Side() = default;
    virtual void start(double longest) = 0;  // seconds after which it may end by itself
    virtual void stop() = 0;
    virtual void wait() = 0;  // until all have ended
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
            Team team(request_.cpu_threads);  // the caller stays free to read
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
    std::future<void> done_;  // last, so that it is destroyed before what the threads use
};

// A persistent kernel, with the memory through which the CPU watches and stops it.
class GpuSide : public Side {
  public:
    GpuSide(Lab& lab, const Buffer& buffer, const AtomicsRequest& request)
        : lab_(lab), buffer_(buffer), request_(request),
          groups_(static_cast<std::uint32_t>(request.gpu_threads / group_threads)),
          kernel_(lab.kernel("atomics", "atomics_increment", defines(request))),
          seen_(lab.device().allocate(lab.board().allocator(), control_bytes())) {
        // In the CPU's memory every look at the stop word and every count of a round would cross the link. Where
        // memories are apart both stay beside the groups, and the CPU has a copy that the copy engine makes.
        if (!lab.shares_host_memory()) {
            control_ = lab.device().allocate(lab.results().allocator(), control_bytes());
            copies_ = lab.device().stream();
        }
    }
    ~GpuSide() override {
        stop();
        try {
            if (running_) lab_.device().wait(lab_.stream());  // the kernel uses the progress until it ends
        } catch (const std::exception&) {
        }
    }

    // Looks for the number of updates that makes a round last about 40 us: short enough for the counts to move often,
    // long enough for a look at the stop word to cost nothing. Leaves the histogram incremented.
    void choose_round() {
        constexpr std::uint64_t rounds = 64;
        constexpr std::uint32_t most = 4096;
        trial(rounds);  // the first launch may finish the compiling
        while (true) {
            trial(rounds);
            round_seconds_ = seconds_ * groups_ / static_cast<double>(total_rounds());
            if (round_seconds_ >= round_seconds_wanted || updates_ >= most) return;
            const double factor = std::clamp(round_seconds_wanted / round_seconds_, 1.5, 8.0);
            updates_ = std::min(most, static_cast<std::uint32_t>(updates_ * factor + 1));
        }
    }

    // Where the device has no clock the rounds that it makes alone in that time are the limit.
    void start(double longest) override {
        launch(static_cast<std::uint64_t>(longest / std::min(round_seconds_, round_seconds_wanted)), longest);
    }
    void stop() override {
        word(0).store(1, std::memory_order_relaxed);
        if (control_ != nullptr) copy(*control_, *seen_, 8);
    }
    void wait() override {
        finish();
        if (word(1).load(std::memory_order_relaxed) != 0)
            throw std::runtime_error("the kernel came to its own limit of time before it was stopped");
    }
    Reading read() override {
        const double before = now();
        if (control_ != nullptr) copy(*seen_, *control_, control_bytes());
        const double time = (before + now()) / 2;
        const std::uint64_t rounds = total_rounds();
        return {.time = time, .updates = rounds * updates_ * group_threads, .steps = rounds};
    }
    // Threads of the groups that had moved when the last run ended; a group that found no room has not.
    std::uint64_t threads_seen() const {
        std::uint64_t seen = 0;
        for (std::uint32_t group = 0; group < groups_; ++group) seen += rounds_of(group) > 0 ? group_threads : 0;
        return seen;
    }

  private:
    static Defines defines(const AtomicsRequest& request) {
        const bool whole = request.type == Element::u64;
        return {
            {"TYPE", whole ? "ulong" : "double"},
            {"ADD", std::string("ATOMIC_ADD_") + (whole ? "U64_" : "F64_") + (request.system ? "SYSTEM" : "DEVICE")}};
    }
    std::size_t control_bytes() const { return (1 + groups_) * slot_words * 8; }
    void copy(const Buffer& target, const Buffer& source, std::size_t bytes) {
        lab_.device().copy(*copies_, target, 0, source, 0, bytes);
        lab_.device().wait(*copies_);
    }
    std::atomic_ref<std::uint64_t> word(std::size_t at) const {
        return std::atomic_ref<std::uint64_t>(static_cast<std::uint64_t*>(seen_->block().host)[at]);
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
        std::memset(seen_->block().host, 0, control_bytes());
        if (control_ != nullptr) copy(*control_, *seen_, control_bytes());
        const Argument list[] = {buffer_,
                                 static_cast<std::uint32_t>(request_.elements),
                                 request_.seed,
                                 control_ != nullptr ? *control_ : *seen_,
                                 updates_,
                                 most_rounds,
                                 static_cast<std::uint64_t>(longest * 1e9)};
        from_ = lab_.device().record(lab_.stream());
        lab_.device().launch(lab_.stream(), kernel_, {groups_, group_threads}, list);
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
    std::uint32_t groups_;
    Kernel& kernel_;
    std::unique_ptr<Buffer> seen_, control_;  // the CPU's; the kernel's, where that is another
    std::unique_ptr<Stream> copies_;
    std::unique_ptr<Event> from_;
    std::uint32_t updates_ = 1;  // of every thread in a round
    double round_seconds_ = 0;
    double seconds_ = 0;  // of the last run
    bool running_ = false;
};

// Million updates per second of one run: of all, and of each side.
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

// Waits until every side makes progress, and returns seconds between readings that suit the slowest. A side without
// progress does not block the others: its rate will be 0.
double window_for(const Sides& sides, double least) {
    const double start = now();
    const auto moving = [&] {
        return std::ranges::all_of(sides, [](Side* side) { return side->read().steps >= signs_of_life; });
    };
    while (!moving() && now() - start < longest_wait) sleep_for(least / 10);
    return std::clamp(2 * (now() - start), least, longest_window);
}

Rates watch(const Sides& sides, double least_window, const Stop& stop) {
    const double window = window_for(sides, least_window);
    std::vector<std::vector<double>> values(sides.size());
    Sampler sampler(stop);
    sleep_for(window);  // the first is for warming up
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
    for (auto& of_side : values) rates.sides.push_back(summarise(std::move(of_side)).median);
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

    // Counts the deviation of the sum, and elements with impossible values.
    void check(Agent agent, std::uint64_t increments) {
        const auto [sum, absurd] = sum_by(agent, increments);
        expected += increments;
        found += sum;
        errors += (sum > increments ? sum - increments : increments - sum) + absurd;
    }

    std::uint64_t expected = 0, found = 0, errors = 0;

  private:
    std::pair<std::uint64_t, std::uint64_t> sum_by(Agent agent, std::uint64_t most) {
        const std::string entry = request_.type == Element::u64 ? "histogram_sum_u64" : "histogram_sum_f64";
        if (agent == Agent::gpu) {
            lab_.clear_results();
            lab_.over(request_.elements, "histogram", entry, buffer_, request_.elements, most, lab_.results());
            const auto result = lab_.read_results(2);
            return {result[0], result[1]};
        }
        std::uint64_t result[2] = {};
        const HostView view(buffer_);
        run_on_host(entry, 0, static_cast<const void*>(view.data()), request_.elements, most, result);
        return {result[0], result[1]};
    }

    Lab& lab_;
    const Buffer& buffer_;
    const AtomicsRequest& request_;
};

class Contest {
  public:
    Contest(Lab& lab, const Buffer& buffer, const AtomicsRequest& request)
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

    // From a histogram of zeros to its check, read in windows.
    Rates watched(const Sides& sides, Stop stop) {
        Rates rates;
        stop.seconds = std::min(stop.seconds, longest_run);
        run(sides, stop.seconds, [&] { rates = watch(sides, request_.window, stop); });
        return rates;
    }

    // Million updates per second between two readings that are `windows` windows apart, with `between` readings in
    // the middle that nobody needs.
    double from_end_to_end(const Sides& sides, int between) {
        const double seconds = windows_of_a_run * request_.window;
        double rate = 0;
        run(sides, 2 * seconds, [&] {
            window_for(sides, request_.window);
            sleep_for(request_.window);  // for warming up
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
        outcome.counters["found"] = static_cast<double>(histogram_.found);
        if (gpu_ != nullptr) outcome.counters["gpu_threads_seen"] = static_cast<double>(gpu_->threads_seen());
    }

  private:
    template <class Meanwhile>
    void run(const Sides& sides, double seconds, Meanwhile&& meanwhile) {
        const bool of_gpu = std::ranges::find(sides, gpu_.get()) != sides.end() && gpu_ != nullptr;
        const Agent agent = of_gpu ? Agent::gpu : Agent::cpu;
        histogram_.zero(agent);
        for (Side* side : sides) side->start(2 * seconds + grace_of_the_kernel);
        meanwhile();
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

// Each side alone, then both together: the fraction of its rate that each keeps.
void run_together(Contest& contest, Outcome& outcome, Stop stop) {
    static constexpr const char* names[] = {"cpu", "gpu"};
    stop.seconds /= 3;
    const Sides sides = contest.all();
    std::vector<double> alone;
    for (Side* side : sides) alone.push_back(contest.watched({side}, stop).sides[0]);
    Rates together = contest.watched(sides, stop);
    for (std::size_t i = 0; i < sides.size(); ++i) {
        const std::string name = names[i];
        outcome.counters[name + "_alone"] = alone[i];
        outcome.counters[name + "_rate"] = together.sides[i];
        if (alone[i] > 0) outcome.counters[name + "_relative"] = together.sides[i] / alone[i];
    }
    outcome.samples = std::move(together.total);
}

// Alternates runs that are read only at both ends with runs that are read in every window.
void compare_reading(Contest& contest, Outcome& outcome, const Stop& stop) {
    const Sides sides = contest.all();
    std::vector<double> ratios;
    outcome.samples = sample(stop, [&] {
        const double unread = contest.from_end_to_end(sides, 0);
        const double read = contest.from_end_to_end(sides, windows_of_a_run - 1);
        if (unread > 0) ratios.push_back(read / unread);  // else no thread was scheduled in that time
        return unread;
    });
    if (!ratios.empty()) outcome.counters["read_ratio"] = summarise(ratios).median;
}

void refuse_nonsense(Lab& lab, const Buffer& buffer, const AtomicsRequest& request) {
    if (request.elements == 0 || request.elements > std::uint64_t{1} << 31 || request.elements > buffer.size() / 8)
        throw std::invalid_argument("a histogram has 1 to 2^31 elements of 8 bytes that its buffer holds");
    if (request.cpu_threads < 0 || request.gpu_threads < 0 || request.gpu_threads % group_threads != 0 ||
        request.cpu_threads + request.gpu_threads == 0)
        throw std::invalid_argument("a histogram needs threads of the CPU, or of the GPU in whole groups of 64");
    const AllocatorInfo& entry = lab.device().info(buffer.allocator());
    if (request.cpu_threads > 0 && request.gpu_threads > 0 && entry.concurrent != true)
        throw Unavailable(lab.device().name() + " does not state that the CPU may use " +
                          to_string(buffer.allocator()) + " memory while a kernel does");
}

}  // namespace

Outcome atomics(Lab& lab, const Buffer& buffer, const AtomicsRequest& request, const Stop& stop) {
    refuse_nonsense(lab, buffer, request);
    Outcome outcome;
    Contest contest(lab, buffer, request);
    const Sides sides = contest.all();
    if (request.read_at_end) {
        compare_reading(contest, outcome, stop);
    } else if (sides.size() == 2) {
        run_together(contest, outcome, stop);
    } else {
        Rates rates = contest.watched(sides, stop);
        outcome.counters[request.cpu_threads > 0 ? "cpu_rate" : "gpu_rate"] = rates.sides[0];
        outcome.samples = std::move(rates.total);
    }
    contest.report(outcome);
    return outcome;
}

}  // namespace firsttouch
