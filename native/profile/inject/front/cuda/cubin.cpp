#include "profile/inject/front/cuda/cubin.hpp"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace firsttouch::inject {
namespace {

constexpr std::string_view code_prefix = ".text.";
constexpr std::size_t instruction_bytes = 16;
// The operations UTMALDG, UTMASTG and UTMAREDG, in the lowest 12 bits of an instruction. The same for the compute
// capabilities 9.0, 10.0 and 12.0, as ptxas of CUDA 13.0 writes them.
constexpr std::uint16_t operation_bits = 0xFFF, tensor_copies[] = {0x5B4, 0x3B5, 0x3B6};

template <class Type>
bool read(std::string_view content, std::uint64_t at, Type& value) {
    if (at > content.size() || content.size() - at < sizeof value) return false;
    std::memcpy(&value, content.data() + at, sizeof value);
    return true;
}

std::string_view part(std::string_view content, std::uint64_t at, std::uint64_t bytes) {
    return at > content.size() || content.size() - at < bytes ? std::string_view() : content.substr(at, bytes);
}

bool has_tensor_copy(std::string_view code) {
    for (std::size_t at = 0; at + instruction_bytes <= code.size(); at += instruction_bytes) {
        std::uint16_t word = 0;
        read(code, at, word);
        if (std::ranges::find(tensor_copies, word & operation_bits) != std::end(tensor_copies)) return true;
    }
    return false;
}

}  // namespace

std::vector<std::string> functions_with_tensor_copies(std::string_view cubin) {
    std::vector<std::string> names;
    Elf64_Ehdr file{};
    Elf64_Shdr of_names{}, section{};
    if (!cubin.starts_with(ELFMAG) || !read(cubin, 0, file) || file.e_shentsize < sizeof section) return names;
    const auto place = [&](std::size_t i) { return file.e_shoff + i * file.e_shentsize; };
    if (!read(cubin, place(file.e_shstrndx), of_names)) return names;
    const std::string_view texts = part(cubin, of_names.sh_offset, of_names.sh_size);
    for (std::size_t i = 0; i < file.e_shnum && read(cubin, place(i), section); ++i) {
        if (section.sh_name >= texts.size() || section.sh_type == SHT_NOBITS) continue;
        const std::string_view rest = texts.substr(section.sh_name), name = rest.substr(0, rest.find('\0'));
        if (name.starts_with(code_prefix) && has_tensor_copy(part(cubin, section.sh_offset, section.sh_size)))
            names.emplace_back(name.substr(code_prefix.size()));
    }
    return names;
}

}  // namespace firsttouch::inject
