#include "profile/inject/samples.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace firsttouch::inject {
namespace {

constexpr std::uint64_t primes[] = {0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63};

std::uint64_t word_at(const unsigned char* data) {
    std::uint64_t word;
    std::memcpy(&word, data, sizeof word);
    return word;
}

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t page_bytes() {
    static const auto bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

// Whether the first, the last and two pages between are mapped; of at most 16 pages, all.
bool is_touched(const HostRows& rows) {
    const std::uint64_t start = rows.address / page_bytes() * page_bytes();
    const std::uint64_t end = rows.address + (rows.rows - 1) * rows.pitch + rows.bytes;
    const std::uint64_t pages = (end - start + page_bytes() - 1) / page_bytes();
    std::array<unsigned char, 16> states{};
    const auto is_there = [&](std::uint64_t first, std::uint64_t count) {
        return mincore(reinterpret_cast<void*>(start + first * page_bytes()), count * page_bytes(), states.data()) ==
                   0 &&
               std::all_of(states.begin(), states.begin() + std::ptrdiff_t(count),
                           [](unsigned char state) { return (state & 1) != 0; });
    };
    if (pages <= states.size()) return is_there(0, pages);
    for (std::uint64_t i = 0; i < 4; ++i)
        if (!is_there(i * (pages - 1) / 3, 1)) return false;
    return true;
}

}  // namespace

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) noexcept {
    const auto* at = static_cast<const unsigned char*>(data);
    std::uint64_t lanes[4] = {seed ^ primes[0], seed ^ primes[1], seed ^ primes[2], seed ^ primes[3]};
    std::size_t left = bytes;
    for (; left >= 64; at += 64, left -= 64)
        for (std::size_t i = 0; i < 4; ++i)
            lanes[i] = mixed(word_at(at + 16 * i) ^ primes[i], word_at(at + 16 * i + 8) ^ lanes[i]);
    unsigned char last[64] = {};
    if (left > 0) std::memcpy(last, at, left);
    for (std::size_t i = 0; left > 0 && i < 4; ++i)
        lanes[i] = mixed(word_at(last + 16 * i) ^ primes[i], word_at(last + 16 * i + 8) ^ lanes[i]);
    return mixed(mixed(lanes[0] ^ bytes, lanes[1] ^ primes[2]), mixed(lanes[2] ^ primes[0], lanes[3] ^ primes[1]));
}

bool read_mapped(std::uint64_t address, void* target, std::size_t bytes) noexcept {
    const iovec local{target, bytes}, remote{reinterpret_cast<void*>(address), bytes};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == ssize_t(bytes);
}

bool sample(const HostRows& rows, std::uint64_t& hash) noexcept {
    const std::uint64_t all = rows.bytes * rows.rows;
    if (all == 0) return false;
    std::uint64_t sum = all;
    std::array<unsigned char, 4096> buffer;
    const auto add = [&](std::uint64_t row, std::uint64_t from, std::uint64_t bytes) {
        const std::uint64_t address = rows.address + row * rows.pitch + from;
        if (rows.is_certain) {
            sum = hash_bytes(reinterpret_cast<const void*>(address), bytes, sum);
            return true;
        }
        for (std::uint64_t part; bytes > 0; from += part, bytes -= part) {
            part = std::min<std::uint64_t>(bytes, buffer.size());
            if (!read_mapped(rows.address + row * rows.pitch + from, buffer.data(), part)) return false;
            sum = hash_bytes(buffer.data(), part, sum);
        }
        return true;
    };
    if (all <= hashed_whole) {
        for (std::uint64_t row = 0; row < rows.rows; ++row)
            if (!add(row, 0, rows.bytes)) return false;
    } else {
        const std::uint64_t pieces = std::clamp(all / bytes_a_piece, least_pieces, most_pieces);
        for (std::uint64_t i = 0; i < pieces; ++i) {
            const auto offset =
                static_cast<std::uint64_t>(static_cast<unsigned __int128>(all - piece_bytes) * i / (pieces - 1));
            const std::uint64_t row = offset / rows.bytes, from = offset % rows.bytes;
            if (!add(row, from, std::min(piece_bytes, rows.bytes - from))) return false;
        }
    }
    hash = sum;
    return true;
}

bool sample_touched(const HostRows& rows, std::uint64_t& hash) noexcept {
    return rows.rows > 0 && rows.bytes > 0 && is_touched(rows) && sample(rows, hash);
}

}  // namespace firsttouch::inject
