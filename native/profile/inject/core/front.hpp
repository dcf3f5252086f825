// A call of a runtime that a front takes the place of. CUPTI's calls come otherwise (front/cuda/calls.hpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "profile/inject/core/recording.hpp"
#include "profile/inject/core/undisturbed.hpp"

namespace firsttouch::inject {

// Made before the call, and gone after it. What is told of the call does not disturb it.
class FrontCall {
  public:
    FrontCall() noexcept {
        if (!within_.is_first() || Recording::of_this_process() == nullptr || !home_.is_here()) return;
        recording_ = Recording::of_this_process();
        begin(monotonic_ns());
    }
    // A part of a call of the program, which is told of as a call of its own.
    FrontCall(const FrontCall& whole, std::uint64_t began) noexcept : recording_(whole.recording_) {
        if (recording_ != nullptr) begin(began);
    }

    // Runs step(recorder, call), unless the call is not the program's.
    template <class Step>
    void tell(Step&& step) const noexcept {
        if (recording_ == nullptr) return;
        const Undisturbed undisturbed;
        try {
            step(recording_->recorder, call_);
        } catch (...) {
            return;  // no memory
        }
    }

  private:
    void begin(std::uint64_t began) noexcept {
        call_ = {number(), began, false};
        if (recording_->watch == nullptr) return;
        const Undisturbed undisturbed;
        static const bool ends = (at_exit(&finish), true);
        static_cast<void>(ends);
        recording_->watch->passes(began);
    }
    // Those of CUPTI are below.
    static std::uint32_t number() noexcept {
        static std::atomic<std::uint32_t> last{std::uint32_t(1) << 31};
        return last.fetch_add(1, std::memory_order_relaxed) + 1;
    }
    static void finish() {
        if (home_.is_here()) Recording::of_this_process()->watch->finish(monotonic_ns());
    }

    inline static const HomeProcess home_;
    const Within within_;
    Recording* recording_ = nullptr;
    RecordedCall call_;
};

}  // namespace firsttouch::inject
