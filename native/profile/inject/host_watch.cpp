#include "profile/inject/host_watch.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <exception>
#include <iterator>
#include <string>
#include <utility>

#include "profile/inject/undisturbed.hpp"

namespace firsttouch::inject {
namespace {

constexpr double shortest_run_ns = 1e9;  // a run counts as at least this long
constexpr double share_of_passes = 0.5;  // the rest is for looks whose time the program determines
constexpr std::uint64_t between_passes = 100'000'000, between_frees = 5'000'000;
constexpr std::uint64_t passes_of_run = 16;  // but at least so much of the run's time so far is between two passes
constexpr std::size_t most_segments = 4096;
constexpr std::size_t most_pieces = 8192;  // of a record
constexpr std::uint64_t unit = 4096;       // of the pieces of a record

std::atomic<bool> has_forked{false};

std::uint64_t clock_ns(clockid_t clock) noexcept {
    timespec now{};
    clock_gettime(clock, &now);
    return std::uint64_t(now.tv_sec) * 1'000'000'000 + std::uint64_t(now.tv_nsec);
}

// When this process began. Source: proc_pid_stat(5).
std::uint64_t process_start() {
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    std::FILE* const file = std::fopen("/proc/self/stat", "re");
    if (file == nullptr) return now;
    char text[1024];
    const std::size_t length = std::fread(text, 1, sizeof text - 1, file);
    std::fclose(file);
    text[length] = '\0';
    const std::string_view all(text);
    unsigned long long ticks = 0;
    std::size_t at = all.rfind(')');
    for (int field = 2; field < 22 && at != std::string_view::npos; ++field) at = all.find(' ', at + 1);
    if (at == std::string_view::npos || std::sscanf(text + at, "%llu", &ticks) != 1) return now;
    const double started = double(ticks) / double(sysconf(_SC_CLK_TCK)) * 1e9;
    const double age = double(clock_ns(CLOCK_BOOTTIME)) - started;
    return age > 0 && age < double(now) ? now - std::uint64_t(age) : now;
}

std::uint64_t bytes_of(const std::vector<PageRange>& ranges) {
    std::uint64_t bytes = 0;
    for (const PageRange& range : ranges) bytes += range.bytes();
    return bytes;
}

}  // namespace

HostWatch::HostWatch(Journal& journal, double percent)
    : journal_(journal), share_(percent / 100), process_(getpid()), began_(process_start()) {
    pthread_atfork(
        nullptr, [] { has_forked = true; }, nullptr);
}

template <class Step>
void HostWatch::guarded(Step&& step) noexcept {
    const Undisturbed undisturbed;
    if (ended_.load(std::memory_order_relaxed) || getpid() != process_) return;
    try {
        const std::scoped_lock lock(mutex_);
        step_began_ = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        step();
        spent_ns_ = spent_ns();
    } catch (const std::exception& reason) {
        if (!ended_.exchange(true))
            notice(Layer::host, std::string("host data are not looked at from here on: ") + reason.what());
    }
}

double HostWatch::spent_ns() const { return spent_ns_ + double(clock_ns(CLOCK_THREAD_CPUTIME_ID) - step_began_); }

bool HostWatch::affords(std::uint64_t time, double more_ns) const {
    const double run = time > began_ ? double(time - began_) : 0;
    return spent_ns() + more_ns <= share_ * std::max(run, shortest_run_ns);
}

// With what the last look at all of them will take.
bool HostWatch::affords_before_last(std::uint64_t time, double more_ns) const {
    return affords(time, more_ns + watched_units_ * tracker_.look_ns());
}

void HostWatch::become(Segment& segment, State state) {
    const double units = double(segment.pages.bytes()) / double(unit);
    if (segment.state == State::watched) watched_units_ -= units;
    if (state == State::watched) watched_units_ += units;
    segment.state = state;
}

void HostWatch::leave_out(std::uint64_t time) {
    if (left_out_++ == 0) first_left_out_ = time;
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
    segments_.emplace(
        pages.end, Segment{.pages = pages, .named = {0, 0}, .colour = colour, .look_ns = units * tracker_.look_ns()});
}

// ----------------------------------------------------------------------------------------- calls of the program

void HostWatch::copies(std::uint64_t time, const HostSide& side) noexcept {
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
        if (!affords(time, cost)) {
            leave_out(time);
            for (Segment* const segment : open)  // the copy's own writes are not the program's
                if (side.is_target) write_quiet(*segment), become(*segment, State::copying);
            return;
        }
        const bool reads = affords(time, cost + smaps_ns_);
        const std::vector<std::uint64_t> of_all = reads ? touched(open) : std::vector(open.size(), unknown);
        for (std::size_t i = 0; i < open.size(); ++i) end_window(*open[i], time, of_all[i]);
        remove_gone();
    });
}

