#include "profile/inject/core/shadow.hpp"

#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <utility>

#include "profile/inject/core/watch_step.hpp"

namespace firsttouch::inject {
namespace {

constexpr std::uint64_t unit = 4096;  // of the pieces of a record
constexpr std::size_t most_pieces = 8192, most_apart = 1024, most_arrays = 4096;
constexpr std::uint64_t number_bytes = 8;              // that a kernel is taken to write at once
constexpr std::size_t at_once = 16 << 20;              // bytes that are compared
constexpr std::uint32_t was_gone = 2, began_late = 4;  // flags of HostRecord
constexpr std::uint8_t some_of_pages = 1, not_all_looked_at = 2, given_back = 4, in_heap = 8;  // of DifferenceRecord
constexpr std::uint64_t not_known = ~std::uint64_t(0);

std::atomic<bool> has_forked{false};

std::uint64_t bytes_of(const std::vector<PageRange>& ranges) {
    std::uint64_t bytes = 0;
    for (const PageRange& range : ranges) bytes += range.bytes();
    return bytes;
}

PageRange common(PageRange a, PageRange b) {
    const std::uint64_t start = std::max(a.start, b.start);
    return {start, std::max(start, std::min(a.end, b.end))};
}

std::vector<PageRange> common(const std::vector<PageRange>& ranges, PageRange within) {
    std::vector<PageRange> found;
    for (const PageRange& range : ranges)
        if (const PageRange both = common(range, within); both.bytes() != 0) found.push_back(both);
    return found;
}

// Of ranges in order, what others, which are in order too, do not have.
std::vector<PageRange> without(const std::vector<PageRange>& ranges, const std::vector<PageRange>& others) {
    std::vector<PageRange> left;
    for (PageRange range : ranges) {
        for (const PageRange& other : others) {
            if (other.end <= range.start) continue;
            if (other.start >= range.end) break;
            if (range.start < other.start) left.push_back({range.start, other.start});
            range.start = std::min(range.end, other.end);
        }
        if (range.bytes() != 0) left.push_back(range);
    }
    return left;
}

void add_page(std::vector<PageRange>& pages, std::uint64_t page, std::uint64_t bytes) {
    if (!pages.empty() && pages.back().end == page)
        pages.back().end += bytes;
    else
        pages.push_back({page, page + bytes});
}

// Memory of this process, which another thread may give back meanwhile.
bool read_memory(std::uint64_t from, char* into, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes;) {
        const iovec local{into + at, bytes - at}, remote{reinterpret_cast<void*>(from + at), bytes - at};
        const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
        if (got <= 0) return false;
        at += std::size_t(got);
    }
    return true;
}

// Whether an address is in a heap of malloc, where memory that is given back stays mapped.
bool is_in_heap(std::uint64_t address) {
    constexpr std::uint64_t arena = 64 << 20;  // to which glibc aligns the heaps of its arenas
    std::ifstream maps("/proc/self/maps");
    PageRange joined{0, 0};
    for (std::string line; std::getline(maps, line);) {
        unsigned long long start = 0, end = 0;
        if (std::sscanf(line.c_str(), "%llx-%llx", &start, &end) != 2) return false;
        joined = {joined.end == start ? joined.start : start, end};
        if (address < start || address >= end) continue;
        return line.ends_with("[heap]") || (joined.start % arena == 0 && address - joined.start < arena);
    }
    return false;
}

std::uint64_t count_different(const char* a, const char* b, std::size_t bytes) {
    if (std::memcmp(a, b, bytes) == 0) return 0;
    std::uint64_t different = 0;
    for (std::size_t i = 0; i < bytes; ++i) different += a[i] != b[i] ? 1 : 0;
    return different;
}

}  // namespace

Shadow::Shadow(Journal& journal, Places& places) : journal_(journal), places_(places) {
    pthread_atfork(
        nullptr, [] { has_forked = true; }, nullptr);
    if (!faults_.why_not().empty())
        notice(Layer::host, "no lines of the CPU's writes are known, only the calls around them: ", faults_.why_not());
}

