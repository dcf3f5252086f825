// Collective operations. All ranks call this, or one process with all of them; rank 0 decides what comes next and
// collects the times.
#include <algorithm>
#include <bit>
#include <deque>
#include <numeric>

#include "host/clock.hpp"
#include "probe/probes.hpp"
#include "probe/ranks.hpp"

namespace firsttouch {
namespace {

constexpr std::uint64_t most_ranks = 2048;  // up to which sums of contributions are exact in f32
constexpr int queued = 3;                   // operations back to back whose result is checked

bool sends_blocks(Collective operation) {
    return operation == Collective::reduce_scatter || operation == Collective::all_to_all;
}
bool receives_blocks(Collective operation) {
    return operation == Collective::all_gather || operation == Collective::all_to_all;
}
bool sends(Collective operation, int rank) { return operation != Collective::broadcast || rank == 0; }
bool receives(Collective operation, int rank) {
    return operation == Collective::broadcast ? rank != 0 : operation != Collective::reduce || rank == 0;
}

// Numbers that arrive next to each other: those of one rank, or sums of all, from a place of the sources on.
struct Part {
    std::uint64_t count, place, ranks, weight;
};
std::vector<Part> parts_of_target(Collective operation, int rank, int size, std::uint64_t block) {
    const auto ranks = static_cast<std::uint64_t>(size), all = ranks * (ranks + 1) / 2;
    const std::uint64_t own = static_cast<std::uint64_t>(rank) * block;
    if (!receives(operation, rank)) return {};
    switch (operation) {
    case Collective::all_reduce:
    case Collective::reduce:
        return {{block, 0, ranks, all}};
    case Collective::reduce_scatter:
        return {{block, own, ranks, all}};
    case Collective::broadcast:
        return {{block, 0, 1, 1}};
    case Collective::all_gather:
    case Collective::all_to_all:
        break;
    }
    std::vector<Part> parts;
    for (std::uint64_t peer = 0; peer < ranks; ++peer)
        parts.push_back({block, operation == Collective::all_to_all ? own : 0, 1, peer + 1});
    return parts;
}

// One rank's part in an operation: its memory, what it sends and what it must have received.
class Member {
  public:
    Member(const CollectiveRank& rank, const CollectiveRequest& request)
        : lab_(rank.lab), comm_(rank.comm), source_(rank.source), target_(rank.target), request_(request),
          staged_source_(rank.staged_source), staged_target_(rank.staged_target),
          from_(lab_, staged() ? *staged_source_ : source_, !staged() && request.device_addresses),
          to_(lab_, staged() ? *staged_target_ : target_, !staged() && request.device_addresses) {
        const std::uint64_t size = static_cast<std::uint64_t>(comm_.size()), block = request.block;
        source_bytes_ = block * (sends_blocks(request.operation) ? size : 1) * sizeof(float);
        target_bytes_ = block * (receives_blocks(request.operation) ? size : 1) * sizeof(float);
        if (size > most_ranks)
            throw Unavailable("sums are checked exactly, which ends at " + std::to_string(most_ranks) + " ranks");
        const std::size_t from_size = (staged() ? *staged_source_ : source_).size(),
                          to_size = (staged() ? *staged_target_ : target_).size();
        if (block == 0 || source_bytes_ > from_size || target_bytes_ > to_size)
            throw std::invalid_argument("block must be at least 1 and fit the buffers");
    }
    Comm& comm() const { return comm_; }
    std::uint64_t errors() const { return errors_; }

    // With staging the operation has ended when this returns.
    void start() {
        if (staged() && sends(request_.operation, comm_.rank())) copy(*staged_source_, source_, source_bytes_);
        comm_.start(request_.operation, from_.address(), to_.address(), request_.block);
        if (!staged()) return;
        comm_.finish_all();
        if (receives(request_.operation, comm_.rank())) copy(target_, *staged_target_, target_bytes_);
    }
    void finish() {
        if (!staged()) comm_.finish_all();
    }

