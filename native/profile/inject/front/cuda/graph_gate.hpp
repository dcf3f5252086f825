// Keeps what threads do with CUDA graphs apart. While kernels are recorded, CUPTI has a table of the nodes of all
// graphs, which it extends for each new node and reads when a graph is launched, both without a lock: a program with
// several threads crashes in it now and then (evidence/profiles.md).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace firsttouch::inject {

enum class GraphUse : std::uint8_t { none, launches, makes_nodes, makes_nodes_if_captured };

// Several threads may launch graphs at a time, or one makes nodes. A call may take long, and perhaps until another
// thread does something: after `patience`, threads go on beside it.
class GraphGate {
  public:
    void enter(GraphUse use, std::uint32_t correlation) noexcept {
        if (use == GraphUse::none || entered_ != 0) return;
        const int side = use == GraphUse::launches ? launching : making, other = 1 - side;
        std::unique_lock lock(mutex_);
        const auto is_free = [&] {
            return inside_[other] == 0 && (side == launching || inside_[making] == 0) &&
                   (waiting_[other] == 0 || turn_ == side);
        };
        ++waiting_[side];
        const bool is_over = changed_.wait_for(lock, patience, [&] { return is_stuck_ || is_free(); });
        --waiting_[side];
        if (!is_over && inside_[launching] + inside_[making] > 0) {
            is_stuck_ = true;
            changed_.notify_all();
        }
        if (is_stuck_) return;
        ++inside_[side];
        turn_ = other;
        entered_ = correlation;
    }
    void leave(std::uint32_t correlation) noexcept {
        if (entered_ == 0 || entered_ != correlation) return;
        entered_ = 0;
        const std::scoped_lock lock(mutex_);
        if (--inside_[inside_[launching] > 0 ? launching : making] > 0) return;
        is_stuck_ = false;
        if (waiting_[launching] + waiting_[making] > 0) changed_.notify_all();
    }

  private:
    static constexpr std::chrono::seconds patience{1};
    static constexpr int launching = 0, making = 1;

    inline static thread_local std::uint32_t entered_ = 0;  // the call with which this thread did; 0: none
    std::mutex mutex_;
    std::condition_variable changed_;
    int inside_[2] = {}, waiting_[2] = {};  // threads
    int turn_ = launching;                  // who goes first if both wait
    bool is_stuck_ = false;                 // somebody waited in vain for those inside
};

}  // namespace firsttouch::inject
