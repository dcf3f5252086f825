#include "profile/inject/core/blocks.hpp"

#include <algorithm>

namespace firsttouch::inject {
namespace {

constexpr std::size_t most_near = 64;

}  // namespace

void Blocks::add(std::uint64_t address, const Block& block) {
    blocks_.insert_or_assign(address, block);
    expect(address, block);
}

void Blocks::expect(std::uint64_t address, const Block& block) {
    if (block.memory == Memory::array) return;  // a handle, which no kernel gets
    const std::uint64_t end = address + std::max<std::uint64_t>(block.bytes, 1);
    lowest_ = highest_ == 0 ? address : std::min(lowest_, address);
    highest_ = std::max(highest_, end);
    if (block.is_of_host()) return;
    for (std::uint64_t half = address >> 32; half <= (end - 1) >> 32 && near_.size() < most_near; ++half)
        if (!is_near_device(half << 32)) near_.push_back(static_cast<std::uint32_t>(half));
}

bool Blocks::remove(std::uint64_t address) { return blocks_.erase(address) != 0; }

const Block* Blocks::find(std::uint64_t address) const {
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return nullptr;
    --after;
    return address - after->first < std::max<std::uint64_t>(after->second.bytes, 1) ? &after->second : nullptr;
}

std::vector<std::uint64_t> Blocks::beginning_in(std::uint64_t address, std::uint64_t bytes) const {
    std::vector<std::uint64_t> found;
    for (auto next = blocks_.lower_bound(address); next != blocks_.end() && next->first - address < bytes; ++next)
        found.push_back(next->first);
    return found;
}

}  // namespace firsttouch::inject
