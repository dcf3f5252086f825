// The lines of Python that threads of other processes are in, read from outside while they run (python_frames.hpp).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "profile/python_frames.hpp"

namespace firsttouch::python {

struct MemoryOfProcess {
    static constexpr bool is_direct = false;
    pid_t pid = 0;
    bool read(std::uint64_t address, void* into, std::size_t bytes) const;
};

// An interpreter in a process. What is read may have changed meanwhile: a chain that is not the same when it is read
// again is not told.
class PythonProcess {
  public:
    // None: the process runs no Python yet, or may not be read, or its version was not tried; `why` is set if it may
    // not be read or was not tried.
    static std::optional<PythonProcess> find(pid_t pid, std::string& why);

    int minor() const { return reader_.layout().minor; }
    // The frames of a thread; how many.
    std::size_t frames(std::uint32_t thread, Frame* into, std::size_t most);
    const Reader<MemoryOfProcess>& reader() const { return reader_; }

  private:
    PythonProcess(Reader<MemoryOfProcess> reader, std::uint64_t runtime) : reader_(reader), runtime_(runtime) {}

    Reader<MemoryOfProcess> reader_;
    std::uint64_t runtime_;
    std::unordered_map<std::uint32_t, std::uint64_t> states_;  // of threads
};

// Numbers the user's lines of threads of many processes.
class PythonLog {
  public:
    // Where a thread is now. line: the number of the user's innermost line, from 1 on; 0: it is not known. key: tells
    // the whole chain with its instructions from others.
    struct Now {
        std::uint32_t line = 0;
        std::uint64_t key = 0;
    };
    Now look(std::uint32_t pid, std::uint32_t thread, std::uint64_t ns);
    // The process executed another program, or ended.
    void forget(std::uint32_t pid) { processes_.erase(pid); }
    // Whether any process that was looked at runs Python.
    bool has_python() const { return has_python_; }
    // The lines that were numbered since the last call, in the order of their numbers.
    std::vector<CodePlace> take() { return std::exchange(new_, {}); }
    // Why lines of a process are not read; '' if there is no reason to name.
    const std::string& why_not() const { return why_not_; }

  private:
    struct Process {
        std::optional<PythonProcess> python;
        std::uint64_t looked = 0, wait = 0;  // when it was looked for, and for how long not again
    };
    std::uint32_t number(const CodePlace& place);

    std::unordered_map<std::uint32_t, Process> processes_;
    std::unordered_map<std::uint64_t, std::uint32_t> known_;  // numbers by key and process
    std::map<std::pair<std::string, int>, std::map<std::string, std::uint32_t>> numbers_;
    std::vector<CodePlace> new_;
    std::uint32_t last_ = 0;
    bool has_python_ = false;
    std::string why_not_;
};

}  // namespace firsttouch::python
