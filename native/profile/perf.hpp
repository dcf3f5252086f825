// What the kernel's perf events tell of a tree of processes, without root: which processes start, execute a program and
// end, what they map, and every N-th page fault in user mode. Source: perf_event_open(2).
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "profile/python_process.hpp"

namespace firsttouch {

// Times are nanoseconds of CLOCK_MONOTONIC. Process and thread ids are those of the caller's PID namespace.
struct ThreadStart {
    std::uint64_t ns = 0;
    std::uint32_t pid = 0, parent = 0, tid = 0;
    bool is_process() const { return pid != parent; }  // a thread's parent is its own process
};
struct ThreadEnd {
    std::uint64_t ns = 0;
    std::uint32_t pid = 0, tid = 0;
};
struct NameChange {
    std::uint64_t ns = 0;
    std::uint32_t pid = 0, tid = 0;
    std::string name;  // at most 15 bytes
    bool executed = false;
};
struct NewMapping {
    std::uint64_t ns = 0;
    std::uint32_t pid = 0;
    std::uint64_t address = 0, length = 0, offset = 0;
    std::string file;  // or "//anon", "[heap]", "[stack]", "[vdso]"
};
struct FaultSample {
    std::uint64_t ns = 0;
    std::uint32_t pid = 0, tid = 0;
    std::uint64_t instruction = 0, address = 0;
    std::array<std::uint64_t, 8> stack{};  // the top of the thread's stack; zeros where it is not told
    std::uint32_t line = 0;  // of Python, the number of the user's innermost line; 0: unknown, or no Python
    bool is_sure = false;    // the thread was in the same line before and after
};

// Decoded records. Each list is in the order of time.
struct PerfRecords {
    std::vector<ThreadStart> starts;
    std::vector<NameChange> names;
    std::vector<ThreadEnd> ends;
    std::vector<NewMapping> mappings;
    std::vector<FaultSample> samples;
    std::uint64_t lost = 0;  // records of any kind that a buffer had no room for

    void sort_by_time();
    bool is_empty() const {
        return starts.empty() && names.empty() && ends.empty() && mappings.empty() && samples.empty();
    }
    // Removes the records up to a time from these, and returns them. All of `lost` is returned.
    PerfRecords take_until(std::uint64_t ns);
};

// Appends the records between two positions of a ring buffer to `into` and returns the position behind the last one.
// The ring's size is a power of two; the positions only grow. Records of unknown types are skipped. Ends at a record
// whose size is impossible, and returns `head` then.
std::uint64_t decode_ring(std::span<const std::byte> ring, std::uint64_t tail, std::uint64_t head, PerfRecords& into);

// The processors on which events can be opened. The list of the system is not asked: a container's may number as many
// as there are from 0 on, or be that of another machine. try_one: returns why an event cannot be opened on a processor:
// 0, ENODEV where it is off, EINVAL beyond the last that the kernel knows. Throws std::system_error for other reasons
// and where there is none.
std::vector<int> find_processors(const std::function<int(int)>& try_one);

// A file descriptor that is closed by its owner.
class Descriptor {
  public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    ~Descriptor();
    int number() const { return number_; }

  private:
    int number_;
};

// Perf events on all threads of a tree of processes and on those that they start later.
class PerfEvents {
  public:
    // every: one of how many page faults in user mode is sampled; 0: none, and no mappings are told either.
    // enable_on_exec: `pid` is a child that is about to execute a program, and nothing is told before. Otherwise the
    // events begin now, in all threads of the process and of its descendants.
    // Throws std::system_error whose what() begins with the call that failed, "perf_event_open" or "mmap".
    PerfEvents(pid_t pid, std::uint32_t every, bool enable_on_exec);
    PerfEvents(const PerfEvents&) = delete;
    PerfEvents& operator=(const PerfEvents&) = delete;
    ~PerfEvents();

    struct Batch {
        PerfRecords records;                   // of processes only: starts and names of threads are left out
        std::vector<ThreadEnd> processes;      // ends of processes, with the last of their threads
        std::vector<python::CodePlace> lines;  // of Python, that samples have for the first time, in order of numbers
    };
    // Returns what was told since the last call, up to a millisecond ago, because buffers of several processors must be
    // merged. rest: up to now.
    Batch read(bool rest = false);
    // Whether `read` has something to tell, now or in a millisecond. Any thread may ask.
    bool is_waiting() const;

    // Returns how many page faults in user mode there were so far. Throws std::system_error.
    std::uint64_t counted() const;

    // Why lines of Python are not read in some process; '' if there is no reason to name.
    std::string why_no_lines() const {
        const std::scoped_lock lock(mutex_);
        return python_.why_not();
    }

    // The processes that were there at the begin.
    const std::vector<std::uint32_t>& attached() const { return attached_; }

  private:
    struct Ring;
    // Where a thread was in Python when it was last looked at.
    struct Seen {
        std::uint64_t ns = 0;
        python::PythonLog::Now now;
    };

    void open_thread(pid_t thread);
    void map_rings(const std::vector<int>& owners);
    void open_all(pid_t pid);
    void drain();
    void watch();
    void add_lines(std::size_t first);
    std::vector<ThreadEnd> process_ends(const PerfRecords& records);

    std::uint32_t every_;
    bool enable_on_exec_;
    std::vector<int> processors_;
    std::vector<Ring> rings_;  // by place in processors_
    std::vector<Descriptor> descriptors_;
    std::vector<int> counters_;  // those of descriptors_ that count faults
    std::vector<std::uint32_t> attached_;
    mutable std::mutex mutex_;  // of what follows
    PerfRecords pending_;
    python::PythonLog python_;
    std::unordered_map<std::uint32_t, Seen> seen_;  // by thread
    std::atomic<bool> is_pending_ = false;
    std::unordered_map<std::uint32_t, std::set<std::uint32_t>> threads_;  // living threads of each process
    std::atomic<bool> is_ending_ = false;
    std::thread watcher_;
};

}  // namespace firsttouch
