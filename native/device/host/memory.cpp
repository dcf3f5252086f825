#include "device/host/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "device/limits.hpp"

namespace firsttouch {
namespace {

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// madvise needs whole pages. A kernel without huge pages returns EINVAL, which is harmless.
void advise_pages(void* address, std::size_t bytes, Pages pages) {
    const auto start = round_up(reinterpret_cast<std::uintptr_t>(address), base_page);
    const auto end = (reinterpret_cast<std::uintptr_t>(address) + bytes) / base_page * base_page;
    if (pages == Pages::policy || end <= start) return;
    madvise(reinterpret_cast<void*>(start), end - start, pages == Pages::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

// A mapping; aligned to huge pages if they are requested, so that the first byte can be in one.
Block obtain_mapping(Allocator allocator, std::size_t bytes, Pages pages) {
    Block block{.allocator = allocator, .bytes = bytes};
    const std::size_t padding = pages == Pages::huge ? huge_page : 0;
    block.reserved = round_up(bytes, base_page) + padding;
    block.base = mmap(nullptr, block.reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block.base == MAP_FAILED) throw std::bad_alloc();
    const auto origin = reinterpret_cast<std::uintptr_t>(block.base);
    block.host = reinterpret_cast<void*>(padding > 0 ? round_up(origin, padding) : origin);
    advise_pages(block.base, block.reserved, pages);
    return block;
}

// Plain malloc. Blocks of at least a page are over-allocated and aligned to a page, for the nodes of a chase, vector
// loads and registration.
Block obtain_malloc(Allocator allocator, std::size_t bytes, Pages pages) {
    Block block{.allocator = allocator, .bytes = bytes};
    const std::size_t alignment = bytes < base_page ? 0 : pages == Pages::huge ? huge_page : base_page;
    block.reserved = bytes + alignment;
    block.base = std::malloc(block.reserved);
    if (block.base == nullptr) throw std::bad_alloc();
    const auto origin = reinterpret_cast<std::uintptr_t>(block.base);
    block.host = reinterpret_cast<void*>(alignment > 0 ? round_up(origin, alignment) : origin);
    advise_pages(block.host, bytes, pages);
    return block;
}

}  // namespace

std::size_t huge_page_bytes(std::size_t base, const std::string& root) {
    std::ifstream file(root + "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
    std::int64_t stated = 0;
    if (file >> stated && stated > static_cast<std::int64_t>(base)) return static_cast<std::size_t>(stated);
    return base * (base / sizeof(std::uint64_t));
}

bool is_host_allocator(Allocator allocator) {
    return allocator == Allocator::malloc || allocator == Allocator::mmap || allocator == Allocator::malloc_thp;
}

std::vector<AllocatorInfo> host_allocators() {
    std::vector<AllocatorInfo> list;
    for (const Allocator allocator : {Allocator::malloc, Allocator::mmap, Allocator::malloc_thp})
        list.push_back({.allocator = allocator, .host_memory = true, .on_demand = true});
    std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string line;
    std::getline(file, line);
    if (line.empty() || line.find("[never]") != std::string::npos) {
        list.back().available = false;
        list.back().reason = line.empty() ? "this kernel has no transparent huge pages"
                                          : "transparent huge pages are disabled on this machine (set to never)";
    } else if (huge_pages_denied()) {
        list.back().available = false;
        list.back().reason = "transparent huge pages are switched off for this process by a program that started it "
                             "(PR_SET_THP_DISABLE); start it from a shell or service without that setting";
    }
    return list;
}

Block obtain_host(Allocator allocator, std::size_t bytes, Pages pages) {
    if (allocator == Allocator::malloc_thp) pages = Pages::huge;
    if (allocator == Allocator::mmap)
        return obtain_mapping(allocator, bytes, pages == Pages::policy ? Pages::base : pages);
    return obtain_malloc(allocator, bytes, pages);
}

Block map_host_file(int descriptor, std::size_t bytes) {
    struct stat status {};
    if (fstat(descriptor, &status) != 0) throw Unavailable(std::string("fstat of the file: ") + std::strerror(errno));
    // Access to a page beyond the end of the file would raise SIGBUS.
    if (status.st_size < 0 || static_cast<std::size_t>(status.st_size) < bytes)
        throw Unavailable("the file has " + std::to_string(status.st_size) + " bytes, but " + std::to_string(bytes) +
                          " are to be mapped");
    Block block{.allocator = Allocator::mmap, .bytes = bytes, .reserved = round_up(bytes, base_page)};
    block.base = mmap(nullptr, block.reserved, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (block.base == MAP_FAILED) throw Unavailable(std::string("mmap of the file: ") + std::strerror(errno));
    block.host = block.base;
    return block;
}

void release_host(Block& block) noexcept {
    if (block.allocator == Allocator::mmap)
        munmap(block.base, block.reserved);
    else
        std::free(block.base);
    block = {};
}

std::map<int, std::size_t> pages_on_nodes(const void* address, std::size_t bytes, std::size_t most) {
    const auto start = reinterpret_cast<std::uintptr_t>(address) / base_page * base_page;
    const std::size_t pages = std::max<std::size_t>(1, bytes / base_page), taken = std::min(pages, most);
    std::vector<void*> sample;
    for (std::size_t i = 0; i < taken; ++i)
        sample.push_back(reinterpret_cast<void*>(start + i * pages / taken * base_page));
    std::vector<int> status(sample.size(), -1);
    std::map<int, std::size_t> by_node;
    if (syscall(SYS_move_pages, 0, sample.size(), sample.data(), nullptr, status.data(), 0) == 0)
        for (const int node : status)
            if (node >= 0) ++by_node[node];
    return by_node;
}

Residency residency(const void* address, std::size_t bytes) {
    Residency result;
    const auto start = reinterpret_cast<std::uintptr_t>(address) / base_page * base_page;
    std::size_t most = 0;
    for (const auto& [node, count] : pages_on_nodes(address, bytes, 256))
        if (count > most) most = count, result.numa_node = node;
    std::ifstream smaps("/proc/self/smaps");
    bool inside = false;
    std::size_t huge = 0, resident = 0, kernel_page = 0;
    for (std::string line; std::getline(smaps, line);) {
        unsigned long low = 0, high = 0;
        char flags[8] = {};
        if (std::sscanf(line.c_str(), "%lx-%lx %4s", &low, &high, flags) == 3) {
            if (inside) break;
            inside = low <= start && start < high;
        } else if (inside) {
            const auto value = [&](const char* key) {
                return line.rfind(key, 0) == 0 ? std::strtoull(line.c_str() + std::strlen(key), nullptr, 10) * 1024 : 0;
            };
            for (const char* key : {"AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:"}) huge += value(key);
            resident += value("Rss:");
            kernel_page += value("KernelPageSize:");
        }
    }
    if (resident > 0) result.page_bytes = huge * 2 > resident ? huge_page : kernel_page;
    return result;
}

std::vector<bool> pages_present(const void* address, std::size_t bytes) {
    const std::uint64_t first = reinterpret_cast<std::uintptr_t>(address) / base_page;
    const std::uint64_t end = (reinterpret_cast<std::uintptr_t>(address) + bytes + base_page - 1) / base_page;
    std::vector<std::uint64_t> entries(end - first);
    // pagemap must be read in whole entries, which a buffered stream does not guarantee.
    const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    const auto expected = static_cast<ssize_t>(entries.size() * 8);
    const ssize_t count =
        pagemap < 0 ? -1 : pread(pagemap, entries.data(), entries.size() * 8, static_cast<off_t>(first * 8));
    if (pagemap >= 0) close(pagemap);
    if (count != expected) throw Unavailable("/proc/self/pagemap cannot be read here");
    std::vector<bool> present(entries.size());
    // proc(5): bit 63 is set for a page that is in memory and mapped.
    std::transform(entries.begin(), entries.end(), present.begin(),
                   [](std::uint64_t entry) { return entry >> 63 != 0; });
    return present;
}

bool discard_pages(void* address, std::size_t bytes) {
    const auto origin = reinterpret_cast<std::uintptr_t>(address);
    const auto start = round_up(origin, base_page), end = (origin + bytes) / base_page * base_page;
    return end > start && madvise(reinterpret_cast<void*>(start), end - start, MADV_DONTNEED) == 0;
}

}  // namespace firsttouch
