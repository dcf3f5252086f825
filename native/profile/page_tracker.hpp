// Tells which pages of a range of this process were written and touched, by the kernel's page tables: userfaultfd with
// asynchronous write protection and PAGEMAP_SCAN (Linux 6.7) for writes, MADV_COLD and the line Referenced of
// /proc/self/smaps for touches. No signals, and system calls into a range work as before. What it costs the process: a
// page's next write takes a fault, a huge page that is written is split, and a mapping is divided at the bounds of a
// tracked range, so that mremap of the whole of it fails (realloc then copies). Cooled pages are the first that the
// kernel takes back where memory is short. Source: userfaultfd(2), ioctl_userfaultfd (2),
// Documentation/admin-guide/mm/pagemap.rst of Linux.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace firsttouch {

// Addresses from start to before end.
struct PageRange {
    std::uint64_t start, end;
    std::uint64_t bytes() const { return end - start; }
    bool operator==(const PageRange&) const = default;
};

// Adds ranges to others: both are in order and disjoint, as is the result.
void merge_into(std::vector<PageRange>& ranges, std::span<const PageRange> more);

// Nanoseconds of a page of 4 KiB: to protect, to cool, to look for writes; and what the program's next write of a
// protected page and its next touch of a cooled one take more.
struct PageCosts {
    double protect = 0, cool = 0, look = 0, write = 0, touch = 0;
};

// Not for several threads at once.
class PageTracker {
  public:
    // Ranges that touch each other need different colours, or the kernel makes one mapping of them.
    static constexpr unsigned colours = 3;

    // Throws Unavailable with the reason, in a sentence.
    PageTracker();
    ~PageTracker();  // ranges are as they were before they were tracked
    PageTracker(const PageTracker&) = delete;
    PageTracker& operator=(const PageTracker&) = delete;

    // The next functions return false if the range cannot be tracked, or is not any more: it is not mapped, or the
    // program has mapped something else there. Ranges are whole pages.
    bool track(PageRange range, unsigned colour) noexcept;
    void forget(PageRange range) noexcept;
    // From now on, all of its pages count as not written. has_huge: is set if one of them is huge, so that its touches
    // are those of all of it, until it is written.
    bool protect(PageRange range, bool& has_huge) noexcept;
    // Its pages can be written without a fault again, as before a copy into it.
    void release(PageRange range, unsigned colour) noexcept;
    // Appends what was written since its last protection, in order. again: what is found is protected again.
    bool written(PageRange range, bool again, std::vector<PageRange>& into);
    // From now on, all of its pages count as not touched. False also where the kernel refuses that for this memory.
    bool cool(PageRange range) noexcept;
    // Makes a mapping of its own of a range, or lets it be a part of what is around it again, so that `touched` tells
    // of it alone. What was touched before still counts.
    void set_apart(PageRange range, bool is_apart) noexcept;
    // Bytes of the pages of each range that were touched since it was cooled; nullopt: not known. The ranges must be in
    // order and tracked as they are.
    std::vector<std::optional<std::uint64_t>> touched(std::span<const PageRange> ranges);

    std::uint64_t page_bytes() const { return page_bytes_; }
    // What each took when it was tried.
    const PageCosts& costs() const { return costs_; }

  private:
    struct Descriptor {
        int number = -1;
        dev_t device = 0;
        ino_t inode = 0;
    };

    struct Region {  // as PAGEMAP_SCAN tells it
        std::uint64_t start, end, categories;
    };

    void open_one(Descriptor& descriptor);
    void close_all() noexcept;
    bool is_ours(const Descriptor& descriptor) const noexcept;
    // Calls a function with each region of pages that were written.
    template <class Take>
    bool scan(PageRange range, unsigned long flags, Take&& take);
    void try_out();

    const std::uint64_t page_bytes_;
    std::array<Descriptor, colours> descriptors_;
    // Not on the stack, which is the program's.
    std::vector<Region> regions_;
    std::vector<char> text_;
    PageCosts costs_;
};

}  // namespace firsttouch