    void write_new_data() {
        ++repetition_;
        const std::uint64_t count = source_bytes_ / sizeof(float),
                            weight = static_cast<std::uint64_t>(comm_.rank()) + 1;
        if (lab_.agent_with_access(source_) == Agent::gpu) {
            lab_.over(count, "collective", "collective_fill", source_, count, seed(), weight);
            lab_.device().wait(lab_.stream());
        } else {
            const HostView view(source_);
            run_on_host("collective_fill", 0, view.as<float>(), count, seed(), weight);
        }
        lab_.fill(target_, seed() + poison, lab_.agent_with_access(target_));
    }
    // Counts what differs in the target from what the ranks have sent since the last new data.
    void compare() {
        const bool by_device = lab_.agent_with_access(target_) == Agent::gpu;
        const auto parts = parts_of_target(request_.operation, comm_.rank(), comm_.size(), request_.block);
        std::optional<HostView> view;
        by_device ? lab_.clear_results() : static_cast<void>(view.emplace(target_));
        std::uint64_t first = 0;
        for (const auto& [count, place, ranks, weight] : parts) {
            if (by_device)
                lab_.over(count, "collective", "collective_check", target_, first, count, place, seed(), ranks, weight,
                          lab_.results());
            else
                run_on_host("collective_check", 0, static_cast<const float*>(view->as<float>()), first, count, place,
                            seed(), ranks, weight, &errors_);
            first += count;
        }
        if (by_device) errors_ += lab_.read_results(1)[0];
    }

  private:
    bool staged() const { return staged_source_ != nullptr; }
    std::uint64_t seed() const { return request_.seed + repetition_ * per_repetition; }
    void copy(const Buffer& target, const Buffer& source, std::size_t bytes) {
        lab_.device().copy(lab_.stream(), target, 0, source, 0, bytes);
        lab_.device().wait(lab_.stream());
    }

    Lab& lab_;
    Comm& comm_;
    const Buffer &source_, &target_;
    const CollectiveRequest& request_;
    const Buffer *staged_source_, *staged_target_;
    RankBuffer from_, to_;
    std::size_t source_bytes_ = 0, target_bytes_ = 0;
    std::uint64_t repetition_ = 0, errors_ = 0;
};

// What rank 0 has all ranks do next.
enum class CollectiveStep : std::uint8_t { check, alone, back_to_back, end };

// The members of this process: one of several ranks, which follow rank 0, or all of them. Those that one thread drives
// need not meet: it starts nothing before all have finished.
class Operation {
  public:
    Operation(std::span<const CollectiveRank> ranks, const CollectiveRequest& request) {
        if (ranks.empty()) throw std::invalid_argument("at least one rank is needed");
        for (const CollectiveRank& rank : ranks) members_.emplace_back(rank, request);
        const int size = first().size();
        for (std::size_t i = 0; i < ranks.size() && ranks.size() > 1; ++i)
            if (ranks.size() != static_cast<std::size_t>(size) || ranks[i].comm.rank() != static_cast<int>(i))
                throw std::invalid_argument("a process has one rank, or all in their order");
    }
    std::vector<std::uint64_t> errors() const {
        std::vector<std::uint64_t> errors;
        for (const Member& member : members_) errors.push_back(member.errors());
        return errors;
    }

    // Rank 0's side of a step. Returns the seconds of each process.
    std::vector<double> lead(CollectiveStep step, int times) {
        for (int peer = 1; peer < processes(); ++peer)
            first().tell(peer, static_cast<std::uint64_t>(step) | static_cast<std::uint64_t>(times) << 8);
        std::vector<double> seconds{carry_out(step, times)};
        if (step == CollectiveStep::alone || step == CollectiveStep::back_to_back)
            for (int peer = 1; peer < processes(); ++peer) seconds.push_back(std::bit_cast<double>(first().hear(peer)));
        return seconds;
    }
    // The other ranks' side of all steps until the last.
    void follow() {
        for (;;) {
            const std::uint64_t word = first().hear(0);
            const auto step = static_cast<CollectiveStep>(word & 0xff);
            if (step == CollectiveStep::end) return;
            const double seconds = carry_out(step, static_cast<int>(word >> 8));
            if (step != CollectiveStep::check) first().tell(0, std::bit_cast<std::uint64_t>(seconds));
        }
    }

