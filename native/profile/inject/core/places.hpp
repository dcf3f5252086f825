// Texts and places in the program, which records refer to by number.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profile/inject/core/journal.hpp"
#include "profile/inject/core/python_lines.hpp"

namespace firsttouch::inject {

// Writes each text once, and returns its number. 0: no text, or there are too many.
class Texts {
  public:
    explicit Texts(Journal& journal) : journal_(journal) {}
    std::uint32_t number(std::string_view text);

  private:
    struct TextHash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
    };

    Journal& journal_;
    std::mutex mutex_;
    std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>> numbers_;
};

// A call by the program. stack: the stack pointer of the first frame that is not left out.
struct CallPlace {
    std::uint32_t number = 0;
    std::uint64_t stack = 0;
};

// Writes each chain of calls once, and returns its number. A chain is that of native frames up to the interpreter of
// Python, and then the frames of Python.
class Places {
  public:
    Places(Journal& journal, Texts& texts) : journal_(journal), texts_(texts) {}

    // Where the calling thread came from, without frames of this library, the driver, CUPTI and a shared CUDA runtime.
    CallPlace of_this_call();
    // The place of an instruction.
    std::uint32_t of_instruction(std::uint64_t address);
    // The same, with the callers whose return addresses are among the words at the top of the stack.
    std::uint32_t of_fault(std::uint64_t address, std::span<const std::uint64_t> stack);

  private:
    using Chain = std::vector<std::uintptr_t>;  // instructions, the innermost first
    struct ChainHash {
        std::size_t operator()(const Chain& chain) const;
    };
    struct Place {
        std::string file;
        std::uint64_t offset = 0;
    };
    // A chain of calls that was unwound, and where on the stack its return addresses are. As long as they are there,
    // the chain is the same: the innermost frame has its place, and each return address implies where the next frame
    // is.
    struct Unwound {
        std::vector<std::pair<const std::uintptr_t*, std::uintptr_t>> returns;
        CallPlace place;
        std::uint64_t python = 0;  // the key of its frames of Python
    };

    struct Numbered {
        std::uint32_t number = 0;
        std::uint32_t skipped = 0;  // innermost frames that were left out
    };

    static Place locate(std::uintptr_t instruction);
    // stacks: the stack pointer of each frame, or null.
    Numbered number(const Chain& chain, bool skip_vendor, const std::uintptr_t* stacks, const PythonChain* python);
    // The frames of a chain, of which those that the result counts are left out.
    Numbered frames_of(const Chain& chain, bool skip_vendor, const std::uintptr_t* stacks, const PythonChain* python,
                       std::vector<SiteFrame>& frames);
    static std::uint64_t unwound_key(const void* frame, std::uint64_t python) {
        return reinterpret_cast<std::uintptr_t>(frame) ^ python;
    }
    const CallPlace* unwound_before(const void* frame, std::uint64_t python) const;
    void remember(const void* frame, const Chain& chain, const std::uintptr_t* stacks, CallPlace place,
                  std::uint64_t python);

    Journal& journal_;
    Texts& texts_;
    std::mutex mutex_;
    std::unordered_map<Chain, Numbered, ChainHash> numbers_;  // with the key of the frames of Python at the end
    std::unordered_map<std::string, std::uint32_t> lines_;    // sites with frames of Python by what is written of them
    std::unordered_map<std::uint64_t, std::vector<Unwound>> unwound_;  // by the innermost frame and the key of Python's
    std::size_t unwound_count_ = 0;
    std::uint32_t written_ = 0;
};

}  // namespace firsttouch::inject
