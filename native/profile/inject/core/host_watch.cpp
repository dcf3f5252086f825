#include "profile/inject/core/host_watch.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <string>
#include <utility>

#include "profile/inject/core/watch_step.hpp"

namespace firsttouch::inject {
namespace {

constexpr std::uint64_t between_passes = 100'000'000, between_frees = 5'000'000;
constexpr std::uint64_t passes_of_run = 16;  // but at least so much of the run's time so far is between two passes
constexpr double least_timed = 256;          // units
constexpr std::uint64_t least_sampled = 16 << 20, most_stripes = 1024, one_of = 16;
constexpr std::size_t most_segments = 4096;
constexpr std::size_t most_pieces = 8192;                           // of a record
constexpr std::uint64_t unit = 4096;                                // of the pieces of a record
constexpr std::uint32_t goes_on = 1, was_gone = 2, began_late = 4;  // flags of a record

std::atomic<bool> has_forked{false};

std::uint64_t thread_time_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::uint64_t(now.tv_sec) * 1'000'000'000 + std::uint64_t(now.tv_nsec);
}

// Of two lists of disjoint ranges in order.
std::uint64_t common_bytes(const std::vector<PageRange>& some, const std::vector<PageRange>& others) {
    std::uint64_t bytes = 0;
    for (auto a = some.begin(), b = others.begin(); a != some.end() && b != others.end();) {
        const std::uint64_t start = std::max(a->start, b->start), end = std::min(a->end, b->end);
        if (start < end) bytes += end - start;
        a->end < b->end ? void(++a) : void(++b);
    }
    return bytes;
}

std::uint64_t bytes_of(const std::vector<PageRange>& ranges) {
    std::uint64_t bytes = 0;
    for (const PageRange& range : ranges) bytes += range.bytes();
    return bytes;
}

}  // namespace

HostWatch::HostWatch(Journal& journal, double percent, std::uint64_t began)
    : journal_(journal), costs_(tracker_.costs()), budget_(percent, began) {
    pthread_atfork(
        nullptr, [] { has_forked = true; }, nullptr);
}

template <class Step>
void HostWatch::locked(Step&& step) noexcept {
    watch_step(ended_, home_, mutex_, "host data are not looked at from here on: ", step);
}

template <class Step>
void HostWatch::guarded(Step&& step) noexcept {
    locked([&] {
        budget_.begin_step();
        step();
        budget_.end_step();
    });
}

// What the last look at all of them will take.
double HostWatch::last_look_ns() const { return std::max(smaps_ns_, watched_units_ * costs_.look); }

bool HostWatch::affords_before_last(std::uint64_t time, double more_ns) const {
    return budget_.affords(time, more_ns + last_look_ns());
}

void HostWatch::become(Segment& segment, State state) {
    const double units = double(segment.pages.bytes()) / double(unit);
    if (segment.state == State::watched) watched_units_ -= units;
    if (state == State::watched) watched_units_ += units;
    if (segment.state == State::awaiting) --awaiting_;
    if (state == State::awaiting) ++awaiting_;
    segment.state = state;
}

std::vector<HostWatch::Segment*> HostWatch::within(const HostSide& side) {
    std::vector<Segment*> found;
    const std::uint64_t end = side.address + side.bytes;
    for (auto next = segments_.upper_bound(side.address); next != segments_.end() && next->second.pages.start < end;
         ++next) {
        Segment& segment = next->second;
        const std::uint64_t from = std::max(side.address, segment.pages.start), to = std::min(end, segment.pages.end);
        if (segment.named.bytes() == 0) segment.named = {from, to};
        segment.named = {std::min(segment.named.start, from), std::max(segment.named.end, to)};
        found.push_back(&segment);
    }
    return found;
}

// A range without a whole page shares all its pages with others, so that nothing could be said of it.
void HostWatch::add(const HostSide& side) {
    const std::uint64_t page = tracker_.page_bytes(), end = side.address + side.bytes;
    if (side.address == 0 || end < side.address || (side.address + page - 1) / page >= end / page) return;
    const PageRange pages{side.address / page * page, (end + page - 1) / page * page};
    std::uint64_t from = pages.start;
    std::vector<PageRange> uncovered;
    for (auto next = segments_.upper_bound(from); from < pages.end; ++next) {
        const bool is_last = next == segments_.end() || next->second.pages.start >= pages.end;
        const std::uint64_t to = is_last ? pages.end : next->second.pages.start;
        if (from < to) uncovered.push_back({from, to});
        if (is_last) break;
        from = next->second.pages.end;
    }
    for (const PageRange range : uncovered) add(range);
}

