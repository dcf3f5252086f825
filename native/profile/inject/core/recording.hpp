// What all fronts of a process share, since records refer to texts and places by number.
#pragma once

#include <memory>

#include "profile/inject/core/host_watch.hpp"
#include "profile/inject/core/journal.hpp"
#include "profile/inject/core/places.hpp"
#include "profile/inject/core/recorder.hpp"
#include "profile/inject/core/shadow.hpp"

namespace firsttouch::inject {

class Recording {
  public:
    // What the CPU does with host data is watched if FIRSTTOUCH_HOST says how many percent of the run that may take, or
    // by a Shadow if FIRSTTOUCH_SHADOW is 1.
    explicit Recording(Journal& journal);
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    // That of this process, made at the first call; null if FIRSTTOUCH_TRACE is not 1, there is no journal, or no
    // memory.
    static Recording* of_this_process() noexcept;

    Journal& journal;
    Texts texts{journal};
    Places places{journal, texts};
    Recorder recorder{journal, texts, places};
    std::unique_ptr<CopyWatch> watch;  // null: nothing is watched

    // How a Shadow reads memory of the device; of no use to others.
    void reads_device_by(ReadDevice read);
};

// Whether a variable is 1.
bool is_one(const char* variable) noexcept;

}  // namespace firsttouch::inject
