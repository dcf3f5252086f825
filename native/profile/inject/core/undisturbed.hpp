// What code that runs inside a call of the program must keep as it was.
#pragma once

#include <cxxabi.h>
#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>

namespace firsttouch::inject {

// Restores errno and the cancellation of this thread, which must not end within this library.
class Undisturbed {
  public:
    Undisturbed() noexcept : error_(errno) { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state_); }
    ~Undisturbed() {
        pthread_setcancelstate(state_, nullptr);
        errno = error_;
    }
    Undisturbed(const Undisturbed&) = delete;
    Undisturbed& operator=(const Undisturbed&) = delete;

  private:
    const int error_;
    int state_ = 0;
};

// Registers a function for the exit of the program, before the libraries of any namespace end. std::atexit would run it
// where this library ends: if the CUDA runtime came by dlmopen, that is after CUPTI may have ended.
inline void at_exit(void (*function)()) noexcept {
    using Register = int (*)(void (*)(void*), void*, void*);
    void* const libc = dlmopen(LM_ID_BASE, "libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    auto* found = libc == nullptr ? nullptr : reinterpret_cast<Register>(dlsym(libc, "__cxa_atexit"));
    if (found == nullptr) found = &abi::__cxa_atexit;
    found([](void* of) { reinterpret_cast<void (*)()>(of)(); }, reinterpret_cast<void*>(function), nullptr);
}

}  // namespace firsttouch::inject
