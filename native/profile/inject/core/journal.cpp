#include "profile/inject/core/journal.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

#include "profile/inject/core/undisturbed.hpp"

namespace firsttouch::inject {
namespace {

constexpr int most_journals = 1000;  // of one process number, which the kernel uses again

// Beyond the process's limit for files, the kernel would send it SIGXFSZ.
void* map_part(int file, std::size_t offset, std::size_t bytes) {
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < offset + bytes) return nullptr;
    if (posix_fallocate(file, off_t(offset), off_t(bytes)) != 0) return nullptr;
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, off_t(offset));
    return mapped == MAP_FAILED ? nullptr : mapped;
}

// A record is written in less time than it takes to sleep and to be woken. Fails if this thread has the mutex, in a
// signal handler.
int lock_soon(pthread_mutex_t& mutex) {
    constexpr int attempts = 100;
    for (int i = 0; i < attempts; ++i) {
        if (pthread_mutex_trylock(&mutex) == 0) return 0;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    return pthread_mutex_lock(&mutex);
}

}  // namespace

std::uint64_t monotonic_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::uint64_t(now.tv_sec) * 1'000'000'000 + std::uint64_t(now.tv_nsec);
}

std::uint32_t thread_id() noexcept { return std::uint32_t(syscall(SYS_gettid)); }

Journal::Journal(std::string folder, Limits limits) : folder_(std::move(folder)), limits_(limits) {}

void Journal::release() noexcept {
    if (header_ != nullptr) munmap(header_, header_bytes_);
    if (chunk_ != nullptr) munmap(chunk_, limits_.chunk_bytes);
    header_ = nullptr;
    chunk_ = nullptr;
}

// In a forked process, the mappings and perhaps a locked mutex are those of its parent: it begins anew. One thread
// does, the others wait for it.
void Journal::follow_process() noexcept {
    pid_t seen = process_.load(std::memory_order_acquire);
    if (seen > 0 && home_.is_here()) return;
    const pid_t self = getpid();
    while (seen != self) {
        if (seen == -self) {
            sched_yield();
            seen = process_.load(std::memory_order_acquire);
        } else if (process_.compare_exchange_weak(seen, -self, std::memory_order_acquire)) {
            release();
            // This type of mutex notices a signal handler that writes while its thread does.
            pthread_mutexattr_t attributes;
            pthread_mutexattr_init(&attributes);
            pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
            pthread_mutex_init(&mutex_, &attributes);
            pthread_mutexattr_destroy(&attributes);
            left_out_.store(0, std::memory_order_relaxed);
            failed_ = folder_.empty() || folder_.front() != '/';
            used_ = file_bytes_ = 0;
            record_bytes_ = sum_ = 0;
            home_.renew();
            process_.store(self, std::memory_order_release);
            return;
        }
    }
}

bool Journal::open_file() noexcept {
    int file = -1;
    for (int i = 0; i < most_journals && file < 0; ++i) {
        const int length =
            std::snprintf(path_, sizeof path_, "%s/journal-%d-%d.bin", folder_.c_str(), int(getpid()), i);
        if (length < 0 || std::size_t(length) >= sizeof path_) return false;
        file = open(path_, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (file < 0 && errno != EEXIST) return false;
    }
    if (file < 0) return false;
    struct stat status {};
    header_bytes_ = std::size_t(sysconf(_SC_PAGESIZE));
    const bool is_known = fstat(file, &status) == 0;
    void* const mapped = is_known ? map_part(file, 0, header_bytes_) : nullptr;
    close(file);
    if (mapped == nullptr) {
        unlink(path_);
        return false;
    }
    device_ = status.st_dev;
    inode_ = status.st_ino;
    file_bytes_ = header_bytes_;
    header_ = new (mapped) FileHeader{.magic = magic,
                                      .version = journal_version,
                                      .header_bytes = std::uint32_t(header_bytes_),
                                      .chunk_bytes = std::uint32_t(limits_.chunk_bytes),
                                      .process = std::uint32_t(getpid()),
                                      .opened = monotonic_ns(),
                                      .left_out = 0,
                                      .complete = 0};
    return true;
}

bool Journal::next_chunk() noexcept {
    if (header_ == nullptr && !open_file()) return false;
    if (file_bytes_ + limits_.chunk_bytes > limits_.most_bytes) return false;
    const int file = open(path_, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return false;
    struct stat status {};
    const bool is_ours = fstat(file, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_ &&
                         std::size_t(status.st_size) == file_bytes_;
    void* const mapped = is_ours ? map_part(file, file_bytes_, limits_.chunk_bytes) : nullptr;
    close(file);
    if (mapped == nullptr) return false;
    if (chunk_ != nullptr) munmap(chunk_, limits_.chunk_bytes);
    chunk_ = static_cast<std::uint8_t*>(mapped);
    used_ = 0;
    file_bytes_ += limits_.chunk_bytes;
    return true;
}

// Completes the record that begins where the chunk is used up to: a reader sees its size only together with all of it.
void Journal::seal(Kind kind, std::size_t size) noexcept {
    auto* const header = reinterpret_cast<RecordHeader*>(chunk_ + used_);
    header->kind = kind;
    std::atomic_ref(header->size).store(u32(size), std::memory_order_release);
    sum_ = add_to_sum(sum_, header, size);
    used_ += size;
    record_bytes_ += size;
    std::atomic_ref(header_->complete).store(record_bytes_ / 8 << 32 | sum_, std::memory_order_release);
}

bool Journal::append(Kind kind, std::initializer_list<Piece> pieces) noexcept {
    const Undisturbed undisturbed;
    follow_process();
    std::size_t size = sizeof(RecordHeader);
    for (const Piece& piece : pieces) size += piece.size();
    size = (size + 7) / 8 * 8;
    if (lock_soon(mutex_) != 0) {
        left_out_.fetch_add(1, std::memory_order_relaxed);
        return false;
    }
    bool has_room = !failed_ && size <= limits_.chunk_bytes;
    if (has_room && (chunk_ == nullptr || used_ + size > limits_.chunk_bytes)) {
        if (chunk_ != nullptr && used_ < limits_.chunk_bytes) seal(Kind::padding, limits_.chunk_bytes - used_);
        has_room = next_chunk();
        failed_ = !has_room;
    }
    if (has_room) {
        std::uint8_t* const place = chunk_ + used_;
        std::size_t at = sizeof(RecordHeader);
        for (const Piece& piece : pieces) {
            if (!piece.empty()) std::memcpy(place + at, piece.data(), piece.size());
            at += piece.size();
        }
        seal(kind, size);
    } else {
        left_out_.fetch_add(1, std::memory_order_relaxed);
    }
    if (header_ != nullptr && left_out_.load(std::memory_order_relaxed) > 0)
        std::atomic_ref(header_->left_out).store(left_out_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    pthread_mutex_unlock(&mutex_);
    return has_room;
}

Journal* journal() noexcept {
    static Journal* const opened = []() -> Journal* {
        const char* const folder = secure_getenv("FIRSTTOUCH_PROFILE");
        if (folder == nullptr || folder[0] != '/') return nullptr;
        try {
            return new Journal(folder);
        } catch (...) {
            return nullptr;
        }
    }();
    return opened;
}

void notice(Layer layer, std::string_view text, std::string_view more) noexcept {
    Journal* const to = journal();
    if (to == nullptr) return;
    const NoticeRecord record{
        .time = monotonic_ns(), .bytes = std::uint32_t(text.size() + more.size()), .layer = std::uint32_t(layer)};
    to->append(Kind::notice, {Journal::bytes_of(record), text, more});
}

}  // namespace firsttouch::inject