void HostWatch::copied(std::uint64_t time, const HostSide& side) noexcept {
    guarded([&] {
        if (affords(time, 0))
            add(side);
        else
            leave_out(time);
        for (Segment* const segment : within(side)) {
            if (segment->state == State::watched) continue;
            if (side.is_target && !side.blocking)
                become(*segment, State::awaiting);
            else
                begin(*segment, time);
        }
        remove_gone();
    });
}

void HostWatch::launched(std::uint64_t time) noexcept {
    if (is_launched_.load(std::memory_order_relaxed) || is_launched_.exchange(true)) return;
    guarded([&] {
        double cost = 0;
        for (const auto& [end, segment] : segments_)
            if (segment.state == State::watched) cost += segment.look_ns;
        if (cost == 0) return;
        if (!affords_before_last(time, cost)) return leave_out(time);
        for (auto& [end, segment] : segments_) {
            if (segment.state != State::watched) continue;
            std::vector<PageRange> fresh;
            if (!find_written(segment, true, fresh)) continue;
            if (!fresh.empty()) write_quiet(segment);
            merge_into(segment.written, fresh);
            segment.launch = time;
        }
        remove_gone();
    });
}

void HostWatch::waited(std::uint64_t time) noexcept {
    const bool ran = is_launched_.exchange(false);
    if (ran) is_active_ = true;
    guarded([&] {
        double cost = 0;
        for (auto& [end, segment] : segments_) {
            if (segment.state == State::awaiting) begin(segment, time);
            if (segment.launch != 0) cost += segment.look_ns;
        }
        if (!ran) return;
        const bool looks = affords_before_last(time, cost);
        if (!looks) leave_out(time);
        for (auto& [end, segment] : segments_) {
            const std::uint64_t launch = std::exchange(segment.launch, 0);
            if (launch == 0 || segment.state != State::watched) continue;
            std::vector<PageRange> fresh;
            if (!looks)
                write_quiet(segment);
            else if (find_written(segment, false, fresh)) {
                if (fresh.empty())
                    segment.quiet = {segment.quiet.end == 0 ? launch : segment.quiet.start, time};
                else
                    write_quiet(segment), write(segment, {launch, time}, fresh, unknown);
            }
        }
        remove_gone();
    });
}

void HostWatch::frees(std::uint64_t time) noexcept {
    if (!is_active_.exchange(false) && time < last_free_.load(std::memory_order_relaxed) + between_frees) return;
    last_free_ = time;
    guarded([&] { look_at_all(); });
}

void HostWatch::passes(std::uint64_t time) noexcept {
    const std::uint64_t last = std::max(last_pass_.load(std::memory_order_relaxed), began_);
    if (time < last + std::max(between_passes, (last - began_) / passes_of_run)) return;
    last_pass_ = time;
    guarded([&] {
        const auto is_permitted = [&] {
            return spent_ns() <= share_of_passes * share_ * double(time > began_ ? time - began_ : 0);
        };
        for (auto& [end, segment] : segments_)
            if (segment.state == State::idle && is_permitted()) begin(segment, time);
        if (is_permitted()) look_at_all();
    });
}

void HostWatch::finish(std::uint64_t time) noexcept {
    guarded([&] {
        const bool looked = look_at_all();
        for (auto& [end, segment] : segments_)
            if (segment.state == State::watched) become(segment, State::gone);  // so that what was seen is written
        remove_gone(looked);
        tell_of_cost(time);
    });
    ended_ = true;
}

// ----------------------------------------------------------------------------------------- windows

void HostWatch::begin(Segment& segment, std::uint64_t time) {
    const double units = double(segment.pages.bytes()) / double(unit);
    become(segment, State::idle);
    const double last_ns = units * tracker_.look_ns();
    if (!affords_before_last(time, last_ns + units * tracker_.protect_ns() / 2)) return leave_out(time);
    segment.has_huge = false;
    if (!tracker_.protect(segment.pages, segment.has_huge)) {
        become(segment, State::gone);
        return;
    }
    segment.is_cool =
        affords_before_last(time, last_ns + units * tracker_.protect_ns() / 2) && tracker_.cool(segment.pages);
    if (segment.is_cool && has_forked)  // pages that a child shares are not cooled
        segment.is_cool = touched({&segment}).front() == 0;
    is_active_ = true;
    become(segment, State::watched);
    segment.since = clock_ns(CLOCK_MONOTONIC);
    segment.launch = segment.seen = segment.charged = 0;
    segment.quiet = {0, 0};
    segment.written.clear();
    segment.seen_written.clear();
}

