// A team of threads that run one job together. Each is pinned to one of the processors that this process may use, the
// first ones to different cores.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace firsttouch {

// Returns the number of processors that this process may use.
int usable_processors();
// Returns the number of cores to which these processors belong. The processors of one core are SMT siblings.
int usable_cores();

// The processors of each core.
using Cores = std::vector<std::vector<int>>;
// Groups processors by core, in the order in which their first processors are given. `folder` holds the topology of
// processors as the kernel shows it. A processor without topology there is a core by itself.
Cores group_by_core(const std::vector<int>& processors, const std::string& folder = "/sys/devices/system/cpu");
// Returns the processor of each of `members` threads. No core gets a second thread before every core has one, and so
// on; threads are spread evenly over cores where there are fewer. The result is in the order of cores, so that
// teams of different sizes divide an array among cores in the same way.
std::vector<int> place(int members, const Cores& cores);

// The calling thread, and threads that it starts, run on these processors until its end; with none, nothing changes.
// Throws std::system_error if this process may use none of them.
class Affinity {
  public:
    explicit Affinity(const std::vector<int>& processors);
    ~Affinity();
    Affinity(const Affinity&) = delete;
    Affinity& operator=(const Affinity&) = delete;

  private:
    std::vector<int> before_;
};

class Team {
  public:
    // The calling thread becomes member 0. It is pinned too, until the team is destroyed.
    explicit Team(int size);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return size_; }
    // Runs job(member) on all members at once. Returns the seconds until the last member has finished.
    double run(const std::function<void(int)>& job);

  private:
    void serve(int member);

    int size_;
    std::vector<std::thread> threads_;
    std::vector<int> processors_;
    std::vector<int> original_affinity_;  // of the calling thread, restored by the destructor
    const std::function<void(int)>* job_ = nullptr;
    std::atomic<unsigned> generation_{0};
    std::atomic<int> pending_{0};
    std::atomic<bool> stop_{false};
};

// The contiguous range [first, last) of a member.
struct Share {
    std::size_t first, last;
};
// Returns the member's share of n items. Shares start at multiples of `multiple`.
inline Share share_of(std::size_t n, int member, int members, std::size_t multiple = 1) {
    const std::size_t units = (n + multiple - 1) / multiple;
    const std::size_t low = units * static_cast<std::size_t>(member) / static_cast<std::size_t>(members) * multiple;
    const std::size_t high =
        units * static_cast<std::size_t>(member + 1) / static_cast<std::size_t>(members) * multiple;
    return {low < n ? low : n, high < n ? high : n};
}

}  // namespace firsttouch
