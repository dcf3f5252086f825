#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include "host/clock.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

// Constants of kernels/locking.c, in 8-byte words.
constexpr std::size_t line = 32, end_word = 3 * line, board_words = 4 * line;
constexpr std::size_t first_tally = 2 * line, words_of_own = 4096;

constexpr double glance = 1e-4;        // seconds between two reads of the progress
constexpr double shortest_run = 0.02;  // seconds, to make start and end negligible
constexpr double unhurried = 5;        // seconds for three samples; slower ones are fewer
constexpr double slow_access = 5e-6;   // seconds that an access outside may take before it counts as no progress

enum End : std::uint64_t { running, enough, livelock };

std::uint64_t* words_of(const Buffer& buffer) { return static_cast<std::uint64_t*>(buffer.block().host); }

// Sections of each agent, as counted on the board.
using Progress = std::array<std::uint64_t, 2>;
std::uint64_t sum(const Progress& progress) { return progress[0] + progress[1]; }

// The shared words of the lock. Plain memory if no kernel takes part and the device has no board.
class Board {
  public:
    Board(Lab& lab, bool for_kernels) {
        try {
            buffer_ = &lab.board();
        } catch (const Unavailable&) {
            if (for_kernels) throw;
            plain_ = lab.device().allocate(Allocator::malloc, board_words * 8);
            buffer_ = plain_.get();
        }
        std::fill_n(words_of(*buffer_), board_words, 0);
    }
    const Buffer& buffer() const { return *buffer_; }
    std::uint64_t* words() const { return words_of(*buffer_); }
    Progress progress() const { return {load(0) / 2, load(line) / 2}; }
    void want_for_ever(Agent agent) { store(place(agent), 1); }
    void end(End why) { store(end_word, why); }

  private:
    static std::size_t place(Agent agent) { return agent == Agent::cpu ? 0 : line; }
    std::uint64_t load(std::size_t word) const {
        return std::atomic_ref<std::uint64_t>(words()[word]).load(std::memory_order_acquire);
    }
    void store(std::size_t word, std::uint64_t value) {
        std::atomic_ref<std::uint64_t>(words()[word]).store(value, std::memory_order_release);
    }
    std::unique_ptr<Buffer> plain_;
    Buffer* buffer_ = nullptr;
};

// One agent's competitors: their own lock and tallies, and what they access outside.
class Side {
  public:
    Side(Lab& lab, Agent agent, const Buffer& region, int competitors, std::uint64_t seed)
        : lab_(lab), agent_(agent), competitors_(static_cast<std::uint64_t>(competitors)), seed_(seed),
          own_(lab.device().allocate(agent == Agent::gpu ? lab.results().allocator() : Allocator::malloc,
                                     own_words() * 8)),
          privates_(lab.device().allocate(region.allocator(), whole_pages(competitors_ * words_of_own * 8))) {
        const std::vector<std::uint64_t> zeros(own_words(), 0);
        if (agent == Agent::gpu)
            lab.write(*own_, 0, zeros.data(), own_words() * 8);
        else
            std::ranges::copy(zeros, words_of(*own_));
        lab.fill(*privates_, seed, agent);
    }
    std::uint64_t competitors() const { return competitors_; }
    const Buffer& own() const { return *own_; }
    const Buffer& privates() const { return *privates_; }

    // Sections of every competitor together.
    std::uint64_t sections() {
        std::vector<std::uint64_t> words(own_words());
        if (agent_ == Agent::gpu)
            lab_.read(*own_, 0, words.data(), words.size() * 8);
        else
            std::copy_n(words_of(*own_), words.size(), words.begin());
        std::uint64_t sections = 0;
        for (std::uint64_t i = 0; i < competitors_; ++i) sections += words[first_tally + i * line];
        return sections;
    }
    std::uint64_t wrong_privates() {
        if (agent_ == Agent::gpu) {
            lab_.clear_results();
            lab_.over(competitors_ * words_of_own, "locking", "locking_check_privates", *privates_, *own_, competitors_,
                      seed_, lab_.results());
            return lab_.read_results(1)[0];
        }
        std::uint64_t errors = 0;
        const HostView view(*privates_);
        run_on_host("locking_check_privates", 1, static_cast<const std::uint64_t*>(view.as<std::uint64_t>()),
                    static_cast<const std::uint64_t*>(words_of(*own_)), competitors_, seed_, &errors);
        return errors;
    }

  private:
    std::size_t own_words() const { return first_tally + static_cast<std::size_t>(competitors_) * line; }
    // Pages migrate in units of up to 2 MiB, which no other buffer may share.
    static std::size_t whole_pages(std::size_t bytes) {
        constexpr std::size_t page = 2 * 1024 * 1024;
        return (bytes + page - 1) / page * page;
    }
    Lab& lab_;
    Agent agent_;
    std::uint64_t competitors_;
    std::uint64_t seed_;
    std::unique_ptr<Buffer> own_;
    std::unique_ptr<Buffer> privates_;
};

