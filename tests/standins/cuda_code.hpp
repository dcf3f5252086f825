// The sizes of the parameters of the kernels in a program that nvcc compiled, as the driver reads them.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "cuda_driver.hpp"

namespace played {

// The kernels of an object of the device: each has a section .nv.info.NAME of attributes.
inline void add_parameters(const std::uint8_t* object, std::map<std::string, std::vector<Parameter>>& kernels) {
    constexpr std::uint8_t has_size = 4, parameter = 0x17;  // the format of an attribute, and the attribute
    const auto& header = *reinterpret_cast<const Elf64_Ehdr*>(object);
    const auto* const sections = reinterpret_cast<const Elf64_Shdr*>(object + header.e_shoff);
    const std::string prefix = ".nv.info.";
    for (int i = 0; i < header.e_shnum; ++i) {
        const std::string name =
            reinterpret_cast<const char*>(object + sections[header.e_shstrndx].sh_offset + sections[i].sh_name);
        if (name.rfind(prefix, 0) != 0) continue;
        std::vector<Parameter>& parameters = kernels[name.substr(prefix.size())];
        const std::uint8_t* next = object + sections[i].sh_offset;
        const std::uint8_t* const end = next + sections[i].sh_size;
        while (next + 4 <= end) {
            std::uint16_t bytes = 0;
            std::memcpy(&bytes, next + 2, sizeof bytes);
            if (next[0] == has_size && next[1] == parameter && bytes >= 12) {
                struct {
                    std::uint32_t index;
                    std::uint16_t ordinal, offset;
                    std::uint32_t flags;
                } value;
                std::memcpy(&value, next + 4, sizeof value);
                if (parameters.size() <= value.ordinal) parameters.resize(value.ordinal + 1);
                parameters[value.ordinal] = {value.offset, value.flags >> 18};
            }
            next += 4 + (next[0] == has_size ? bytes : 0);
        }
    }
}

// code: what nvcc embeds, which is a list of objects and PTX, not compressed (nvcc --no-compress).
inline std::map<std::string, std::vector<Parameter>> parameters_of(const void* code) {
    struct List {
        std::uint32_t magic;
        std::uint16_t version, header_bytes;
        std::uint64_t bytes;
    };
    struct Entry {
        std::uint16_t kind, version;
        std::uint32_t header_bytes;
        std::uint64_t bytes;
    };
    std::map<std::string, std::vector<Parameter>> kernels;
    const auto* next = static_cast<const std::uint8_t*>(code);
    const auto& list = *reinterpret_cast<const List*>(next);
    if (list.magic != 0xBA55ED50) return kernels;
    next += list.header_bytes;
    for (const std::uint8_t* const end = next + list.bytes; next < end;) {
        const auto& entry = *reinterpret_cast<const Entry*>(next);
        const std::uint8_t* const body = next + entry.header_bytes;
        if (entry.kind == 2 && std::memcmp(body, ELFMAG, SELFMAG) == 0) add_parameters(body, kernels);
        next = body + entry.bytes;
    }
    return kernels;
}

}  // namespace played
