#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "host/clock.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

constexpr std::size_t sum_words = 4096;                 // migration.c distributes its sums over as many words
constexpr std::size_t prefetch_unit = 2 * 1024 * 1024;  // parts of a buffer are aligned to the driver's largest blocks
constexpr std::uint64_t max_items = 2048 * 256;         // of a launch: enough for any device, and few sums to add

using Sums = std::array<std::uint64_t, sum_words>;

// The words that a pass accesses, as kernel arguments.
struct Pattern {
    explicit Pattern(const MigrationRequest& request)
        : slots(request.bytes / request.stride_bytes), stride(request.stride_bytes / 8),
          run_bits(static_cast<std::uint32_t>(std::countr_zero(request.run_bytes / 8))),
          bits(static_cast<std::uint32_t>(std::bit_width(slots - 1))),
          key(request.shuffled ? request.seed * 0x9E3779B97F4A7C15ull + 1 : 0) {}
    std::uint64_t items() const { return slots << run_bits; }

    std::uint64_t slots, stride;
    std::uint32_t run_bits, bits;
    std::uint64_t key;
};

// One repetition, from the initialisation of a fresh buffer to the CPU's final read.
class Repetition {
  public:
    Repetition(Lab& lab, const MigrationRequest& request, bool counted)
        : lab_(lab), device_(lab.device()), request_(request), counted_(counted), pattern_(request),
          buffer_(device_.allocate(request.allocator, request.bytes)) {
        if (request.copied) host_ = device_.allocate(staging_allocator(), request.bytes);
        for (int i = 1; i < request.streams; ++i) extra_.push_back(device_.stream());
    }

    void run() {
        if (!request_.update) lab_.clear_results();
        timed("initialise", false, [&] {
            lab_.fill(request_.copied && request_.starts_on == Agent::cpu ? *host_ : *buffer_, request_.seed,
                      request_.starts_on);
        });
        if (!request_.advice.empty())
            timed("advise", true, [&] {
                for (const Advice advice : request_.advice) device_.advise(*buffer_, advice);
            });
        if (request_.copied && request_.starts_on == Agent::cpu)
            timed("copy_in", true, [&] { copy(*buffer_, *host_); });
        if (request_.prefetch == Prefetch::whole) timed("prefetch", true, [&] { prefetch(Agent::gpu); });
        for (int i = 0; i < request_.iterations; ++i) pass("iteration_" + std::to_string(i));
        if (request_.prefetch == Prefetch::back) timed("prefetch_back", false, [&] { prefetch(Agent::cpu); });
        read_by_cpu();
    }

    // Returns the number of wrong words plus wrong sums: the device's sum over all passes, and the CPU's at the end.
    std::uint64_t count_errors() {
        const double start = now();
        const HostView view(cpu_buffer());
        const auto* p = static_cast<const std::uint64_t*>(view.as<std::uint64_t>());
        const auto [slots, stride, run_bits, bits, key] = pattern_;
        const std::uint64_t added = request_.update ? static_cast<std::uint64_t>(request_.iterations) : 0;
        std::uint64_t errors = 0;
        run_on_host("migration_check", 0, p, words(), request_.seed, slots, run_bits, stride, added, &errors);
        Sums sums{};
        run_on_host("migration_sum", 0, p, words(), sums.data());
        errors += total(sums) != cpu_sum_;
        if (!request_.update) {
            Sums once{};
            run_on_host("migration_read", 0, p, slots, run_bits, stride, bits, key, once.data());
            const auto sums = lab_.read_results(sum_words);
            errors += total(sums) != total(once) * static_cast<std::uint64_t>(request_.iterations);
        }
        phases_.push_back({"check", start, now(), now() - start, false});
        return errors;
    }

    const std::vector<RepetitionStep>& phases() const { return phases_; }

  private:
    std::uint64_t words() const { return request_.bytes / 8; }
    const Buffer& cpu_buffer() const { return request_.copied ? *host_ : *buffer_; }
    template <class Words>
    static std::uint64_t total(const Words& words) {
        return std::accumulate(words.begin(), words.end(), std::uint64_t{0});
    }

    // The host memory for explicit copies: pinned memory if the CPU can access it without mapping, otherwise malloc.
    Allocator staging_allocator() const {
        for (const auto& entry : device_.allocators())
            if (entry.allocator == Allocator::pinned && entry.available && entry.cpu == Access::direct)
                return entry.allocator;
        return Allocator::malloc;
    }