// again: what is found is protected again, and is not found next time.
bool HostWatch::find_written(Segment& segment, bool again, std::vector<PageRange>& fresh) {
    const std::uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (!tracker_.written(segment.pages, again, fresh)) {
        become(segment, State::gone);
        return false;
    }
    segment.look_ns = double(clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin);
    const std::uint64_t bytes = bytes_of(fresh);
    spent_ns_ += double(bytes - std::min(bytes, segment.charged)) / double(unit) * tracker_.fault_ns();
    segment.charged = again ? 0 : std::max(bytes, segment.charged);
    return true;
}

void HostWatch::end_window(Segment& segment, std::uint64_t time, std::uint64_t touched) {
    std::vector<PageRange> fresh;
    if (!find_written(segment, false, fresh)) return;
    write_quiet(segment);
    if (segment.launch != 0) write(segment, {segment.launch, time}, fresh, unknown);
    merge_into(segment.written, fresh);
    write(segment, {segment.since, time}, segment.written, read_bytes(segment, segment.written, touched));
    become(segment, State::copying);
    segment.launch = 0;
}

// Of the pages that were touched, those that were not written were read. A huge page that is written is split, and then
// all of it counts as touched.
std::uint64_t HostWatch::read_bytes(const Segment& segment, const std::vector<PageRange>& written,
                                    std::uint64_t touched) const {
    if (!segment.is_cool || touched == unknown || (segment.has_huge && !written.empty())) return unknown;
    return touched - std::min(touched, bytes_of(written));
}

// What is known now, for the case that a range is not mapped any more at the next look.
bool HostWatch::look_at_all() {
    const std::uint64_t time = monotonic_ns();  // after those that other threads began
    std::vector<Segment*> open;
    double cost = smaps_ns_;
    for (auto& [end, segment] : segments_)
        if (segment.state == State::watched) open.push_back(&segment), cost += segment.look_ns;
    if (open.empty()) return true;
    if (!affords(time, cost)) return leave_out(time), false;
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
            write(segment, {segment.since, segment.seen}, segment.seen_written, segment.seen_read, !is_at_end);
        tracker_.forget(segment.pages);
        next = segments_.erase(next);
    }
}

std::vector<std::uint64_t> HostWatch::touched(const std::vector<Segment*>& segments) {
    std::vector<PageRange> ranges;
    for (const Segment* const segment : segments) ranges.push_back(segment->pages);
    const std::uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const auto found = tracker_.touched(ranges);
    smaps_ns_ = double(clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin);
    std::vector<std::uint64_t> bytes;
    for (const auto& each : found) bytes.push_back(each.value_or(unknown));
    return bytes;
}

// ----------------------------------------------------------------------------------------- records

void HostWatch::write(const Segment& segment, PageRange times, const std::vector<PageRange>& written,
                      std::uint64_t read, bool is_gone) {
    constexpr std::uint32_t goes_on = 1, was_gone = 2;
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
                                .flags = (has_more ? goes_on : 0) | (is_gone ? was_gone : 0)};
        journal_.append(Kind::host, {Journal::bytes_of(record),
                                     {reinterpret_cast<const char*>(pieces.data() + at), count * sizeof(HostPiece)}});
    }
}

void HostWatch::write_quiet(Segment& segment) {
    if (segment.quiet.end != 0) write(segment, segment.quiet, {}, unknown);
    segment.quiet = {0, 0};
}

void HostWatch::tell_of_cost(std::uint64_t time) {
    const double run = time > began_ ? double(time - began_) : 0, spent = spent_ns();
    char text[200];
    if (left_out_ > 0) {
        std::snprintf(text, sizeof text,
                      "%llu looks at host data were left out, the first %.3f s after the start, so that looking takes "
                      "at most %g %% of the run",
                      static_cast<unsigned long long>(left_out_), double(first_left_out_ - began_) * 1e-9,
                      share_ * 100);
        notice(Layer::host, text);
    }
    if (spent > share_ * run) {
        std::snprintf(text, sizeof text, "looking at host data took %.1f ms, %.1f %% of the run and not at most %g %%",
                      spent * 1e-6, spent / run * 100, share_ * 100);
        notice(Layer::host, text);
    }
}

}  // namespace firsttouch::inject
