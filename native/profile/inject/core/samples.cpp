#include "profile/inject/core/samples.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

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

bool is_touched(const HostRows& rows, bool was_copied) {
    const std::uint64_t start = rows.address / page_bytes() * page_bytes();
    const std::uint64_t end = rows.address + (rows.rows - 1) * rows.pitch + rows.bytes;
    const std::uint64_t pages = (end - start + page_bytes() - 1) / page_bytes();
    std::array<unsigned char, 16> states{};
    const auto is_there = [&](std::uint64_t first, std::uint64_t count) {
        void* const from = reinterpret_cast<void*>(start + first * page_bytes());
        return mincore(from, count * page_bytes(), states.data()) == 0 &&
               std::all_of(states.begin(), states.begin() + std::ptrdiff_t(count),
                           [](unsigned char state) { return (state & 1) != 0; });
    };
    if (pages <= states.size()) return was_copied || is_there(0, pages);
    if (was_copied) return is_there(pages / 2, 1);
    for (std::uint64_t i = 0; i < 4; ++i)
        if (!is_there(i * (pages - 1) / 3, 1)) return false;
    return true;
}

// 64 bytes at a time, in four lanes that do not depend on each other.
class Hash {
  public:
    explicit Hash(std::uint64_t seed)
        : lanes_{seed ^ primes[0], seed ^ primes[1], seed ^ primes[2], seed ^ primes[3]} {}

    void add(const void* data, std::size_t bytes) {
        const auto* at = static_cast<const unsigned char*>(data);
        for (; bytes >= piece; at += piece, bytes -= piece) add_piece(at);
        if (bytes == 0) return;
        unsigned char last[piece] = {};
        std::memcpy(last, at, bytes);
        add_piece(last);
    }
    std::uint64_t value(std::uint64_t bytes) const {
        return mixed(mixed(lanes_[0] ^ bytes, lanes_[1] ^ primes[2]),
                     mixed(lanes_[2] ^ primes[0], lanes_[3] ^ primes[1]));
    }

  private:
    static constexpr std::size_t piece = 64;

    void add_piece(const unsigned char* at) {
        for (std::size_t i = 0; i < 4; ++i)
            lanes_[i] = mixed(word_at(at + 16 * i) ^ primes[i], word_at(at + 16 * i + 8) ^ lanes_[i]);
    }

    std::uint64_t lanes_[4];
};

}  // namespace

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) noexcept {
    Hash hash(seed);
    hash.add(data, bytes);
    return hash.value(bytes);
}

bool is_readable(const HostRows& rows) noexcept {
    if (rows.bytes == 0 || rows.rows == 0) return false;
    // The kernel reads the set of signals before it finds that ~0 is no way to change a mask. Filters of system calls
    // that refuse process_vm_readv let this pass.
    const auto reads = [](std::uint64_t address) {
        constexpr std::uint64_t set_bytes = 8;
        return syscall(SYS_rt_sigprocmask, ~0, address & ~(set_bytes - 1), nullptr, set_bytes) != 0 && errno != EFAULT;
    };
    return reads(rows.address) && reads(rows.address + (rows.rows - 1) * rows.pitch + rows.bytes - 1);
}

bool hashes_all() noexcept {
    static const bool is_asked = [] {
        const char* const value = std::getenv("FIRSTTOUCH_CHECK_COPIES");
        return value != nullptr && std::string_view(value) == "1";
    }();
    return is_asked;
}

bool sample(const HostRows& rows, std::uint64_t& hash) noexcept {
    const std::uint64_t all = rows.bytes * rows.rows;
    if (all == 0) return false;
    Hash sum(all);
    const auto add = [&](std::uint64_t row, std::uint64_t from, std::uint64_t bytes) {
        sum.add(reinterpret_cast<const void*>(rows.address + row * rows.pitch + from), bytes);
    };
    if (all <= hashed_whole || hashes_all()) {
        for (std::uint64_t row = 0; row < rows.rows; ++row) add(row, 0, rows.bytes);
    } else {
        const std::uint64_t pieces = std::clamp(all / bytes_a_piece, least_pieces, most_pieces);
        const std::uint64_t step = (all - piece_bytes) / (pieces - 1), rest = (all - piece_bytes) % (pieces - 1);
        for (std::uint64_t i = 0; i < pieces; ++i) {
            const std::uint64_t offset = step * i + rest * i / (pieces - 1);
            const std::uint64_t row = rows.rows == 1 ? 0 : offset / rows.bytes, from = offset - row * rows.bytes;
            add(row, from, std::min(piece_bytes, rows.bytes - from));
        }
    }
    hash = sum.value(all);
    return true;
}

bool sample_touched(const HostRows& rows, bool was_copied, std::uint64_t& hash) noexcept {
    return rows.rows > 0 && rows.bytes > 0 && is_touched(rows, was_copied) && sample(rows, hash);
}

}  // namespace firsttouch::inject