struct Run {
    double seconds = 0;
    Progress done{};
};

class Contest {
  public:
    Contest(Lab& lab, const Buffer& region, const LockingRequest& request)
        : lab_(lab), region_(region), request_(request), board_(lab, request.gpu_groups > 0),
          patience_(request.patience + static_cast<double>(request.outside) * slow_access) {
        for (const Agent agent : {Agent::cpu, Agent::gpu}) {
            const int competitors = agent == Agent::cpu ? request.cpu_threads : request.gpu_groups;
            if (competitors > 0)
                sides_[index(agent)] = std::make_unique<Side>(lab, agent, region, competitors, request.seed);
            else if (request.stuck)
                board_.want_for_ever(agent);
        }
        if (has(Agent::gpu)) compete_ = &lab.kernel("locking", "locking_compete");
        lab.fill(region, request.seed, has(Agent::cpu) ? Agent::cpu : Agent::gpu);
    }

    std::uint64_t competitors() const {
        std::uint64_t all = 0;
        for (const auto& side : sides_) all += side == nullptr ? 0 : side->competitors();
        return all;
    }

    // Lets them compete until they had `sections` critical sections and shortest_run has passed, or for `longest`
    // seconds. Throws where none is entered for as long as patience lasts.
    Run run(std::uint64_t sections, double longest) {
        board_.end(running);
        std::optional<HostView> region, privates;
        std::future<void> cpu;
        Run result;
        {
            const Ended ended{board_};  // before the future, so that the threads always end
            if (has(Agent::cpu)) {
                region.emplace(region_);
                privates.emplace(sides_[index(Agent::cpu)]->privates());
                cpu = std::async(std::launch::async, [&] { run_cpu(*region, *privates, longest); });
            }
            if (has(Agent::gpu)) start_gpu(longest);
            result = watch(sections, longest);
        }
        if (has(Agent::gpu)) lab_.device().wait(lab_.stream());
        if (has(Agent::cpu)) cpu.get();
        if (result.seconds == 0) throw std::runtime_error(stuck_words());
        return result;
    }

    // What does not add up once all have ended: words of the region and of the competitors, and sections that an
    // agent's own lock lost.
    std::uint64_t wrong() {
        std::uint64_t errors = 0, sections = 0;
        const Progress told = board_.progress();
        for (const Agent agent : {Agent::cpu, Agent::gpu}) {
            if (!has(agent)) continue;
            Side& side = *sides_[index(agent)];
            const std::uint64_t done = side.sections();
            sections += done;
            errors += done > told[index(agent)] ? done - told[index(agent)] : told[index(agent)] - done;
            errors += side.wrong_privates();
        }
        return errors + wrong_region(sections);
    }
    std::uint64_t sections() const { return sum(board_.progress()); }

  private:
    struct Ended {
        Board& board;
        ~Ended() { board.end(enough); }
    };
    static std::size_t index(Agent agent) { return agent == Agent::cpu ? 0 : 1; }
    bool has(Agent agent) const { return sides_[index(agent)] != nullptr; }

    // Nanoseconds after which a kernel ends by itself. No competitor has as many sections as `most` in that time.
    std::uint64_t limit(double longest) const {
        return static_cast<std::uint64_t>((longest + 2 * patience_ + 1) * 1e9);
    }
    std::uint64_t most(double longest) const { return limit(longest) / 16; }

    void start_gpu(double longest) {
        const Side& side = *sides_[index(Agent::gpu)];
        const Argument list[] = {board_.buffer(),    side.own(),       region_,         side.privates(),
                                 side.competitors(), std::uint32_t{1}, request_.inside, request_.outside,
                                 most(longest),      limit(longest)};
        lab_.device().launch(lab_.stream(), *compete_, {static_cast<std::uint32_t>(side.competitors()), 1}, list);
    }
    void run_cpu(const HostView& region, const HostView& privates, double longest) {
        const Side& side = *sides_[index(Agent::cpu)];
        run_on_host("locking_compete", static_cast<int>(side.competitors()), board_.words(), words_of(side.own()),
                    region.as<std::uint64_t>(), privates.as<std::uint64_t>(), side.competitors(), std::uint32_t{0},
                    request_.inside, request_.outside, most(longest), limit(longest));
    }

