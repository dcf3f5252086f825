#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <numeric>
#include <optional>
#include <thread>

#include "host/clock.hpp"
#include "probe/at_once.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

// Constants of base/kernels/locking.c, in 8-byte words.
constexpr std::size_t line = 32, end_word = 3 * line, board_words = 4 * line;
constexpr std::size_t first_tally = 2 * line, private_words = 4096;

constexpr double poll_interval = 1e-4;    // seconds between two reads of the progress
constexpr double min_run_seconds = 0.02;  // so that start and end are negligible
constexpr double sampling_seconds = 5;    // if three samples would take longer, fewer are taken
constexpr double slow_access = 5e-6;      // seconds to allow for an access outside before assuming a livelock

enum RunState : std::uint64_t { running, finished, livelock };

std::uint64_t* words_of(const Buffer& buffer) { return static_cast<std::uint64_t*>(buffer.block().host); }

// Critical sections of each agent, as counted on the board.
using Progress = std::array<std::uint64_t, 2>;
std::uint64_t sum(const Progress& progress) { return progress[0] + progress[1]; }

// The shared words of the lock. They are in malloc memory if no kernel takes part and the device has no board.
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
    void hold_forever(Agent agent) { store(place(agent), 1); }
    void end(RunState state) { store(end_word, state); }

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

// The competitors of one agent: the agent's lock, their counts, and the private words that they access outside.
class Competitors {
  public:
    Competitors(Lab& lab, Agent agent, const Buffer& region, int competitors, std::uint64_t seed)
        : lab_(lab), agent_(agent), competitors_(static_cast<std::uint64_t>(competitors)), seed_(seed),
          lock_words_(lab.device().allocate(agent == Agent::gpu ? lab.results().allocator() : Allocator::malloc,
                                            lock_word_count() * 8)),
          privates_(lab.device().allocate(region.allocator(), whole_pages(competitors_ * private_words * 8))) {
        const std::vector<std::uint64_t> zeros(lock_word_count(), 0);
        if (agent == Agent::gpu)
            lab.write(*lock_words_, 0, zeros.data(), lock_word_count() * 8);
        else
            std::ranges::copy(zeros, words_of(*lock_words_));
        lab.fill(*privates_, seed, agent);
    }
    std::uint64_t competitors() const { return competitors_; }
    const Buffer& lock_words() const { return *lock_words_; }
    const Buffer& privates() const { return *privates_; }

    // Returns the sections of each competitor.
    std::vector<std::uint64_t> sections() {
        std::vector<std::uint64_t> words(lock_word_count());
        if (agent_ == Agent::gpu)
            lab_.read(*lock_words_, 0, words.data(), words.size() * 8);
        else
            std::copy_n(words_of(*lock_words_), words.size(), words.begin());
        std::vector<std::uint64_t> sections;
        for (std::uint64_t i = 0; i < competitors_; ++i) sections.push_back(words[first_tally + i * line]);
        return sections;
    }
    std::uint64_t count_wrong_privates() {
        if (agent_ == Agent::gpu) {
            lab_.clear_results();
            lab_.over(competitors_ * private_words, "locking", "locking_check_privates", *privates_, *lock_words_,
                      competitors_, seed_, lab_.results());
            return lab_.read_results(1)[0];
        }
        std::uint64_t errors = 0;
        const HostView view(*privates_);
        run_on_host("locking_check_privates", 1, static_cast<const std::uint64_t*>(view.as<std::uint64_t>()),
                    static_cast<const std::uint64_t*>(words_of(*lock_words_)), competitors_, seed_, &errors);
        return errors;
    }

  private:
    std::size_t lock_word_count() const { return first_tally + static_cast<std::size_t>(competitors_) * line; }
    // Pages migrate in units of up to 2 MiB, so no other buffer may share such a unit.
    static std::size_t whole_pages(std::size_t bytes) {
        constexpr std::size_t page = 2 * 1024 * 1024;
        return (bytes + page - 1) / page * page;
    }
    Lab& lab_;
    Agent agent_;
    std::uint64_t competitors_;
    std::uint64_t seed_;
    std::unique_ptr<Buffer> lock_words_;
    std::unique_ptr<Buffer> privates_;
};

struct Run {
    double seconds = 0;
    Progress done{};
};