void HostWatch::add(PageRange pages) {
    if (segments_.size() >= most_segments) return;
    bool is_taken[PageTracker::colours] = {};
    const auto after = segments_.upper_bound(pages.start);
    if (after != segments_.end() && after->second.pages.start == pages.end) is_taken[after->second.colour] = true;
    if (after != segments_.begin() && std::prev(after)->second.pages.end == pages.start)
        is_taken[std::prev(after)->second.colour] = true;
    const auto colour = unsigned(std::find(std::begin(is_taken), std::end(is_taken), false) - std::begin(is_taken));
    if (!tracker_.track(pages, colour)) return;
    const double units = double(pages.bytes()) / double(unit);
    segments_.emplace(pages.end,
                      Segment{.pages = pages, .named = {0, 0}, .colour = colour, .look_ns = units * costs_.look});
}

// ----------------------------------------------------------------------------------------- calls of the program

// What keeps the segments right in a pause.
void HostWatch::pass_over(std::uint64_t time, const HostSide& side, bool is_before) noexcept {
    locked([&] {
        budget_.leave_out(time);
        const auto first = segments_.upper_bound(side.address);
        if (first == segments_.end() || first->second.pages.start >= side.address + side.bytes) return;
        const std::vector<Segment*> segments = within(side);
        bool is_released = false;
        for (Segment* const segment : segments) {
            segment->has_gap |= segment->state != State::watched || side.is_target;
            if (segment->state != State::watched) {
                const bool may_run = !is_before && side.is_target && !side.blocking;
                become(*segment, is_before ? State::copying : may_run ? State::awaiting : State::idle);
            } else if (side.is_target) {  // the copy's own writes are not the program's
                write_quiet(*segment);
                become(*segment, State::copying);
                is_released = true;
            }
        }
        if (is_released) release(segments, side);
    });
}

void HostWatch::copies(Moment at, const HostSide& side) noexcept {
    const std::uint64_t time = at.time;
    if (budget_.pauses(time)) return pass_over(time, side, true);
    guarded([&] {
        std::vector<Segment*> open;
        double cost = 0;
        for (Segment* const segment : within(side)) {
            if (segment->state == State::watched)
                open.push_back(segment), cost += segment->look_ns;
            else
                become(*segment, State::copying);
        }
        if (open.empty()) return;
        if (!budget_.affords(time, cost)) {
            budget_.leave_out(time);
            if (!side.is_target) return;
            for (Segment* const segment : open)  // the copy's own writes are not the program's
                segment->has_gap = true, write_quiet(*segment), become(*segment, State::copying);
            return release(open, side);
        }
        const bool reads = budget_.affords(time, cost + smaps_ns_);
        const std::vector<std::uint64_t> of_all = reads ? touched(open) : std::vector(open.size(), unknown);
        for (std::size_t i = 0; i < open.size(); ++i) end_window(*open[i], time, of_all[i]);
        if (side.is_target) release(open, side);
        remove_gone();
    });
}

// A copy into protected pages would take a fault for each.
void HostWatch::release(const std::vector<Segment*>& segments, const HostSide& side) {
    const std::uint64_t page = tracker_.page_bytes();
    for (const Segment* const segment : segments) {
        const std::uint64_t from = std::max(segment->pages.start, side.address / page * page);
        const std::uint64_t to = std::min(segment->pages.end, (side.address + side.bytes + page - 1) / page * page);
        if (segment->state != State::gone && from < to) tracker_.release({from, to}, segment->colour);
    }
}

void HostWatch::copied(Moment at, const HostSide& side) noexcept {
    const std::uint64_t time = at.time;
    if (budget_.pauses(time)) return pass_over(time, side, false);
    guarded([&] {
        if (budget_.affords(time, 0))
            add(side);
        else
            budget_.leave_out(time);
        for (Segment* const segment : within(side)) {
            if (segment->state == State::watched) continue;
            const PageRange& pages = segment->pages;
            const std::uint64_t page = tracker_.page_bytes();
            segment->is_result = side.is_target;
            if (side.address <= segment->named.start && side.address + side.bytes >= segment->named.end)
                segment->has_gap = false;
            segment->is_all_touched =
                side.is_pageable && side.address < pages.start + page && side.address + side.bytes > pages.end - page;
            if (side.is_target && !side.blocking)
                become(*segment, State::awaiting);
            else
                begin(*segment, time);
        }
        remove_gone();
    });
}

