#include "probe/frame.hpp"

#include <array>

namespace firsttouch {
namespace {

constexpr std::uint64_t stored = 0x706f7274706f7274, canary = 0xca9a47ca9a47ca9a;
constexpr std::size_t frame_words = 512, next_words = 4 * frame_words;

// The variable is in the middle of the frame, so that the next function's array covers it wherever that begins.
[[gnu::noinline]] std::uint64_t launch_from_frame(Lab& lab, bool wait, std::uintptr_t& address) {
    std::array<volatile std::uint64_t, frame_words> frame{};
    volatile std::uint64_t& variable = frame[frame_words / 2];
    address = reinterpret_cast<std::uintptr_t>(&variable);
    const Argument arguments[] = {Argument(std::uint64_t{address}), Argument(stored)};
    lab.device().launch(lab.stream(), lab.kernel("port", "port_store"), {1, 1}, arguments);
    if (wait) lab.device().wait(lab.stream());
    return variable;
}

[[gnu::noinline]] std::uint64_t occupy_frame(Lab& lab, Gate& gate, std::uintptr_t address) {
    std::array<volatile std::uint64_t, next_words> next{};
    for (auto& word : next) word = canary;
    gate.open();
    lab.device().wait(lab.stream());
    const auto first = reinterpret_cast<std::uintptr_t>(&next[0]);
    if (address < first || address >= first + sizeof next)
        throw Unavailable("the next function's frame is not where the one of the launch was");
    std::uint64_t changed = 0;
    for (auto& word : next) changed += word != canary;
    return changed;
}

}  // namespace

FrameStore store_to_frame(Lab& lab, bool wait) {
    FrameStore result{.expected = stored};
    std::uintptr_t address = 0;
    lab.kernel("port", "port_store");  // compiled before the launch
    if (wait) {
        result.seen = launch_from_frame(lab, true, address);
        return result;
    }
    const auto gate = lab.device().hold(lab.stream());
    result.seen = launch_from_frame(lab, false, address);
    result.overwritten = occupy_frame(lab, *gate, address);
    return result;
}

}  // namespace firsttouch
