// The library that `firsttouch try` preloads into a program. It notes the arrays and blocks that the program allocates
// and what is copied between them; or it gives an array and its block the same memory, as a plan says, and leaves out
// the copies between them. These are the parts that its files share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <compare>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace firsttouch::tried {

using Address = std::uint64_t;
using Result = int;  // of the driver, 0 for success
using Stream = void*;

constexpr int no_result = 96;  // the exit status of a run that is none

enum class Mode { off, record, run };  // off: nothing is changed, nor noted
enum class Side { host, device };
enum class Strategy { none, managed, advise, prefetch, pinned, page_locked, system, managed_device };

// An allocation as it is known in every run: by its callers and thread (`key`), its size, and its number among those.
struct Known {
    std::uint64_t key = 0;
    std::uint32_t ordinal = 0;
    auto operator<=>(const Known&) const = default;
};

struct Pair {
    Known host, device;
    std::uint64_t host_bytes = 0, device_bytes = 0;
    bool is_copied_in = false, is_copied_back = false;
    Address base = 0;
    int users = 0;  // of the array and the block, those that are allocated
    bool has_had_host = false, has_had_device = false;

    std::uint64_t bytes() const { return host_bytes > device_bytes ? host_bytes : device_bytes; }
};
struct Foreseen {  // a copy that stays. host.key is 0 for memory that is not watched
    Known host, device;
    bool is_to_host = false;
    auto operator<=>(const Foreseen&) const = default;
};

struct Settings {
    Mode mode = Mode::off;
    Strategy strategy = Strategy::none;
    bool checks = false;  // the bytes of copies are noted
    bool has_shadow = false;
    int device = 0;
    bool is_hip = false;
    bool is_by_size = false;                           // memory of the driver is known by its size alone
    std::uint64_t least = 64 << 10, most_managed = 0;  // bytes; 0: what the device has free
    std::vector<Pair>* pairs = nullptr;
    std::map<Known, std::size_t>*hosts = nullptr, *devices = nullptr;  // the pair of each
    std::set<Foreseen>* foreseen = nullptr;
    std::map<Known, std::uint64_t>* arrays = nullptr;     // that are page-locked, and their bytes
    std::set<std::uint64_t>* sizes = nullptr;             // of all that the plan names: others are not looked for in it
    std::set<std::pair<Known, Known>>* within = nullptr;  // source and target of copies on the device
    std::set<Known>* filled = nullptr;                    // blocks that are filled
    std::map<std::uint64_t, Side>* queried = nullptr;     // by the key of who asks of what kind memory is

    bool is_unified() const {
        return mode == Mode::run && strategy != Strategy::none && strategy != Strategy::page_locked &&
               strategy != Strategy::managed_device;
    }
    bool notes() const { return mode == Mode::record || checks; }
};

// There before the first constructor runs, and never destroyed: programs allocate before main and free after it.
template <class Value>
union Forever {
    Value value;
    constexpr Forever() : value{} {}
    constexpr ~Forever() {}
};

extern constinit Forever<Settings> kept_settings;
// Changed under the lock of plans (`PlanLock`).
inline Settings& settings() { return kept_settings.value; }

// While a thread is in the library, what it allocates is not the program's.
extern constinit thread_local int inside __attribute__((tls_model("initial-exec")));
struct Inside {
    Inside() { ++inside; }
    ~Inside() { --inside; }
};
inline bool is_watching() { return inside == 0 && settings().mode != Mode::off; }

// Held while pairs change, also while the driver is called. Locks of the same thread nest.
class PlanLock {
  public:
    PlanLock();
    ~PlanLock();
    PlanLock(const PlanLock&) = delete;
    PlanLock& operator=(const PlanLock&) = delete;

  private:
    Inside inside_;
};

struct Counts {
    std::uint64_t left_out = 0, left_out_bytes = 0, made = 0, made_bytes = 0, joined_bytes = 0;
    std::uint64_t managed = 0, managed_peak = 0, device = 0, device_peak = 0, page_locked = 0, refused_hints = 0;
};
extern constinit Forever<Counts> kept_counts;
inline Counts& counts() { return kept_counts.value; }

// A line of the record, if there is one.
void note(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Whether the program has an array now that is memory of this library.
bool has_array_of_ours();

// Ends the process, since nothing that it did from here on would be a result: it does what the plan does not have.
[[noreturn]] void leave(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Ends the process, since this machine cannot give it the memory of the strategy.
[[noreturn]] void give_up(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace firsttouch::tried