template <class Step>
void Shadow::locked(Step&& step) noexcept {
    watch_step(ended_, home_, mutex_, "the shadow run does not look from here on: ", [&] {
        step();
        remove_ended();
    });
}

template <class Do>
void Shadow::each_within(PageRange range, Do&& act) {
    for (auto next = arrays_.upper_bound(range.start); next != arrays_.end() && next->second.bytes.start < range.end;
         ++next)
        if (!next->second.is_gone) act(next->second);
}

// ----------------------------------------------------------------------------------------- calls of the program

void Shadow::copies(Moment at, const HostSide& side) noexcept {
    locked([&] {
        if (!side.is_async && running_.size() == 1 && *running_.begin() == at.stream) running_.clear();  // it waits
        look(at);
        const PageRange named{side.address, side.address + side.bytes};
        each_within(named, [&](Array& array) {
            if (array.copied != 0) write_use(array, array.copied, at.time, array.written_since_copy, array.read, 0);
            array.copied = 0;
            if (!side.is_target && array.device - array.bytes.start == side.device - side.address)
                find_restored(array, side, at);
            array.is_copying = true;
            if (side.is_target) release(common(named, array.bytes));
        });
    });
}

void Shadow::copied(Moment at, const HostSide& side) noexcept {
    locked([&] {
        const PageRange named{side.address, side.address + side.bytes};
        each_within(named, [](Array& array) { array.is_copying = false; });
        if (side.device == 0 || side.bytes == 0) return;
        if (side.is_async) running_.insert(at.stream);
        Array& array = array_of(side, at);
        if (array.is_gone) return;
        const PageRange device{side.device, side.device + side.bytes};
        for (auto& [end, other] : arrays_)  // that had its place in the block
            if (!side.is_target && &other != &array && !other.is_gone &&
                common({other.device, other.device + other.bytes.bytes()}, device).bytes() != 0)
                this->end(other, at, 0);
        array.copied = at.time;
        array.read = 0;
        array.written_since_copy.clear();
        if (side.is_target && !side.blocking) {
            array.is_awaiting = true;
            return;
        }
        after_copy(array, named, side.is_target, at);
    });
}

void Shadow::launches(Moment at) noexcept {
    locked([&] { look(at); });
}

void Shadow::launched(Moment at) noexcept {
    locked([&] {
        running_.insert(at.stream);
        last_launch_ = at.time;
        for (auto& [end, array] : arrays_) {
            array.is_device_newer |= array.has_device;
            if (array.launch == 0) array.launch = at.time, array.written_since_launch.clear();
        }
    });
}

void Shadow::waited(Moment at) noexcept {
    locked([&] {
        if (at.stream == Moment::all || running_.size() <= 1)
            running_.clear();
        else
            running_.erase(at.stream);
        look(at);
        if (!running_.empty()) return;
        for (auto& [end, array] : arrays_) {
            if (array.launch != 0)
                write_use(array, array.launch, at.time, array.written_since_launch, not_known, began_late);
            array.launch = 0;
            array.written.clear();
            if (std::exchange(array.is_awaiting, false)) after_copy(array, array.bytes, true, at);
        }
        last_wait_ = at;
    });
}

void Shadow::copied_otherwise(Moment at, PageRange named) noexcept {
    locked([&] { each_within(named, [&](Array& array) { end(array, at, not_all_looked_at); }); });
}

// A free of memory waits for what may use it.
void Shadow::frees(Moment at, PageRange block) noexcept {
    locked([&] {
        running_.clear();
        look(at);
        for (auto& [end, array] : arrays_) {
            if (common(array.bytes, block).bytes() != 0) {
                array.is_gone = true;
                this->end(array, at, 0);
            }
            if (array.is_gone || !array.has_device || array.device < block.start || array.device >= block.end) continue;
            std::uint64_t differing = 0;
            if (array.is_device_newer) array.newer = newer_pages(array, {array.whole}, differing);
            array.has_device = array.is_device_newer = false;
            if (array.newer.empty()) this->end(array, at, 0);
        }
    });
}

