// Host allocators, which every device has (plain malloc and mmap), and queries of where their pages are.
#pragma once

#include <unistd.h>

#include <map>

#include "device/device.hpp"

namespace firsttouch {

inline const std::size_t base_page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));  // 64 KiB on some Arm kernels
// Bytes of a transparent huge page: 2 MiB where base pages have 4 KiB, 512 MiB where they have 64 KiB. A kernel without
// them does not say; then what one table of page entries maps. `root` replaces / in tests.
std::size_t huge_page_bytes(std::size_t base, const std::string& root = "");
inline const std::size_t huge_page = huge_page_bytes(base_page);

bool is_host_allocator(Allocator allocator);
std::vector<AllocatorInfo> host_allocators();
Block obtain_host(Allocator allocator, std::size_t bytes, Pages pages);
// Maps the first `bytes` of an open file read-only. Freed by release_host. Throws Unavailable with the reason.
Block map_host_file(int descriptor, std::size_t bytes);
void release_host(Block& block) noexcept;

// How many of at most `most` base pages, spread evenly over [address, address + bytes), are on each NUMA node. Pages
// that were not touched are left out. Empty if the kernel does not tell.
std::map<int, std::size_t> pages_on_nodes(const void* address, std::size_t bytes, std::size_t most);

// Where the pages of [address, address + bytes) are: the most frequent NUMA node in a sample of touched pages, and the
// page size that backs most of the mapping. -1 and 0 if no page is touched or the kernel does not report it.
struct Residency {
    int numa_node = -1;
    std::size_t page_bytes = 0;
};
Residency residency(const void* address, std::size_t bytes);

// Which base pages of [address, address + bytes) are present in this process's page tables, starting with the page of
// `address`. A page in swap or in another agent's memory is not present. Throws Unavailable if /proc/self/pagemap
// cannot be read.
std::vector<bool> pages_present(const void* address, std::size_t bytes);

// Gives the whole base pages in [address, address + bytes) of plain host memory back to the kernel, so that the next
// access touches them first. Their content is lost. Returns false if there are none or the kernel refuses, as it does
// for locked pages.
bool discard_pages(void* address, std::size_t bytes);

}  // namespace firsttouch
