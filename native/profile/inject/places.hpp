// Texts and places in the program, which records refer to by number.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profile/inject/journal.hpp"

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

// Writes each chain of calls once, and returns its number.
class Places {
  public:
    Places(Journal& journal, Texts& texts) : journal_(journal), texts_(texts) {}

    // Where the calling thread came from, without frames of this library, the driver, CUPTI and a shared CUDA runtime.
    std::uint32_t of_this_call();
    // The place of an instruction.
    std::uint32_t of_instruction(std::uint64_t address);

  private:
    using Chain = std::vector<std::uintptr_t>;  // instructions, the innermost first
    struct ChainHash {
        std::size_t operator()(const Chain& chain) const;
    };
    struct Place {
        std::string file;
        std::uint64_t offset = 0;
    };

    static Place locate(std::uintptr_t instruction);
    std::uint32_t number(const Chain& chain, bool skip_vendor);

    Journal& journal_;
    Texts& texts_;
    std::mutex mutex_;
    std::unordered_map<Chain, std::uint32_t, ChainHash> numbers_;
    std::uint32_t written_ = 0;
};

}  // namespace firsttouch::inject
