// The memory that a program obtained through the runtime, as it is now.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace firsttouch::inject {

// Kinds of memory, as CUPTI numbers them.
enum class Memory : std::uint8_t {
    unknown = 0,
    pageable = 1,
    pinned = 2,
    device = 3,
    array = 4,
    managed = 5,
    device_static = 6,
    managed_static = 7
};

struct Block {
    std::uint64_t bytes = 0;
    Memory memory = Memory::unknown;
    bool is_registered = false;            // it was the program's before
    bool is_ordered = false;               // it was allocated in the order of a stream
    std::uint8_t sharing = 0, access = 0;  // as a record has them
    std::uint64_t host = 0;                // memory of the program that it is

    bool is_of_host() const { return memory == Memory::pinned; }
    bool is_managed() const { return memory == Memory::managed || memory == Memory::managed_static; }
};

class Blocks {
  public:
    void add(std::uint64_t address, const Block& block);
    // One that will be there: launches may be told of its address before.
    void expect(std::uint64_t address, const Block& block);
    // Returns false if no block begins there.
    bool remove(std::uint64_t address);
    // The block that an address is in; null if there is none.
    const Block* find(std::uint64_t address) const;
    // Where those begin that begin in a range.
    std::vector<std::uint64_t> beginning_in(std::uint64_t address, std::uint64_t bytes) const;
    // Whether an address has the upper half of those that blocks of devices had so far: static variables and memory of
    // other processes are near them.
    bool is_near_device(std::uint64_t address) const {
        const auto half = static_cast<std::uint32_t>(address >> 32);
        return std::ranges::find(near_, half) != near_.end();
    }
    // Whether an address is in a block, or near those of devices.
    bool may_be_named(std::uint64_t address) const {
        return address - lowest_ < highest_ - lowest_ && (is_near_device(address) || find(address) != nullptr);
    }
    // Bounds of all blocks so far: nothing outside is in a block.
    std::uint64_t lowest() const { return lowest_; }
    std::uint64_t highest() const { return highest_; }

  private:
    std::map<std::uint64_t, Block> blocks_;
    std::vector<std::uint32_t> near_;
    std::uint64_t lowest_ = 0, highest_ = 0;  // nothing yet
};

}  // namespace firsttouch::inject
