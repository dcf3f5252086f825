#include <algorithm>
#include <bit>
#include <numeric>

#include "host/clock.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

// One repetition: a new block, and turns of a kernel and the CPU over it.
class Repetition {
  public:
    Repetition(Lab& lab, const TurnsRequest& request)
        : lab_(lab), device_(lab.device()), request_(request),
          buffer_(device_.allocate(is_shared() ? request.allocator : Allocator::device, request.bytes)),
          initial_(request.bytes / 8) {
        if (request.method == TurnMethod::copied) host_ = device_.allocate(request.allocator, request.bytes);
        run_on_host("fill_words", 1, initial_.data(), words(), request.seed);
        if (has_doubles())
            for (std::uint64_t& value : initial_) value %= 1024;
        sum_ = std::accumulate(initial_.begin(), initial_.end(), std::uint64_t{0});
    }

    // Returns the seconds of all turns.
    double run() {
        begin();
        if (request_.method == TurnMethod::queued) return queue_all();
        double seconds = 0;
        for (int i = 0; i < request_.turns; ++i) {
            const double start = now();
            if (request_.method == TurnMethod::prefetched) prefetch(Agent::gpu);
            launch();
            if (request_.method == TurnMethod::copied) copy(*host_, *buffer_);
            if (request_.method == TurnMethod::prefetched) prefetch(Agent::cpu);
            device_.wait(lab_.stream());
            const double waited = now();
            if (request_.method != TurnMethod::launched) use_by_cpu();
            const double end = now();
            kernel_.push_back(waited - start);
            cpu_.push_back(end - waited);
            turns_.push_back(end - start);
            seconds += end - start;
            if (i + 1 < request_.turns)
                while (now() < end + request_.gap) {
                }
        }
        return seconds;
    }

    // Returns the number of wrong words after the last turn, plus that of turns after which the CPU read wrong words.
    std::uint64_t count_errors() {
        std::vector<std::uint64_t> final_words(words());
        lab_.read(*buffer_, 0, final_words.data(), request_.bytes);
        std::uint64_t errors = errors_;
        for (std::size_t i = 0; i < final_words.size(); ++i)
            errors += final_words[i] != word(initial_[i] + added_) ? 1u : 0u;
        return errors;
    }

    // Seconds of each turn, and of its two parts: until the kernel and what was queued with it have ended, and the
    // CPU's. Empty for TurnMethod::queued.
    const std::vector<double>& turns() const { return turns_; }
    const std::vector<double>& kernel() const { return kernel_; }
    const std::vector<double>& cpu() const { return cpu_; }
    double advise_seconds() const { return advise_seconds_; }

  private:
    std::uint64_t words() const { return request_.bytes / 8; }
    // Whether the words are doubles, with whole numbers in them.
    bool has_doubles() const { return request_.updates > 0; }
    std::uint64_t word(std::uint64_t value) const {
        return has_doubles() ? std::bit_cast<std::uint64_t>(static_cast<double>(value)) : value;
    }
    std::uint64_t value(std::uint64_t word) const {
        return has_doubles() ? static_cast<std::uint64_t>(std::bit_cast<double>(word)) : word;
    }
    bool is_shared() const {
        return request_.method == TurnMethod::shared || request_.method == TurnMethod::prefetched;
    }

    // The CPU writes the block; for a block in device memory, a copy does.
    void begin() {
        if (is_shared()) {
            const HostView view(*buffer_);
            std::transform(initial_.begin(), initial_.end(), view.as<std::uint64_t>(),
                           [&](std::uint64_t initial) { return word(initial); });
        } else {
            lab_.write(*buffer_, 0, initial_.data(), request_.bytes);
        }
        if (host_) {
            const HostView view(*host_);
            std::fill_n(view.as<std::uint64_t>(), words(), 0);
        }
        if (request_.advice.empty()) return;
        const double start = now();
        for (const Advice advice : request_.advice) device_.advise(*buffer_, advice);
        advise_seconds_ = now() - start;
    }

    // Adds one to every word.
    void launch() {
        if (has_doubles()) {
            const auto updates = static_cast<std::uint64_t>(request_.updates);
            lab_.over(words() * updates * 64, "migration", "migration_add", *buffer_, words(), updates);
            added_ += updates;
            return;
        }
        lab_.over(words(), "migration", "migration_update", *buffer_, words(), std::uint32_t{0}, std::uint64_t{1},
                  std::uint32_t{0}, std::uint64_t{0});
        ++added_;
    }