void Shadow::finish(Moment at) noexcept {
    locked([&] {
        look(at);
        for (auto& [end, array] : arrays_)
            if (!array.is_gone) this->end(array, at, 0);
    });
    ended_ = true;
}

// ----------------------------------------------------------------------------------------- looks

// The reads before the writes, since looking at bytes counts as a read.
void Shadow::look(Moment at) {
    at.time = std::max(at.time, last_look_.time);  // another thread may have looked since
    std::vector<PageRange> fresh;
    for (auto next = tracked_.begin(); next != tracked_.end();) {
        const PageRange range = next->second;
        if (tracker_.written(range, true, fresh)) {
            ++next;
            continue;
        }
        for (auto& [end, array] : arrays_)
            if (!array.is_gone && common(array.pages, range).bytes() != 0) this->end(array, at, given_back);
        tracker_.forget(range);
        next = tracked_.erase(next);
    }
    std::vector<PageRange> cooled;
    std::vector<Array*> of;
    for (auto& [end, array] : arrays_)
        if (!array.is_gone && array.is_cool) cooled.push_back(array.whole), of.push_back(&array);
    const std::vector<std::uint64_t> bytes = touched(cooled);
    for (std::size_t i = 0; i < of.size(); ++i) of[i]->touched = bytes[i];
    for (auto& [end, array] : arrays_) {
        if (array.is_gone || array.is_copying || array.is_awaiting) continue;
        const std::vector<PageRange> own = common(fresh, array.pages);
        find_read(array, own, at);
        merge_into(array.written, own);
        merge_into(array.written_since_copy, own);
        merge_into(array.written_since_launch, own);
        compare(array, own, at);
    }
    for (auto& [end, array] : arrays_)
        if (!array.is_gone && !array.is_copying && !array.is_cool && array.whole.bytes() != 0)
            array.is_cool = cool(array.whole);
    last_look_ = at;
}

// A copy into protected pages would take a fault for each.
void Shadow::release(PageRange bytes) {
    const std::uint64_t page = tracker_.page_bytes();
    for (const auto& [end, range] : tracked_)
        if (const PageRange both = common(range, {bytes.start / page * page, (bytes.end + page - 1) / page * page});
            both.bytes() != 0)
            tracker_.release(both, 0);
}

// Parts of a huge page are not touched alone, until it is split, as it is where only a part is cooled.
bool Shadow::cool(PageRange pages) {
    constexpr std::uint64_t huge = 2 << 20;
    for (std::uint64_t part = pages.start / huge * huge; part < pages.end; part += huge)
        if (part >= pages.start && part + huge <= pages.end) tracker_.cool({part, part + tracker_.page_bytes()});
    return tracker_.cool(pages) && (!has_forked || touched({pages}).front() == 0);  // a child may share them
}

// How many bytes of each range, which are in order, were touched since they were cooled. Neighbours are looked at one
// after the other, since marks that are equal make one mapping of them.
std::vector<std::uint64_t> Shadow::touched(const std::vector<PageRange>& ranges) {
    std::vector<std::uint64_t> bytes(ranges.size());
    std::vector<std::size_t> groups[2];
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        const bool is_neighbour = i > 0 && ranges[i - 1].end == ranges[i].start;
        groups[is_neighbour && !groups[0].empty() && groups[0].back() == i - 1 ? 1 : 0].push_back(i);
    }
    std::vector<PageRange> some;
    for (const std::vector<std::size_t>& group : groups)
        for (std::size_t at = 0; at < group.size(); at += most_apart) {
            const std::size_t count = std::min(most_apart, group.size() - at);
            some.clear();
            for (std::size_t i = 0; i < count; ++i) some.push_back(ranges[group[at + i]]);
            for (const PageRange& range : some) tracker_.set_apart(range, true);
            const auto found = tracker_.touched(some);
            for (const PageRange& range : some) tracker_.set_apart(range, false);
            for (std::size_t i = 0; i < count; ++i) bytes[group[at + i]] = found[i].value_or(0);
        }
    return bytes;
}

