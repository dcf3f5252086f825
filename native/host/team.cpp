#include "host/team.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <mutex>
#include <system_error>

#include "host/clock.hpp"

namespace firsttouch {
namespace {

std::vector<int> allowed_processors() {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    std::vector<int> list;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &set)) list.push_back(cpu);
    return list;
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
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : processors)
        if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0;
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
