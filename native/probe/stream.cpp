#include <algorithm>
#include <cstring>
#include <optional>

#include "host/activity.hpp"
#include "host/clock.hpp"
#include "host/counted.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

constexpr double scalar = 3;
constexpr double least_active_seconds = 5e-3;  // of a sample while the processors' activity is counted
constexpr std::uint64_t seed_of_b = 11, seed_of_c = 12, seed_of_poison = 13;  // added to the request's seed

struct Arrays {
    Lab& lab;
    const Buffer &a, &b, &c;
    const StreamRequest& request;
    std::uint64_t elements;

    void fill() {
        const std::pair<const Buffer*, std::uint64_t> all[] = {{&a, seed_of_poison}, {&b, seed_of_b}, {&c, seed_of_c}};
        for (std::size_t i = 0; i < 3; ++i) {
            const auto& [buffer, offset] = all[i];
            const std::uint64_t seed = request.seed + offset;
            if (request.first_touch == Agent::gpu) {
                lab.at_owner(*buffer, [&](Lab& owner) {
                    owner.over(elements, "stream_data", "stream_fill", *buffer, elements, seed);
                });
            } else {
                const HostView view(*buffer);
                const Affinity writing(i < request.writers.size() ? request.writers[i] : std::vector<int>{});
                run_on_host("stream_fill", 0, view.as<double>(), elements, seed);
            }
        }
    }

    // Returns the number of wrong elements of `a` after a pass. A read is checked by its sum instead.
    std::uint64_t count_errors(double sum) {
        const auto op = static_cast<std::uint32_t>(request.op);
        const std::uint64_t b_seed = request.seed + seed_of_b, c_seed = request.seed + seed_of_c;
        const bool gpu = request.agent == Agent::gpu;
        if (request.op == StreamOp::read) {
            double expected = 0;
            run_on_host("stream_expect", 0, elements, b_seed, &expected);
            return sum != expected;
        }
        if (gpu) {
            lab.clear_results();
            lab.over(elements, "stream_data", "stream_check", a, elements, op, b_seed, c_seed, scalar, lab.results());
            return lab.read_results(1)[0];
        }
        std::uint64_t errors = 0;
        const HostView view(a);
        run_on_host("stream_check", 0, static_cast<const double*>(view.as<double>()), elements, op, b_seed, c_seed,
                    scalar, &errors);
        return errors;
    }
};

double bytes_of(const Arrays& arrays, double runs) {
    return static_cast<double>(arrays.elements) * stream_bytes(arrays.request.op) *
           static_cast<double>(arrays.request.passes) * runs;
}

double rate(const Arrays& arrays, double seconds, double runs) { return bytes_of(arrays, runs) / seconds * 1e-9; }

// Samples `measure`, each sample with `runs` runs, and counts what the processors do meanwhile if the request says so.
template <class Measure>
void sample_stream(Outcome& outcome, const Arrays& arrays, double runs, const Stop& stop, Measure&& measure) {
    std::optional<HostActivity> activity;
    if (arrays.request.activity) activity.emplace();
    outcome.samples = sample(stop, measure);
    if (activity) outcome.counters.merge(activity->end(bytes_of(arrays, runs) * double(outcome.samples.values.size())));
}

Outcome stream_on_cpu(Arrays& arrays, const Stop& stop) {
    Outcome outcome;
    const StreamRequest& request = arrays.request;
    const HostView a(arrays.a), b(arrays.b), c(arrays.c);
    for (const HostView* view : {&a, &b, &c})
        if (reinterpret_cast<std::uintptr_t>(view->data()) % 64 != 0)
            throw std::invalid_argument("the stream arrays must be aligned to 64 bytes");
    const StreamLoop loop = stream_loop(request.op, request.nontemporal);
    struct alignas(64) Sum {
        double value = 0;
    };
    std::vector<Sum> sums;
    const std::size_t passes = request.passes;
    const double overhead = clock_cost();
    const auto run = [&](Team& team) {
        const double seconds = team.run([&](int member) {
            const Share share = share_of(arrays.elements, member, team.size(), 8);
            double sum = 0;
            for (std::size_t pass = 0; pass < passes; ++pass) {
                sum = 0;
                loop(a.as<double>(), b.as<double>(), c.as<double>(), scalar, share.first, share.last, &sum);
                asm volatile("" ::: "memory");
            }
            sums[static_cast<std::size_t>(member)].value = sum;
        });
        return rate(arrays, seconds - overhead, 1);
    };
    const auto warm = [&](Team& team) {
        sums.assign(static_cast<std::size_t>(team.size()), {});
        run(team);
    };
    // Search: each number of threads runs once to warm up and twice timed.
    int best = request.threads.at(0);
    double best_rate = 0;
    if (request.threads.size() > 1)
        for (const int threads : request.threads) {
            Team team(threads > 0 ? threads : usable_processors());
            warm(team);
            const double faster = std::max(run(team), run(team));
            if (faster > best_rate) best_rate = faster, best = team.size();
            outcome.counters["tried_" + std::to_string(team.size())] = faster;
        }
    Team team(best > 0 ? best : usable_processors());
    warm(team);
    {
        const CountedRegion region(stop.counted);
        sample_stream(outcome, arrays, 1, stop, [&] { return run(team); });
    }
    double sum = 0;
    for (const Sum& part : sums) sum += part.value;
    outcome.errors = arrays.count_errors(sum);
    outcome.counters["threads"] = team.size();
    return outcome;
}

