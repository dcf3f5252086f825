// The calls that move bytes: copies, fills, prefetches and advice.
#include <algorithm>
#include <cstring>

#include "profile/inject/core/recorder.hpp"

namespace firsttouch::inject {
namespace {

constexpr std::uint8_t copy = 0;
enum Flag : std::uint8_t { captured = 1, blocking = 4, has_sample = 8, has_before = 16, of_all = 64 };
constexpr std::uint64_t most_pointer_bytes = 64 << 10;
constexpr std::size_t most_targets = 1 << 16;

// The sample of what a copy to the host is about to overwrite, between the two callbacks of this thread.
struct Overwritten {
    std::uint32_t correlation = 0;  // 0: there is none
    std::uint64_t hash = 0;
};
thread_local Overwritten overwritten;

std::uint64_t word_at(const unsigned char* words, std::uint64_t i) {
    std::uint64_t word;
    std::memcpy(&word, words + i * sizeof word, sizeof word);
    return word;
}

// Whether the upper half of a word is that of an address in a range, which most data are not. Written so that compilers
// use vectors.
__attribute__((always_inline)) inline bool has_upper_half(const unsigned char* words, std::uint64_t count,
                                                          std::uint32_t lowest, std::uint32_t extent) {
    std::uint32_t hits = 0;
    for (std::uint64_t i = 0; i < count; ++i)
        hits |= static_cast<std::uint32_t>(word_at(words, i) >> 32) - lowest <= extent ? 1u : 0u;
    return hits != 0;
}
#if defined(__x86_64__)
__attribute__((target("avx2"))) bool has_upper_half_avx2(const unsigned char* words, std::uint64_t count,
                                                         std::uint32_t lowest, std::uint32_t extent) {
    return has_upper_half(words, count, lowest, extent);
}
#endif
bool may_hold(const unsigned char* words, std::uint64_t count, std::uint64_t lowest, std::uint64_t extent) {
    const auto low = static_cast<std::uint32_t>(lowest >> 32);
    const auto more = static_cast<std::uint32_t>((lowest + extent) >> 32) - low;
#if defined(__x86_64__)
    static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
    if (has_avx2) return has_upper_half_avx2(words, count, low, more);
#endif
    return has_upper_half(words, count, low, more);
}

// What the GPU's driver does not move, and what is no frame.
bool is_watched(HostPlace place) { return place != HostPlace::managed && place != HostPlace::stack; }

HostSide host_side(const Transfer& transfer, bool waits, bool is_pageable = true) {
    const HostRows rows = transfer.host_rows();
    return {.address = rows.address,
            .bytes = rows.rows > 1 ? (rows.rows - 1) * rows.pitch + rows.bytes : rows.bytes,
            .is_target = transfer.direction == Direction::to_host,
            .blocking = waits || transfer.direction == Direction::to_device,
            .is_pageable = is_pageable,
            .device = rows.rows > 1                              ? 0
                      : transfer.direction == Direction::to_host ? transfer.source
                                                                 : transfer.target,
            .is_async = transfer.is_async};
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------ copies

// By what is known of both addresses, since programs may name a wrong direction, or none. What is in no block is of the
// host if the other side is of a device.
void Recorder::find_direction(Transfer& transfer) {
    const auto is_of_device = [this](std::uint64_t address) {
        const Block* const block = blocks_.find(address);
        return block != nullptr && !block->is_of_host() && !block->is_managed();
    };
    const auto is_managed = [this](std::uint64_t address) {
        const Block* const block = blocks_.find(address);
        return block != nullptr && block->is_managed();
    };
    if (transfer.has_host()) {
        if (is_of_device(transfer.host_rows().address)) transfer.direction = Direction::within_devices;
    } else if (transfer.direction == Direction::unknown) {
        const bool from_device = is_of_device(transfer.source) || is_managed(transfer.source);
        const bool to_device = is_of_device(transfer.target) || is_managed(transfer.target);
        transfer.direction = from_device ? (to_device ? Direction::within_devices : Direction::to_host)
                                         : (to_device ? Direction::to_device : Direction::unknown);
    }
    if (!transfer.is_certain && transfer.has_host()) transfer.is_certain = is_readable(transfer.host_rows());
}

HostPlace Recorder::host_place(std::uint64_t address) {
    if (const Block* const block = blocks_.find(address); block != nullptr)
        return block->is_managed()    ? HostPlace::managed
               : block->is_registered ? HostPlace::registered
               : block->is_of_host()  ? HostPlace::pinned
                                      : HostPlace::other;
    if (host_places_.is_in_a_stack(address)) return HostPlace::stack;
    return host_places_.is_in_data(address) ? HostPlace::data : HostPlace::other;
}

// From memory that is not locked, and to it, copies wait as the driver's manual has it under "API synchronization
// behavior".
bool Recorder::is_blocking(const Transfer& transfer, HostPlace place) const {
    const bool is_locked = place == HostPlace::pinned || place == HostPlace::registered || place == HostPlace::managed;
    if (transfer.direction == Direction::to_host)
        return !transfer.is_async || (transfer.waits_if_pageable && !is_locked);
    return transfer.direction == Direction::to_device && !transfer.is_async;
}

bool Recorder::is_known_touched(const HostRows& rows) const {
    const HostRows& known = touched_[rows.address / 64 % touched_.size()];
    return known.address == rows.address && known.bytes == rows.bytes && known.rows == rows.rows;
}

// Of a copy to the host that blocks, what it will overwrite is sampled, after the watch was told, since that reads it.
void Recorder::before_copies(Asked asked, const RecordedCall& call) {
    overwritten.correlation = 0;
    const bool may_block = asked.more.empty() && !asked.transfer.is_async;
    if (watch_ == nullptr && !may_block) return;
    {
        const std::scoped_lock lock(mutex_);
        find_direction(asked.transfer);
        for (Transfer& transfer : asked.more) find_direction(transfer);
    }
    if (watch_ != nullptr) {
        if (asked.transfer.direction == Direction::within_devices) changes_device();
        tell_of_copy(asked.transfer, asked.stream);
        for (const Transfer& transfer : asked.more) tell_of_copy(transfer, asked.stream);
    }
    if (may_block && sample_before(asked.transfer, overwritten.hash)) overwritten.correlation = call.correlation;
}

void Recorder::tell_of_copy(const Transfer& transfer, std::uint64_t stream) {
    std::uint16_t number = 0;
    {
        const std::scoped_lock lock(mutex_);
        if (!capturing_.empty() || !transfer.has_host() || !is_watched(host_place(transfer.host_rows().address)))
            return;
        number = about_stream(stream).first;
    }
    watch_->copies({monotonic_ns(), place().number, number}, host_side(transfer, true));
}

bool Recorder::sample_before(const Transfer& transfer, std::uint64_t& hash) {
    if (transfer.direction != Direction::to_host || !transfer.is_certain) return false;
    bool was_copied = false;
    {
        const std::scoped_lock lock(mutex_);
        const HostPlace place = host_place(transfer.target);
        if (place == HostPlace::managed) return false;
        was_copied = place != HostPlace::other || is_known_touched(transfer.host_rows());
    }
    return sample_touched(transfer.host_rows(), was_copied, hash);
}

void Recorder::after_copies(const Asked& asked, const RecordedCall& call) {
    const CallPlace place = this->place();
    OfStream stream;
    {
        const std::scoped_lock lock(mutex_);
        stream = about_stream(asked.stream);
    }
    has_work_.store(true, std::memory_order_relaxed);
    after_copy(asked.transfer, stream, place, call);
    for (const Transfer& transfer : asked.more) after_copy(transfer, stream, place, call);
}

void Recorder::after_copy(Transfer transfer, OfStream stream, CallPlace place, const RecordedCall& call) {
    if (transfer.bytes == 0) return;
    MoveRecord record{.time = monotonic_ns(),
                      .source = transfer.source,
                      .target = transfer.target,
                      .bytes = transfer.bytes,
                      .rows = transfer.rows,
                      .source_pitch = transfer.source_pitch,
                      .target_pitch = transfer.target_pitch,
                      .correlation = call.correlation,
                      .site = place.number,
                      .thread = this_thread_id(),
                      .device = -1,
                      .stream = stream.first,
                      .what = copy,
                      .flags = stream.second,
                      .began = call.began,
                      .cause = static_cast<std::uint8_t>(transfer.cause),
                      .unused = {}};
    const bool runs_later = (stream.second & (captured | moved_by_graph)) != 0;
    bool is_sampled = false, waits = false;
    HostPlace host = HostPlace::other;
    std::vector<std::uint64_t> pointers;
    bool has_pointers = false;
    {
        const std::scoped_lock lock(mutex_);
        find_direction(transfer);
        if (transfer.has_host()) host = host_place(transfer.host_rows().address);
        const bool is_to_device = transfer.direction == Direction::to_device;
        waits = !runs_later && is_blocking(transfer, host);
        is_sampled = !runs_later && host != HostPlace::managed && transfer.is_certain &&
                     (is_to_device || (waits && transfer.has_host()));
        // A program may name a direction wrongly, and memory of a device that it did not allocate, such as another
        // process's.
        if (is_sampled && host == HostPlace::other && !is_known_touched(transfer.host_rows()))
            is_sampled = is_readable(transfer.host_rows());
        if (is_sampled) touched_[transfer.host_rows().address / 64 % touched_.size()] = transfer.host_rows();
        if (is_sampled && is_to_device) has_pointers = find_pointers(transfer, pointers);
        record.host = static_cast<std::uint8_t>(host);
        record.direction = static_cast<std::uint8_t>(transfer.direction);
    }
    if (is_sampled && sample(transfer.host_rows(), record.sample))
        record.flags |= static_cast<std::uint8_t>(has_sample | (hashes_all() ? of_all : 0));
    if (waits) {
        record.flags |= blocking;
        record.stack = place.stack;
        has_work_.store(false, std::memory_order_relaxed);
        if (overwritten.correlation == call.correlation && transfer.direction == Direction::to_host) {
            record.before = overwritten.hash;
            record.flags |= has_before;
        }
    }
    if (watch_ != nullptr && !runs_later && transfer.has_host() && is_watched(host))
        watch_->copied({monotonic_ns(), place.number, stream.first},
                       host_side(transfer, waits, host == HostPlace::other || host == HostPlace::data));
    if (watch_ != nullptr && (stream.second & captured) == 0 && transfer.has_host() &&
        (runs_later || transfer.rows > 1)) {
        const HostSide side = host_side(transfer, waits);
        watch_->copied_otherwise({record.time, place.number, stream.first}, {side.address, side.address + side.bytes});
    }
    if (watch_ != nullptr && !runs_later && transfer.direction == Direction::within_devices)
        watch_->changed_device({record.time, place.number, stream.first});
    if (watch_ != nullptr && waits) watch_->waited({record.time, place.number, stream.first});
    journal_.append(Kind::move, {Journal::bytes_of(record)});
    if (!has_pointers) return;
    const PointersRecord found{.time = record.time,
                               .target = transfer.target,
                               .correlation = call.correlation,
                               .addresses = static_cast<std::uint32_t>(pointers.size())};
    journal_.append(Kind::pointers,
                    {Journal::bytes_of(found),
                     {reinterpret_cast<const char*>(pointers.data()), pointers.size() * sizeof(std::uint64_t)}});
}

// Addresses of blocks in what was copied. Returns whether they are others than those of the last copy to the same
// target.
bool Recorder::find_pointers(const Transfer& transfer, std::vector<std::uint64_t>& found) {
    constexpr std::uint64_t word_bytes = 8;
    const HostRows rows = transfer.host_rows();
    if (rows.bytes < word_bytes || rows.bytes * rows.rows > most_pointer_bytes) return false;
    const std::uint64_t lowest = blocks_.lowest(), extent = blocks_.highest() - lowest;
    constexpr std::uint64_t at_once = 512;
    for (std::uint64_t row = 0; row < rows.rows; ++row)
        for (std::uint64_t from = 0; from + word_bytes <= rows.bytes; from += at_once * word_bytes) {
            const std::uint64_t count = std::min(at_once, (rows.bytes - from) / word_bytes);
            const auto* const words = reinterpret_cast<const unsigned char*>(rows.address + row * rows.pitch + from);
            if (!may_hold(words, count, lowest, extent)) continue;
            for (std::uint64_t i = 0; i < count; ++i)
                if (const std::uint64_t word = word_at(words, i);
                    word - lowest < extent && blocks_.find(word) != nullptr)
                    found.push_back(word);
        }
    const auto last = pointers_.find(transfer.target);
    if (found.empty() && last == pointers_.end()) return false;
    std::ranges::sort(found);
    found.erase(std::ranges::unique(found).begin(), found.end());
    const std::uint64_t hash = hash_bytes(found.data(), found.size() * sizeof(std::uint64_t), 1);
    if (last != pointers_.end() && last->second == hash) return false;
    if (pointers_.size() >= most_targets) pointers_.clear();
    pointers_.insert_or_assign(transfer.target, hash);
    return true;
}

// ------------------------------------------------------------------------------------------------------------- others

void Recorder::ordered(Order what, MoveRecord record, std::uint64_t stream, const RecordedCall& call) {
    record.what = static_cast<std::uint8_t>(what);
    record.site = place().number;
    if (what != Order::advice) {
        const std::scoped_lock lock(mutex_);
        const auto [number, flags] = about_stream(stream);
        record.stream = number;
        record.flags = flags;
        has_work_ = true;
    }
    record.time = monotonic_ns();
    record.correlation = call.correlation;
    record.thread = this_thread_id();
    if (watch_ != nullptr && what == Order::fill && (record.flags & captured) == 0)
        watch_->changed_device({record.time, record.site, record.stream});
    journal_.append(Kind::move, {Journal::bytes_of(record)});
}

void Recorder::write_fill(const Transfer& of, OfStream stream, CallPlace place, const RecordedCall& call) {
    const MoveRecord record{.time = monotonic_ns(),
                            .target = of.target,
                            .bytes = of.bytes,
                            .rows = of.rows,
                            .target_pitch = of.target_pitch,
                            .correlation = call.correlation,
                            .site = place.number,
                            .thread = this_thread_id(),
                            .device = -1,
                            .stream = stream.first,
                            .what = static_cast<std::uint8_t>(Order::fill),
                            .flags = stream.second};
    journal_.append(Kind::move, {Journal::bytes_of(record)});
}

void Recorder::filled(std::uint64_t target, std::uint64_t bytes, std::uint64_t rows, std::uint64_t pitch,
                      std::uint64_t stream, const RecordedCall& call) {
    if (rows == 1 || pitch == bytes) bytes *= rows, rows = 1, pitch = 0;
    ordered(Order::fill, {.target = target, .bytes = bytes, .rows = rows, .target_pitch = pitch, .device = -1}, stream,
            call);
}

}  // namespace firsttouch::inject
