#include "profile/inject/front/hip/code_object.hpp"

#include <elf.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>

namespace firsttouch::hip_front {
namespace {

constexpr std::string_view bundle_magic = "__CLANG_OFFLOAD_BUNDLE__";
constexpr std::uint64_t most_bundled = 256;
constexpr int most_depth = 32;
constexpr std::uint32_t amd_metadata = 32;  // NT_AMDGPU_METADATA
constexpr std::string_view amd_owner{"AMDGPU", 7};

std::string_view part(std::string_view content, std::uint64_t at, std::uint64_t bytes) {
    return at > content.size() || content.size() - at < bytes ? std::string_view() : content.substr(at, bytes);
}
template <class Type>
bool read(std::string_view content, std::uint64_t at, Type& value) {
    const std::string_view bytes = part(content, at, sizeof value);
    if (bytes.empty()) return false;
    std::memcpy(&value, bytes.data(), sizeof value);
    return true;
}

// As much of msgpack as the notes use. After what it does not understand it is at its end.
class Pack {
  public:
    explicit Pack(std::string_view bytes) : rest_(bytes) {}

    bool is_at_end() const { return rest_.empty(); }
    // How many pairs follow.
    std::optional<std::uint64_t> map() { return count_of(0x80, 0xDE); }
    std::optional<std::uint64_t> array() { return count_of(0x90, 0xDC); }

    std::optional<std::string_view> text() {
        const unsigned first = peek();
        if (first >= 0xA0 && first <= 0xBF) return take(1, first & 0x1F);
        if (first >= 0xD9 && first <= 0xDB) return take_counted(first - 0xD9);
        return std::nullopt;
    }
    // Negative ones are of no use here.
    std::optional<std::uint64_t> integer() {
        const unsigned first = peek();
        if (first <= 0x7F) return take(1, 0), first;
        if (first >= 0xCC && first <= 0xCF) {
            take(1, 0);
            return number(std::size_t(1) << (first - 0xCC));
        }
        return std::nullopt;
    }
    void skip(int depth = 0) {
        if (depth > most_depth) return end();
        if (integer() || text()) return;
        const auto pairs = map(), values = pairs ? std::nullopt : array();
        if (pairs || values) {
            for (std::uint64_t i = 0, count = pairs ? 2 * *pairs : *values; i < count && !rest_.empty(); ++i)
                skip(depth + 1);
            return;
        }
        const unsigned first = peek();
        if (first >= 0xC4 && first <= 0xC6) return void(take_counted(first - 0xC4));  // bytes
        if (first >= 0xC7 && first <= 0xC9) {                                         // bytes of a type
            take(1, 0);
            const std::uint64_t bytes = number(std::size_t(1) << (first - 0xC7));
            return void(take(1, bytes));
        }
        if (first >= 0xD0 && first <= 0xD3) return void(take(1, std::uint64_t(1) << (first - 0xD0)));
        if (first >= 0xD4 && first <= 0xD8) return void(take(2, std::uint64_t(1) << (first - 0xD4)));
        if (first == 0xCA || first == 0xCB) return void(take(1, first == 0xCA ? 4 : 8));
        if (first == 0xC0 || first == 0xC2 || first == 0xC3 || first >= 0xE0) return void(take(1, 0));
        end();
    }

  private:
    static constexpr unsigned nothing = 0x100;
    unsigned peek() const { return rest_.empty() ? nothing : static_cast<unsigned char>(rest_[0]); }
    void end() { rest_ = {}; }
    // What follows after some bytes.
    std::string_view take(std::uint64_t before, std::uint64_t bytes) {
        if (rest_.size() < before || rest_.size() - before < bytes) return end(), std::string_view();
        const std::string_view taken = rest_.substr(before, bytes);
        rest_.remove_prefix(before + bytes);
        return taken;
    }
    std::uint64_t number(std::uint64_t bytes) {
        std::uint64_t value = 0;
        for (const char byte : take(0, bytes)) value = value << 8 | static_cast<unsigned char>(byte);
        return value;
    }
    std::string_view take_counted(unsigned log_of_width) {
        take(1, 0);
        const std::uint64_t bytes = number(std::uint64_t(1) << log_of_width);
        return take(0, bytes);
    }
    std::optional<std::uint64_t> count_of(unsigned few, unsigned many) {
        const unsigned first = peek();
        std::uint64_t count = first & 0x0F;
        if (first == many || first == many + 1) {
            take(1, 0);
            count = number(first == many ? 2 : 4);
        } else if (first != nothing && (first & 0xF0) == few) {
            take(1, 0);
        } else {
            return std::nullopt;
        }
        if (count > rest_.size()) end();  // each takes a byte at least
        return count;
    }

