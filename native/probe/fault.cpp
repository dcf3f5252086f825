#include <algorithm>

#include "host/clock.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

class Trial {
  public:
    Trial(Lab& lab, const FaultRequest& request)
        : lab_(lab), request_(request), words_(request.page_bytes / 8),
          buffer_(lab.device().allocate(request.allocator, request.count * request.page_bytes, request.pages)) {}

    // Stores one word to every page and returns the seconds it took. The agents store different words, so that the
    // check can tell them apart.
    double touch_by_cpu(Team& team) {
        const HostView view(*buffer_);
        last_ = request_.seed;
        return run_on_team(team, "touch_pages", view.as<std::uint64_t>(), std::uint64_t{request_.count}, words_, last_);
    }
    double touch_by_gpu() {
        return device_seconds(lab_, [&] {
            last_ = request_.seed + 1;
            lab_.over(request_.count, "pattern", "touch_pages", *buffer_, std::uint64_t{request_.count}, words_, last_);
        });
    }
    std::uint64_t count_wrong_pages() {
        const std::uint64_t count = request_.count;
        if (!lab_.reaches(Agent::cpu, *buffer_)) {
            lab_.clear_results();
            lab_.over(count, "pattern", "check_pages", *buffer_, count, words_, last_, lab_.results());
            return lab_.read_results(1)[0];
        }
        std::uint64_t errors = 0;
        const HostView view(*buffer_);
        run_on_host("check_pages", 1, static_cast<const std::uint64_t*>(view.as<std::uint64_t>()), count, words_, last_,
                    &errors);
        return errors;
    }

  private:
    Lab& lab_;
    const FaultRequest& request_;
    std::uint64_t words_;
    std::uint64_t last_ = 0;  // seed of the words stored last
    std::unique_ptr<Buffer> buffer_;
};

}  // namespace

Outcome page_faults(Lab& lab, const FaultRequest& request, const Stop& stop) {
    Outcome outcome;
    struct Scenario {
        const char* name;
        bool by_gpu;     // the GPU's touch is timed
        bool cpu_first;  // the CPU touches every page before
        bool count_both;
    };
    static constexpr Scenario scenarios[] = {{"cpu-1", false, false, false},
                                             {"cpu-n", false, false, false},
                                             {"gpu-major", true, false, false},
                                             {"gpu-minor", true, true, false},
                                             {"prefault+minor", true, true, true}};
    const auto* scenario =
        std::ranges::find_if(scenarios, [&](const Scenario& s) { return request.scenario == s.name; });
    if (scenario == std::end(scenarios)) throw std::invalid_argument("'" + request.scenario + "' is not a scenario");
    const auto [_, by_gpu, cpu_first, count_both] = *scenario;
    Team team(request.scenario == "cpu-1" ? 1 : usable_processors());
    std::vector<double> first, second;
    const double pages = static_cast<double>(request.count);
    const auto trial = [&] {
        Trial fresh(lab, request);
        const double prefault = cpu_first ? fresh.touch_by_cpu(team) : 0;
        double cold = by_gpu ? fresh.touch_by_gpu() : fresh.touch_by_cpu(team);
        if (count_both) cold += prefault;
        const double warm = by_gpu ? fresh.touch_by_gpu() : fresh.touch_by_cpu(team);
        first.push_back(cold / pages * 1e9);
        second.push_back(warm / pages * 1e9);
        if (first.size() % 16 == 1) outcome.errors += fresh.count_wrong_pages();
        return (cold - warm) / pages * 1e9;
    };
    const double warm_start = now();
    for (int i = 0; i < request.warmups && now() - warm_start < stop.seconds / 5; ++i) trial();
    first.clear();
    second.clear();
    outcome.samples = sample(stop, trial);
    outcome.counters["first_ns"] = summarise(first).median;
    outcome.counters["second_ns"] = summarise(second).median;
    return outcome;
}

}  // namespace firsttouch
