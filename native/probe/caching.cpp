#include <algorithm>
#include <optional>

#include "probe/probes.hpp"

namespace firsttouch {
namespace {

constexpr double min_run_seconds = 1e-3;  // so that start and end take well below 1 % of a run
constexpr double max_run_seconds = 50e-3;
constexpr std::uint64_t max_iterations = std::uint64_t{1} << 22;
constexpr std::uint32_t group_threads = 256;  // as in base/kernels/staged.c
constexpr std::size_t max_line_bytes = 128;   // of all devices, so that each load accesses another cache line

class Updates {
  public:
    Updates(Lab& lab, const Buffer& buffer, const CachingRequest& request)
        : lab_(lab), buffer_(buffer), request_(request),
          entries_(request.entries > 0 ? request.entries : request.threads) {
        if (request.agent != Agent::cpu) return;
        view_.emplace(buffer);
        team_.emplace(static_cast<int>(request.threads));
    }

    // Returns the seconds that `iterations` updates of every entry take.
    double run(std::uint64_t iterations) {
        done_ += iterations;
        return request_.agent == Agent::cpu ? run_on_cpu(iterations) : run_on_gpu(iterations);
    }
    std::uint64_t done() const { return done_; }
    std::uint64_t updated_entries() const { return (entries_ + step() - 1) / step(); }

    // Returns the number of wrong words, and of updates that were not lost if all threads share one entry.
    std::pair<std::uint64_t, std::uint64_t> check() {
        const std::uint64_t words = buffer_.size() / 8;
        if (request_.agent == Agent::gpu) {
            lab_.clear_results();
            lab_.over(words, "caching", "caching_check", buffer_, words, entries_, stride(), step(), done_,
                      request_.seed, lab_.results());
            const auto result = lab_.read_results(2);
            return {result[0], result[1]};
        }
        team_.reset();
        view_.reset();
        const HostView view(buffer_);
        std::uint64_t result[2] = {};
        run_on_host("caching_check", 0, static_cast<const std::uint64_t*>(view.as<std::uint64_t>()), words, entries_,
                    stride(), step(), done_, request_.seed, &result[0]);
        return {result[0], result[1]};
    }

  private:
    std::uint64_t stride() const { return request_.stride / 8; }
    std::uint64_t step() const { return request_.even_only ? 2 : 1; }
    double run_on_cpu(std::uint64_t iterations) {
        return run_on_team(*team_, "caching_cached", view_->as<std::uint64_t>(), entries_, stride(), step(),
                           iterations);
    }
    double run_on_gpu(std::uint64_t iterations) {
        static const char* const names[] = {"caching_cached", "caching_uncached", "caching_bypass_l1",
                                            "caching_staged"};
        Kernel& kernel = lab_.kernel(request_.loads == EntryLoads::staged ? "staged" : "caching",
                                     names[static_cast<std::size_t>(request_.loads)]);
        const Argument list[] = {buffer_, entries_, stride(), step(), iterations};
        const std::uint64_t groups = (request_.threads + group_threads - 1) / group_threads;
        const Grid grid{static_cast<std::uint32_t>(groups), group_threads};  // not bounded as in Lab::grid_for
        return device_seconds(lab_, [&] { lab_.device().launch(lab_.stream(), kernel, grid, list); });
    }

    Lab& lab_;
    const Buffer& buffer_;
    const CachingRequest& request_;
    std::uint64_t entries_;
    std::optional<HostView> view_;  // used if the agent is the CPU, as is team_
    std::optional<Team> team_;
    std::uint64_t done_ = 0;
};

void validate_request(const Buffer& buffer, const CachingRequest& request) {
    constexpr std::uint64_t max_gpu_threads = std::uint64_t{1} << 30, max_cpu_threads = 4096,
                            max_entries = std::uint64_t{1} << 40;
    if (request.threads == 0 || request.threads > (request.agent == Agent::cpu ? max_cpu_threads : max_gpu_threads))
        throw std::invalid_argument("threads must be 1 to 2^30 on a GPU, or 1 to 4096 on the CPU");
    const std::uint64_t entries = request.entries > 0 ? request.entries : request.threads;
    if (entries > max_entries || request.stride % 8 != 0 ||
        buffer.size() / 8 < (entries - 1) * (request.stride / 8) + 1)
        throw std::invalid_argument(
            "the stride must be a multiple of 8 bytes, and the entries must fit into the buffer");
    if (request.entries > 0 && request.stride == 0)
        throw std::invalid_argument("a single pass needs a stride, so that each entry is updated once");
    if (request.loads != EntryLoads::cached && request.agent == Agent::cpu)
        throw std::invalid_argument("the CPU has one kind of load");
}

// Returns the iterations of a run that is long enough: of the length above, and most of its time is spent on updates,
// not on starting threads, which may take milliseconds on a busy host. Then more iterations take longer in proportion.
std::uint64_t enough_iterations(Updates& updates, std::uint64_t iterations) {
    double seconds = updates.run(iterations);
    while (iterations < max_iterations && seconds < max_run_seconds) {
        const double factor = std::clamp(1.2 * min_run_seconds / std::max(seconds, 1e-7), 2.0, 16.0);
        const std::uint64_t more =
            std::min(max_iterations, static_cast<std::uint64_t>(static_cast<double>(iterations) * factor));
        const double longer = updates.run(more);
        const double in_proportion = seconds * static_cast<double>(more) / static_cast<double>(iterations);
        iterations = more;
        seconds = longer;
        if (longer >= min_run_seconds && longer >= 0.75 * in_proportion) break;
    }
    return iterations;
}

}  // namespace

Outcome caching(Lab& lab, const Buffer& buffer, const CachingRequest& request, const Stop& stop) {
    validate_request(buffer, request);
    lab.fill(buffer, request.seed, request.agent);
    Outcome outcome;
    Updates updates(lab, buffer, request);
    const bool single_pass = request.entries > 0;
    std::uint64_t iterations = single_pass ? 1 : 16;
    updates.run(iterations);  // the first run may include compilation
    if (!single_pass) iterations = enough_iterations(updates, iterations);
    const auto counted = static_cast<double>(single_pass ? updates.updated_entries() : iterations);
    outcome.samples = sample(stop, [&] { return updates.run(iterations) / counted * 1e9; });
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