void HostWatch::launched(Moment at) noexcept {
    const std::uint64_t time = at.time;
    if (is_launched_.load(std::memory_order_relaxed) || is_launched_.exchange(true) || budget_.pauses(time)) return;
    guarded([&] {
        double cost = 0;
        for (const auto& [end, segment] : segments_)
            if (segment.state == State::watched) cost += segment.look_ns;
        if (cost == 0) return;
        if (!affords_before_last(time, cost)) return budget_.leave_out(time);
        for (auto& [end, segment] : segments_) {
            if (segment.state != State::watched) continue;
            std::vector<PageRange> fresh;
            if (!find_written(segment, true, fresh)) continue;
            if (!fresh.empty()) write_quiet(segment);
            merge_into(segment.written, fresh);
            segment.launch = std::max(time, segment.since);
            has_launches_ = true;
        }
        remove_gone();
    });
}

void HostWatch::waited(Moment at) noexcept {
    const std::uint64_t time = at.time;
    const bool ran = is_launched_.exchange(false);
    if (ran) is_active_ = true;
    if (awaiting_ == 0 && !has_launches_) return;
    guarded([&] {
        has_launches_ = false;
        double cost = 0;
        for (auto& [end, segment] : segments_) {
            if (segment.state == State::awaiting) begin(segment, time);
            if (segment.launch != 0) cost += segment.look_ns;
        }
        if (!ran) return;
        const bool looks = affords_before_last(time, cost);
        if (!looks) budget_.leave_out(time);
        for (auto& [end, segment] : segments_) {
            const std::uint64_t launch = std::exchange(segment.launch, 0);
            if (launch == 0 || launch > time || segment.state != State::watched) continue;
            std::vector<PageRange> fresh;
            if (!looks)
                write_quiet(segment);
            else if (find_written(segment, false, fresh)) {
                if (fresh.empty())
                    segment.quiet = {segment.quiet.end == 0 ? launch : segment.quiet.start,
                                     std::max(segment.quiet.end, time)};
                else
                    write_quiet(segment), write(segment, {launch, time}, fresh, unknown, began_late);
            }
        }
        remove_gone();
    });
}

void HostWatch::frees(Moment at, PageRange) noexcept {
    const std::uint64_t time = at.time;
    if (!is_active_.exchange(false) && time < last_free_.load(std::memory_order_relaxed) + between_frees) return;
    last_free_ = time;
    guarded([&] { look_at_all(); });
}

void HostWatch::passes(Moment at) noexcept {
    const std::uint64_t time = at.time;
    const std::uint64_t last = std::max(last_pass_.load(std::memory_order_relaxed), budget_.began());
    if (time < last + std::max(between_passes, (last - budget_.began()) / passes_of_run)) return;
    last_pass_ = time;
    guarded([&] {
        for (auto& [end, segment] : segments_) {
            const double units = double(segment.pages.bytes()) / double(unit);
            if (segment.state == State::idle && budget_.has_half(time, units * (costs_.protect + costs_.cool)))
                begin(segment, time);
        }
        if (budget_.has_half(time, last_look_ns())) look_at_all();
    });
}

void HostWatch::finish(Moment at) noexcept {
    const std::uint64_t time = at.time;
    guarded([&] {
        const bool looked = look_at_all();
        for (auto& [end, segment] : segments_)
            if (segment.state == State::watched) become(segment, State::gone);  // so that what was seen is written
        remove_gone(looked);
        budget_.tell(time);
    });
    ended_ = true;
}

// ----------------------------------------------------------------------------------------- windows

// Many pages at once take less each than the few on which it was tried.
template <class Step>
bool HostWatch::timed(double units, double& cost, Step&& step) {
    const std::uint64_t begin = thread_time_ns();
    const bool is_done = step();
    if (units >= least_timed) cost = double(thread_time_ns() - begin) / units;
    return is_done;
}

