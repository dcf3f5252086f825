#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "device/host/memory.hpp"
#include "host/clock.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

constexpr int checked_every = 16;              // trials
constexpr std::size_t rehearsed_pages = 1024;  // at most, before a timed pass of the device

// Runs a kernel on all members of a team, after a rehearsal that wakes them up and brings the kernel into their caches.
// Returns the seconds from the first member's start to the last member's end.
double run_rehearsed(Team& team, HostKernel kernel, void** rehearsal, void** arguments) {
    const auto members = static_cast<std::size_t>(team.size());
    std::atomic<std::size_t> missing = members;
    std::vector<double> starts(members), ends(members);
    team.run([&](int index) {
        const auto member = static_cast<std::size_t>(index);
        host_place = {member, members};
        kernel(rehearsal);
        missing.fetch_sub(1, std::memory_order_acq_rel);
        for (int spins = 0; missing.load(std::memory_order_acquire) > 0; ++spins)
            if (spins > 20000) std::this_thread::yield();
        starts[member] = now();
        kernel(arguments);
        ends[member] = now();
    });
    return std::ranges::max(ends) - std::ranges::min(starts);
}

// A block of memory of which an agent accesses one word in each page. Only pages that are wholly in the block are
// accessed: some drivers return blocks that start inside a page, whose first bytes they use themselves. Stores of the
// two agents differ, so that the check can tell them apart. Loads count the words that differ from a pattern that
// nobody stores, which must be all.
class TouchedBlock {
  public:
    TouchedBlock(Lab& lab, const FaultRequest& request, std::size_t count)
        : lab_(lab), request_(request), pages_(count), words_(request.page_bytes / 8),
          buffer_(lab.device().allocate(
              request.allocator, std::max((count + 1) * request.page_bytes, request.least_bytes), request.pages)) {
        if (!lab.reaches(Agent::cpu, *buffer_)) return;
        const HostView view(*buffer_);
        const auto address = reinterpret_cast<std::uintptr_t>(view.data());
        first_ = (request.page_bytes - address % request.page_bytes) % request.page_bytes / 8;
    }

    // Both return the seconds that the accesses took.
    double touch_by_cpu(Team& team, bool load) {
        const HostView view(*buffer_);
        std::uint64_t* data = view.as<std::uint64_t>();
        std::uint64_t seed = seed_of(load, request_.seed);
        std::uint64_t* loaded = &loaded_;
        void* arguments[] = {&data, &first_, &pages_, &words_, &seed, &loaded};
        // The rehearsal accesses one line for each member.
        std::uint64_t members = static_cast<std::uint64_t>(team.size()), line_words = 8, unused = 0, none = 0;
        std::vector<std::uint64_t> lines(members * line_words);
        std::uint64_t *line = lines.data(), *counted = &unused;
        void* rehearsal[] = {&line, &none, &members, &line_words, &seed, &counted};
        return run_rehearsed(team, find_host_kernel(load ? "check_pages" : "touch_pages"), rehearsal, arguments);
    }
    double touch_by_gpu(bool load) {
        const std::uint64_t seed = seed_of(load, request_.seed + 1);
        loads_by_gpu_ |= load;
        return device_seconds(lab_, [&] {
            if (load)
                lab_.over(pages_, "pattern", "check_pages", *buffer_, first_, pages_, words_, seed, lab_.results());
            else
                lab_.over(pages_, "pattern", "touch_pages", *buffer_, first_, pages_, words_, seed);
        });
    }

    // Base pages of those accessed that are in the CPU's page tables, or nothing if that cannot be read.
    std::optional<std::size_t> count_present() const {
        if (!lab_.reaches(Agent::cpu, *buffer_)) return std::nullopt;
        constexpr std::size_t piece = std::size_t{1} << 16;  // pages
        const HostView view(*buffer_);
        std::size_t present = 0;
        try {
            for (std::size_t at = 0; at < base_pages(); at += piece) {
                const std::size_t pages = std::min(piece, base_pages() - at);
                const auto resident =
                    pages_present(view.as<std::uint64_t>() + first_ + at * (base_page / 8), pages * base_page);
                present += static_cast<std::size_t>(std::ranges::count(resident, true));
            }
        } catch (const Unavailable&) {
            return std::nullopt;
        }
        return present;
    }
    std::size_t base_pages() const { return std::max<std::size_t>(1, pages_ * words_ * 8 / base_page); }

