// What code that runs inside a call of the program must keep as it was.
#pragma once

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

}  // namespace firsttouch::inject