void HostWatch::begin(Segment& segment, std::uint64_t time) {
    const double units = double(segment.pages.bytes()) / double(unit);
    become(segment, State::idle);
    // What the last time cost the program, this time will too.
    const double cost =
        units * (costs_.look + costs_.protect) + double(segment.last_written) / double(unit) * costs_.write;
    if (!affords_before_last(time, cost)) {
        segment.has_gap = true;
        return budget_.leave_out(time);
    }
    segment.has_huge = false;
    const auto protect = [&] { return tracker_.protect(segment.pages, segment.has_huge); };
    if (!timed(units, costs_.protect, protect)) return become(segment, State::gone);
    cool(segment, time);
    is_active_ = true;
    become(segment, State::watched);
    segment.since = monotonic_ns();
    segment.launch = segment.seen = segment.charged = segment.charged_touches = 0;
    segment.quiet = {0, 0};
    segment.written.clear();
    segment.seen_written.clear();
}

// A page that was cooled takes longer when it is touched next. Of a large range of which every page was just touched,
// by a copy to the device, a sixteenth tells how much is read; of what was copied back, each page counts.
void HostWatch::cool(Segment& segment, std::uint64_t time) {
    const std::uint64_t bytes = segment.pages.bytes(), page = tracker_.page_bytes();
    const bool is_sampled = segment.is_all_touched && !segment.is_result && !segment.has_huge && bytes >= least_sampled;
    segment.stripe = is_sampled ? std::max(page, bytes / most_stripes / page * page) : 0;
    segment.is_cool = false;
    const double units = double(bytes) / double(unit) / (is_sampled ? one_of : 1), looks = double(bytes) / double(unit);
    if (!affords_before_last(time, looks * costs_.look + units * (costs_.cool + (segment.has_huge ? 0 : costs_.touch))))
        return;
    segment.is_cool = timed(units, costs_.cool, [&] {
        bool is_done = true;
        for (const PageRange& range : cooled(segment)) is_done &= tracker_.cool(range);
        return is_done;
    });
    if (segment.is_cool && has_forked)  // pages that a child shares are not cooled
        segment.is_cool = touched({&segment}).front() == bytes - bytes_of(cooled(segment));
}

std::vector<PageRange> HostWatch::cooled(const Segment& segment) {
    if (segment.stripe == 0) return {segment.pages};
    std::vector<PageRange> ranges;
    for (std::uint64_t at = segment.pages.start; at < segment.pages.end; at += one_of * segment.stripe)
        ranges.push_back({at, std::min(at + segment.stripe, segment.pages.end)});
    return ranges;
}

// again: what is found is protected again, and is not found next time.
bool HostWatch::find_written(Segment& segment, bool again, std::vector<PageRange>& fresh) {
    const std::uint64_t begin = thread_time_ns();
    if (!tracker_.written(segment.pages, again, fresh)) {
        become(segment, State::gone);
        return false;
    }
    segment.look_ns = double(thread_time_ns() - begin);
    const std::uint64_t bytes = bytes_of(fresh);
    budget_.spend(double(bytes - std::min(bytes, segment.charged)) / double(unit) * costs_.write);
    segment.charged = again ? 0 : std::max(bytes, segment.charged);
    return true;
}

void HostWatch::end_window(Segment& segment, std::uint64_t time, std::uint64_t touched) {
    std::vector<PageRange> fresh;
    if (!find_written(segment, false, fresh)) return;
    time = std::max({time, segment.since, segment.launch});  // another thread may have begun it meanwhile
    write_quiet(segment);
    if (segment.launch != 0) write(segment, {segment.launch, time}, fresh, unknown, began_late);
    merge_into(segment.written, fresh);
    write(segment, {segment.since, time}, segment.written, read_bytes(segment, segment.written, touched),
          segment.has_gap ? began_late : 0);
    segment.last_written = bytes_of(segment.written);
    if (segment.is_cool && !segment.has_huge) {  // the copy touches the rest
        const std::uint64_t rest =
            bytes_of(cooled(segment)) - std::min(bytes_of(cooled(segment)), segment.charged_touches);
        budget_.spend(double(rest) / double(unit) * costs_.touch);
    }
    become(segment, State::copying);
    segment.launch = 0;
}

