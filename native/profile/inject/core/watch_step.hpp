// What a watch does within a call of the program.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <string_view>

#include "events/home_process.hpp"
#include "profile/inject/core/journal.hpp"
#include "profile/inject/core/undisturbed.hpp"

namespace firsttouch::inject {

// One at a time, and nothing in a forked process. What a program calls must not throw: without memory, the watch ends,
// which `words` and the reason say.
template <class Step>
void watch_step(std::atomic<bool>& ended, const HomeProcess& home, std::mutex& mutex, std::string_view words,
                Step&& step) noexcept {
    const Undisturbed undisturbed;
    if (ended.load(std::memory_order_relaxed) || !home.is_here()) return;
    const auto end = [&](std::string_view reason) {
        if (!ended.exchange(true)) notice(Layer::host, words, reason);
    };
    try {
        const std::scoped_lock lock(mutex);
        step();
    } catch (const std::exception& reason) {
        end(reason.what());
    } catch (...) {
        end("unknown error");
    }
}

}  // namespace firsttouch::inject