std::vector<PageRange> Shadow::touched_among(const std::vector<PageRange>& ranges) {
    const std::vector<std::uint64_t> bytes = touched(ranges);
    std::vector<PageRange> found;
    for (std::size_t i = 0; i < ranges.size(); ++i)
        if (bytes[i] != 0) merge_into(found, std::span(ranges).subspan(i, 1));
    return found;
}

std::vector<PageRange> Shadow::pages_of(const std::vector<PageRange>& ranges) const {
    const std::uint64_t page = tracker_.page_bytes();
    std::vector<PageRange> pages;
    for (const PageRange& range : ranges)
        for (std::uint64_t at = range.start; at < range.end; at += page) pages.push_back({at, at + page});
    return pages;
}

// Parts of some bytes, of which each is read into the same memory.
std::vector<PageRange> Shadow::parts_of(PageRange bytes) {
    std::vector<PageRange> parts;
    while (bytes.bytes() != 0) {
        parts.push_back({bytes.start, std::min(bytes.end, (bytes.start / at_once + 1) * at_once)});
        bytes.start = parts.back().end;
        part_.resize(std::max<std::size_t>(part_.size(), parts.back().bytes()));
    }
    return parts;
}

// Pages of which the block has other bytes than the array, though the CPU has not changed them.
std::vector<PageRange> Shadow::newer_pages(Array& array, const std::vector<PageRange>& among,
                                           std::uint64_t& differing) {
    std::vector<PageRange> newer;
    differing = 0;
    for (const PageRange& pages : among)
        for (const PageRange& part : parts_of(common(pages, array.bytes))) {
            if (read_device_ == nullptr ||
                !read_device_(part_.data(), array.device + (part.start - array.bytes.start), part.bytes())) {
                write_unseen(array);
                return newer;
            }
            merge_into(newer, different_pages(array, part, differing));
        }
    return newer;
}

// Pages of a part that was read of which the array had other bytes when it was looked at last, though the CPU has not
// changed them.
std::vector<PageRange> Shadow::different_pages(const Array& array, PageRange part, std::uint64_t& differing) const {
    const std::uint64_t page = tracker_.page_bytes();
    std::vector<PageRange> pages;
    for (std::uint64_t at = part.start / page * page; at < part.end; at += page) {
        const PageRange bytes = common({at, at + page}, part);
        if (array.changes.contains(at)) continue;
        const std::uint64_t different =
            count_different(part_.data() + (bytes.start - part.start),
                            array.last.data() + (bytes.start - array.bytes.start), bytes.bytes());
        if (different == 0) continue;
        differing += different;
        add_page(pages, at, page);
    }
    return pages;
}

void Shadow::find_read(Array& array, const std::vector<PageRange>& written, Moment at) {
    if (array.whole.bytes() == 0) return;
    if (!array.is_cool) {
        if (array.is_device_newer || !array.newer.empty()) write_unseen(array);
        array.read = not_known;
        return;
    }
    const std::uint64_t read = array.touched - std::min(array.touched, bytes_of(common(written, array.whole)));
    array.is_cool = array.touched == 0;  // or it is cooled after this look
    if (array.read != not_known) array.read += read;
    if (array.has_device) {
        if (!array.is_device_newer || (read == 0 && array.reads.empty())) return;
        if (!running_.empty()) {
            if (read != 0) array.reads.push_back({last_look_, at, read});
            return;
        }
        std::uint64_t differing = 0;
        const std::vector<PageRange> newer = newer_pages(array, {array.whole}, differing);
        write_reads(array, newer, differing);
        if (read == 0) return;
        array.newer = newer;
    }
    if (std::vector<PageRange> found = touched_among(without(array.newer, written)); !found.empty()) {
        found = touched_among(pages_of(found));
        std::uint64_t differing = 0;
        if (array.has_device) newer_pages(array, found, differing);
        write(array, What::read, last_look_, at, found, differing);
    }
    if (array.has_device) array.newer.clear();
}