class LockContention {
  public:
    LockContention(Lab& lab, const Buffer& region, const LockingRequest& request)
        : lab_(lab), region_(region), request_(request), board_(lab, request.gpu_groups > 0),
          patience_(request.patience + static_cast<double>(request.outside) * slow_access) {
        for (const Agent agent : {Agent::cpu, Agent::gpu}) {
            const int competitors =
                agent == Agent::cpu ? request.cpu_threads : request.gpu_groups * request.group_threads;
            if (competitors > 0)
                sides_[index(agent)] = std::make_unique<Competitors>(lab, agent, region, competitors, request.seed);
            else if (request.stuck)
                board_.hold_forever(agent);
        }
        if (takes_part(Agent::gpu)) compete_ = &lab.kernel("locking", "locking_compete");
        lab.fill(region, request.seed, takes_part(Agent::cpu) ? Agent::cpu : Agent::gpu);
    }

    std::uint64_t competitors() const {
        std::uint64_t all = 0;
        for (const auto& side : sides_) all += side == nullptr ? 0 : side->competitors();
        return all;
    }

    // Lets the competitors run until they had `sections` critical sections and min_run_seconds have passed, or for
    // `longest` seconds. Throws std::runtime_error if no section is entered for patience_ seconds.
    Run run(std::uint64_t sections, double longest) {
        board_.end(running);
        std::optional<HostView> region, privates;
        std::future<void> cpu;
        Run result;
        {
            const RunEnd run_end{board_};  // destroyed before the future, so that the threads always end
            if (takes_part(Agent::cpu)) {
                region.emplace(region_);
                privates.emplace(sides_[index(Agent::cpu)]->privates());
                cpu = std::async(std::launch::async, [&] { run_cpu(*region, *privates, longest); });
            }
            if (takes_part(Agent::gpu)) start_gpu(longest);
            result = watch(sections, longest);
        }
        if (takes_part(Agent::gpu)) lab_.device().wait(lab_.stream());
        if (takes_part(Agent::cpu)) cpu.get();
        if (result.seconds == 0) throw std::runtime_error(livelock_message());
        return result;
    }

    // Call after all competitors have ended. Returns the number of wrong words of the region and of the competitors,
    // plus the sections that the lock of an agent lost.
    std::uint64_t count_errors() {
        std::uint64_t errors = 0, sections = 0;
        const Progress on_board = board_.progress();
        for (const Agent agent : {Agent::cpu, Agent::gpu}) {
            if (!takes_part(agent)) continue;
            Competitors& side = *sides_[index(agent)];
            const auto each = side.sections();
            const std::uint64_t done = std::accumulate(each.begin(), each.end(), std::uint64_t{0});
            sections += done;
            errors += done > on_board[index(agent)] ? done - on_board[index(agent)] : on_board[index(agent)] - done;
            errors += side.count_wrong_privates();
        }
        return errors + count_wrong_region(sections);
    }
    std::uint64_t sections() const { return sum(board_.progress()); }
    // Returns the number of competitors of an agent that had a section.
    std::int64_t seen(Agent agent) {
        return std::ranges::count_if(sides_[index(agent)]->sections(), [](std::uint64_t own) { return own > 0; });
    }

  private:
    struct RunEnd {
        Board& board;
        ~RunEnd() { board.end(finished); }
    };
    static std::size_t index(Agent agent) { return agent == Agent::cpu ? 0 : 1; }
    bool takes_part(Agent agent) const { return sides_[index(agent)] != nullptr; }

    // Nanoseconds after which a kernel ends by itself. No competitor reaches max_sections() in that time.
    std::uint64_t time_limit_ns(double longest) const {
        return static_cast<std::uint64_t>((longest + 2 * patience_ + 1) * 1e9);
    }
    std::uint64_t max_sections(double longest) const { return time_limit_ns(longest) / 16; }

    void start_gpu(double longest) {
        const Competitors& side = *sides_[index(Agent::gpu)];
        const Argument list[] = {board_.buffer(),       side.lock_words(),     region_,         side.privates(),
                                 side.competitors(),    std::uint32_t{1},      request_.inside, request_.outside,
                                 max_sections(longest), time_limit_ns(longest)};
        const Grid grid{static_cast<std::uint32_t>(request_.gpu_groups),
                        static_cast<std::uint32_t>(request_.group_threads)};
        lab_.device().launch(lab_.stream(), *compete_, grid, list);
    }
    void run_cpu(const HostView& region, const HostView& privates, double longest) {
        const Competitors& side = *sides_[index(Agent::cpu)];
        run_on_host("locking_compete", static_cast<int>(side.competitors()), board_.words(),
                    words_of(side.lock_words()), region.as<std::uint64_t>(), privates.as<std::uint64_t>(),
                    side.competitors(), std::uint32_t{0}, request_.inside, request_.outside, max_sections(longest),
                    time_limit_ns(longest));
    }

