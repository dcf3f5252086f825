// Where memory of the host is that CUDA did not allocate.
#pragma once

#include <cstdint>
#include <vector>

namespace firsttouch::inject {

class HostPlaces {
  public:
    // Whether an address is in the stack of this thread, or of another one that asked before.
    bool is_in_a_stack(std::uint64_t address);
    // Whether an address is in the writable data of a loaded file.
    bool is_in_data(std::uint64_t address);

  private:
    struct Range {
        std::uint64_t start = 0, end = 0;
        bool contains(std::uint64_t address) const { return address - start < end - start; }
    };

    void find_data();

    std::vector<Range> data_;
    unsigned long long loaded_ = 0, unloaded_ = 0;
};

}  // namespace firsttouch::inject
