// The journal of a process: a file of records that the process writes through a shared mapping, so that every complete
// record outlives the process however it ends. src/firsttouch/profile/journal.py reads it.
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
#include <initializer_list>
#include <string>
#include <string_view>

namespace firsttouch::inject {

enum class Kind : std::uint16_t {
    padding = 0,  // the rest of a chunk
    mark = 1,     // MarkRecord, name, domain
    notice = 2,   // NoticeRecord, text
    text = 3,     // TextRecord, text: what others refer to by its number
    clocks = 4,   // ClocksRecord
    event = 5,    // EventRecord
    memory = 6,   // MemoryRecord
    copy = 7,     // CopyRecord
    kernel = 8,   // KernelRecord
    site = 9,     // SiteRecord, frames of SiteFrame
    call = 10,    // CallRecord
    lost = 11,    // LostRecord
};

// Records are aligned to 8 bytes. `size` has the header and what pads the record; it is written last.
struct RecordHeader {
    std::uint32_t size;
    Kind kind;
    std::uint16_t reserved;
};

// Times are nanoseconds of CLOCK_MONOTONIC, unless they are called stamps, which are nanoseconds of CUPTI's clock.
struct MarkRecord {
    std::uint64_t time;
    std::int64_t range;  // -1: nested by thread and domain
    std::uint32_t thread;
    std::uint16_t name_bytes, domain_bytes;
    std::uint8_t what;  // 0 begin, 1 end, 2 instant
    std::uint8_t reserved[7];
};
struct NoticeRecord {
    std::uint64_t time;
    std::uint32_t bytes;
    std::uint32_t layer;  // 0 phases, 1 trace
};
struct TextRecord {
    std::uint32_t number;  // from 1 on; 0 stands for no text
    std::uint32_t bytes;
};
struct ClocksRecord {
    std::uint64_t stamp, time;  // read at the same time
};
struct EventRecord {
    std::uint64_t start_stamp, end_stamp, address, bytes, count;
    std::uint32_t kind, cause, source, target;  // numbers of texts
    std::uint32_t site;                         // of the instruction that faulted; 0 if there is none
    std::uint32_t reserved;
};
struct MemoryRecord {
    std::uint64_t stamp, address, bytes;
    std::uint32_t operation;  // 1 allocation, 2 release
    std::uint32_t memory;     // kind of memory, as CUPTI numbers them
    std::uint32_t device, correlation;
    std::uint32_t site;  // of the program counter that the record states; 0 if there is none
    std::uint32_t name;  // text: of a static variable
};
struct CopyRecord {
    std::uint64_t start_stamp, end_stamp, bytes;
    std::uint32_t device, stream, correlation;
    std::uint32_t source_device, target_device;  // equal to `device` unless two devices take part
    std::uint8_t direction;                      // as CUPTI numbers kinds of copies; 255: memory was set
    std::uint8_t source, target;                 // kinds of memory
    std::uint8_t reserved;
};
struct KernelRecord {
    std::uint64_t start_stamp, end_stamp;
    std::uint32_t device, stream, correlation, name;
};
struct SiteRecord {
    std::uint32_t number;  // from 1 on
    std::uint32_t frames;
};
struct SiteFrame {
    std::uint64_t offset;  // in the file
    std::uint32_t file;    // text
    std::uint32_t reserved;
};
struct CallRecord {
    std::uint64_t time;
    std::uint32_t correlation, site;
};
struct LostRecord {
    std::uint64_t time, records;  // that CUPTI had no room for
};

// At the beginning of the file, in a page of its own that stays mapped.
struct FileHeader {
    std::array<char, 8> magic;
    std::uint32_t version;
    std::uint32_t header_bytes;  // where the records begin
    std::uint32_t chunk_bytes;   // no record crosses a multiple of this, counted from where the records begin
    std::uint32_t process;
    std::uint64_t opened;
    std::uint64_t left_out;  // records that were not written because the file was full or could not grow
};
// The reader unpacks the same sizes.
static_assert(sizeof(RecordHeader) == 8 && sizeof(MarkRecord) == 32 && sizeof(NoticeRecord) == 16);
static_assert(sizeof(EventRecord) == 64 && sizeof(MemoryRecord) == 48 && sizeof(CopyRecord) == 48);
static_assert(sizeof(KernelRecord) == 32 && sizeof(SiteFrame) == 16 && sizeof(FileHeader) == 40);
inline constexpr std::array<char, 8> magic = {'F', 'T', 'J', 'R', 'N', 'L', '\r', '\n'};

struct Limits {
    std::size_t chunk_bytes = 256 << 10;
    std::size_t most_bytes = 1 << 30;
};

std::uint64_t monotonic_ns() noexcept;
std::uint32_t thread_id() noexcept;

class Journal {
  public:
    using Piece = std::string_view;

    // The file is opened for the first record. An empty or relative folder: nothing is ever written.
    explicit Journal(std::string folder, Limits limits = {});
    ~Journal();
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
    void release() noexcept;

    const std::string folder_;
    const Limits limits_;
    std::atomic<pid_t> process_{0};  // that writes; negative while it takes over after a fork
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    std::atomic<std::uint64_t> left_out_{0};
    bool failed_ = false;
    FileHeader* header_ = nullptr;
    std::size_t header_bytes_ = 0;
    std::uint8_t* chunk_ = nullptr;
    std::size_t used_ = 0;        // of the chunk
    std::size_t file_bytes_ = 0;  // with the chunk
    char path_[4096] = "";
    dev_t device_ = 0;
    ino_t inode_ = 0;
};

// The journal of this process, in the folder FIRSTTOUCH_PROFILE as it was at the first call; null if none is to be
// written.
Journal* journal() noexcept;

enum class Layer : std::uint32_t { phases = 0, trace = 1 };
void notice(Layer layer, std::string_view text) noexcept;

}  // namespace firsttouch::inject
