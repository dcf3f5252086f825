#include "profile/inject/arguments.hpp"

#include <dlfcn.h>

#include <cstring>
#include <optional>

#include "events/names.hpp"
#include "profile/inject/samples.hpp"

namespace firsttouch::inject {
namespace {

constexpr std::size_t most_combinations = 1 << 18, most_functions = 1 << 16, most_parameters = 4096,
                      most_parameter_bytes = 32 << 10;
constexpr std::uint32_t word_bytes = 8;

// The sizes of parameters where the driver does not tell them: what the mangled name says, 0 of what is no pointer.
// Nothing of a name that is not mangled.
std::optional<std::vector<std::uint32_t>> sizes_by_name(const std::string& symbol) {
    const std::optional<std::string> text = demangled(symbol);
    if (!text) return std::nullopt;
    const std::string_view name = *text;
    // The parameters are in the last parentheses that are in nothing else.
    std::size_t begin = std::string_view::npos, end = begin;
    int depth = 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (name[i] == '(' && depth++ == 0) begin = i + 1;
        if (name[i] == ')' && --depth == 0) end = i;
        if (name[i] == '<') ++depth;
        if (name[i] == '>') --depth;
    }
    std::vector<std::uint32_t> sizes;
    if (end == std::string_view::npos || begin > end) return std::nullopt;
    if (begin == end) return sizes;
    std::size_t start = begin;
    depth = 0;
    for (std::size_t i = begin; i <= end; ++i) {
        if (name[i] == '(' || name[i] == '<') ++depth;
        const bool ends = i == end || (name[i] == ',' && depth == 0);
        if ((name[i] == ')' && i != end) || name[i] == '>') --depth;
        if (!ends) continue;
        sizes.push_back(i > start && (name[i - 1] == '*' || name[i - 1] == '&') ? word_bytes : 0);
        start = i + 1;
    }
    return sizes;
}

}  // namespace

DriverFunctions DriverFunctions::of_this_process() {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) library = RTLD_DEFAULT;
    DriverFunctions functions;
    const auto load = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    load(functions.device_count, "cuDeviceGetCount");
    load(functions.function_parameter, "cuFuncGetParamInfo");
    load(functions.kernel_parameter, "cuKernelGetParamInfo");
    load(functions.function_name, "cuFuncGetName");
    load(functions.kernel_name, "cuKernelGetName");
    load(functions.graph_nodes, "cuGraphGetNodes");
    load(functions.node_type, "cuGraphNodeGetType");
    load(functions.kernel_node, "cuGraphKernelNodeGetParams_v2");
    load(functions.copy_node, "cuGraphMemcpyNodeGetParams");
    load(functions.fill_node, "cuGraphMemsetNodeGetParams");
    load(functions.child_graph, "cuGraphChildGraphNodeGetGraph");
    load(functions.allocation_node, "cuGraphMemAllocNodeGetParams");
    load(functions.free_node, "cuGraphMemFreeNodeGetParams");
    load(functions.is_capturing, "cuStreamIsCapturing");
    return functions;
}

// A handle may be used again after its module was unloaded; its name tells.
Arguments::Function& Arguments::function_of(const DriverFunctions& driver, cupti::Handle handle, const char* symbol) {
    if (functions_.size() >= most_functions) functions_.clear();
    Function& function = functions_[handle];
    if (symbol == nullptr ? !function.symbol.empty() : function.symbol == symbol) return function;
    // Whether the driver told of a parameter. It refuses a kernel where it expects a function, as it refuses what is
    // behind the last parameter, so that a kernel without parameters is one that neither question tells of.
    const auto ask = [&](auto query) {
        function.parameters.clear();
        if (query == nullptr) return false;
        for (std::size_t i = 0, offset = 0, bytes = 0; i < most_parameters; ++i) {
            if (query(handle, i, &offset, &bytes) != 0) return i > 0;
            if (offset + bytes > most_parameter_bytes) return false;
            function.parameters.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(bytes)});
        }
        return false;
    };
    const char* name = symbol;
    if (name == nullptr && (driver.function_name == nullptr || driver.function_name(&name, handle) != 0))
        if (driver.kernel_name == nullptr || driver.kernel_name(&name, handle) != 0) name = nullptr;
    function.symbol = name == nullptr ? "" : name;
    function.name = texts_.number(function.symbol);
    function.sizes_known = ask(driver.function_parameter) || ask(driver.kernel_parameter);
    driver_tells_ |= function.sizes_known;
    function.is_known = function.sizes_known;
    if (function.sizes_known) return function;
    function.parameters.clear();
    if (const auto sizes = sizes_by_name(function.symbol)) {
        function.is_known = true;
        function.sizes_known = sizes->empty();
        for (const std::uint32_t bytes : *sizes) function.parameters.push_back({0, bytes});
    } else {
        function.is_known = function.sizes_known = driver_tells_;
    }
    return function;
}

