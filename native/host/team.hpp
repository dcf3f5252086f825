// Threads pinned one to a processor, spread over those this process may use, that run one job together.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace firsttouch {

// How many processors this process may use.
int usable_processors();

class Team {
  public:
    // The calling thread is member 0 and is pinned too for as long as the team lives.
    explicit Team(int size);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return size_; }
    // Runs job(member) on every member at once; returns the seconds from the start of all to the end of the last.
    double run(const std::function<void(int)>& job);

  private:
    void serve(int member);

    int size_;
    std::vector<std::thread> threads_;
    std::vector<int> processors_;
    std::vector<int> before_;  // the caller's affinity, to be restored
    const std::function<void(int)>* job_ = nullptr;
    std::atomic<unsigned> generation_{0};
    std::atomic<int> pending_{0};
    std::atomic<bool> stop_{false};
};

// The member's contiguous share [first, last) of n items.
struct Share {
    std::size_t first, last;
};
inline Share share_of(std::size_t n, int member, int members, std::size_t multiple = 1) {
    const std::size_t units = (n + multiple - 1) / multiple;
    const std::size_t low = units * static_cast<std::size_t>(member) / static_cast<std::size_t>(members) * multiple;
    const std::size_t high =
        units * static_cast<std::size_t>(member + 1) / static_cast<std::size_t>(members) * multiple;
    return {low < n ? low : n, high < n ? high : n};
}

}  // namespace firsttouch
