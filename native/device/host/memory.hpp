// Host allocators, used by every device: plain malloc and mmap, and where their pages really are.
#pragma once

#include <unistd.h>

#include "device/device.hpp"

namespace firsttouch {

inline const std::size_t base_page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));  // 64 KiB on some Arm kernels
inline constexpr std::size_t huge_page = 2 * 1024 * 1024;

bool is_host_allocator(Allocator allocator);
std::vector<AllocatorInfo> host_allocators();
Block obtain_host(Allocator allocator, std::size_t bytes, Pages pages);
// The first `bytes` of an open file, to be read only. Given back by release_host. Throws Unavailable with the reason.
Block map_host_file(int descriptor, std::size_t bytes);
void release_host(Block& block) noexcept;

// Where the pages that hold [address, address + bytes) are: the NUMA node of most of a sample of touched pages, and
// the page size that backs most of them. -1 and 0 where nothing is touched or the kernel does not say.
struct Residency {
    int numa_node = -1;
    std::size_t page_bytes = 0;
};
Residency residency(const void* address, std::size_t bytes);

// Which base pages of [address, address + bytes) this process's page tables hold, the first being the page of
// `address`. A page that lives elsewhere (swap, another agent's memory) is not there. Throws Unavailable where the
// kernel does not tell (/proc/self/pagemap).
std::vector<bool> pages_present(const void* address, std::size_t bytes);

}  // namespace firsttouch
