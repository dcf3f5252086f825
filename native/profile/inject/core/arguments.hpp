// What the launches of a kernel name: the words of its parameters that are addresses.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "profile/inject/core/blocks.hpp"
#include "profile/inject/core/journal.hpp"
#include "profile/inject/core/places.hpp"

namespace firsttouch::inject {

using Handle = void*;  // of a kernel

struct Parameter {
    std::uint32_t offset = 0, bytes = 0;
    std::uint8_t access = 0;  // what the kernel does with what it points to, as a record has it
    auto operator<=>(const Parameter&) const = default;
};

// What a front knows of kernels.
class Kernels {
  public:
    // Null: unknown.
    virtual const char* name_of(Handle kernel) const = 0;
    // Offset and size of each parameter. False: unknown, and what is in `parameters` is of no use.
    virtual bool find_parameters(Handle kernel, std::vector<Parameter>& parameters) const = 0;
    // Whether it knows a kernel without parameters too. Otherwise one that it does not know of has none, if it knows of
    // others.
    virtual bool knows_of_none() const { return false; }

  protected:
    ~Kernels() = default;
};

// Of the `extra` of a launch, which ends with a null pointer or, in HIP, 3: what follows is the address of all
// parameters, or of their size.
inline constexpr std::uintptr_t launch_buffer = 1, launch_buffer_bytes = 2, launch_end = 3;
inline constexpr std::uint32_t most_parameters = 4096, most_parameter_bytes = 32 << 10;

// Writes each combination of a kernel and what it names once.
class Arguments {
  public:
    Arguments(Journal& journal, Texts& texts, const Blocks& blocks)
        : journal_(journal), texts_(texts), blocks_(blocks) {}

    // The number of what a launch names; 0: unknown. symbol: the kernel's name, or null; parameters, extra: as CUDA and
    // HIP take them.
    std::uint32_t number(const Kernels& kernels, Handle kernel, const char* symbol, void* const* parameters,
                         void* const* extra);

  private:
    struct Function {
        std::uint32_t name = 0;  // text
        bool is_known = false;   // how many parameters it has
        bool sizes_known = false;
        std::vector<Parameter> parameters;
        std::string symbol;
    };
    struct Combination {
        std::uint64_t first, second;  // hashes
        bool operator==(const Combination&) const = default;
    };
    struct CombinationHash {
        std::size_t operator()(const Combination& combination) const { return combination.first; }
    };

    Function& function_of(const Kernels& kernels, Handle handle, const char* symbol);
    void add_words(const void* data, std::uint32_t bytes, std::uint32_t parameter, std::uint8_t access);
    void find_words(const Function& function, void* const* parameters, void* const* extra);

    Journal& journal_;
    Texts& texts_;
    const Blocks& blocks_;
    std::unordered_map<Handle, Function> functions_;
    std::unordered_map<Combination, std::uint32_t, CombinationHash> numbers_;
    std::vector<Word> words_;   // of this launch
    bool tells_sizes_ = false;  // the front, of parameters
    bool is_full_told_ = false;
};

}  // namespace firsttouch::inject
