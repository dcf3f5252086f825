// The lines of Python that the calling thread is in, if its process runs Python (python_frames.hpp).
//
// A thread reads its own frames while it is inside a call: nothing else changes or frees them, and frames and code that
// it runs are alive. So memory is read as it is; a guard (process_vm_readv of this process) would take 20 times as
// long, and containers refuse it. What the thread does not own is not read: nothing while the interpreter ends.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profile/python_frames.hpp"

namespace firsttouch::inject {

struct OwnMemory {
    static constexpr bool is_direct = true;
    __attribute__((no_sanitize("address", "thread"))) bool read(std::uint64_t address, void* into,
                                                                std::size_t bytes) const noexcept {
        std::memcpy(into, reinterpret_cast<const void*>(address), bytes);
        return true;
    }
};

// A chain of frames, the innermost first. key: tells it apart from others; 0: there are no frames.
struct PythonChain {
    static constexpr std::size_t most = 256;  // tracers of JAX and of PyTorch nest deeply
    std::array<python::Frame, most> frames;
    std::size_t count = 0;
    std::uint64_t key = 0;
};

class PythonLines {
  public:
    // The interpreter of this process; it is looked for until one is found that runs.
    static PythonLines& instance();

    void read_chain(PythonChain& chain) noexcept;
    // The frames from the user's innermost one on. Empty where nothing can be said.
    std::vector<python::CodePlace> places(const PythonChain& chain, std::size_t most) const;
    // Whether code at an address in a file is the interpreter's. file: as the loader names it, '' for the program.
    bool is_interpreter(std::string_view file, std::uintptr_t instruction) const;

    // For tests. checked: lines were compared with the public functions'.
    bool works() const { return reader_.load() != nullptr && !is_off_; }
    bool is_checked() const { return is_checked_; }
    int minor() const { return minor_; }

  private:
    using Reader = python::Reader<OwnMemory>;
    using Object = void*;

    PythonLines() = default;
    void find() noexcept;
    bool take(void* library, const char* path);
    void check(const python::Frame& innermost) noexcept;

    std::atomic<const Reader*> reader_{nullptr};
    std::atomic<bool> is_off_{false}, is_checked_{false}, is_checking_{false};
    std::atomic<std::uint32_t> calls_{0};
    int minor_ = 0;
    std::string file_;         // of the interpreter, as the loader names it
    bool is_program_ = false;  // it is the program's own file, in which its own code may be too
    // Functions of the interpreter.
    Object (*this_thread_)() = nullptr;
    Object (*current_thread_)() = nullptr;
    int (*is_finalizing_)() = nullptr;
    Object (*frame_)() = nullptr;
    int (*line_of_)(Object) = nullptr;
    Object (*code_of_)(Object) = nullptr;
    void (*release_)(Object) = nullptr;
    void (*clear_error_)() = nullptr;
    int (*disable_gc_)() = nullptr;
    int (*enable_gc_)() = nullptr;
};

}  // namespace firsttouch::inject
