// What the CPU does with the host side of copies: which pages it writes and how many it reads, from copy to copy, from
// a launch to the next wait, and from the last wait to the end. What the watch takes is kept within a share of the run:
// where it would take more, a range is not looked at, and there is no record of that time.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "events/home_process.hpp"
#include "profile/inject/core/copy_watch.hpp"
#include "profile/inject/core/journal.hpp"
#include "profile/inject/core/watch_budget.hpp"
#include "profile/page_tracker.hpp"

namespace firsttouch::inject {

class HostWatch final : public CopyWatch {
  public:
    // percent: of the run's time that the watch may take; began: the run. Throws Unavailable if this kernel does not
    // permit it.
    HostWatch(Journal& journal, double percent, std::uint64_t began = WatchBudget::process_start());

    void copies(Moment at, const HostSide& side) noexcept override;
    void copied(Moment at, const HostSide& side) noexcept override;
    void launched(Moment at) noexcept override;
    void waited(Moment at) noexcept override;
    void frees(Moment at, PageRange block = {}) noexcept override;
    void passes(Moment at) noexcept override;
    void finish(Moment at) noexcept override;

  private:
    enum class State : std::uint8_t {
        idle,      // not protected: its writes are not known
        watched,   // protected since `since`
        copying,   // a call copies it
        awaiting,  // a copy into it may still run; it is protected after the next wait
        gone       // no longer mapped
    };

    static constexpr std::uint64_t unknown = ~std::uint64_t(0);

    // A range of pages that copies named. No two have a page in common.
    struct Segment {
        PageRange pages;
        PageRange named;  // the bytes of it that copies named
        unsigned colour = 0;
        State state = State::idle;
        bool is_cool = false;
        bool is_result = false;             // it was copied back last
        bool is_all_touched = false;        // by its last copy
        std::uint64_t stripe = 0;           // of each `one_of` of which one was cooled; 0: all of it was
        std::uint64_t last_written = 0;     // in the last window
        bool has_huge = false;              // pages, when it was protected
        double look_ns = 0;                 // what looking at it took last
        std::uint64_t charged = 0;          // bytes whose faults are in what was spent
        std::uint64_t charged_touches = 0;  // bytes whose touches are
        std::uint64_t since = 0;
        bool has_gap = false;            // not all of it was watched since it was copied last
        std::uint64_t launch = 0;        // of what runs, if it was looked at then
        PageRange quiet{0, 0};           // times: nothing was written from a launch to a later wait
        std::vector<PageRange> written;  // since `since`, up to its last protection
        std::uint64_t seen = 0;          // when it was looked at without an end; 0: it was not
        std::vector<PageRange> seen_written;
        std::uint64_t seen_read = unknown;
    };

    // Carries out a step under the lock, unless this is a forked process. A failure ends the watch.
    template <class Step>
    void locked(Step&& step) noexcept;  // nothing in a forked process
    template <class Step>
    void guarded(Step&& step) noexcept;  // and what it takes is spent
    double last_look_ns() const;
    bool affords_before_last(std::uint64_t time, double more_ns) const;
    void become(Segment& segment, State state);
    // Those that have bytes of a copy.
    std::vector<Segment*> within(const HostSide& side);
    void pass_over(std::uint64_t time, const HostSide& side, bool is_before) noexcept;
    void add(const HostSide& side);
    void add(PageRange pages);

    void begin(Segment& segment, std::uint64_t time);
    void cool(Segment& segment, std::uint64_t time);
    template <class Step>
    static bool timed(double units, double& cost, Step&& step);
    static std::vector<PageRange> cooled(const Segment& segment);
    void release(const std::vector<Segment*>& segments, const HostSide& side);
    bool find_written(Segment& segment, bool again, std::vector<PageRange>& fresh);
    void end_window(Segment& segment, std::uint64_t time, std::uint64_t touched);
    std::uint64_t read_bytes(Segment& segment, const std::vector<PageRange>& written, std::uint64_t touched);
    bool look_at_all();
    void remove_gone(bool is_at_end = false);
    std::vector<std::uint64_t> touched(const std::vector<Segment*>& segments);
    void write(const Segment& segment, PageRange times, const std::vector<PageRange>& written, std::uint64_t read,
               std::uint32_t flags = 0);
    void write_quiet(Segment& segment);

    Journal& journal_;
    const HomeProcess home_;
    PageTracker tracker_;
    PageCosts costs_;  // as they were last seen
    WatchBudget budget_;
    std::mutex mutex_;
    std::map<std::uint64_t, Segment> segments_;  // by the end of their pages
    std::atomic<bool> ended_{false};
    std::atomic<bool> is_launched_{false};  // since the last wait
    std::atomic<std::uint64_t> last_pass_{0};
    std::atomic<std::uint64_t> last_free_{0};  // that was followed by such a look
    std::atomic<bool> is_active_{false};       // a window began or ended since that free
    std::atomic<std::size_t> awaiting_{0};     // segments
    std::atomic<bool> has_launches_{false};    // a segment was looked at when something was launched
    double watched_units_ = 0;                 // how much is watched, in units of 4 KiB
    double smaps_ns_ = 0;                      // what reading touches took last
};

}  // namespace firsttouch::inject