    double queue_all() {
        const double start = now();
        for (int i = 0; i < request_.turns; ++i) launch();
        device_.wait(lab_.stream());
        return now() - start;
    }

    void copy(const Buffer& target, const Buffer& source) {
        device_.copy(lab_.stream(), target, 0, source, 0, request_.bytes);
    }

    void prefetch(Agent agent) { device_.prefetch(lab_.stream(), *buffer_, 0, request_.bytes, agent); }

    // This thread reads every word and, with `update`, adds one to it.
    void use_by_cpu() {
        {
            const HostView view(host_ ? *host_ : *buffer_);
            volatile std::uint64_t* p = view.as<std::uint64_t>();
            std::uint64_t sum = 0;
            for (std::uint64_t i = 0; i < words(); ++i) sum += value(p[i]);
            errors_ += sum != sum_ + words() * added_ ? 1u : 0u;
            if (!request_.update) return;
            for (std::uint64_t i = 0; i < words(); ++i) p[i] = word(value(p[i]) + 1);
            ++added_;
        }
        if (!host_) return;
        copy(*buffer_, *host_);
        device_.wait(lab_.stream());
    }

    Lab& lab_;
    Device& device_;
    const TurnsRequest& request_;
    std::unique_ptr<Buffer> buffer_, host_;
    std::vector<std::uint64_t> initial_;
    std::uint64_t sum_ = 0, added_ = 0, errors_ = 0;
    std::vector<double> turns_, kernel_, cpu_;
    double advise_seconds_ = 0;
};

double median(const std::vector<double>& values) { return summarise(values).median; }

// The times of all repetitions of a point, in microseconds.
class Times {
  public:
    void add(const Repetition& repetition) {
        const auto& turns = repetition.turns();
        if (turns.empty()) return;
        append(kernel_, repetition.kernel());
        append(cpu_, repetition.cpu());
        if (turns.size() > 1) later_.insert(later_.end(), turns.begin() + 1, turns.end());
        advise_.push_back(repetition.advise_seconds());
        slowest_.push_back(*std::max_element(turns.begin(), turns.end()));
        at_[0].push_back(turns[0]);
        for (std::size_t i = 1; i < turns.size(); i *= 2) at_[i].push_back(turns[i]);
    }

    std::map<std::string, double> counters(bool advised) const {
        std::map<std::string, double> counters;
        if (at_.empty()) return counters;
        for (const auto& [turn, seconds] : at_)
            counters["turn_" + std::to_string(turn) + "_us"] = median(seconds) * 1e6;
        const Statistics later = summarise(later_.empty() ? at_.at(0) : later_);
        counters["turn_us"] = later.median * 1e6;
        counters["turn_low_us"] = later.ci_low * 1e6;
        counters["turn_high_us"] = later.ci_high * 1e6;
        counters["first_turn_us"] = median(at_.at(0)) * 1e6;
        counters["slowest_turn_us"] = median(slowest_) * 1e6;
        counters["kernel_us"] = median(kernel_) * 1e6;
        counters["cpu_us"] = median(cpu_) * 1e6;
        if (advised) counters["advise_us"] = median(advise_) * 1e6;
        return counters;
    }

  private:
    static void append(std::vector<double>& all, const std::vector<double>& more) {
        all.insert(all.end(), more.begin(), more.end());
    }

    std::vector<double> kernel_, cpu_, later_, advise_, slowest_;
    std::map<std::size_t, std::vector<double>> at_;  // the turns whose numbers are 0 or a power of two
};

}  // namespace

Outcome take_turns(Lab& lab, const TurnsRequest& request, const Stop& stop) {
    if (request.bytes < 8 || request.bytes % 8 != 0)
        throw std::invalid_argument("bytes must be a multiple of 8 and at least 8");
    if (request.turns < 1 || !(request.gap >= 0))
        throw std::invalid_argument("turns must be at least 1, and gap at least 0");
    TurnsRequest brief = request;  // an untimed run loads kernels and fills memory pools
    brief.turns = std::min(request.turns, 2);
    brief.gap = 0;
    Repetition(lab, brief).run();

    Outcome outcome;
    Times times;
    outcome.samples = sample(stop, [&] {
        Repetition repetition(lab, request);
        const double seconds = repetition.run();
        outcome.errors += repetition.count_errors();
        times.add(repetition);
        return seconds / request.turns * 1e6;
    });
    outcome.counters = times.counters(!request.advice.empty());
    return outcome;
}

}  // namespace firsttouch
