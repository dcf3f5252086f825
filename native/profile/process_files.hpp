// Reads the memory counters of many processes from /proc by descriptors that stay open.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace firsttouch {

struct ProcessCounters {
    std::int64_t key = 0;
    std::uint64_t resident_pages = 0;
    std::uint64_t minor_faults = 0, major_faults = 0;  // of all threads, those that ended too
    char state = '?';  // as in /proc/PID/stat; 'Z': ended and not waited for; '?': the process is gone
};

// /proc/PID/statm and /proc/PID/stat of processes. A descriptor belongs to a process, not to its pid: when the kernel
// uses the pid again, reads of the old descriptor fail.
class ProcessFiles {
  public:
    // root: the folder that has PID/statm, such as "/proc".
    explicit ProcessFiles(std::string root) : root_(std::move(root)) {}
    ~ProcessFiles();
    ProcessFiles(const ProcessFiles&) = delete;
    ProcessFiles& operator=(const ProcessFiles&) = delete;

    // Returns whether the process is there. key: names it in what read() returns.
    bool add(std::int64_t key, std::int64_t pid);
    void remove(std::int64_t key);
    // The counters of all processes, in the order in which they were added.
    std::vector<ProcessCounters> read() const;

  private:
    struct Files {
        std::int64_t key;
        int statm, stat;
    };
    std::string root_;
    std::vector<Files> files_;
};

}  // namespace firsttouch