// What was read before it was known of which pages the block has newer bytes.
void Shadow::write_reads(Array& array, const std::vector<PageRange>& newer, std::uint64_t differing) {
    for (const ReadTime& read : std::exchange(array.reads, {})) {
        const bool is_certain = read.bytes > array.whole.bytes() - bytes_of(newer);
        if (!newer.empty())
            write(array, What::read, read.since, read.until, newer, differing, 0, is_certain ? 0 : some_of_pages);
    }
}

// What the CPU has changed, by its bytes.
void Shadow::compare(Array& array, const std::vector<PageRange>& written, Moment at) {
    const std::uint64_t page = tracker_.page_bytes();
    std::vector<PageRange> changed;
    std::vector<std::uint64_t> pages;
    std::uint64_t differing = 0;
    for (const PageRange& fresh : written)
        for (const PageRange& part : parts_of(common(fresh, array.bytes))) {
            if (!read_memory(part.start, part_.data(), part.bytes())) return end(array, at, given_back);
            for (std::uint64_t start = part.start / page * page; start < part.end; start += page) {
                const PageRange bytes = common({start, start + page}, part);
                char* const last = array.last.data() + (bytes.start - array.bytes.start);
                const char* const now = part_.data() + (bytes.start - part.start);
                const std::uint64_t different = count_different(now, last, bytes.bytes());
                if (different == 0) continue;
                differing += different;
                add_page(changed, start, page);
                pages.push_back(start);
                const auto [change, is_first] = array.changes.try_emplace(start);
                if (is_first) change->second.equal.assign(last, last + bytes.bytes());
                change->second.since = last_look_, change->second.until = at;
                std::memcpy(last, now, bytes.bytes());
            }
        }
    if (changed.empty()) return;
    const std::uint32_t site = site_of_write(changed);
    for (const std::uint64_t start : pages) array.changes[start].site = site;
    write(array, What::changed, last_look_, at, changed, differing, site);
}

// The line of the C library that writes is that of the call of it.
std::uint32_t Shadow::site_of_write(const std::vector<PageRange>& pages) {
    const FaultSample* const fault = faults_.first_in(pages, last_look_.time);
    return fault == nullptr ? 0 : places_.of_fault(fault->instruction, fault->stack);
}

// ----------------------------------------------------------------------------------------- copies

// Before a copy to the device. What the CPU wrote since the last wait is newer than what kernels wrote.
void Shadow::find_restored(Array& array, const HostSide& side, Moment at) {
    if (!array.has_device || !array.is_device_newer) return;
    if (!running_.empty()) return write_unseen(array);
    const std::vector<PageRange> named{{side.address, side.address + side.bytes}};
    std::uint64_t differing = 0;
    const std::vector<PageRange> newer = newer_pages(array, without(named, array.written), differing);
    if (!newer.empty()) write(array, What::restored, last_wait_, at, newer, differing);
}

// Both sides of some bytes are equal.
void Shadow::after_copy(Array& array, PageRange side, bool is_back, Moment at) {
    const std::uint64_t page = tracker_.page_bytes();
    const PageRange own = common(side, array.bytes);
    std::uint64_t differing = 0;
    std::vector<PageRange> newer;
    std::vector<Lost> lost;
    for (const PageRange& part : parts_of(own)) {
        if (!read_memory(part.start, part_.data(), part.bytes())) return end(array, at, given_back);
        if (is_back) find_replaced(array, part, lost);
        if (is_back && !array.reads.empty()) merge_into(newer, different_pages(array, part, differing));
        std::memcpy(array.last.data() + (part.start - array.bytes.start), part_.data(), part.bytes());
    }
    if (is_back) write_reads(array, newer, differing);
    for (const Lost& each : lost) write(array, What::replaced, each.since, at, each.pages, each.differing, each.site);
    for (auto next = array.changes.lower_bound(own.start / page * page);
         next != array.changes.end() && next->first < own.end;) {
        const PageRange bytes = common({next->first, next->first + page}, array.bytes);
        next = bytes == common(bytes, own) ? array.changes.erase(next) : std::next(next);
    }
    if (own == array.bytes) {
        array.is_device_newer = false;
        array.equal_since = at.time;
        array.reads.clear();
    }
    array.written = without(array.written, {own});
    bool has_huge = false;
    for (const auto& [end, range] : tracked_)
        if (const PageRange pages = common(range, array.pages); pages.bytes() != 0) tracker_.protect(pages, has_huge);
    array.is_cool = array.whole.bytes() != 0 && cool(array.whole);
    array.copied = monotonic_ns();
}

