#include "device/prelude.hpp"

namespace firsttouch {

Source kernel_source(const std::string& name, std::vector<std::pair<std::string, std::string>> defines) {
    return {name, kernel_file(name + ".c"), std::move(defines)};
}

std::string translation_unit(const Source& source, const std::string& language) {
    std::string text;
    for (const auto& [name, value] : source.defines) text += "#define " + name + " " + value + "\n";
    return text + kernel_file("prelude." + language + ".h") + kernel_file("common.h") + source.text;
}

}  // namespace firsttouch
