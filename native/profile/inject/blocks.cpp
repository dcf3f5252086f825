#include "profile/inject/blocks.hpp"

#include <algorithm>

namespace firsttouch::inject {
namespace {

void widen(std::uint64_t& lowest, std::uint64_t& highest, std::uint64_t start, std::uint64_t end) {
    lowest = highest == 0 ? start : std::min(lowest, start);
    highest = std::max(highest, end);
}

}  // namespace

void Blocks::add(std::uint64_t address, const Block& block) {
    blocks_.insert_or_assign(address, block);
    if (block.memory == Memory::array) return;  // a handle, which no kernel gets
    const std::uint64_t end = address + std::max<std::uint64_t>(block.bytes, 1);
    widen(all_lowest_, all_highest_, address, end);
    if (!block.is_of_host()) widen(lowest_, highest_, address, end);
}

bool Blocks::remove(std::uint64_t address) { return blocks_.erase(address) != 0; }

const Block* Blocks::find(std::uint64_t address) const {
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return nullptr;
    --after;
    return address - after->first < std::max<std::uint64_t>(after->second.bytes, 1) ? &after->second : nullptr;
}

}  // namespace firsttouch::inject