// After a copy to the host, of a part that was read; `last` has the bytes before the copy. What the CPU changed after
// the last wait is newer than what kernels wrote; what it changed before is lost where they have not written.
void Shadow::find_replaced(const Array& array, PageRange part, std::vector<Lost>& lost) const {
    const std::uint64_t page = tracker_.page_bytes();
    for (auto next = array.changes.lower_bound(part.start / page * page);
         next != array.changes.end() && next->first < part.end; ++next) {
        const auto& [start, change] = *next;
        const PageRange all = common({start, start + page}, array.bytes), bytes = common(all, part);
        const bool is_last = last_wait_.time >= last_launch_ && change.since.time >= last_wait_.time;
        std::uint64_t differing = 0;
        for (PageRange word{bytes.start, 0}; word.start < bytes.end; word.start = word.end) {
            word.end = std::min(bytes.end, (word.start / number_bytes + 1) * number_bytes);
            const char* const equal = change.equal.data() + (word.start - all.start);
            const char* const before = array.last.data() + (word.start - array.bytes.start);
            const char* const after = part_.data() + (word.start - part.start);
            const bool is_changed = std::memcmp(equal, before, word.bytes()) != 0;
            if (is_changed && (is_last || std::memcmp(equal, after, word.bytes()) == 0))
                differing += count_different(before, after, word.bytes());
        }
        if (differing == 0) continue;
        if (lost.empty() || lost.back().since.time != change.since.time || lost.back().site != change.site)
            lost.push_back({change.since, change.site, {}, 0});
        lost.back().differing += differing;
        add_page(lost.back().pages, start, page);
    }
}

// The array that a copy names. What copies joined with another block, or at other offsets, is one no more.
Shadow::Array& Shadow::array_of(const HostSide& side, Moment at) {
    const std::uint64_t page = tracker_.page_bytes();
    PageRange bytes{side.address, side.address + side.bytes};
    std::vector<Array*> joined;
    each_within(bytes, [&](Array& array) {
        if (array.has_device && array.device - array.bytes.start == side.device - side.address)
            joined.push_back(&array);
        else
            end(array, at, not_all_looked_at);
    });
    if (joined.size() == 1 && joined.front()->bytes == common(joined.front()->bytes, bytes) &&
        joined.front()->bytes.bytes() == bytes.bytes())
        return *joined.front();
    if (joined.size() == 1 && common(joined.front()->bytes, bytes) == bytes) return *joined.front();
    Array made;
    for (const Array* const array : joined)
        bytes = {std::min(bytes.start, array->bytes.start), std::max(bytes.end, array->bytes.end)};
    made.bytes = bytes;
    made.device = side.device - (side.address - bytes.start);
    made.pages = {bytes.start / page * page, (bytes.end + page - 1) / page * page};
    made.whole = {(bytes.start + page - 1) / page * page, bytes.end / page * page};
    made.whole.end = std::max(made.whole.start, made.whole.end);
    made.last.resize(bytes.bytes());
    made.equal_since = at.time;
    made.is_in_heap = is_in_heap(bytes.start);
    made.is_gone = arrays_.size() >= most_arrays || !read_memory(bytes.start, made.last.data(), made.last.size());
    for (Array* const array : joined) {
        std::memcpy(made.last.data() + (array->bytes.start - bytes.start), array->last.data(), array->last.size());
        made.changes.merge(array->changes);
        made.is_device_newer |= array->is_device_newer;
        array->is_gone = true;
    }
    remove_ended();
    if (!made.is_gone && !track(made.pages))
        made.is_gone = true, write(made, What::ended, at, at, {}, 0, 0, not_all_looked_at);
    return arrays_[bytes.end] = std::move(made);
}