  private:
    Comm& first() const { return members_.front().comm(); }
    bool together() const { return members_.size() > 1; }
    int processes() const { return together() ? 1 : first().size(); }

    // Returns the seconds of one operation in this process.
    double carry_out(CollectiveStep step, int times) {
        switch (step) {
        case CollectiveStep::check:
            check(times != 0);
            return 0;
        case CollectiveStep::alone:
            return alone(times);
        case CollectiveStep::back_to_back:
            return back_to_back(times);
        case CollectiveStep::end:
            break;
        }
        return 0;
    }
    double alone(int times) {
        double seconds = 0;
        for (int i = 0; i < times; ++i) {
            meet();
            const double start = now();
            start_one();
            finish();
            seconds += now() - start - clock_cost();
        }
        return std::max(0.0, seconds / times);
    }
    double back_to_back(int times) {
        meet();
        const double start = now();
        for (int i = 0; i < times; ++i) start_one();
        finish();
        return std::max(0.0, (now() - start - clock_cost()) / times);
    }
    void meet() {
        if (!together()) first().meet();
    }
    void start_one() {
        if (!together()) return members_.front().start();
        first().together([this] {
            for (Member& member : members_) member.start();
        });
    }
    void finish() {
        for (Member& member : members_) member.finish();
    }

    void write_new_data() {
        for (Member& member : members_) member.write_new_data();
        meet();  // none sends before all have written
    }
    void compare() {
        for (Member& member : members_) member.compare();
    }
    // Compares every number: of what was timed, if anything was, of one operation, and of some back to back.
    void check(bool after_timing) {
        if (after_timing) compare();
        for (const bool alone : {true, false}) {
            write_new_data();
            back_to_back(alone ? 1 : queued);
            compare();
        }
        write_new_data();  // which the timed operations use
    }

    std::deque<Member> members_;  // which do not move
};

double slowest(const std::vector<double>& seconds) { return *std::ranges::max_element(seconds); }

}  // namespace

CollectiveOutcome collective(std::span<const CollectiveRank> ranks, const CollectiveRequest& request,
                             const Stop& stop) {
    CollectiveOutcome outcome;
    Operation all(ranks, request);
    const auto finished = [&] {
        outcome.errors_of_ranks = all.errors();
        outcome.errors =
            std::accumulate(outcome.errors_of_ranks.begin(), outcome.errors_of_ranks.end(), std::uint64_t{});
        return outcome;
    };
    const Comm& comm = ranks.front().comm;
    if (comm.rank() > 0) {
        all.follow();
        return finished();
    }
    all.lead(CollectiveStep::check, 0);
    const auto times = [&](CollectiveStep step, double least, int fewest) {
        return repetitions([&](int n) { return slowest(all.lead(step, n)) * n; }, least, fewest);
    };
    const int alone = times(CollectiveStep::alone, 100e-6, 1),
              queue = times(CollectiveStep::back_to_back, 1e-3, fewest_queued);
    const auto part = [&](double share) {
        return Stop{stop.tolerance, stop.seconds * share, stop.min_samples, stop.max_samples};
    };
    std::vector<double> mean, least;
    outcome.samples = sample(part(2.0 / 3), [&] {
        const std::vector<double> seconds = all.lead(CollectiveStep::alone, alone);
        mean.push_back(std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size()));
        least.push_back(*std::ranges::min_element(seconds));
        return slowest(seconds) * 1e6;
    });
    const Statistics interval =
        summarise(sample(part(1.0 / 3), [&] { return slowest(all.lead(CollectiveStep::back_to_back, queue)); }).values);
    outcome.counters = {{"interval_us", interval.median * 1e6},
                        {"interval_low_us", interval.ci_low * 1e6},
                        {"interval_high_us", interval.ci_high * 1e6},
                        {"back_to_back", queue}};
    if (ranks.size() == 1) {
        outcome.counters["mean_us"] = summarise(mean).median * 1e6;
        outcome.counters["least_us"] = summarise(least).median * 1e6;
    }
    all.lead(CollectiveStep::check, 1);
    all.lead(CollectiveStep::end, 0);
    return finished();
}

}  // namespace firsttouch