    std::string_view rest_;
};

// Calls field(key) for each pair of a map, which must take the value.
template <class Field>
void each_field(Pack& pack, Field&& field) {
    const auto count = pack.map();
    if (!count) return pack.skip();
    for (std::uint64_t i = 0; i < *count && !pack.is_at_end(); ++i) {
        const auto key = pack.text();
        if (!key) {
            pack.skip();
            pack.skip();
        } else {
            field(*key);
        }
    }
}
template <class Element>
void each_element(Pack& pack, Element&& element) {
    const auto count = pack.array();
    if (!count) return pack.skip();
    for (std::uint64_t i = 0; i < *count && !pack.is_at_end(); ++i) element();
}

std::uint8_t access_of(std::string_view text) {
    return text == "read_only" ? 1 : text == "write_only" ? 2 : text == "read_write" ? 3 : 0;
}

void keep_common(std::vector<inject::Parameter>& known, const std::vector<inject::Parameter>& others) {
    for (std::size_t i = 0; i < known.size(); ++i)
        if (i >= others.size() || others[i].access != known[i].access) known[i].access = 0;
}

void add_of_metadata(std::string_view metadata, KernelParameters& into) {
    Pack pack(metadata);
    std::string name;
    std::vector<inject::Parameter> parameters;
    bool is_complete = true;
    const auto number = [&](std::uint32_t& value) {
        const auto read = pack.integer();
        if (!read) pack.skip();
        is_complete &= read && *read <= inject::most_parameter_bytes;
        if (read) value = static_cast<std::uint32_t>(*read);
    };
    const auto text = [&] {
        const auto read = pack.text();
        if (!read) pack.skip();
        return read.value_or("");
    };
    const auto parameter = [&] {
        inject::Parameter of;
        bool is_hidden = false;
        each_field(pack, [&](std::string_view key) {
            if (key == ".offset") return number(of.offset);
            if (key == ".size") return number(of.bytes);
            if (key == ".value_kind") return void(is_hidden = text().starts_with("hidden_"));
            if (key == ".actual_access") return void(of.access = access_of(text()));
            pack.skip();
        });
        if (!is_hidden && parameters.size() < inject::most_parameters) parameters.push_back(of);
    };
    const auto kernel = [&] {
        name.clear();
        parameters.clear();
        is_complete = true;
        each_field(pack, [&](std::string_view key) {
            if (key == ".name") return void(name = text());
            if (key == ".args") return each_element(pack, parameter);
            pack.skip();
        });
        if (name.empty() || !is_complete) return;
        const auto [known, is_new] = into.try_emplace(name, parameters);
        if (!is_new) keep_common(known->second, parameters);
    };
    each_field(pack, [&](std::string_view key) {
        if (key == "amdhsa.kernels") return each_element(pack, kernel);
        pack.skip();
    });
}

void add_of_notes(std::string_view notes, KernelParameters& into) {
    const auto aligned = [](std::uint64_t bytes) { return (bytes + 3) & ~std::uint64_t(3); };
    Elf64_Nhdr note{};
    for (std::uint64_t at = 0; read(notes, at, note);) {
        const std::uint64_t owner = at + sizeof note, content = owner + aligned(note.n_namesz);
        if (note.n_type == amd_metadata && part(notes, owner, note.n_namesz) == amd_owner)
            add_of_metadata(part(notes, content, note.n_descsz), into);
        at = content + aligned(note.n_descsz);
    }
}

void add_of_elf(std::string_view elf, KernelParameters& into) {
    Elf64_Ehdr file{};
    Elf64_Phdr segment{};
    if (!elf.starts_with(ELFMAG) || !read(elf, 0, file) || file.e_ident[EI_CLASS] != ELFCLASS64 ||
        file.e_ident[EI_DATA] != ELFDATA2LSB || file.e_phentsize < sizeof segment)
        return;
    const auto place = [&](std::size_t i) { return file.e_phoff + i * file.e_phentsize; };
    for (std::size_t i = 0; i < file.e_phnum && read(elf, place(i), segment); ++i)
        if (segment.p_type == PT_NOTE) add_of_notes(part(elf, segment.p_offset, segment.p_filesz), into);
}

}  // namespace

void add_kernels(std::string_view image, KernelParameters& into) {
    if (!image.starts_with(bundle_magic)) return add_of_elf(image, into);
    std::uint64_t count = 0, at = bundle_magic.size();
    if (!read(image, at, count)) return;
    at += sizeof count;
    struct {
        std::uint64_t offset, bytes, name_bytes;
    } entry;
    for (std::uint64_t i = 0; i < std::min(count, most_bundled) && read(image, at, entry); ++i) {
        add_of_elf(part(image, entry.offset, entry.bytes), into);
        if (entry.name_bytes > image.size()) return;
        at += sizeof entry + entry.name_bytes;
    }
}

std::string_view readable_from(const void* start) {
    std::ifstream maps("/proc/self/maps");
    const auto from = reinterpret_cast<std::uint64_t>(start);
    std::uint64_t end = from;
    for (std::string line; std::getline(maps, line);) {
        unsigned long long first = 0, last = 0;
        char reads = '-';
        if (std::sscanf(line.c_str(), "%llx-%llx %c", &first, &last, &reads) != 3) continue;
        if (first <= end && end < last && reads == 'r') end = last;
        if (first > end) break;
    }
    return {static_cast<const char*>(start), end - from};
}

}  // namespace firsttouch::hip_front
