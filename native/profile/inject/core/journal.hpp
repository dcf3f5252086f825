// The journal of a process: a file of records that the process writes through a shared mapping, so that every complete
// record outlives the process however it ends. records.def has its format; src/firsttouch/profile/journal.py reads it.
//
// This code runs inside programs of other people: it never throws, prints or ends the process, and goes silent if
// anything fails. The file is grown with posix_fallocate, because a store into a mapping without space on the disk
// would kill the process by SIGBUS, and it is opened by name each time, because the program may close descriptors that
// it does not know and open others with the same number.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>

#include "events/home_process.hpp"

namespace firsttouch::inject {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using Magic = std::array<char, 8>;

inline constexpr u32 journal_version = 5;

enum class Kind : u16 {
    padding = 0,  // the rest of a chunk
#define RECORD(kind, number, structure, version) kind = number,
#include "profile/inject/core/records.def"
};

#define RECORD(kind, number, structure, version) struct structure {
#define PART(name, structure, version) struct structure {
#define FIELD(type, name, version) type name;
#define UNUSED(bytes, version) u8 unused[bytes];
#define END(structure)                                                                                                 \
    }                                                                                                                  \
    ;
#include "profile/inject/core/records.def"

// Without holes, so that the reader finds each field where the table has it.
#define RECORD(kind, number, structure, version) static_assert(sizeof(structure) == 0
#define PART(name, structure, version) static_assert(sizeof(structure) == 0
#define FIELD(type, name, version) +sizeof(type)
#define UNUSED(bytes, version) +bytes
#define END(structure) );
#include "profile/inject/core/records.def"

inline constexpr Magic magic = {'F', 'T', 'J', 'R', 'N', 'L', '\r', '\n'};

struct Limits {
    std::size_t chunk_bytes = 256 << 10;
    std::size_t most_bytes = 1 << 30;
};

std::uint64_t monotonic_ns() noexcept;
std::uint32_t thread_id() noexcept;

// A sum of bytes, of which there are a multiple of 8, that goes on from the one of those before them.
inline u32 add_to_sum(u32 sum, const void* data, std::size_t bytes) noexcept {
    constexpr u64 odd = 0x9E3779B185EBCA87;
    for (std::size_t at = 0; at < bytes; at += sizeof(u64)) {
        u64 word;
        std::memcpy(&word, static_cast<const char*>(data) + at, sizeof word);
        sum = u32(((word ^ sum) * odd) >> 32) + 1;
    }
    return sum;
}

class Journal {
  public:
    using Piece = std::string_view;

    // The file is opened for the first record. An empty or relative folder: nothing is ever written.
    explicit Journal(std::string folder, Limits limits = {});
    ~Journal() { release(); }
    Journal(const Journal&) = delete;
    Journal& operator=(const Journal&) = delete;

    // Appends a record of these pieces, from any thread, also of a forked process, which gets a file of its own.
    // Returns whether it was written.
    bool append(Kind kind, std::initializer_list<Piece> pieces) noexcept;

    template <class Fixed>
    static Piece bytes_of(const Fixed& record) {
        return {reinterpret_cast<const char*>(&record), sizeof record};
    }

  private:
    void follow_process() noexcept;
    bool open_file() noexcept;
    bool next_chunk() noexcept;
    void seal(Kind kind, std::size_t size) noexcept;
    void release() noexcept;

    const std::string folder_;
    const Limits limits_;
    std::atomic<pid_t> process_{0};  // that writes; negative while it takes over after a fork
    HomeProcess home_;               // that writes
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    std::atomic<std::uint64_t> left_out_{0};
    bool failed_ = false;
    FileHeader* header_ = nullptr;
    std::size_t header_bytes_ = 0;
    std::uint8_t* chunk_ = nullptr;
    std::size_t used_ = 0;        // of the chunk
    std::size_t file_bytes_ = 0;  // with the chunk
    u64 record_bytes_ = 0;        // of the complete records, of which `sum_` is the sum
    u32 sum_ = 0;
    char path_[4096] = "";
    dev_t device_ = 0;
    ino_t inode_ = 0;
};

// The journal of this process, in the folder FIRSTTOUCH_PROFILE as it was at the first call; null if none is to be
// written.
Journal* journal() noexcept;

enum class Layer : std::uint32_t { phases = 0, trace = 1, host = 2 };
// Writes a sentence in two parts, so that none has to be made where there may be no memory.
void notice(Layer layer, std::string_view text, std::string_view more = {}) noexcept;

}  // namespace firsttouch::inject
