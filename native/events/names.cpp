#include "events/names.hpp"

#include <cxxabi.h>

#include <charconv>
#include <cstdlib>
#include <memory>

namespace firsttouch {

std::string_view without_file(std::string_view name) {
    constexpr std::string_view prefix = "__nv_static_";
    if (!name.starts_with(prefix)) return name;
    const std::string_view rest = name.substr(prefix.size());
    std::size_t letters = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), letters);
    if (error != std::errc()) return name;
    const auto digits = static_cast<std::size_t>(end - rest.data());
    if (letters >= rest.size() || digits + letters + 2 >= rest.size()) return name;
    return rest[digits] == '_' && rest[digits + letters + 1] == '_' ? rest.substr(digits + letters + 2) : name;
}

std::optional<std::string> demangled(std::string_view name) {
    const std::string mangled(without_file(name));
    if (!mangled.starts_with("_Z")) return std::nullopt;
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(
        abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
    if (text == nullptr) return std::nullopt;
    return text.get();
}

}  // namespace firsttouch