    // Counts from the moment when every side has had a section, so that the launch is not measured, until enough
    // are done. Returns 0 seconds for a livelock.
    Run watch(std::uint64_t sections, double longest) {
        const Progress before = board_.progress();
        const double start = now();
        Progress last = before, first{};
        double last_change = start, counting_since = 0;
        while (true) {
            std::this_thread::sleep_for(std::chrono::duration<double>(poll_interval));
            const Progress progress = board_.progress();
            const double time = now();
            if (progress != last) last = progress, last_change = time;
            if (time - last_change > patience_) {
                board_.end(livelock);
                return {};
            }
            if (counting_since == 0) {
                if (all_progressed(before, progress) || (progress != before && time - start > patience_))
                    first = progress, counting_since = time;
                continue;
            }
            const Progress done{progress[0] - first[0], progress[1] - first[1]};
            const bool enough_done = sum(done) >= sections && time - counting_since >= min_run_seconds;
            if (enough_done || (time - start > longest && sum(done) > 0)) return {time - counting_since, done};
        }
    }
    bool all_progressed(const Progress& before, const Progress& progress) const {
        return (!takes_part(Agent::cpu) || progress[0] != before[0]) &&
               (!takes_part(Agent::gpu) || progress[1] != before[1]);
    }
    std::string livelock_message() const {
        const Progress done = board_.progress();
        const auto seconds = [](double value) { return std::to_string(value).substr(0, 4) + " s"; };
        return "livelock: no critical section was entered for " + seconds(patience_) + ", after " +
               std::to_string(done[0]) + " by the CPU and " + std::to_string(done[1]) + " by the GPU";
    }
    std::uint64_t count_wrong_region(std::uint64_t sections) {
        const std::uint64_t words = region_.size() / 8;
        if (!takes_part(Agent::cpu)) {
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
    std::array<std::unique_ptr<Competitors>, 2> sides_;
    Kernel* compete_ = nullptr;
};

void validate_request(Lab& lab, const Buffer& region, const LockingRequest& request) {
    if (request.cpu_threads < 0 || request.gpu_groups < 0 || request.cpu_threads + request.gpu_groups == 0)
        throw std::invalid_argument(
            "cpu_threads and gpu_groups must not be negative, and at least one of them must be positive");
    if (request.group_threads < 1 || request.group_threads > 1024)
        throw std::invalid_argument("group_threads must be 1 to 1024");
    if (request.sections == 0) throw std::invalid_argument("sections must be at least 1");
    if (request.inside == 0 || request.inside > region.size() / (line * 8))
        throw std::invalid_argument("inside must be 1 to " + std::to_string(region.size() / (line * 8)) +
                                    " for a region of this size");
    const AllocatorInfo& entry = lab.device().info(region.allocator());
    const bool visible = usable_at_once(entry) || (request.flushed && entry.disjoint == true);
    if (request.cpu_threads > 0 && request.gpu_groups > 0 && !visible)
        throw Unavailable("CPU and GPU do not see each other's stores to " + to_string(region.allocator()) +
                          " memory while a kernel runs");
}

}  // namespace

Outcome locking(Lab& lab, const Buffer& region, const LockingRequest& request, const Stop& stop) {
    validate_request(lab, region, request);
    LockContention contention(lab, region, request);
    const Run warm = contention.run(4 * contention.competitors(), request.longest / 4);
    const double expected = warm.seconds / static_cast<double>(sum(warm.done)) * static_cast<double>(request.sections);
    Stop rule = stop;
    rule.min_samples =
        std::clamp(static_cast<int>(std::max(sampling_seconds, stop.seconds) / expected), 1, stop.min_samples);
    std::array<std::vector<double>, 2> rates;
    std::vector<double> done;
    Outcome outcome;
    outcome.samples = sample(rule, [&] {
        const Run run = contention.run(request.sections, request.longest);
        const double all = static_cast<double>(sum(run.done));
        for (std::size_t agent = 0; agent < 2; ++agent)
            rates[agent].push_back(static_cast<double>(run.done[agent]) / run.seconds);
        done.push_back(all);
        return run.seconds / all * 1e9;
    });
    outcome.errors = contention.count_errors();
    outcome.counters["sections_a_sample"] = summarise(done).median;
    outcome.counters["sections_in_all"] = static_cast<double>(contention.sections());
    const double cpu = summarise(rates[0]).median, gpu = summarise(rates[1]).median;
    if (request.cpu_threads > 0) outcome.counters["cpu_sections_per_s"] = cpu;
    if (request.gpu_groups > 0) {
        outcome.counters["gpu_sections_per_s"] = gpu;
        outcome.counters["gpu_threads_seen"] = static_cast<double>(contention.seen(Agent::gpu));
    }
    if (request.cpu_threads > 0 && request.gpu_groups > 0) outcome.counters["cpu_share"] = cpu / (cpu + gpu);
    return outcome;
}

}  // namespace firsttouch
