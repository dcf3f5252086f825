#include "profile/inject/front/cuda/asked.hpp"

#include <algorithm>

namespace firsttouch::inject {
namespace {

constexpr std::uint64_t most_slices = 1 << 16;

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }
std::uint64_t address_of(cupti::Address address) { return address; }

template <class Copy>
Asked plain(const Copy& copy, Direction direction) {
    Asked asked{.transfer = {.target = address_of(copy.target),
                             .source = address_of(copy.source),
                             .bytes = copy.bytes,
                             .direction = direction,
                             .is_certain = direction != Direction::unknown}};
    if constexpr (requires { copy.stream; }) {
        asked.transfer.is_async = true;
        asked.stream = address_of(copy.stream);
    }
    return asked;
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

Transfer of_rows(const Place& source, const Place& target, std::uint64_t width, std::uint64_t rows, bool is_async) {
    const Direction direction = direction_of(source.type, target.type);
    Transfer transfer{.target = target.address,
                      .source = source.address,
                      .bytes = width,
                      .rows = rows,
                      .target_pitch = target.pitch,
                      .source_pitch = source.pitch,
                      .direction = direction,
                      .is_certain = direction != Direction::unknown,
                      .is_async = is_async};
    if (rows <= 1 || (source.pitch == width && target.pitch == width)) {
        transfer.bytes = width * rows;
        transfer.rows = 1;
        transfer.source_pitch = transfer.target_pitch = 0;
    }
    return transfer;
}

Transfer of_rows(const cupti::Copy2D& copy, bool is_async) {
    return of_rows(place_of(copy.source, 0, copy.width), place_of(copy.target, 0, copy.width), copy.width, copy.height,
                   is_async);
}

void add(Asked& asked, const Transfer& transfer) {
    if (asked.transfer.bytes == 0)
        asked.transfer = transfer;
    else
        asked.more.push_back(transfer);
}

template <class Batch>
Asked of_batch(const Batch& batch) {
    Asked asked{.stream = address_of(batch.stream)};
    for (std::size_t i = 0; i < batch.count; ++i)
        add(asked, {.target = batch.targets[i],
                    .source = batch.sources[i],
                    .bytes = batch.sizes[i],
                    .is_certain = false,
                    .is_async = true});
    return asked;
}

cupti::Side3D side_of(const cupti::Operand& operand, const cupti::CopyOfBatch& copy) {
    cupti::Side3D side{};
    if (operand.type == cupti::array_operand) {
        side.type = cupti::array_memory;
        side.array = reinterpret_cast<cupti::Handle>(operand.address);
        return side;
    }
    side.type = cupti::unified_memory;
    side.device = operand.address;
    side.pitch = operand.row_bytes == 0 ? copy.width : operand.row_bytes;
    side.height = operand.slice_rows == 0 ? copy.height : operand.slice_rows;
    return side;
}

template <class Batch>
Asked of_slices_batch(const Batch& batch) {
    Asked asked{.stream = address_of(batch.stream)};
    for (std::size_t i = 0; i < batch.count; ++i) {
        const cupti::CopyOfBatch& copy = batch.copies[i];
        const Asked one =
            asked_of({side_of(copy.source, copy), side_of(copy.target, copy), copy.width, copy.height, copy.depth},
                     true, nullptr);
        add(asked, one.transfer);
        for (const Transfer& transfer : one.more) add(asked, transfer);
    }
    return asked;
}

}  // namespace

Asked asked(const cupti::CopyIn& copy) { return plain(copy, Direction::to_device); }
Asked asked(const cupti::CopyInOn& copy) { return plain(copy, Direction::to_device); }
Asked asked(const cupti::CopyOut& copy) { return plain(copy, Direction::to_host); }
Asked asked(const cupti::CopyOutOn& copy) { return plain(copy, Direction::to_host); }
Asked asked(const cupti::CopyWithin& copy) { return plain(copy, Direction::within_devices); }
Asked asked(const cupti::CopyWithinOn& copy) { return plain(copy, Direction::within_devices); }
Asked asked(const cupti::CopyAny& copy) { return plain(copy, Direction::unknown); }
Asked asked(const cupti::CopyAnyOn& copy) { return plain(copy, Direction::unknown); }
Asked asked(const cupti::CopyBetween& copy) { return plain(copy, Direction::within_devices); }
Asked asked(const cupti::CopyBetweenOn& copy) { return plain(copy, Direction::within_devices); }
Asked asked(const cupti::CopyRows& rows) { return {.transfer = of_rows(*rows.copy, false)}; }
Asked asked(const cupti::CopyRowsOn& rows) {
    return {.transfer = of_rows(*rows.copy, true), .stream = address_of(rows.stream)};
}
Asked asked(const cupti::CopySlices& slices) { return asked_of(*slices.copy, false, nullptr); }
Asked asked(const cupti::CopySlicesOn& slices) { return asked_of(*slices.copy, true, slices.stream); }
Asked asked(const cupti::CopyBatchOn& batch) { return of_batch(batch); }
Asked asked(const cupti::CopyBatchThatMayFailOn& batch) { return of_batch(batch); }
Asked asked(const cupti::CopySlicesBatchOn& batch) { return of_slices_batch(batch); }
Asked asked(const cupti::CopySlicesBatchThatMayFailOn& batch) { return of_slices_batch(batch); }

// One transfer if the slices follow each other, else one each.
Asked asked_of(const cupti::Copy3D& copy, bool is_async, cupti::Handle stream) {
    const std::uint64_t rows = std::max<std::uint64_t>(copy.height, 1), depth = std::max<std::uint64_t>(copy.depth, 1);
    const auto at = [&](const cupti::Side3D& side, std::uint64_t slice) {
        return place_of(side, (side.z + slice) * side.pitch * side.height, copy.width);
    };
    const auto is_dense = [&](const cupti::Side3D& side) {
        return depth == 1 || side.type == cupti::array_memory || side.height == rows;
    };
    Asked asked{.stream = address_of(stream)};
    if (copy.width == 0) return asked;
    if (is_dense(copy.source) && is_dense(copy.target)) {
        asked.transfer = of_rows(at(copy.source, 0), at(copy.target, 0), copy.width, rows * depth, is_async);
        return asked;
    }
    asked.transfer = of_rows(at(copy.source, 0), at(copy.target, 0), copy.width, rows, is_async);
    for (std::uint64_t slice = 1; slice < std::min(depth, most_slices); ++slice)
        asked.more.push_back(of_rows(at(copy.source, slice), at(copy.target, slice), copy.width, rows, is_async));
    return asked;
}

}  // namespace firsttouch::inject
