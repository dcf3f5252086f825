#include "events/fetching.hpp"

#include <signal.h>

#include <algorithm>
#include <ctime>

namespace firsttouch {
namespace {

constexpr long idle_ms = 10, busy_ms = 2;

timespec later(clockid_t clock, long milliseconds) {
    timespec time{};
    clock_gettime(clock, &time);
    time.tv_nsec += milliseconds % 1000 * 1'000'000;
    time.tv_sec += milliseconds / 1000 + time.tv_nsec / 1'000'000'000;
    time.tv_nsec %= 1'000'000'000;
    return time;
}

}  // namespace

bool start_thread(pthread_t& thread, void* (*run)(void*), void* user) noexcept {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool is_started = pthread_create(&thread, nullptr, run, user) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return is_started;
}

bool join_within(pthread_t thread, long milliseconds) noexcept {
    const timespec until = later(CLOCK_REALTIME, milliseconds);
    return pthread_timedjoin_np(thread, nullptr, &until) == 0;
}

Fetching::Fetching() noexcept {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&ended_, &attributes);
    pthread_condattr_destroy(&attributes);
}

Fetching::~Fetching() { pthread_cond_destroy(&ended_); }

bool Fetching::start(Fetch fetch, void* user) noexcept {
    fetch_ = fetch, user_ = user;
    has_thread_ = start_thread(thread_, &run, this);
    return has_thread_;
}

bool Fetching::stop() noexcept {
    pthread_mutex_lock(&mutex_);
    ends_ = true;
    pthread_cond_signal(&ended_);
    pthread_mutex_unlock(&mutex_);
    if (!has_thread_) return true;
    if (!join_within(thread_, patience_ms)) return false;
    has_thread_ = false;
    return true;
}

void* Fetching::run(void* user) {
    Fetching& fetching = *static_cast<Fetching*>(user);
    pthread_setname_np(pthread_self(), "firsttouch");
    pthread_mutex_lock(&fetching.mutex_);
    std::uint64_t seen = 0;
    for (long wait = idle_ms; !fetching.ends_;) {
        const timespec until = later(CLOCK_MONOTONIC, wait);
        pthread_cond_timedwait(&fetching.ended_, &fetching.mutex_, &until);
        if (fetching.ends_) break;
        pthread_mutex_unlock(&fetching.mutex_);
        const std::uint64_t now = fetching.fetch_(fetching.user_);
        wait = now > seen ? busy_ms : std::min(2 * wait, idle_ms);
        seen = now;
        pthread_mutex_lock(&fetching.mutex_);
    }
    pthread_mutex_unlock(&fetching.mutex_);
    return nullptr;
}

}  // namespace firsttouch
