#include <algorithm>
#include <optional>

#include "probe/probes.hpp"

namespace firsttouch {
namespace {

constexpr double min_run_seconds = 1e-3;  // so that start and end take well below 1 % of a run
constexpr std::uint64_t max_iterations = std::uint64_t{1} << 22;
constexpr std::size_t max_line_bytes = 128;  // of all devices, so that each load accesses another cache line

class Updates {
  public:
    Updates(Lab& lab, const Buffer& buffer, const CachingRequest& request)
        : lab_(lab), buffer_(buffer), request_(request),
          entry_(request.uncached ? "caching_uncached" : "caching_cached") {
        if (request.agent != Agent::cpu) return;
        view_.emplace(buffer);
        team_.emplace(static_cast<int>(request.threads));
    }

    // Returns the seconds that `iterations` updates by every thread take.
    double run(std::uint64_t iterations) {
        done_ += iterations;
        return request_.agent == Agent::cpu ? run_on_cpu(iterations) : run_on_gpu(iterations);
    }
    std::uint64_t done() const { return done_; }

    // Returns the number of wrong words, and of updates that were not lost if all threads share one entry.
    std::pair<std::uint64_t, std::uint64_t> check() {
        const std::uint64_t words = buffer_.size() / 8;
        if (request_.agent == Agent::gpu) {
            lab_.clear_results();
            lab_.over(words, "caching", "caching_check", buffer_, words, request_.threads, stride(), step(), done_,
                      request_.seed, lab_.results());
            const auto result = lab_.read_results(2);
            return {result[0], result[1]};
        }
        team_.reset();
        view_.reset();
        const HostView view(buffer_);
        std::uint64_t result[2] = {};
        run_on_host("caching_check", 0, static_cast<const std::uint64_t*>(view.as<std::uint64_t>()), words,
                    request_.threads, stride(), step(), done_, request_.seed, &result[0]);
        return {result[0], result[1]};
    }

  private:
    std::uint64_t stride() const { return request_.stride / 8; }
    std::uint64_t step() const { return request_.even_only ? 2 : 1; }
    double run_on_cpu(std::uint64_t iterations) {
        return run_on_team(*team_, entry_, view_->as<std::uint64_t>(), request_.threads, stride(), step(), iterations);
    }
    double run_on_gpu(std::uint64_t iterations) {
        return device_seconds(lab_, [&] {
            lab_.over(request_.threads, "caching", entry_, buffer_, request_.threads, stride(), step(), iterations);
        });
    }

    Lab& lab_;
    const Buffer& buffer_;
    const CachingRequest& request_;
    std::string entry_;
    std::optional<HostView> view_;  // used if the agent is the CPU, as is team_
    std::optional<Team> team_;
    std::uint64_t done_ = 0;
};

void validate_request(const Buffer& buffer, const CachingRequest& request) {
    constexpr std::uint64_t max_gpu_threads = std::uint64_t{1} << 20, max_cpu_threads = 4096;
    if (request.threads == 0 || request.threads > (request.agent == Agent::cpu ? max_cpu_threads : max_gpu_threads))
        throw std::invalid_argument("threads must be 1 to 2^20 on a GPU, or 1 to 4096 on the CPU");
    if (request.stride % 8 != 0 || buffer.size() / 8 < (request.threads - 1) * (request.stride / 8) + 1)
        throw std::invalid_argument(
            "the stride must be a multiple of 8 bytes, and the entries must fit into the buffer");
    if (request.uncached && request.agent == Agent::cpu)
        throw std::invalid_argument("the CPU has no loads that bypass its first-level cache");
}

}  // namespace

Outcome caching(Lab& lab, const Buffer& buffer, const CachingRequest& request, const Stop& stop) {
    validate_request(buffer, request);
    lab.fill(buffer, request.seed, request.agent);
    Outcome outcome;
    Updates updates(lab, buffer, request);
    std::uint64_t iterations = 16;
    updates.run(iterations);  // the first run may include compilation
    for (double seconds = updates.run(iterations); seconds < min_run_seconds && iterations < max_iterations;
         seconds = updates.run(iterations)) {
        const double factor = std::clamp(1.2 * min_run_seconds / std::max(seconds, 1e-7), 1.5, 16.0);
        iterations = std::min(max_iterations, static_cast<std::uint64_t>(static_cast<double>(iterations) * factor));
    }
    outcome.samples = sample(stop, [&] { return updates.run(iterations) / static_cast<double>(iterations) * 1e9; });
    const auto [wrong, kept] = updates.check();
    outcome.errors = wrong;
    outcome.counters["updates"] = static_cast<double>(updates.done());
    if (request.stride == 0)
        outcome.counters["kept"] = static_cast<double>(kept) / static_cast<double>(updates.done() * request.threads);
    return outcome;
}

Outcome reread(Lab& lab, const Buffer& buffer, Agent agent, std::uint64_t seed, const Stop& stop) {
    if (buffer.size() < 16 * reread_bytes)
        throw std::invalid_argument("the buffer must have at least 64 KiB, to tell repeated loads from others");
    Stop half = stop;
    half.seconds /= 2;
    ChaseRequest request{.agent = agent, .first_touch = agent, .stride = max_line_bytes, .hops = 20'000, .seed = seed};
    const Outcome cold = chase(lab, buffer, request, half);
    request.hops = 100'000;
    request.bytes = reread_bytes;
    request.last_level = reread_bytes;  // one untimed pass loads it into the cache
    Outcome outcome = chase(lab, buffer, request, half);
    outcome.errors += cold.errors;
    outcome.counters = {{"reread_ns", summarise(outcome.samples.values).median},
                        {"cold_ns", summarise(cold.samples.values).median}};
    return outcome;
}

}  // namespace firsttouch
