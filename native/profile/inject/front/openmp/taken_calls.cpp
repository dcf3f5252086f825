#include "profile/inject/front/openmp/taken_calls.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace firsttouch::openmp_tool {
namespace {

#if defined(__x86_64__)
constexpr std::uint64_t of_calls = R_X86_64_JUMP_SLOT, of_addresses = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
constexpr std::uint64_t of_calls = R_AARCH64_JUMP_SLOT, of_addresses = R_AARCH64_GLOB_DAT;
#endif

struct Range {
    std::uintptr_t begin = 0, end = 0;
};

// What a loaded file tells of the addresses that the loader writes into it.
struct File {
    std::uintptr_t base = 0;
    const ElfW(Sym) * symbols = nullptr;
    const char* texts = nullptr;
    std::pair<const ElfW(Rela)*, std::size_t> tables[2];  // of calls, and of all else
    Range read_only;                                      // after the loader has written

    explicit File(const dl_phdr_info& info) : base(info.dlpi_addr) {
        const ElfW(Dyn)* entry = nullptr;
        for (const ElfW(Phdr) & part : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
            if (part.p_type == PT_DYNAMIC) entry = reinterpret_cast<const ElfW(Dyn)*>(base + part.p_vaddr);
            if (part.p_type == PT_GNU_RELRO) read_only = {base + part.p_vaddr, base + part.p_vaddr + part.p_memsz};
        }
        for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
            // Most loaders write the address there; others leave the distance from the file's begin.
            const std::uintptr_t at = entry->d_un.d_ptr < base ? base + entry->d_un.d_ptr : entry->d_un.d_ptr;
            if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(at);
            if (entry->d_tag == DT_STRTAB) texts = reinterpret_cast<const char*>(at);
            if (entry->d_tag == DT_JMPREL) tables[0].first = reinterpret_cast<const ElfW(Rela)*>(at);
            if (entry->d_tag == DT_RELA) tables[1].first = reinterpret_cast<const ElfW(Rela)*>(at);
            if (entry->d_tag == DT_PLTRELSZ) tables[0].second = entry->d_un.d_val / sizeof(ElfW(Rela));
            if (entry->d_tag == DT_RELASZ) tables[1].second = entry->d_un.d_val / sizeof(ElfW(Rela));
        }
    }
};

void write(std::uintptr_t slot, void* function, const Range& read_only) {
    const auto bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    void* const page = reinterpret_cast<void*>(slot / bytes * bytes);
    const bool is_read_only = slot >= read_only.begin && slot < read_only.end;
    if (is_read_only && mprotect(page, bytes, PROT_READ | PROT_WRITE) != 0) return;
    std::atomic_ref<void*>(*reinterpret_cast<void**>(slot)).store(function, std::memory_order_release);
    if (is_read_only) mprotect(page, bytes, PROT_READ);
}

void take(const File& file, std::span<const TakenCall> calls) {
    if (file.symbols == nullptr || file.texts == nullptr) return;
    for (const auto& [table, count] : file.tables)
        for (const ElfW(Rela) & entry : std::span(table, table == nullptr ? 0 : count)) {
            const std::uint64_t kind = ELF64_R_TYPE(entry.r_info);
            if (kind != of_calls && kind != of_addresses) continue;
            const char* const name = file.texts + file.symbols[ELF64_R_SYM(entry.r_info)].st_name;
            for (const TakenCall& call : calls)
                if (*call.real != nullptr && std::strcmp(name, call.name) == 0)
                    write(file.base + entry.r_offset, call.mine, file.read_only);
        }
}

bool is_library(const dl_phdr_info& info, std::string_view library) {
    std::string_view name = info.dlpi_name == nullptr ? "" : info.dlpi_name;
    name.remove_prefix(name.rfind('/') + 1);
    return name.starts_with(library);
}

struct Search {
    std::string_view library;
    std::span<const TakenCall> calls;
};

int find_functions(dl_phdr_info* info, std::size_t, void* of) {
    const auto& [library, calls] = *static_cast<const Search*>(of);
    if (!is_library(*info, library)) return 0;
    void* const opened = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (opened == nullptr) return 0;
    for (const TakenCall& call : calls)
        if (*call.real == nullptr) *call.real = dlsym(opened, call.name);
    dlclose(opened);  // which the program holds
    return 1;
}

int take_in_file(dl_phdr_info* info, std::size_t, void* of) {
    const auto& [library, calls] = *static_cast<const Search*>(of);
    Dl_info mine{};
    const bool is_mine = dladdr(reinterpret_cast<const void*>(&take_in_file), &mine) != 0 &&
                         reinterpret_cast<std::uintptr_t>(mine.dli_fbase) == info->dlpi_addr;
    if (!is_mine && !is_library(*info, library)) take(File(*info), calls);
    return 0;
}

}  // namespace

void take_calls(const char* library, std::span<const TakenCall> calls) {
    Search search{library, calls};
    if (dl_iterate_phdr(&find_functions, &search) != 0) dl_iterate_phdr(&take_in_file, &search);
}

}  // namespace firsttouch::openmp_tool
