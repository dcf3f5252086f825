#include "profile/tried/call_chain.hpp"

#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>

namespace firsttouch::tried {
namespace {

constexpr std::size_t most_unwound = 32, most_hashed = 8;

constexpr std::string_view between[] = {"libfirsttouch_try", "libfirsttouch_hip", "libstdc++",
                                        "libcudart"};  // the program and the call
constexpr std::string_view others[] = {"libcuda.so",     "libcupti",    "libnvidia-",
                                       "libfirsttouch_", "libamdhip64", "libhsa-runtime"};  // for themselves

template <std::size_t count>
bool is_one_of(std::string_view file, const std::string_view (&names)[count]) {
    return std::ranges::any_of(names, [&](std::string_view name) { return file.starts_with(name); });
}

struct Place {
    std::uintptr_t instruction;
    std::string_view file;
    std::uintptr_t offset = 0;
};

// Without a search in tables of symbols, as dladdr makes.
Place locate(std::uintptr_t instruction) {
    Place place{instruction, {}};
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* found) {
            Place& place = *static_cast<Place*>(found);
            for (int i = 0; i < info->dlpi_phnum; ++i) {
                const auto& segment = info->dlpi_phdr[i];
                const std::uintptr_t offset = place.instruction - info->dlpi_addr;
                if (segment.p_type != PT_LOAD || offset - segment.p_vaddr >= segment.p_memsz) continue;
                place.file = info->dlpi_name == nullptr ? "" : info->dlpi_name;
                place.file.remove_prefix(place.file.rfind('/') + 1);
                place.offset = offset;
                return 1;
            }
            return 0;
        },
        &place);
    return place;
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

// Threads are numbered by their first allocation that counts: those that do the same may change places.
constinit thread_local std::uint64_t thread_number __attribute__((tls_model("initial-exec"))) = 0;
std::uint64_t number_of_this_thread() {
    static std::atomic<std::uint64_t> next{1};
    if (thread_number == 0) thread_number = next++;
    return thread_number;
}

}  // namespace

bool is_this_thread_numbered() { return thread_number != 0; }

__attribute__((noinline)) std::uint64_t key_of_this_call(std::uint64_t bytes, Role role) {
    struct Walk {
        std::array<std::uintptr_t, most_unwound> instructions;
        std::size_t count = 0;
    } walk;
    _Unwind_Backtrace(
        [](_Unwind_Context* context, void* data) {
            Walk& walk = *static_cast<Walk*>(data);
            const std::uintptr_t address = _Unwind_GetIP(context);
            if (address == 0 || walk.count == walk.instructions.size()) return _URC_END_OF_STACK;
            walk.instructions[walk.count++] = address - 1;  // within the call, not behind it
            return _URC_NO_REASON;
        },
        &walk);
    std::uint64_t key = mixed(bytes, static_cast<std::uint64_t>(role));
    const bool is_of_malloc = role == Role::array || role == Role::resized;
    std::size_t hashed = 0;
    for (std::size_t i = 0; i < walk.count && hashed < most_hashed; ++i) {
        const Place place = locate(walk.instructions[i]);
        if (is_one_of(place.file, between)) continue;
        if (is_one_of(place.file, others)) {
            if (hashed == 0 && is_of_malloc) return 0;
            continue;  // what asks for a block in the program's place
        }
        for (const char letter : place.file) key = mixed(key, static_cast<unsigned char>(letter));
        key = mixed(key, place.offset);
        ++hashed;
    }
    return (role == Role::query ? key : mixed(key, number_of_this_thread())) | 1;
}

}  // namespace firsttouch::tried