void Arguments::add_words(const void* data, std::uint32_t bytes, std::uint32_t parameter) {
    for (std::uint32_t offset = 0; offset + word_bytes <= bytes; offset += word_bytes) {
        std::uint64_t word;
        std::memcpy(&word, static_cast<const char*>(data) + offset, sizeof word);
        if (blocks_.may_be_named(word)) words_.push_back({.address = word, .parameter = parameter, .offset = offset});
    }
}

void Arguments::find_words(const Function& function, void* const* parameters, void* const* extra) {
    words_.clear();
    const auto each = [&](auto data_of) {
        for (std::uint32_t i = 0; i < function.parameters.size(); ++i)
            if (const Parameter& parameter = function.parameters[i]; parameter.bytes >= word_bytes)
                if (const void* const data = data_of(i, parameter); data != nullptr)
                    add_words(data, parameter.bytes, i);
    };
    if (parameters != nullptr) return each([&](std::uint32_t i, const Parameter&) { return parameters[i]; });
    const char* buffer = nullptr;
    std::size_t bytes = 0;
    for (; extra != nullptr && *extra != nullptr; extra += 2) {
        if (reinterpret_cast<std::uintptr_t>(*extra) == cupti::launch_buffer)
            buffer = static_cast<const char*>(extra[1]);
        else if (reinterpret_cast<std::uintptr_t>(*extra) == cupti::launch_buffer_bytes)
            bytes = *static_cast<const std::size_t*>(extra[1]);
        else
            return;
    }
    if (buffer == nullptr || bytes > most_parameter_bytes) return;
    if (!function.sizes_known) return add_words(buffer, static_cast<std::uint32_t>(bytes), 0);
    each([&](std::uint32_t, const Parameter& parameter) {
        return parameter.offset + parameter.bytes <= bytes ? buffer + parameter.offset : nullptr;
    });
}

std::uint32_t Arguments::number(const DriverFunctions& driver, cupti::Handle handle, const char* symbol,
                                void* const* parameters, void* const* extra) {
    const Function& function = function_of(driver, handle, symbol);
    if (!function.is_known || (parameters == nullptr && extra == nullptr && !function.parameters.empty())) return 0;
    find_words(function, parameters, extra);
    const std::size_t bytes = words_.size() * sizeof(Word);
    const auto seed = static_cast<std::uint64_t>(function.name) << 1 | (function.sizes_known ? 1 : 0);
    const Combination combination{hash_bytes(words_.data(), bytes, seed), hash_bytes(words_.data(), bytes, ~seed)};
    if (const auto known = numbers_.find(combination); known != numbers_.end()) return known->second;
    if (numbers_.size() >= most_combinations) {
        if (!is_full_told_)
            notice(Layer::trace, "launches name other memory each time: what they name after 262,144 combinations is "
                                 "not recorded");
        is_full_told_ = true;
        return 0;
    }
    const ArgumentsRecord record{.number = static_cast<std::uint32_t>(numbers_.size() + 1),
                                 .kernel = function.name,
                                 .words = static_cast<std::uint32_t>(words_.size()),
                                 .sizes_known = static_cast<std::uint8_t>(function.sizes_known ? 1 : 0),
                                 .unused = {}};
    numbers_.emplace(combination, record.number);
    journal_.append(Kind::arguments,
                    {Journal::bytes_of(record), {reinterpret_cast<const char*>(words_.data()), bytes}});
    return record.number;
}

}  // namespace firsttouch::inject
