#include "profile/inject/core/arguments.hpp"

#include <cstring>
#include <optional>

#include "events/names.hpp"
#include "profile/inject/core/samples.hpp"

namespace firsttouch::inject {
namespace {

constexpr std::size_t most_combinations = 1 << 18, most_functions = 1 << 16;
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

// A handle may be used again after its module was unloaded; its name tells.
Arguments::Function& Arguments::function_of(const Kernels& kernels, Handle handle, const char* symbol) {
    if (functions_.size() >= most_functions) functions_.clear();
    Function& function = functions_[handle];
    if (symbol == nullptr ? !function.symbol.empty() : function.symbol == symbol) return function;
    const char* const name = symbol != nullptr ? symbol : kernels.name_of(handle);
    function.symbol = name == nullptr ? "" : name;
    function.name = texts_.number(function.symbol);
    function.parameters.clear();
    function.sizes_known = kernels.find_parameters(handle, function.parameters);
    tells_sizes_ |= function.sizes_known && !kernels.knows_of_none();
    function.is_known = function.sizes_known;
    if (function.sizes_known) return function;
    function.parameters.clear();
    if (const auto sizes = sizes_by_name(function.symbol)) {
        function.is_known = true;
        function.sizes_known = sizes->empty();
        for (const std::uint32_t bytes : *sizes) function.parameters.push_back({.bytes = bytes});
    } else {
        function.is_known = function.sizes_known = tells_sizes_;
    }
    return function;
}

void Arguments::add_words(const void* data, std::uint32_t bytes, std::uint32_t parameter, std::uint8_t access) {
    for (std::uint32_t offset = 0; offset + word_bytes <= bytes; offset += word_bytes) {
        std::uint64_t word;
        std::memcpy(&word, static_cast<const char*>(data) + offset, sizeof word);
        if (blocks_.may_be_named(word))
            words_.push_back(
                {.address = word, .parameter = parameter, .offset = offset, .access = access, .unused = {}});
    }
}

void Arguments::find_words(const Function& function, void* const* parameters, void* const* extra) {
    words_.clear();
    const auto each = [&](auto data_of) {
        for (std::uint32_t i = 0; i < function.parameters.size(); ++i)
            if (const Parameter& parameter = function.parameters[i]; parameter.bytes >= word_bytes)
                if (const void* const data = data_of(i, parameter); data != nullptr)
                    add_words(data, parameter.bytes, i, parameter.access);
    };
    if (parameters != nullptr) return each([&](std::uint32_t i, const Parameter&) { return parameters[i]; });
    const char* buffer = nullptr;
    std::size_t bytes = 0;
    const auto is_end = [](const void* word) {
        return word == nullptr || reinterpret_cast<std::uintptr_t>(word) == launch_end;
    };
    for (; extra != nullptr && !is_end(*extra); extra += 2) {
        if (reinterpret_cast<std::uintptr_t>(*extra) == launch_buffer)
            buffer = static_cast<const char*>(extra[1]);
        else if (reinterpret_cast<std::uintptr_t>(*extra) == launch_buffer_bytes)
            bytes = *static_cast<const std::size_t*>(extra[1]);
        else
            return;
    }
    if (buffer == nullptr || bytes > most_parameter_bytes) return;
    if (!function.sizes_known) return add_words(buffer, static_cast<std::uint32_t>(bytes), 0, 0);
    each([&](std::uint32_t, const Parameter& parameter) {
        return parameter.offset + parameter.bytes <= bytes ? buffer + parameter.offset : nullptr;
    });
}

std::uint32_t Arguments::number(const Kernels& kernels, Handle handle, const char* symbol, void* const* parameters,
                                void* const* extra) {
    const Function& function = function_of(kernels, handle, symbol);
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
