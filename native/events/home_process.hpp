// Tells cheaply whether this is still the process that something was made in, or a child that was forked from it.
#pragma once

#include <pthread.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace firsttouch {

// In a child of fork, other threads are gone, and with them whoever would unlock a mutex that was locked then. Asking
// the kernel for the process's number at each call would take longer than the call.
class HomeProcess {
  public:
    HomeProcess() noexcept { renew(); }
    HomeProcess(const HomeProcess&) = delete;
    HomeProcess& operator=(const HomeProcess&) = delete;

    // Whether this is the process in which this was made or renewed. From any thread.
    bool is_here() const noexcept { return key_.load(std::memory_order_acquire) == current_key(); }
    // From here on, home is the process that calls this.
    void renew() noexcept {
        if (page_ != nullptr) page_->store(getpid(), std::memory_order_release);
        key_.store(current_key(), std::memory_order_release);
    }

  private:
    static std::uint64_t current_key() noexcept {
        const pid_t process = page_ != nullptr ? page_->load(std::memory_order_acquire) : getpid();
        return std::uint64_t(forks_.load(std::memory_order_relaxed)) << 32 | std::uint32_t(process);
    }
    // A page that the kernel wipes in a child. Null if the kernel refuses.
    static std::atomic<pid_t>* map_page() noexcept {
        const auto bytes = std::size_t(sysconf(_SC_PAGESIZE));
        void* const page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) return nullptr;
        if (madvise(page, bytes, MADV_WIPEONFORK) == 0) return new (page) std::atomic<pid_t>(0);
        munmap(page, bytes);
        return nullptr;
    }

    inline static std::atomic<pid_t>* const page_ = map_page();
    // Also counts the times that this process was forked, for where the kernel takes MADV_WIPEONFORK and does nothing.
    inline static std::atomic<std::uint32_t> forks_{0};
    inline static const bool counts_forks_ =
        pthread_atfork(nullptr, nullptr, [] { forks_.fetch_add(1, std::memory_order_relaxed); }) == 0;

    std::atomic<std::uint64_t> key_{0};
};

}  // namespace firsttouch
