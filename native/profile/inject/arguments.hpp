// What the launches of a kernel name: the words of its parameters that are addresses.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "events/driver_calls.hpp"
#include "profile/inject/blocks.hpp"
#include "profile/inject/journal.hpp"
#include "profile/inject/places.hpp"

namespace firsttouch::inject {

// The functions of the loaded driver that are called, where it has them.
struct DriverFunctions {
    using Result = int;
    Result (*device_count)(int*) = nullptr;
    Result (*function_parameter)(cupti::Handle, std::size_t, std::size_t*, std::size_t*) = nullptr;
    Result (*kernel_parameter)(cupti::Handle, std::size_t, std::size_t*, std::size_t*) = nullptr;
    Result (*function_name)(const char**, cupti::Handle) = nullptr;
    Result (*kernel_name)(const char**, cupti::Handle) = nullptr;
    Result (*graph_nodes)(cupti::Handle, cupti::Handle*, std::size_t*) = nullptr;
    Result (*node_type)(cupti::Handle, int*) = nullptr;
    Result (*kernel_node)(cupti::Handle, cupti::NodeParameters*) = nullptr;
    Result (*copy_node)(cupti::Handle, cupti::Copy3D*) = nullptr;
    Result (*fill_node)(cupti::Handle, cupti::FillNodeParameters*) = nullptr;
    Result (*child_graph)(cupti::Handle, cupti::Handle*) = nullptr;
    Result (*allocation_node)(cupti::Handle, cupti::AllocationNodeParameters*) = nullptr;
    Result (*free_node)(cupti::Handle, cupti::Address*) = nullptr;
    Result (*is_capturing)(cupti::Handle stream, int* status) = nullptr;

    // Those of the driver that this process has loaded.
    static DriverFunctions of_this_process();
};

// Writes each combination of a kernel and what it names once.
class Arguments {
  public:
    Arguments(Journal& journal, Texts& texts, const Blocks& blocks)
        : journal_(journal), texts_(texts), blocks_(blocks) {}

    // The number of what a launch names; 0: unknown. symbol: the kernel's name, or null; parameters, extra: as the
    // driver takes them.
    std::uint32_t number(const DriverFunctions& driver, cupti::Handle function, const char* symbol,
                         void* const* parameters, void* const* extra);

  private:
    struct Parameter {
        std::uint32_t offset = 0, bytes = 0;
    };
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

    Function& function_of(const DriverFunctions& driver, cupti::Handle handle, const char* symbol);
    void add_words(const void* data, std::uint32_t bytes, std::uint32_t parameter);
    void find_words(const Function& function, void* const* parameters, void* const* extra);

    Journal& journal_;
    Texts& texts_;
    const Blocks& blocks_;
    std::unordered_map<cupti::Handle, Function> functions_;
    std::unordered_map<Combination, std::uint32_t, CombinationHash> numbers_;
    std::vector<Word> words_;    // of this launch
    bool driver_tells_ = false;  // sizes of parameters
    bool is_full_told_ = false;
};

}  // namespace firsttouch::inject
