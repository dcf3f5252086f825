// Looks for what would differ if an array of the host and the block that copies join it with were one memory, while
// they stay apart. From each copy on, both sides are equal. Later, bytes that the CPU has changed, pages that it has
// read of which the block has newer bytes, and copies that bring old bytes back are told, from call to call. It looks
// at everything, however long that takes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "events/home_process.hpp"
#include "profile/inject/core/copy_watch.hpp"
#include "profile/inject/core/journal.hpp"
#include "profile/inject/core/places.hpp"
#include "profile/inject/core/write_faults.hpp"
#include "profile/page_tracker.hpp"

namespace firsttouch::inject {

// Copies memory of the device to that of the host, when nothing runs that may use it. False: it could not.
using ReadDevice = std::function<bool(void* target, std::uint64_t source, std::size_t bytes)>;

class Shadow final : public CopyWatch {
  public:
    // Throws Unavailable if this kernel does not tell which pages are written.
    Shadow(Journal& journal, Places& places);

    // Without it, nothing is known of what the CPU reads.
    void reads_device_by(ReadDevice read) { read_device_ = std::move(read); }

    void copies(Moment at, const HostSide& side) noexcept override;
    void copied(Moment at, const HostSide& side) noexcept override;
    void launches(Moment at) noexcept override;
    void launched(Moment at) noexcept override;
    void waited(Moment at) noexcept override;
    void copied_otherwise(Moment at, PageRange named) noexcept override;
    void changed_device(Moment at) noexcept override { launched(at); }
    void frees(Moment at, PageRange block) noexcept override;
    void passes(Moment) noexcept override {}
    void finish(Moment at) noexcept override;

  private:
    enum class What : std::uint8_t { changed = 1, read = 2, replaced = 3, restored = 4, ended = 5, unseen = 6 };
    using Bytes = std::vector<char>;

    // A page that the CPU has changed since both sides were equal.
    struct Change {
        Moment since{0}, until{0};
        std::uint32_t site = 0;
        Bytes equal;  // the array's bytes in it when both sides were equal
    };
    // A time in which the CPU read some pages, while the device could not be asked for its bytes.
    struct ReadTime {
        Moment since, until;
        std::uint64_t bytes;
    };

    // What the CPU changed and a copy replaced.
    struct Lost {
        Moment since;
        std::uint32_t site;
        std::vector<PageRange> pages;
        std::uint64_t differing;
    };

    // What copies join. Two arrays may have a page in common, but no byte.
    struct Array {
        PageRange bytes{}, pages{}, whole{};  // pages that it has a part of; those that it has alone
        std::uint64_t device = 0;
        std::uint64_t equal_since = 0;
        Bytes last;                               // the CPU's bytes when they were last looked at
        std::map<std::uint64_t, Change> changes;  // by the address of the page
        std::vector<PageRange> written;           // pages, since the last wait
        std::vector<PageRange> written_since_copy;
        std::uint64_t copied = 0, read = 0;  // when it was last copied; bytes of pages that were read since
        std::uint64_t launch = 0;            // the first one since the last wait
        std::vector<PageRange> written_since_launch;
        bool is_device_newer = false;  // perhaps: the device's side may have been changed
        bool is_copying = false;       // a call copies it
        bool is_awaiting = false;      // a copy into it may still run
        bool has_device = true;        // else its block was freed, and these pages had newer bytes
        std::vector<PageRange> newer;
        std::vector<ReadTime> reads;  // before the block could be asked
        bool is_cool = false;
        std::uint64_t touched = 0;  // bytes of the whole pages, at this look
        bool is_in_heap = false;
        bool is_gone = false;
    };

    template <class Step>
    void locked(Step&& step) noexcept;
    template <class Do>
    void each_within(PageRange range, Do&& act);
    void look(Moment at);
    void release(PageRange bytes);
    bool cool(PageRange pages);
    std::vector<std::uint64_t> touched(const std::vector<PageRange>& ranges);
    std::vector<PageRange> touched_among(const std::vector<PageRange>& ranges);
    std::vector<PageRange> pages_of(const std::vector<PageRange>& ranges) const;
    std::vector<PageRange> newer_pages(Array& array, const std::vector<PageRange>& among, std::uint64_t& differing);
    std::vector<PageRange> parts_of(PageRange bytes);
    std::vector<PageRange> different_pages(const Array& array, PageRange part, std::uint64_t& differing) const;
    void write_reads(Array& array, const std::vector<PageRange>& newer, std::uint64_t differing);
    void find_read(Array& array, const std::vector<PageRange>& written, Moment at);
    void compare(Array& array, const std::vector<PageRange>& written, Moment at);
    std::uint32_t site_of_write(const std::vector<PageRange>& pages);
    void find_restored(Array& array, const HostSide& side, Moment at);
    void find_replaced(const Array& array, PageRange part, std::vector<Lost>& lost) const;
    void after_copy(Array& array, PageRange side, bool is_back, Moment at);
    Array& array_of(const HostSide& side, Moment at);
    bool track(PageRange pages);
    void end(Array& array, Moment at, std::uint8_t flags);
    void remove_ended();
    void write(const Array& array, What what, Moment since, Moment until, const std::vector<PageRange>& pages,
               std::uint64_t differing, std::uint32_t site = 0, std::uint8_t flags = 0);
    void write_unseen(const Array& array);
    void write_use(const Array& array, std::uint64_t since, std::uint64_t until, const std::vector<PageRange>& written,
                   std::uint64_t read, std::uint32_t flags);

    Journal& journal_;
    Places& places_;
    const HomeProcess home_;
    PageTracker tracker_;
    WriteFaults faults_;
    ReadDevice read_device_;
    std::mutex mutex_;
    Bytes part_;                                  // that was read last
    std::map<std::uint64_t, Array> arrays_;       // by the end of their bytes
    std::map<std::uint64_t, PageRange> tracked_;  // by the end
    std::set<std::uint32_t> running_;             // streams with work since they were waited for
    Moment last_look_{0}, last_wait_{0};
    std::uint64_t last_launch_ = 0;
    std::atomic<bool> ended_{false};
};

}  // namespace firsttouch::inject