// Whether all of its pages are tracked then.
bool Shadow::track(PageRange pages) {
    std::vector<PageRange> known;
    for (const auto& [end, range] : tracked_) known.push_back(range);
    bool is_tracked = true;
    for (const PageRange& range : without({pages}, known)) {
        is_tracked &= tracker_.track(range, 0);
        if (is_tracked) tracked_.emplace(range.end, range);
    }
    return is_tracked;
}

// Nothing more is found out of an array.
void Shadow::end(Array& array, Moment at, std::uint8_t flags) {
    if (!array.is_device_newer && array.newer.empty()) flags &= std::uint8_t(~given_back);
    if (array.copied != 0)
        write_use(array, array.copied, at.time, array.written_since_copy, array.read,
                  (flags & given_back) != 0 ? was_gone : 0);
    write(array, What::ended, Moment(array.equal_since), at, {}, 0, 0, flags);
    array.is_gone = true;
}

void Shadow::remove_ended() {
    std::erase_if(arrays_, [](const auto& entry) { return entry.second.is_gone; });
}

// ----------------------------------------------------------------------------------------- records

namespace {

std::vector<HostPiece> pieces_of(const std::vector<PageRange>& pages, std::uint64_t first) {
    std::vector<HostPiece> pieces;
    for (const PageRange& range : pages) {
        if (pieces.size() == most_pieces) break;
        pieces.push_back({.first = std::uint32_t((range.start - first) / unit),
                          .count = std::uint32_t((range.end - range.start) / unit)});
    }
    return pieces;
}

Journal::Piece content_of(const std::vector<HostPiece>& pieces) {
    return {reinterpret_cast<const char*>(pieces.data()), pieces.size() * sizeof(HostPiece)};
}

}  // namespace

void Shadow::write(const Array& array, What what, Moment since, Moment until, const std::vector<PageRange>& pages,
                   std::uint64_t differing, std::uint32_t site, std::uint8_t flags) {
    const std::vector<HostPiece> pieces = pieces_of(pages, array.pages.start);
    const DifferenceRecord record{.since = since.time,
                                  .time = until.time,
                                  .copied = array.equal_since,
                                  .address = array.bytes.start,
                                  .bytes = array.bytes.bytes(),
                                  .pages = array.pages.start,
                                  .device = array.device,
                                  .differing = differing,
                                  .after = since.site,
                                  .before = until.site,
                                  .site = site,
                                  .pieces = std::uint32_t(pieces.size()),
                                  .what = std::uint8_t(what),
                                  .flags = std::uint8_t(flags | (array.is_in_heap ? in_heap : 0)),
                                  .unused = {}};
    journal_.append(Kind::difference, {Journal::bytes_of(record), content_of(pieces)});
}

// What the block has now, or had until now, could not be looked at.
void Shadow::write_unseen(const Array& array) { write(array, What::unseen, last_look_, monotonic_ns(), {}, 0); }

void Shadow::write_use(const Array& array, std::uint64_t since, std::uint64_t until,
                       const std::vector<PageRange>& written, std::uint64_t read, std::uint32_t flags) {
    const std::vector<HostPiece> pieces = pieces_of(written, array.pages.start);
    const HostRecord record{.since = since,
                            .time = std::max(since, until),
                            .address = array.bytes.start,
                            .bytes = array.bytes.bytes(),
                            .pages = array.pages.start,
                            .read = read,
                            .pieces = std::uint32_t(pieces.size()),
                            .flags = flags};
    journal_.append(Kind::host, {Journal::bytes_of(record), content_of(pieces)});
}

}  // namespace firsttouch::inject