    // Counts the pages that do not hold the word stored last, and those that loads missed. The device's loads are
    // counted since clear_results().
    std::uint64_t count_wrong_pages() {
        std::uint64_t errors = 0;
        if (loads_ > 0) {
            const std::uint64_t loads = loaded_ + (loads_by_gpu_ ? lab_.read_results(1)[0] : 0);
            errors += loads > loads_ ? loads - loads_ : loads_ - loads;
        }
        if (!last_) return errors;
        if (!lab_.reaches(Agent::cpu, *buffer_)) {
            lab_.clear_results();
            lab_.over(pages_, "pattern", "check_pages", *buffer_, first_, pages_, words_, *last_, lab_.results());
            return errors + lab_.read_results(1)[0];
        }
        const HostView view(*buffer_);
        run_on_host("check_pages", 1, static_cast<const std::uint64_t*>(view.as<std::uint64_t>()), first_, pages_,
                    words_, *last_, &errors);
        return errors;
    }

  private:
    std::uint64_t seed_of(bool load, std::uint64_t stored) {
        if (!load) return *(last_ = stored);
        loads_ += pages_;
        return request_.seed + 2;
    }

    Lab& lab_;
    const FaultRequest& request_;
    std::uint64_t pages_, words_;        // pages accessed, and words from one to the next
    std::uint64_t first_ = 0;            // word of the block where the first page starts
    std::optional<std::uint64_t> last_;  // seed of the words stored last
    std::uint64_t loads_ = 0;            // pages that were to be loaded
    std::uint64_t loaded_ = 0;           // pages that the CPU loaded
    bool loads_by_gpu_ = false;
    std::unique_ptr<Buffer> buffer_;
};

struct Scenario {
    const char* name;
    bool by_gpu;     // the GPU's accesses are timed
    bool cpu_first;  // the CPU stores to every page before
    bool count_both;
};
constexpr Scenario scenarios[] = {{"cpu", false, false, false},
                                  {"gpu-major", true, false, false},
                                  {"gpu-minor", true, true, false},
                                  {"prefault+minor", true, true, true}};

}  // namespace

Outcome page_faults(Lab& lab, const FaultRequest& request, const Stop& stop) {
    const auto* scenario =
        std::ranges::find_if(scenarios, [&](const Scenario& s) { return request.scenario == s.name; });
    if (scenario == std::end(scenarios)) throw std::invalid_argument("'" + request.scenario + "' is not a scenario");
    if (request.count == 0 || request.page_bytes < 8) throw std::invalid_argument("there must be a page to touch");
    const auto [_, by_gpu, cpu_first, count_both] = *scenario;
    const auto threads = static_cast<std::size_t>(request.threads > 0 ? request.threads : usable_processors());
    Team team(static_cast<int>(std::min(threads, request.count)));
    std::unique_ptr<TouchedBlock> warm;
    if (by_gpu) warm = std::make_unique<TouchedBlock>(lab, request, std::min(request.count, rehearsed_pages));

    Outcome outcome;
    std::vector<double> first, second;
    bool shown_absent = true;
    const double pages = static_cast<double>(request.count);
    const auto trial = [&] {
        const bool checked = first.size() % checked_every == 0;
        TouchedBlock fresh(lab, request, request.count);
        const auto touch = [&] {
            if (!by_gpu) return fresh.touch_by_cpu(team, request.load);
            warm->touch_by_gpu(false);
            return fresh.touch_by_gpu(request.load);
        };
        if (const auto present = fresh.count_present(); !present)
            shown_absent = false;
        else if (*present > 0)
            throw Unavailable(std::to_string(*present) + " of " + std::to_string(fresh.base_pages()) + " pages of " +
                              to_string(request.allocator) +
                              " memory are there before the first touch, which causes no fault in them");
        if (checked && by_gpu && request.load) lab.clear_results();
        const double prefault = cpu_first ? fresh.touch_by_cpu(team, false) : 0;
        const double cold = touch() + (count_both ? prefault : 0);
        if (checked && request.pages == Pages::huge)
            if (const auto present = fresh.count_present(); present && *present < fresh.base_pages())
                throw Unavailable("huge pages were requested, but the kernel mapped only " + std::to_string(*present) +
                                  " of the " + std::to_string(fresh.base_pages()) + " base pages in them");
        const double warm_pass = touch();
        if (checked) outcome.errors += fresh.count_wrong_pages();
        first.push_back(cold / pages * 1e9);
        second.push_back(warm_pass / pages * 1e9);
        return first.back() - second.back();
    };
    const double warm_start = now();
    for (int i = 0; i < request.warmups && now() - warm_start < stop.seconds / 5; ++i) trial();
    first.clear();
    second.clear();
    outcome.samples = sample(stop, trial);
    outcome.counters["first_ns"] = summarise(first).median;
    outcome.counters["second_ns"] = summarise(second).median;
    outcome.counters["shown_absent"] = shown_absent;
    if (!by_gpu || count_both) outcome.counters["cpu_threads"] = team.size();
    return outcome;
}

}  // namespace firsttouch
