// Reads the memory counters of many processes from /proc at every tick, in a thread of its own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace firsttouch {

struct ProcessCounters {
    std::uint64_t resident_pages = 0;
    std::uint64_t shared_pages = 0;  // of these: of files, and of memory that several processes may map
    std::uint64_t minor_faults = 0, major_faults = 0;  // of all threads, those that ended too
    bool operator==(const ProcessCounters&) const = default;
};

// A reading that differs from the one before.
struct ProcessReading {
    double time = 0;  // on the clock of now()
    std::int64_t key = 0;
    ProcessCounters counters;
    std::uint64_t stack_start = 0;  // the same in a process and its forks until they execute a program; 0: not stated
    char state = '?';               // as in /proc/PID/stat; 'Z': ended and not waited for; '?': the process is gone
};

// The sums over all processes, where they differ from those before. Faults of processes that ended are included.
struct TotalReading {
    double time = 0;
    ProcessCounters counters;
    std::uint64_t processes = 0;
    std::uint64_t least_pages = 0;  // resident at least, if each page counts once
};

struct Readings {
    std::vector<ProcessReading> processes;
    std::vector<TotalReading> totals;
    std::uint64_t ticks = 0, late = 0;  // since the start; late: those that came more than an interval late
};

// Samples /proc/PID/statm and /proc/PID/stat by descriptors that stay open. A descriptor belongs to a process, not to
// its pid: when the kernel uses the pid again, reads of the old descriptor fail.
class ProcessSampler {
  public:
    // root: the folder that has PID/statm, such as "/proc".
    explicit ProcessSampler(std::string root) : root_(std::move(root)) {}
    ~ProcessSampler();
    ProcessSampler(const ProcessSampler&) = delete;
    ProcessSampler& operator=(const ProcessSampler&) = delete;

    // Returns whether the process is there, and reads it for the first time. key: names it in readings.
    bool add(std::int64_t key, std::int64_t pid);
    void remove(std::int64_t key);
    // Begins to read all processes each `interval` seconds. hurry: is called after each tick by the sampler's thread;
    // if it returns true, the signal is sent once to the thread that called start, which blocks it, so that it takes
    // what there is at once; 0: none is.
    void start(double interval, std::function<bool()> hurry, int signal);
    void stop();
    // One tick, where no thread was started.
    void tick();
    // What was read since the last call.
    Readings take();

  private:
    struct Files {
        std::int64_t key;
        int statm, stat;
        ProcessReading last;
    };
    void read_all(double time);
    void add_up(double time);
    std::uint64_t least_pages() const;
    void run(std::chrono::duration<double> interval);

    const std::string root_;
    std::mutex mutex_;  // of all below
    std::vector<Files> files_;
    ProcessCounters ended_;  // the faults of processes that were removed
    TotalReading last_total_;
    Readings readings_;
    std::function<bool()> hurry_;
    int signal_ = 0;
    pid_t caller_ = 0;
    std::atomic<bool> stopping_ = false, is_asked_ = false;  // is_asked_: the signal was sent since the last take
    std::thread thread_;
};

}  // namespace firsttouch
