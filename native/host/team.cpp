#include "host/team.hpp"

#include <sched.h>

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

void pin(const std::vector<int>& processors) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : processors) CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

// Spins briefly, then yields, because members share processors where a container provides fewer than it shows.
template <class Condition>
void wait_until(Condition&& done) {
    for (int i = 0; !done(); ++i)
        if (i > 20000) std::this_thread::yield();
}

}  // namespace

int usable_processors() { return static_cast<int>(allowed_processors().size()); }

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

Team::Team(int size) : size_(size), original_affinity_(allowed_processors()) {
    const std::size_t processors = original_affinity_.size();
    for (int member = 0; member < size_; ++member)
        processors_.push_back(original_affinity_[processors * static_cast<std::size_t>(member) /
                                                 static_cast<std::size_t>(size_) % processors]);
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
