#include "host/team.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <system_error>

#include "host/clock.hpp"

namespace firsttouch {
namespace {

// A set of processors of any size; cpu_set_t ends at 1024.
class ProcessorSet {
  public:
    explicit ProcessorSet(std::size_t processors) : set_((processors + CPU_SETSIZE - 1) / CPU_SETSIZE) {}
    std::size_t bytes() const { return set_.size() * sizeof(cpu_set_t); }
    cpu_set_t* get() { return set_.data(); }
    bool has(std::size_t processor) const { return CPU_ISSET_S(processor, bytes(), set_.data()); }
    void add(std::size_t processor) { CPU_SET_S(processor, bytes(), set_.data()); }

  private:
    std::vector<cpu_set_t> set_;
};

constexpr std::size_t most_processors = std::size_t{1} << 16;

// The kernel refuses a set that is smaller than its own. Where it refuses any, these are all processors.
std::vector<int> allowed_processors() {
    for (std::size_t size = CPU_SETSIZE; size <= most_processors; size *= 2) {
        ProcessorSet set(size);
        if (sched_getaffinity(0, set.bytes(), set.get()) != 0) {
            if (errno == EINVAL) continue;
            break;
        }
        std::vector<int> list;
        for (std::size_t processor = 0; processor < size; ++processor)
            if (set.has(processor)) list.push_back(static_cast<int>(processor));
        if (!list.empty()) return list;
    }
    std::vector<int> all(std::max(1u, std::thread::hardware_concurrency()));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

// The cores of processors of this machine. Results are kept, because the kernel's files are slow to read.
const Cores& machine_cores(const std::vector<int>& processors) {
    static std::mutex mutex;
    static std::map<std::vector<int>, Cores> known;
    const std::lock_guard lock(mutex);
    const auto [entry, added] = known.try_emplace(processors);
    if (added) entry->second = group_by_core(processors);
    return entry->second;
}

// Returns false if this process may use none of the processors.
bool pin(const std::vector<int>& processors) {
    std::size_t size = 1;
    for (const int processor : processors) size = std::max(size, static_cast<std::size_t>(std::max(processor, 0)) + 1);
    ProcessorSet set(std::min(size, most_processors));
    for (const int processor : processors)
        if (processor >= 0 && static_cast<std::size_t>(processor) < most_processors)
            set.add(static_cast<std::size_t>(processor));
    return sched_setaffinity(0, set.bytes(), set.get()) == 0;
}

// Spins briefly, then yields, because members share processors where a container provides fewer than it shows.
template <class Condition>
void wait_until(Condition&& done) {
    for (int i = 0; !done(); ++i)
        if (i > 20000) std::this_thread::yield();
}

}  // namespace

int usable_processors() { return static_cast<int>(allowed_processors().size()); }
int usable_cores() { return static_cast<int>(machine_cores(allowed_processors()).size()); }

Cores group_by_core(const std::vector<int>& processors, const std::string& folder) {
    Cores cores;
    std::map<std::string, std::size_t> seen;
    for (const int processor : processors) {
        std::string siblings;
        std::ifstream(folder + "/cpu" + std::to_string(processor) + "/topology/thread_siblings_list") >> siblings;
        const auto [entry, added] = seen.try_emplace(siblings, cores.size());
        if (added || siblings.empty())
            cores.push_back({processor});
        else
            cores[entry->second].push_back(processor);
    }
    return cores;
}

std::vector<int> place(int members, const Cores& cores) {
    struct CoreProcessor {
        std::size_t core;
        int processor;
    };
    std::vector<std::vector<CoreProcessor>> rounds;  // round r: processor r of each core that has so many
    for (std::size_t core = 0; core < cores.size(); ++core)
        for (std::size_t round = 0; round < cores[core].size(); ++round) {
            if (round == rounds.size()) rounds.emplace_back();
            rounds[round].push_back({core, cores[core][round]});
        }
    std::vector<CoreProcessor> places;
    std::size_t missing = static_cast<std::size_t>(members);
    for (std::size_t r = 0; missing > 0; r = (r + 1) % rounds.size()) {
        const auto& round = rounds[r];
        const std::size_t taken = std::min(missing, round.size());
        for (std::size_t i = 0; i < taken; ++i) places.push_back(round[round.size() * i / taken]);
        missing -= taken;
    }
    std::stable_sort(places.begin(), places.end(),
                     [](const CoreProcessor& a, const CoreProcessor& b) { return a.core < b.core; });
    std::vector<int> processors;
    for (const CoreProcessor& place : places) processors.push_back(place.processor);
    return processors;
}

double clock_cost() {
    static const double cost = [] {
        double best = 1;
        for (int trial = 0; trial < 20; ++trial) {
            const double start = now();
            double last = start;
            for (int i = 0; i < 100; ++i) last = now();
            best = std::min(best, (last - start) / 100);
        }
        return best;
    }();
    return cost;
}

Affinity::Affinity(const std::vector<int>& processors) {
    if (processors.empty()) return;
    before_ = allowed_processors();
    if (!pin(processors)) throw std::system_error(errno, std::generic_category(), "sched_setaffinity");
}

Affinity::~Affinity() {
    if (!before_.empty()) pin(before_);
}

Team::Team(int size) : size_(size), original_affinity_(allowed_processors()) {
    processors_ = place(size_, machine_cores(original_affinity_));
    pin({processors_[0]});
    for (int member = 1; member < size_; ++member) threads_.emplace_back([this, member] { serve(member); });
}

Team::~Team() {
    stop_ = true;
    generation_.fetch_add(1, std::memory_order_release);
    for (auto& thread : threads_) thread.join();
    pin(original_affinity_);
}

void Team::serve(int member) {
    pin({processors_[static_cast<std::size_t>(member)]});
    unsigned seen = 0;
    while (true) {
        wait_until([&] { return generation_.load(std::memory_order_acquire) != seen; });
        seen = generation_.load(std::memory_order_acquire);
        if (stop_) return;
        (*job_)(member);
        pending_.fetch_sub(1, std::memory_order_release);
    }
}

double Team::run(const std::function<void(int)>& job) {
    job_ = &job;
    pending_.store(size_ - 1, std::memory_order_relaxed);
    const double start = now();
    generation_.fetch_add(1, std::memory_order_release);
    job(0);
    wait_until([&] { return pending_.load(std::memory_order_acquire) == 0; });
    return now() - start;
}

}  // namespace firsttouch