// Of the pages that were touched, those that were not written were read. A huge page that is written is split, and then
// all of it counts as touched.
std::uint64_t HostWatch::read_bytes(Segment& segment, const std::vector<PageRange>& written, std::uint64_t touched) {
    if (!segment.is_cool || touched == unknown) return unknown;
    const std::vector<PageRange> stripes = cooled(segment);
    const std::uint64_t all = segment.pages.bytes(), of_stripes = bytes_of(stripes), others = all - of_stripes;
    const std::uint64_t of_cooled = touched - std::min(touched, others);
    if (!segment.has_huge)
        budget_.spend(double(of_cooled - std::min(of_cooled, segment.charged_touches)) / double(unit) * costs_.touch);
    segment.charged_touches = std::max(of_cooled, segment.charged_touches);
    if (segment.has_huge && !written.empty()) return unknown;
    const std::uint64_t read = of_cooled - std::min(of_cooled, common_bytes(written, stripes));
    return segment.stripe == 0 ? read : std::min(all, std::uint64_t(double(read) / double(of_stripes) * double(all)));
}

// What is known now, for the case that a range is not mapped any more at the next look.
bool HostWatch::look_at_all() {
    const std::uint64_t time = monotonic_ns();  // after those that other threads began
    std::vector<Segment*> open;
    double cost = smaps_ns_;
    for (auto& [end, segment] : segments_)
        if (segment.state == State::watched) open.push_back(&segment), cost += segment.look_ns;
    if (open.empty()) return true;
    if (!budget_.affords(time, cost)) return budget_.leave_out(time), false;
    const std::vector<std::uint64_t> of_all = touched(open);
    for (std::size_t i = 0; i < open.size(); ++i) {
        Segment& segment = *open[i];
        std::vector<PageRange> fresh;
        if (!find_written(segment, false, fresh)) continue;
        segment.seen_written = segment.written;
        merge_into(segment.seen_written, fresh);
        segment.seen_read = read_bytes(segment, segment.seen_written, of_all[i]);
        segment.seen = time;
    }
    remove_gone();
    return true;
}

// Of a range that the program has unmapped, what was seen last is told.
void HostWatch::remove_gone(bool is_at_end) {
    for (auto next = segments_.begin(); next != segments_.end();) {
        Segment& segment = next->second;
        if (segment.state != State::gone) {
            ++next;
            continue;
        }
        write_quiet(segment);
        if (segment.seen != 0)
            write(segment, {segment.since, segment.seen}, segment.seen_written, segment.seen_read,
                  (is_at_end ? 0 : was_gone) | (segment.has_gap ? began_late : 0));
        tracker_.forget(segment.pages);
        next = segments_.erase(next);
    }
}

std::vector<std::uint64_t> HostWatch::touched(const std::vector<Segment*>& segments) {
    std::vector<PageRange> ranges;
    for (const Segment* const segment : segments) ranges.push_back(segment->pages);
    const std::uint64_t begin = thread_time_ns();
    const auto found = tracker_.touched(ranges);
    smaps_ns_ = double(thread_time_ns() - begin);
    std::vector<std::uint64_t> bytes;
    for (const auto& each : found) bytes.push_back(each.value_or(unknown));
    return bytes;
}

// ----------------------------------------------------------------------------------------- records

void HostWatch::write(const Segment& segment, PageRange times, const std::vector<PageRange>& written,
                      std::uint64_t read, std::uint32_t flags) {
    std::vector<HostPiece> pieces;
    for (const PageRange& range : written)
        pieces.push_back({.first = std::uint32_t((range.start - segment.pages.start) / unit),
                          .count = std::uint32_t(range.bytes() / unit)});
    for (std::size_t at = 0; at == 0 || at < pieces.size(); at += most_pieces) {
        const std::size_t count = std::min(most_pieces, pieces.size() - at);
        const bool has_more = at + count < pieces.size();
        const HostRecord record{.since = times.start,
                                .time = times.end,
                                .address = segment.named.start,
                                .bytes = segment.named.bytes(),
                                .pages = segment.pages.start,
                                .read = read,
                                .pieces = std::uint32_t(count),
                                .flags = (has_more ? goes_on : 0) | flags};
        journal_.append(Kind::host, {Journal::bytes_of(record),
                                     {reinterpret_cast<const char*>(pieces.data() + at), count * sizeof(HostPiece)}});
    }
}

void HostWatch::write_quiet(Segment& segment) {
    if (segment.quiet.end != 0) write(segment, segment.quiet, {}, unknown, began_late);
    segment.quiet = {0, 0};
}

}  // namespace firsttouch::inject
