#include "device/kernel_timer.hpp"

namespace firsttouch {

KernelTimer::KernelTimer(Device& device, Stream& stream) : device_(device), stream_(stream), pairs_(most_pairs) {
    for (Pair& pair : pairs_) {
        device_.record(stream_, pair.from);
        device_.record(stream_, pair.to);
    }
    device_.wait(stream_);
}

void KernelTimer::begin() {
    if (unread_ == pairs_.size()) read_oldest();
    device_.record(stream_, pairs_[next_].from);
}

void KernelTimer::end() {
    device_.record(stream_, pairs_[next_].to);
    next_ = (next_ + 1) % pairs_.size();
    ++unread_;
}

void KernelTimer::read_oldest() {
    const Pair& pair = pairs_[(next_ + pairs_.size() - unread_) % pairs_.size()];
    total_.seconds += device_.elapsed(*pair.from, *pair.to);
    ++total_.pairs;
    --unread_;
}

KernelTimer::Total KernelTimer::take() {
    while (unread_ > 0) read_oldest();
    return std::exchange(total_, {});
}

}  // namespace firsttouch