Outcome stream_on_device(Arrays& arrays, const Stop& stop) {
    static const char* const entries[] = {"stream_copy",  "stream_scale", "stream_add",
                                          "stream_triad", "stream_read",  "stream_write"};
    Outcome outcome;
    Lab& lab = arrays.lab;
    const StreamRequest& request = arrays.request;
    const bool each = request.element_per_thread;
    const std::string entry = entries[static_cast<std::size_t>(request.op)] + std::string(each ? "_each" : "");
    const std::string file = each ? "stream_each" : "stream";
    const std::uint64_t count = each ? arrays.elements : arrays.elements / 2;  // of elements, or of vectors of two
    std::uint32_t multiprocessors = 1;
    std::int64_t largest_group = 1024;
    for (const auto& [key, value] : lab.device().facts()) {
        if (key == "multiprocessors") multiprocessors = static_cast<std::uint32_t>(std::get<std::int64_t>(value));
        if (key == "largest_group") largest_group = std::get<std::int64_t>(value);
    }
    // blocks_per_multiprocessor 0: one tile per block.
    const auto shape_of = [&](int unroll, std::uint32_t threads, std::uint32_t blocks_per_multiprocessor) {
        const std::uint64_t tile = std::uint64_t{threads} * static_cast<std::uint64_t>(unroll);
        std::uint64_t blocks = std::max<std::uint64_t>(1, (count + tile - 1) / tile);
        if (blocks_per_multiprocessor > 0)
            blocks = std::min<std::uint64_t>(blocks, std::uint64_t{blocks_per_multiprocessor} * multiprocessors);
        return StreamShape{unroll, threads, static_cast<std::uint32_t>(blocks)};
    };
    const auto launch = [&](const StreamShape& shape, std::uint64_t passes, bool counted = false) {
        Kernel& kernel = lab.timed_kernel(counted, file, entry, {{"UNROLL", std::to_string(shape.unroll)}});
        const Argument list[] = {arrays.a, arrays.b, arrays.c, scalar, count, passes};
        lab.device().launch(lab.stream(), kernel, Grid{shape.blocks, shape.threads}, list);
    };

    StreamShape best =
        each ? shape_of(1, static_cast<std::uint32_t>(std::min<std::int64_t>(256, largest_group)), 0) : request.shape;
    int runs = 1;
    if (best.unroll > 0) {
        launch(best, request.passes);
    } else {
        // Shape search: each candidate runs once to warm up and once timed. A read stores a partial sum per thread in
        // `a`.
        std::vector<StreamShape> shapes;
        const auto add = [&](int unroll, std::uint32_t threads, std::uint32_t blocks_per_multiprocessor) {
            const StreamShape shape = shape_of(unroll, threads, blocks_per_multiprocessor);
            const bool too_many_sums = std::uint64_t{shape.blocks} * threads > arrays.elements;
            const bool unsuited = (blocks_per_multiprocessor == 0 && unroll < 16) || too_many_sums;
            if (threads <= largest_group && !(request.op == StreamOp::read && unsuited)) shapes.push_back(shape);
        };
        if (lab.shares_host_memory()) {  // OpenCL on a CPU
            for (const std::uint32_t threads : {256u, 1024u, 4096u}) add(1, threads, 0);
            add(16, 64, 0);
        } else {
            for (const int unroll : {1, 2, 4})
                for (const std::uint32_t threads : {128u, 256u, 512u, 1024u})
                    for (const std::uint32_t blocks : {0u, 2048u / threads}) add(unroll, threads, blocks);
        }
        if (shapes.empty()) throw std::invalid_argument("the array is too small for a read on this device");
        double best_seconds = 1e30;
        const double search_start = now();
        for (const StreamShape& shape : shapes) {
            launch(shape, 1);
            const double seconds = device_seconds(lab, [&] { launch(shape, request.passes); });
            if (seconds < best_seconds) best_seconds = seconds, best = shape;
            if (now() - search_start > std::max(0.02, stop.seconds)) break;
        }
        if (!stop.counted) runs = std::clamp(static_cast<int>(2e-3 / best_seconds), 1, 64);
    }
    if (request.activity && !stop.counted)
        runs = repetitions(
            [&](int times) {
                return device_seconds(lab, [&] {
                    for (int i = 0; i < times; ++i) launch(best, request.passes);
                });
            },
            least_active_seconds);
    sample_stream(outcome, arrays, runs, stop, [&] {
        const double seconds = device_seconds(lab, [&] {
            for (int i = 0; i < runs; ++i) launch(best, request.passes, stop.counted);
        });
        return rate(arrays, seconds, runs);
    });
    double sum = 0;
    if (request.op == StreamOp::read) {
        launch(best, 1);
        lab.clear_results();
        const std::uint64_t partial = std::min(std::uint64_t{best.blocks} * best.threads, arrays.elements);
        lab.over(partial, "stream_data", "stream_sum", arrays.a, partial, lab.results());
        const auto words = lab.read_results(1);
        std::memcpy(&sum, words.data(), 8);
    }
    outcome.errors = arrays.count_errors(sum);
    outcome.counters["unroll"] = best.unroll;
    outcome.counters["threads"] = best.threads;
    outcome.counters["blocks"] = best.blocks;
    return outcome;
}

}  // namespace

Outcome stream(Lab& lab, const Buffer& a, const Buffer& b, const Buffer& c, const StreamRequest& request,
               const Stop& stop) {
    Arrays arrays{lab, a, b, c, request, std::min({a.size(), b.size(), c.size()}) / 64 * 8};
    if (arrays.elements == 0) throw std::invalid_argument("the stream arrays need at least 64 bytes");
    arrays.fill();
    return request.agent == Agent::gpu ? stream_on_device(arrays, stop) : stream_on_cpu(arrays, stop);
}

}  // namespace firsttouch
