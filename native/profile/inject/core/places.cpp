#include "profile/inject/core/places.hpp"

#include <link.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>

namespace firsttouch::inject {
namespace {

constexpr std::size_t most_texts = 1 << 16, most_places = 1 << 16;
constexpr std::size_t most_text_bytes = 16 << 10;  // names of C++ kernels may be this long
constexpr std::size_t most_unwound = 64, most_frames = 12;
constexpr std::size_t most_native = 8;  // before frames of Python
constexpr std::size_t most_remembered = 4096, most_of_frame = 16;
#if defined(__x86_64__)
constexpr bool is_return_on_stack = true;  // right below the stack pointer that the caller has after the call
#else
constexpr bool is_return_on_stack = false;
#endif

constexpr std::string_view skipped_files[] = {"libcuda.so",           "libcupti.so",
                                              "libcudart.so",         "libnvidia-",
                                              "libcudadebugger.so",   "libcupti-",
                                              "libOpenCL.so",         "libfirsttouch_inject.so",
                                              "libfirsttouch_hip.so", "libfirsttouch_try.so",
                                              "libamdhip64.so",       "librocprofiler-",
                                              "libomptarget",         "libomp.so",
                                              "libiomp5.so"};

bool is_skipped(std::string_view file) {
    file.remove_prefix(file.rfind('/') + 1);
    return std::ranges::any_of(skipped_files, [&](std::string_view prefix) { return file.starts_with(prefix); });
}

// Libraries whose calls are their own business, not that of the package that brings them.
constexpr std::string_view vendors[] = {"libcublas", "libcudnn",    "libcufft", "libcusparse", "libcusolver",
                                        "libcurand", "libcutensor", "libnvrtc", "libnccl",     "libnvshmem",
                                        "libnpp",    "libcufile",   "libnvjpeg"};

// Code between a script and a call: packages, and what calls a function of a library by its name.
bool is_between(std::string_view file) {
    std::string_view name = file;
    name.remove_prefix(name.rfind('/') + 1);
    if (std::ranges::any_of(vendors, [&](std::string_view prefix) { return name.starts_with(prefix); })) return false;
    return python::is_of_a_library(file) || name.starts_with("libffi") || name.starts_with("libstdc++") ||
           name.starts_with("libc.so") || name.starts_with("_ctypes.");
}

std::string own_program() {
    std::array<char, 4096> path;
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
    return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string();
}

}  // namespace

std::uint32_t Texts::number(std::string_view text) {
    text = text.substr(0, most_text_bytes);
    if (text.empty()) return 0;
    const std::scoped_lock lock(mutex_);
    if (const auto known = numbers_.find(text); known != numbers_.end()) return known->second;
    if (numbers_.size() >= most_texts) return 0;
    const TextRecord record{.number = static_cast<std::uint32_t>(numbers_.size() + 1),
                            .bytes = static_cast<std::uint32_t>(text.size())};
    numbers_.emplace(text, record.number);
    journal_.append(Kind::text, {Journal::bytes_of(record), text});
    return record.number;
}

std::size_t Places::ChainHash::operator()(const Chain& chain) const {
    std::size_t hash = chain.size();
    for (const std::uintptr_t instruction : chain) hash = (hash ^ instruction) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

// The file that is mapped at an instruction, and the offset in it.
Places::Place Places::locate(std::uintptr_t instruction) {
    struct Search {
        std::uintptr_t instruction;
        Place place;
    } search{instruction, {"", instruction}};
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* data) {
            Search& search = *static_cast<Search*>(data);
            for (int i = 0; i < info->dlpi_phnum; ++i) {
                const auto& segment = info->dlpi_phdr[i];
                const std::uintptr_t start = info->dlpi_addr + segment.p_vaddr;
                if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0 || search.instruction < start ||
                    search.instruction - start >= segment.p_memsz)
                    continue;
                const bool is_program = info->dlpi_name == nullptr || info->dlpi_name[0] == '\0';
                search.place = {is_program ? own_program() : info->dlpi_name,
                                search.instruction - start + segment.p_offset};
                return 1;
            }
            return 0;
        },
        &search);
    return std::move(search.place);
}

// Compared from the innermost on, so that no word is read that is not a part of this stack.
__attribute__((no_sanitize("address", "thread"))) const CallPlace* Places::unwound_before(const void* frame,
                                                                                          std::uint64_t python) const {
    const auto of_frame = unwound_.find(unwound_key(frame, python));
    if (of_frame == unwound_.end()) return nullptr;
    for (const Unwound& unwound : of_frame->second) {
        if (unwound.python != python) continue;
        std::size_t i = 0;
        while (i < unwound.returns.size() && *unwound.returns[i].first == unwound.returns[i].second) ++i;
        if (i == unwound.returns.size()) return &unwound.place;
    }
    return nullptr;
}

__attribute__((noinline)) CallPlace Places::of_this_call() {
    struct Walk {
        std::array<std::uintptr_t, most_unwound> instructions, stacks;  // the stack pointer at each
        std::size_t count = 0;
        bool is_plain = is_return_on_stack;  // each return address is where the call left it
    } walk;
    const void* const frame = __builtin_frame_address(0);
    PythonChain python;
    PythonLines::instance().read_chain(python);
    if (const std::scoped_lock lock(mutex_); const CallPlace* const known = unwound_before(frame, python.key))
        return *known;
    _Unwind_Backtrace(
        [](_Unwind_Context* context, void* data) {
            Walk& walk = *static_cast<Walk*>(data);
            int is_before = 0;
            const std::uintptr_t address = _Unwind_GetIPInfo(context, &is_before);
            if (address == 0) return _URC_END_OF_STACK;
            if (walk.count == walk.instructions.size()) return _URC_END_OF_STACK;
            walk.stacks[walk.count] = _Unwind_GetCFA(context);
            walk.instructions[walk.count++] = address - (is_before == 0 ? 1 : 0);  // within the call, not behind it
            if (is_before != 0) walk.is_plain = false;
            return _URC_NO_REASON;
        },
        &walk);
    const Chain chain(walk.instructions.begin(), walk.instructions.begin() + std::ptrdiff_t(walk.count));
    const Numbered numbered = number(chain, true, walk.stacks.data(), &python);
    const CallPlace place{numbered.number, numbered.skipped < walk.count ? walk.stacks[numbered.skipped] : 0};
    if (walk.is_plain) remember(frame, chain, walk.stacks.data(), place, python.key);
    return place;
}