    template <class Work>
    void timed(const std::string& name, bool counted, Work&& work) {
        const double start = now();
        work();
        const double end = now();
        phases_.push_back({name, start, end, end - start, counted});
    }

    void copy(const Buffer& target, const Buffer& source) {
        device_.copy(lab_.stream(), target, 0, source, 0, request_.bytes);
        device_.wait(lab_.stream());
    }

    Stream& stream(int index) { return index == 0 ? lab_.stream() : *extra_[static_cast<std::size_t>(index) - 1]; }

    void prefetch(Agent agent) {
        for (int s = 0; s < request_.streams; ++s) {
            const Share part = share_of(request_.bytes, s, request_.streams, prefetch_unit);
            if (part.last > part.first)
                device_.prefetch(stream(s), *buffer_, part.first, part.last - part.first, agent);
        }
        for (int s = 0; s < request_.streams; ++s) device_.wait(stream(s));
    }

    void pass(const std::string& name) {
        const double start = now();
        const double seconds = device_seconds(lab_, [&] {
            if (request_.prefetch == Prefetch::iteration)
                device_.prefetch(lab_.stream(), *buffer_, 0, request_.bytes, Agent::gpu);
            const auto& [slots, stride, run_bits, bits, key] = pattern_;
            std::vector<Argument> list = {*buffer_, slots, run_bits, stride, bits, key};
            if (!request_.update) list.emplace_back(lab_.results());
            const Grid grid = request_.sequential ? Grid{1, 1} : lab_.grid_for(std::min(pattern_.items(), max_items));
            const char* entry = request_.update ? "migration_update" : "migration_read";
            device_.launch(lab_.stream(), lab_.timed_kernel(counted_, "migration", entry), grid, list);
        });
        phases_.push_back({name, start, now(), seconds, true});
    }

    // All threads read every word in order. The time includes the copy or mapping that is needed before.
    void read_by_cpu() {
        const double start = now();
        if (request_.copied) copy(*host_, *buffer_);
        Sums sums{};
        const HostView view(cpu_buffer());
        const double access_seconds = now() - start;
        const double seconds = run_on_host(
            "migration_sum", 0, static_cast<const std::uint64_t*>(view.as<std::uint64_t>()), words(), sums.data());
        phases_.push_back({"cpu_read", start, now(), access_seconds + seconds, false});
        cpu_sum_ = total(sums);
    }

    Lab& lab_;
    Device& device_;
    const MigrationRequest& request_;
    bool counted_;
    Pattern pattern_;
    std::unique_ptr<Buffer> buffer_, host_;
    std::vector<std::unique_ptr<Stream>> extra_;
    std::vector<RepetitionStep> phases_;
    std::uint64_t cpu_sum_ = 0;
};

void validate_request(const MigrationRequest& request) {
    if (request.run_bytes < 8 || !std::has_single_bit(request.run_bytes) || request.stride_bytes % 8 != 0 ||
        request.run_bytes > request.stride_bytes)
        throw std::invalid_argument(
            "run_bytes must be a power of two of at least 8, and stride_bytes a multiple of 8 that is not smaller");
    if (request.bytes < request.stride_bytes || request.bytes % 8 != 0)
        throw std::invalid_argument("bytes must be a multiple of 8 and at least stride_bytes");
    if (request.iterations < 1 || request.streams < 1)
        throw std::invalid_argument("iterations and streams must be at least 1");
}

}  // namespace

MigrationOutcome migration(Lab& lab, const MigrationRequest& request, const Stop& stop) {
    validate_request(request);
    MigrationRequest small = request;  // a small untimed run loads kernels and fills memory pools
    small.bytes = std::min(request.bytes, std::max(request.stride_bytes, prefetch_unit));
    Repetition(lab, small, false).run();

    MigrationOutcome outcome;
    std::map<std::string, std::vector<double>> milliseconds;
    outcome.samples = sample(stop, [&] {
        Repetition repetition(lab, request, stop.counted);
        repetition.run();
        outcome.errors += repetition.count_errors();
        double counted = 0;
        for (const RepetitionStep& phase : repetition.phases()) {
            milliseconds[phase.name].push_back(phase.seconds * 1e3);
            if (phase.counted) counted += phase.seconds * 1e3;
        }
        outcome.repetitions.push_back(repetition.phases());
        return counted;
    });
    milliseconds.erase("check");
    for (const auto& [name, values] : milliseconds) outcome.counters[name + "_ms"] = summarise(values).median;
    return outcome;
}

}  // namespace firsttouch
