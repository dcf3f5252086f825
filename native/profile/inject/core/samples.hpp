// Hashes of what is copied, by which copies of equal bytes are recognised.
#pragma once

#include <cstddef>
#include <cstdint>

namespace firsttouch::inject {

// Rows of bytes in memory of the host.
struct HostRows {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;  // of a row
    std::uint64_t rows = 1, pitch = 0;
};

// Up to these many bytes, all are hashed; of more, pieces of 64 bytes that are evenly spread: one each 2 KiB, but 128
// at least and 1,024 at most. MoveCall.compared of profile/calls.py says so to readers.
inline constexpr std::uint64_t hashed_whole = 8 << 10, piece_bytes = 64, bytes_a_piece = 2 << 10, least_pieces = 128,
                               most_pieces = 1024;

// Whether all bytes of all copies are hashed, because FIRSTTOUCH_CHECK_COPIES is 1.
bool hashes_all() noexcept;

// Whether both ends can be read. Those of a device's memory cannot.
bool is_readable(const HostRows& rows) noexcept;

// Of memory that can be read. Returns false if there are no bytes.
bool sample(const HostRows& rows, std::uint64_t& hash) noexcept;
// The same; but false as well if pages of it were not touched yet, since reading would map them. Of more than 16 pages,
// four are looked at, or one if the program had copied from them or to them before.
bool sample_touched(const HostRows& rows, bool was_copied, std::uint64_t& hash) noexcept;

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) noexcept;

}  // namespace firsttouch::inject
