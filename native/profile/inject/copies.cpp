// The calls that move bytes: copies, fills, prefetches and advice.
#include <algorithm>
#include <cstring>

#include "profile/inject/calls.hpp"

namespace firsttouch::inject {
namespace {

enum What : std::uint8_t { copy = 0, fill = 1, prefetch = 2, advice = 3 };
enum Flag : std::uint8_t { captured = 1, blocking = 4, has_sample = 8, has_before = 16 };
constexpr std::uint64_t most_pointer_bytes = 64 << 10;
constexpr std::uint64_t most_slices = 1 << 16;
constexpr std::size_t most_targets = 1 << 16;

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

// The sample of what a copy to the host is about to overwrite, between the two callbacks of this thread.
struct Overwritten {
    std::uint32_t correlation = 0;
    bool is_known = false;
    std::uint64_t hash = 0;
};
thread_local Overwritten overwritten;

// Bytes of a value of a fill, whose function is called such as cuMemsetD32 or cuMemsetD2D32.
std::uint64_t value_bytes(std::string_view function) {
    function.remove_prefix(std::string_view("cuMemset").size());
    if (function.starts_with("D2D")) function.remove_prefix(2);
    return function.starts_with("D32") ? 4 : function.starts_with("D16") ? 2 : 1;
}

struct Place {
    std::uint64_t address = 0, pitch = 0;
    int type = 0;
};
template <class Side>
Place place_of(const Side& side, std::uint64_t slice_offset, std::uint64_t width) {
    if (side.type == cupti::array_memory) return {address_of(side.array), width, side.type};
    const std::uint64_t start = side.type == cupti::host_memory ? address_of(side.host) : side.device;
    return {start + slice_offset + side.y * side.pitch + side.x, side.pitch, side.type};
}

Direction direction_of(int source, int target) {
    if (source == cupti::unified_memory || target == cupti::unified_memory) return Direction::unknown;
    if (source == cupti::host_memory)
        return target == cupti::host_memory ? Direction::within_host : Direction::to_device;
    return target == cupti::host_memory ? Direction::to_host : Direction::within_devices;
}

Transfer transfer_of(const Place& source, const Place& target, std::uint64_t width, std::uint64_t rows, bool is_async) {
    Transfer transfer{.target = target.address,
                      .source = source.address,
                      .bytes = width,
                      .rows = rows,
                      .target_pitch = target.pitch,
                      .source_pitch = source.pitch,
                      .direction = direction_of(source.type, target.type),
                      .is_certain = source.type != cupti::unified_memory && target.type != cupti::unified_memory,
                      .is_async = is_async};
    if (rows == 1 || (source.pitch == width && target.pitch == width)) {
        transfer.bytes = width * rows;
        transfer.rows = 1;
        transfer.source_pitch = transfer.target_pitch = 0;
    }
    return transfer;
}

// Of a copy whose structure has the addresses of both sides.
template <class Copy>
Transfer into_device(const Copy& copy, bool is_async) {
    return {.target = copy.target,
            .source = address_of(copy.source),
            .bytes = copy.bytes,
            .direction = Direction::to_device,
            .is_async = is_async};
}
template <class Copy>
Transfer out_of_device(const Copy& copy, bool is_async) {
    return {.target = address_of(copy.target),
            .source = copy.source,
            .bytes = copy.bytes,
            .direction = Direction::to_host,
            .is_async = is_async};
}
template <class Copy>
Transfer within_devices(const Copy& copy, bool is_async) {
    return {.target = copy.target,
            .source = copy.source,
            .bytes = copy.bytes,
            .direction = Direction::within_devices,
            .is_async = is_async};
}
template <class Copy>
Transfer anywhere(const Copy& copy, bool is_async) {
    return {
        .target = copy.target, .source = copy.source, .bytes = copy.bytes, .is_certain = false, .is_async = is_async};
}
template <class Batch>
std::vector<Transfer> transfers_of(const Batch& batch) {
    std::vector<Transfer> transfers;
    for (std::size_t i = 0; i < batch.count; ++i)
        transfers.push_back({.target = batch.targets[i],
                             .source = batch.sources[i],
                             .bytes = batch.sizes[i],
                             .is_certain = false,
                             .is_async = true});
    return transfers;
}

Transfer transfer_of(const cupti::Copy2D& rows, bool is_async) {
    return transfer_of(place_of(rows.source, 0, rows.width), place_of(rows.target, 0, rows.width), rows.width,
                       rows.height, is_async);
}

// What is not CUDA's own, nor of a frame.
bool is_watched(HostPlace place) {
    return place == HostPlace::other || place == HostPlace::data || place == HostPlace::registered;
}

HostSide host_side(const Transfer& transfer, bool waits) {
    const HostRows rows = transfer.host_rows();
    return {.address = rows.address,
            .bytes = rows.rows > 1 ? (rows.rows - 1) * rows.pitch + rows.bytes : rows.bytes,
            .is_target = transfer.direction == Direction::to_host,
            .blocking = waits || transfer.direction == Direction::to_device};
}

}  // namespace

// As few transfers as describe a copy in three dimensions: one if its slices follow each other, else one each.
std::vector<Transfer> transfers_of(const cupti::Copy3D& copy, bool is_async) {
    const std::uint64_t rows = std::max<std::uint64_t>(copy.height, 1), depth = std::max<std::uint64_t>(copy.depth, 1);
    const auto slice_bytes = [](const cupti::Side3D& side) { return side.pitch * side.height; };
    const auto at = [&](const cupti::Side3D& side, std::uint64_t slice) {
        return place_of(side, (side.z + slice) * slice_bytes(side), copy.width);
    };
    const auto is_dense = [&](const cupti::Side3D& side) {
        return depth == 1 || side.type == cupti::array_memory || side.height == rows;
    };
    if (copy.width == 0) return {};
    if (is_dense(copy.source) && is_dense(copy.target))
        return {transfer_of(at(copy.source, 0), at(copy.target, 0), copy.width, rows * depth, is_async)};
    std::vector<Transfer> transfers;
    for (std::uint64_t slice = 0; slice < std::min(depth, most_slices); ++slice)
        transfers.push_back(transfer_of(at(copy.source, slice), at(copy.target, slice), copy.width, rows, is_async));
    return transfers;
}

// ---------------------------------------------------------------------------------------------------- before and after

void Calls::before(const cupti::CopyIn& copy, const Call&) { copies(into_device(copy, false)); }
void Calls::before(const cupti::CopyInOn& copy, const Call&) { copies(into_device(copy, true)); }
void Calls::before(const cupti::CopyOut& copy, const Call& call) { sample_before(out_of_device(copy, false), call); }
void Calls::before(const cupti::CopyOutOn& copy, const Call&) { copies(out_of_device(copy, true)); }
void Calls::before(const cupti::CopyAny& copy, const Call& call) { sample_before(anywhere(copy, false), call); }
void Calls::before(const cupti::CopyAnyOn& copy, const Call&) { copies(anywhere(copy, true)); }
void Calls::before(const cupti::CopyRows& rows, const Call& call) {
    sample_before(transfer_of(*rows.copy, false), call);
}
void Calls::before(const cupti::CopyRowsOn& rows, const Call&) { copies(transfer_of(*rows.copy, true)); }
void Calls::before(const cupti::CopySlices& slices, const Call& call) {
    const std::vector<Transfer> transfers = transfers_of(*slices.copy, false);
    if (transfers.size() == 1) return sample_before(transfers.front(), call);
    for (const Transfer& transfer : transfers) copies(transfer);
}
void Calls::before(const cupti::CopySlicesOn& slices, const Call&) {
    for (const Transfer& transfer : transfers_of(*slices.copy, true)) copies(transfer);
}
void Calls::before(const cupti::CopyBatchOn& batch, const Call&) {
    for (const Transfer& transfer : transfers_of(batch)) copies(transfer);
}
void Calls::before(const cupti::CopyBatchThatMayFailOn& batch, const Call&) {
    for (const Transfer& transfer : transfers_of(batch)) copies(transfer);
}

void Calls::after(const cupti::CopyIn& copy, const Call& call) { copied(into_device(copy, false), nullptr, call); }
void Calls::after(const cupti::CopyInOn& copy, const Call& call) { copied(into_device(copy, true), copy.stream, call); }
void Calls::after(const cupti::CopyOut& copy, const Call& call) { copied(out_of_device(copy, false), nullptr, call); }
void Calls::after(const cupti::CopyOutOn& copy, const Call& call) {
    copied(out_of_device(copy, true), copy.stream, call);
}
void Calls::after(const cupti::CopyWithin& copy, const Call& call) {
    copied(within_devices(copy, false), nullptr, call);
}
void Calls::after(const cupti::CopyWithinOn& copy, const Call& call) {
    copied(within_devices(copy, true), copy.stream, call);
}
void Calls::after(const cupti::CopyAny& copy, const Call& call) { copied(anywhere(copy, false), nullptr, call); }
void Calls::after(const cupti::CopyAnyOn& copy, const Call& call) { copied(anywhere(copy, true), copy.stream, call); }
void Calls::after(const cupti::CopyBetween& copy, const Call& call) {
    copied(within_devices(copy, false), nullptr, call);
}
void Calls::after(const cupti::CopyBetweenOn& copy, const Call& call) {
    copied(within_devices(copy, true), copy.stream, call);
}
void Calls::after(const cupti::CopyRows& rows, const Call& call) {
    if (rows.copy->width > 0 && rows.copy->height > 0) copied(transfer_of(*rows.copy, false), nullptr, call);
}
void Calls::after(const cupti::CopyRowsOn& rows, const Call& call) {
    if (rows.copy->width > 0 && rows.copy->height > 0) copied(transfer_of(*rows.copy, true), rows.stream, call);
}
void Calls::after(const cupti::CopySlices& slices, const Call& call) {
    copied(transfers_of(*slices.copy, false), nullptr, call);
}
void Calls::after(const cupti::CopySlicesOn& slices, const Call& call) {
    copied(transfers_of(*slices.copy, true), slices.stream, call);
}
void Calls::after(const cupti::CopyBatchOn& batch, const Call& call) {
    copied(transfers_of(batch), batch.stream, call);
}
void Calls::after(const cupti::CopyBatchThatMayFailOn& batch, const Call& call) {
    copied(transfers_of(batch), batch.stream, call);
}

// ------------------------------------------------------------------------------------------------------------ copies

void Calls::find_direction(Transfer& transfer) {
    if (transfer.direction != Direction::unknown) return;
    const auto is_of_device = [this](std::uint64_t address) {
        const Block* const block = blocks_.find(address);
        return block != nullptr ? !block->is_of_host() : blocks_.is_of_device(address);
    };
    const bool from_device = is_of_device(transfer.source), to_device = is_of_device(transfer.target);
    transfer.direction = from_device ? (to_device ? Direction::within_devices : Direction::to_host)
                                     : (to_device ? Direction::to_device : Direction::within_host);
}

HostPlace Calls::host_place(std::uint64_t address) {
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
bool Calls::is_blocking(const Transfer& transfer, HostPlace place) const {
    const bool is_locked = place == HostPlace::pinned || place == HostPlace::registered || place == HostPlace::managed;
    if (transfer.direction == Direction::to_host) return !transfer.is_async || !is_locked;
    return transfer.direction != Direction::within_devices && !transfer.is_async;
}

// Before anything touches what is copied.
void Calls::copies(Transfer transfer) {
    if (watch_ == nullptr) return;
    {
        const std::scoped_lock lock(mutex_);
        find_direction(transfer);
        if (!capturing_.empty() || !transfer.has_host() || !is_watched(host_place(transfer.host_rows().address)))
            return;
    }
    watch_->copies(monotonic_ns(), host_side(transfer, true));
}

void Calls::sample_before(Transfer transfer, const Call& call) {
    copies(transfer);
    overwritten = {call.correlation};
    {
        const std::scoped_lock lock(mutex_);
        find_direction(transfer);
        if (transfer.direction != Direction::to_host || host_place(transfer.target) == HostPlace::managed) return;
    }
    overwritten.is_known = sample_touched(transfer.host_rows(), overwritten.hash);
}

void Calls::copied(const std::vector<Transfer>& transfers, cupti::Handle stream, const Call& call) {
    for (const Transfer& transfer : transfers) copied(transfer, stream, call);
}

void Calls::copied(Transfer transfer, cupti::Handle stream, const Call& call) {
    const CallPlace place = places_.of_this_call();
    std::pair<std::uint16_t, std::uint8_t> about;
    {
        const std::scoped_lock lock(mutex_);
        about = about_stream(stream, call);
    }
    has_work_ = true;
    write_copy(transfer, about.first, about.second, place, call);
}

void Calls::write_copy(Transfer transfer, std::uint16_t stream, std::uint8_t flags, CallPlace place, const Call& call) {
    HostPlace host = HostPlace::other;
    {
        const std::scoped_lock lock(mutex_);
        find_direction(transfer);
        if (transfer.has_host()) host = host_place(transfer.host_rows().address);
    }
    const bool will_run = (flags & (captured | moved_by_graph)) != 0, is_managed = host == HostPlace::managed;
    const bool waits = !will_run && is_blocking(transfer, host);
    MoveRecord record{.time = monotonic_ns(),
                      .source = transfer.source,
                      .target = transfer.target,
                      .bytes = transfer.bytes,
                      .rows = transfer.rows,
                      .source_pitch = transfer.source_pitch,
                      .target_pitch = transfer.target_pitch,
                      .sample = 0,
                      .before = 0,
                      .correlation = call.correlation,
                      .site = place.number,
                      .thread = this_thread_id(),
                      .device = -1,
                      .stream = stream,
                      .advice = 0,
                      .what = copy,
                      .host = static_cast<std::uint8_t>(host),
                      .flags = static_cast<std::uint8_t>(flags | (waits ? blocking : 0)),
                      .direction = static_cast<std::uint8_t>(transfer.direction)};
    const bool is_to_device = transfer.direction == Direction::to_device;
    if (!will_run && !is_managed && transfer.has_host() && (is_to_device || waits)) {
        if (sample(transfer.host_rows(), record.sample)) record.flags |= has_sample;
        if (!is_to_device && overwritten.correlation == call.correlation && overwritten.is_known) {
            record.before = overwritten.hash;
            record.flags |= has_before;
        }
    }
    journal_.append(Kind::move, {Journal::bytes_of(record)});
    if (is_to_device && !will_run && !is_managed) write_pointers(transfer, call);
    if (watch_ != nullptr && !will_run && transfer.has_host() && is_watched(host))
        watch_->copied(monotonic_ns(), host_side(transfer, waits));
    if (waits) waited(3, call, place.stack);
}

// Addresses of blocks in what was copied, unless they are those of the last copy to the same target.
void Calls::write_pointers(const Transfer& transfer, const Call& call) {
    constexpr std::uint64_t word_bytes = 8;
    const HostRows rows = transfer.host_rows();
    if (rows.bytes < word_bytes || rows.bytes * rows.rows > most_pointer_bytes) return;
    const std::scoped_lock lock(mutex_);
    const std::uint64_t lowest = blocks_.lowest(), extent = blocks_.highest() - lowest;
    addresses_.clear();
    std::uint64_t words[512];
    for (std::uint64_t row = 0; row < rows.rows; ++row)
        for (std::uint64_t from = 0; from + word_bytes <= rows.bytes; from += sizeof words) {
            const std::uint64_t part = std::min<std::uint64_t>(sizeof words, rows.bytes - from) / word_bytes;
            const std::uint64_t address = rows.address + row * rows.pitch + from;
            if (rows.is_certain)
                std::memcpy(words, reinterpret_cast<const void*>(address), part * word_bytes);
            else if (!read_mapped(address, words, part * word_bytes))
                return;
            for (std::uint64_t i = 0; i < part; ++i)
                if (words[i] - lowest < extent && blocks_.find(words[i]) != nullptr) addresses_.push_back(words[i]);
        }
    std::ranges::sort(addresses_);
    addresses_.erase(std::ranges::unique(addresses_).begin(), addresses_.end());
    const std::size_t bytes = addresses_.size() * sizeof addresses_.front();
    const auto last = pointers_.find(transfer.target);
    if (addresses_.empty() && last == pointers_.end()) return;
    const std::uint64_t hash = addresses_.empty() ? 0 : hash_bytes(addresses_.data(), bytes, 1);
    if (last != pointers_.end() && last->second == hash) return;
    if (pointers_.size() >= most_targets) pointers_.clear();
    pointers_.insert_or_assign(transfer.target, hash);
    const PointersRecord record{.time = monotonic_ns(),
                                .target = transfer.target,
                                .correlation = call.correlation,
                                .addresses = static_cast<std::uint32_t>(addresses_.size())};
    journal_.append(Kind::pointers,
                    {Journal::bytes_of(record), {reinterpret_cast<const char*>(addresses_.data()), bytes}});
}

// ------------------------------------------------------------------------------------------------------------- others

void Calls::advised(MoveRecord record, cupti::Handle stream, const Call& call) {
    record.site = places_.of_this_call().number;
    if (record.what != advice) {
        const std::scoped_lock lock(mutex_);
        const auto [number, flags] = about_stream(stream, call);
        record.stream = number;
        record.flags = flags;
        has_work_ = true;
    }
    record.time = monotonic_ns();
    record.correlation = call.correlation;
    record.thread = this_thread_id();
    journal_.append(Kind::move, {Journal::bytes_of(record)});
}

void Calls::filled(std::uint64_t target, std::uint64_t bytes, std::uint64_t rows, std::uint64_t pitch,
                   cupti::Handle stream, const Call& call) {
    if (rows == 1 || pitch == bytes) bytes *= rows, rows = 1, pitch = 0;
    advised({.target = target, .bytes = bytes, .rows = rows, .target_pitch = pitch, .device = -1, .what = fill}, stream,
            call);
}
void Calls::after(const cupti::Fill& of, const Call& call) {
    filled(of.target, of.count * value_bytes(call.function), 1, 0, nullptr, call);
}
void Calls::after(const cupti::FillOn& of, const Call& call) {
    filled(of.target, of.count * value_bytes(call.function), 1, 0, of.stream, call);
}
void Calls::after(const cupti::FillRows& of, const Call& call) {
    filled(of.target, of.width * value_bytes(call.function), of.height, of.pitch, nullptr, call);
}
void Calls::after(const cupti::FillRowsOn& of, const Call& call) {
    filled(of.target, of.width * value_bytes(call.function), of.height, of.pitch, of.stream, call);
}

void Calls::after(const cupti::PrefetchOn& of, const Call& call) {
    advised({.target = of.address, .bytes = of.bytes, .rows = 1, .device = of.device, .what = prefetch}, of.stream,
            call);
}
void Calls::after(const cupti::PrefetchToOn& of, const Call& call) {
    advised({.target = of.address,
             .bytes = of.bytes,
             .rows = 1,
             .device = of.place.type == 1 ? of.place.id : -1,
             .what = prefetch},
            of.stream, call);
}
void Calls::after(const cupti::Advice& of, const Call& call) {
    advised({.target = of.address,
             .bytes = of.bytes,
             .rows = 1,
             .device = of.device,
             .advice = static_cast<std::uint16_t>(of.advice),
             .what = advice},
            nullptr, call);
}
void Calls::after(const cupti::AdviceTo& of, const Call& call) {
    advised({.target = of.address,
             .bytes = of.bytes,
             .rows = 1,
             .device = of.place.type == 1 ? of.place.id : -1,
             .advice = static_cast<std::uint16_t>(of.advice),
             .what = advice},
            nullptr, call);
}

}  // namespace firsttouch::inject