std::uint32_t Places::of_instruction(std::uint64_t address) {
    return address == 0 ? 0 : number({static_cast<std::uintptr_t>(address)}, false, nullptr, nullptr).number;
}

std::uint32_t Places::of_fault(std::uint64_t address, std::span<const std::uint64_t> stack) {
    Chain chain{static_cast<std::uintptr_t>(address)};
    for (const std::uint64_t word : stack)
        if (word != 0 && !locate(word - 1).file.empty()) chain.push_back(word - 1);
    return number(chain, false, nullptr, nullptr).number;
}

// Where one of the return addresses is elsewhere, the chain is unwound each time.
void Places::remember(const void* frame, const Chain& chain, const std::uintptr_t* stacks, CallPlace place,
                      std::uint64_t python) {
    Unwound unwound{.returns = {}, .place = place, .python = python};
    for (std::size_t i = 1; i < chain.size(); ++i) {
        const auto* const at = reinterpret_cast<const std::uintptr_t*>(stacks[i]) - 1;
        if (stacks[i] <= stacks[i - 1] || *at != chain[i] + 1) return;
        unwound.returns.emplace_back(at, chain[i] + 1);
    }
    const std::scoped_lock lock(mutex_);
    if (++unwound_count_ > most_remembered) {
        unwound_.clear();
        unwound_count_ = 1;
    }
    std::vector<Unwound>& of_frame = unwound_[unwound_key(frame, python)];
    if (of_frame.size() >= most_of_frame) of_frame.erase(of_frame.begin());
    of_frame.push_back(std::move(unwound));
}

Places::Numbered Places::number(const Chain& chain, bool skip_vendor, const std::uintptr_t* stacks,
                                const PythonChain* python) {
    const std::scoped_lock lock(mutex_);
    Chain key;
    const bool has_python = python != nullptr && python->count != 0;
    if (has_python) (key = chain).push_back(static_cast<std::uintptr_t>(python->key));
    const Chain& known_as = has_python ? key : chain;
    if (const auto known = numbers_.find(known_as); known != numbers_.end()) return known->second;
    if (numbers_.size() >= most_places) return {};
    std::vector<SiteFrame> frames;
    Numbered numbered = frames_of(chain, skip_vendor, stacks, has_python ? python : nullptr, frames);
    const std::string_view content(reinterpret_cast<const char*>(frames.data()), frames.size() * sizeof(SiteFrame));
    // The interpreter has many ways to the same call, so that chains differ of which the same is written.
    std::uint32_t* const of_lines = has_python && !frames.empty() ? &lines_[std::string(content)] : nullptr;
    const bool is_written = of_lines != nullptr && *of_lines != 0;
    numbered.number = frames.empty() ? 0 : is_written ? *of_lines : ++written_;
    if (of_lines != nullptr) *of_lines = numbered.number;
    numbers_.emplace(known_as, numbered);
    if (numbered.number == 0 || is_written) return numbered;
    const SiteRecord record{.number = numbered.number, .frames = static_cast<std::uint32_t>(frames.size())};
    journal_.append(Kind::site, {Journal::bytes_of(record), content});
    return numbered;
}

Places::Numbered Places::frames_of(const Chain& chain, bool skip_vendor, const std::uintptr_t* stacks,
                                   const PythonChain* python, std::vector<SiteFrame>& frames) {
    const PythonLines& lines = PythonLines::instance();
    std::vector<python::CodePlace> of_python;
    if (python != nullptr) of_python = lines.places(*python, most_frames);
    const std::size_t most = of_python.empty() ? most_frames : most_native;
    Numbered numbered;
    bool is_made_by_library = false;  // the place in a package's library that made the call is kept, the others are not
    for (std::size_t i = 0; i < chain.size(); ++i) {
        const Place place = locate(chain[i]);
        if (!of_python.empty() && lines.is_interpreter(place.file, chain[i])) break;
        if (frames.empty() && skip_vendor && is_skipped(place.file)) {
            ++numbered.skipped;
            continue;
        }
        if (!of_python.empty() && frames.size() == is_made_by_library && is_between(place.file)) {
            if (is_made_by_library || !python::is_of_a_library(place.file)) {
                if (frames.empty()) ++numbered.skipped;
                continue;
            }
            is_made_by_library = true;
        }
        frames.push_back({.offset = place.offset,
                          .file = texts_.number(place.file),
                          .function = 0,
                          .above = stacks == nullptr ? 0 : stacks[i] - stacks[numbered.skipped]});
        if (frames.size() == most) break;
    }
    for (const python::CodePlace& place : of_python) {
        const std::uint32_t file = texts_.number(place.file);
        const std::uint32_t function = texts_.number(place.function.empty() ? "?" : place.function);
        if (frames.size() == most_frames || function == 0) break;
        frames.push_back(
            {.offset = static_cast<std::uint64_t>(place.line), .file = file, .function = function, .above = 0});
    }
    return numbered;
}

}  // namespace firsttouch::inject