    // Counts from when every side was seen to have had a section, so that launches do not show, until enough are done.
    // No seconds for a livelock.
    Run watch(std::uint64_t sections, double longest) {
        const Progress before = board_.progress();
        const double start = now();
        Progress last = before, first{};
        double moved = start, counted = 0;
        while (true) {
            std::this_thread::sleep_for(std::chrono::duration<double>(glance));
            const Progress found = board_.progress();
            const double time = now();
            if (found != last) last = found, moved = time;
            if (time - moved > patience_) {
                board_.end(livelock);
                return {};
            }
            if (counted == 0) {
                if (all_moved(before, found) || (found != before && time - start > patience_))
                    first = found, counted = time;
                continue;
            }
            const Progress done{found[0] - first[0], found[1] - first[1]};
            const bool enough_done = sum(done) >= sections && time - counted >= shortest_run;
            if (enough_done || (time - start > longest && sum(done) > 0)) return {time - counted, done};
        }
    }
    bool all_moved(const Progress& before, const Progress& found) const {
        return (!has(Agent::cpu) || found[0] != before[0]) && (!has(Agent::gpu) || found[1] != before[1]);
    }
    std::string stuck_words() const {
        const Progress done = board_.progress();
        const auto seconds = [](double value) { return std::to_string(value).substr(0, 4) + " s"; };
        return "livelock: no critical section was entered for " + seconds(patience_) + ", after " +
               std::to_string(done[0]) + " by the CPU and " + std::to_string(done[1]) + " by the GPU";
    }
    std::uint64_t wrong_region(std::uint64_t sections) {
        const std::uint64_t words = region_.size() / 8;
        if (!has(Agent::cpu)) {
            lab_.clear_results();
            lab_.over(words, "locking", "locking_check_region", region_, words, request_.seed, request_.inside,
                      sections, lab_.results());
            return lab_.read_results(1)[0];
        }
        std::uint64_t errors = 0;
        const HostView view(region_);
        run_on_host("locking_check_region", 1, static_cast<const std::uint64_t*>(view.as<std::uint64_t>()), words,
                    request_.seed, request_.inside, sections, &errors);
        return errors;
    }

    Lab& lab_;
    const Buffer& region_;
    const LockingRequest& request_;
    Board board_;
    double patience_;
    std::array<std::unique_ptr<Side>, 2> sides_;
    Kernel* compete_ = nullptr;
};

void check_request(Lab& lab, const Buffer& region, const LockingRequest& request) {
    if (request.cpu_threads < 0 || request.gpu_groups < 0 || request.cpu_threads + request.gpu_groups == 0)
        throw std::invalid_argument("somebody must compete for the lock");
    if (request.sections == 0) throw std::invalid_argument("at least one critical section");
    if (request.inside == 0 || request.inside > region.size() / (line * 8))
        throw std::invalid_argument("the region holds 1 to " + std::to_string(region.size() / (line * 8)) +
                                    " words for accesses inside");
    const AllocatorInfo& entry = lab.device().info(region.allocator());
    if (request.cpu_threads > 0 && request.gpu_groups > 0 && entry.concurrent != true)
        throw Unavailable("CPU and GPU do not see each other's stores to " + to_string(region.allocator()) +
                          " memory while a kernel runs");
}

}  // namespace

Outcome locking(Lab& lab, const Buffer& region, const LockingRequest& request, const Stop& stop) {
    check_request(lab, region, request);
    Contest contest(lab, region, request);
    const Run warm = contest.run(4 * contest.competitors(), request.longest / 4);
    const double expected = warm.seconds / static_cast<double>(sum(warm.done)) * static_cast<double>(request.sections);
    Stop rule = stop;
    rule.min_samples = std::clamp(static_cast<int>(std::max(unhurried, stop.seconds) / expected), 1, stop.min_samples);
    std::array<std::vector<double>, 2> rates;
    std::vector<double> done;
    Outcome outcome;
    outcome.samples = sample(rule, [&] {
        const Run run = contest.run(request.sections, request.longest);
        const double all = static_cast<double>(sum(run.done));
        for (std::size_t agent = 0; agent < 2; ++agent)
            rates[agent].push_back(static_cast<double>(run.done[agent]) / run.seconds);
        done.push_back(all);
        return run.seconds / all * 1e9;
    });
    outcome.errors = contest.wrong();
    outcome.counters["sections_a_sample"] = summarise(done).median;
    outcome.counters["sections_in_all"] = static_cast<double>(contest.sections());
    const double cpu = summarise(rates[0]).median, gpu = summarise(rates[1]).median;
    if (request.cpu_threads > 0) outcome.counters["cpu_sections_per_s"] = cpu;
    if (request.gpu_groups > 0) outcome.counters["gpu_sections_per_s"] = gpu;
    if (request.cpu_threads > 0 && request.gpu_groups > 0) outcome.counters["cpu_share"] = cpu / (cpu + gpu);
    return outcome;
}

}  // namespace firsttouch
