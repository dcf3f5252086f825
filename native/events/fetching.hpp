// Fetches records regularly while they arrive.
#pragma once

#include <pthread.h>

#include <cstdint>

namespace firsttouch {

// How long a program waits for a thread of ours at its end.
inline constexpr long patience_ms = 2000;

// Starts a thread that takes no signals. Returns false if none could be started.
bool start_thread(pthread_t& thread, void* (*run)(void*), void* user) noexcept;
// Joins a thread. Returns false if it does not end in time: it still runs.
bool join_within(pthread_t thread, long milliseconds) noexcept;

// Calls a function regularly in a thread of its own: 2 ms after the last call while events arrive, otherwise 10 ms
// after it. The driver keeps a few thousand unified-memory events until they are fetched, and drops further ones
// without telling; what a pause of 100 ms costs is in evidence.
class Fetching {
  public:
    // Returns how many events have arrived so far.
    using Fetch = std::uint64_t (*)(void* user) noexcept;

    Fetching() noexcept;
    ~Fetching();  // the thread must have been stopped
    Fetching(const Fetching&) = delete;
    Fetching& operator=(const Fetching&) = delete;

    // Returns false if no thread could be started. The thread takes no signals.
    bool start(Fetch fetch, void* user) noexcept;
    // Ends the thread after the call in progress. Returns false if that takes longer than 2 s: the thread still runs.
    bool stop() noexcept;

  private:
    static void* run(void* fetching);

    Fetch fetch_ = nullptr;
    void* user_ = nullptr;
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t ended_;
    bool ends_ = false;
    bool has_thread_ = false;
    pthread_t thread_{};
};

}  // namespace firsttouch
