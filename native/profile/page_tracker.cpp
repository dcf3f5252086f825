#include "profile/page_tracker.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "device/device.hpp"

namespace firsttouch {
namespace {

// Of linux/userfaultfd.h and linux/fs.h of Linux 6.7, which older headers lack.
constexpr int user_mode_only = 1;
constexpr std::uint64_t asynchronous = 1 << 15;
constexpr int cold = 20;

struct ScanArguments {
    std::uint64_t size, flags, start, end, walk_end, regions, room, most_pages, inverted, mask, any_of, returned;
};

constexpr unsigned long pagemap_scan = _IOWR('f', 16, ScanArguments);
constexpr unsigned long protect_matching = 1, check_tracked = 2;
constexpr std::uint64_t is_written = 2, is_huge = 64;

constexpr rlim_t highest = 1024, from_end = 64;

class File {
  public:
    explicit File(const char* path) noexcept : number_(open(path, O_RDONLY | O_CLOEXEC)) {}
    ~File() {
        if (number_ >= 0) close(number_);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    int number() const { return number_; }

  private:
    const int number_;
};

std::string why_refused(int error) {
    if (error == ENOSYS) return "this kernel has no userfaultfd";
    if (error == EPERM || error == EACCES)
        return "userfaultfd is refused, by a filter of system calls, such as a container's, or by the kernel's "
               "settings";
    return std::string("userfaultfd: ") + std::strerror(error);
}

double thread_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return double(now.tv_sec) * 1e9 + double(now.tv_nsec);
}

// A descriptor far from those that the program gets next, so that its own have the numbers that they would have.
int moved_up(int descriptor) noexcept {
    rlimit limit{};
    const bool is_known = getrlimit(RLIMIT_NOFILE, &limit) == 0;
    const rlim_t end = is_known ? std::min(limit.rlim_cur, highest) : 0;
    const int other = end > 2 * from_end ? fcntl(descriptor, F_DUPFD_CLOEXEC, int(end - from_end)) : -1;
    if (other < 0) return descriptor;
    close(descriptor);
    return other;
}

std::uint64_t number(std::string_view& text, unsigned base) {
    std::uint64_t value = 0;
    while (!text.empty()) {
        const char c = text.front();
        const unsigned digit = c >= '0' && c <= '9'   ? unsigned(c - '0')
                               : c >= 'a' && c <= 'f' ? unsigned(c - 'a' + 10)
                                                      : 99;
        if (digit >= base) break;
        value = value * base + digit;
        text.remove_prefix(1);
    }
    return value;
}

// Adds up the lines Referenced of /proc/self/smaps by range.
class TouchedSums {
  public:
    explicit TouchedSums(std::span<const PageRange> ranges)
        : ranges_(ranges), touched_(ranges.size()), seen_(ranges.size()) {}

    // False: no further line is needed.
    bool take(std::string_view line) {
        constexpr std::string_view referenced = "Referenced:";
        if (line.empty()) return true;
        if (line.front() < 'A' || line.front() > 'Z') return begin(line);
        if (!within_ || !line.starts_with(referenced)) return true;
        line.remove_prefix(std::min(line.find_first_not_of(' ', referenced.size()), line.size()));
        touched_[at_] += number(line, 10) << 10;
        seen_[at_] += mapping_.bytes();
        return true;
    }

    std::vector<std::optional<std::uint64_t>> result() const {
        std::vector<std::optional<std::uint64_t>> result(ranges_.size());
        for (std::size_t i = 0; i < ranges_.size(); ++i)
            if (seen_[i] == ranges_[i].bytes()) result[i] = touched_[i];
        return result;
    }

  private:
    bool begin(std::string_view line) {
        mapping_.start = number(line, 16);
        line.remove_prefix(std::min<std::size_t>(1, line.size()));
        mapping_.end = number(line, 16);
        while (at_ < ranges_.size() && ranges_[at_].end <= mapping_.start) ++at_;
        if (at_ == ranges_.size()) return false;
        within_ = ranges_[at_].start <= mapping_.start && mapping_.end <= ranges_[at_].end;
        return true;
    }

    const std::span<const PageRange> ranges_;
    std::vector<std::uint64_t> touched_, seen_;
    std::size_t at_ = 0;
    PageRange mapping_{0, 0};
    bool within_ = false;
};

}  // namespace

void merge_into(std::vector<PageRange>& ranges, std::span<const PageRange> more) {
    if (more.empty()) return;
    const std::size_t before = ranges.size();
    ranges.insert(ranges.end(), more.begin(), more.end());
    const auto starts_first = [](const PageRange& a, const PageRange& b) { return a.start < b.start; };
    std::inplace_merge(ranges.begin(), ranges.begin() + std::ptrdiff_t(before), ranges.end(), starts_first);
    auto last = ranges.begin();
    for (auto next = last + 1; next != ranges.end(); ++next) {
        if (next->start <= last->end)
            last->end = std::max(last->end, next->end);
        else
            *++last = *next;
    }
    ranges.erase(last + 1, ranges.end());
}

PageTracker::PageTracker() : page_bytes_(std::uint64_t(sysconf(_SC_PAGESIZE))), regions_(1024), text_(16384) {
    try {
        for (Descriptor& descriptor : descriptors_) open_one(descriptor);
        try_out();
    } catch (...) {
        close_all();
        throw;
    }
}

PageTracker::~PageTracker() { close_all(); }

void PageTracker::open_one(Descriptor& descriptor) {
    const long opened = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | user_mode_only);
    if (opened < 0) throw Unavailable(why_refused(errno));
    descriptor.number = moved_up(int(opened));
    struct stat status {};
    if (fstat(descriptor.number, &status) == 0) descriptor.device = status.st_dev, descriptor.inode = status.st_ino;
    uffdio_api api{.api = UFFD_API, .features = asynchronous};
    if (ioctl(descriptor.number, UFFDIO_API, &api) != 0)
        throw Unavailable("this kernel has no asynchronous write protection, which Linux 6.7 and later have");
}

// The program may have closed a descriptor that it does not know, and opened another file with its number.
bool PageTracker::is_ours(const Descriptor& descriptor) const noexcept {
    struct stat status {};
    return descriptor.number >= 0 && fstat(descriptor.number, &status) == 0 && status.st_dev == descriptor.device &&
           status.st_ino == descriptor.inode;
}

void PageTracker::close_all() noexcept {
    for (Descriptor& descriptor : descriptors_) {
        if (is_ours(descriptor)) close(descriptor.number);
        descriptor.number = -1;
    }
}

bool PageTracker::track(PageRange range, unsigned colour) noexcept {
    const Descriptor& descriptor = descriptors_[colour % colours];
    uffdio_register registration{.range = {range.start, range.bytes()}, .mode = UFFDIO_REGISTER_MODE_WP};
    return is_ours(descriptor) && ioctl(descriptor.number, UFFDIO_REGISTER, &registration) == 0;
}

void PageTracker::forget(PageRange range) noexcept {
    for (const Descriptor& descriptor : descriptors_) {
        uffdio_range of{range.start, range.bytes()};
        if (is_ours(descriptor) && ioctl(descriptor.number, UFFDIO_UNREGISTER, &of) == 0) return;
    }
}

void PageTracker::release(PageRange range, unsigned colour) noexcept {
    const Descriptor& descriptor = descriptors_[colour % colours];
    uffdio_writeprotect released{.range = {range.start, range.bytes()}, .mode = 0};
    if (is_ours(descriptor)) ioctl(descriptor.number, UFFDIO_WRITEPROTECT, &released);
}

template <class Take>
bool PageTracker::scan(PageRange range, unsigned long flags, Take&& take) {
    if (msync(reinterpret_cast<void*>(range.start), range.bytes(), MS_ASYNC) != 0)
        return false;  // a part is not mapped
    const File pagemap("/proc/self/pagemap");
    ScanArguments arguments{.size = sizeof arguments,
                            .flags = flags | check_tracked,
                            .start = range.start,
                            .end = range.end,
                            .regions = reinterpret_cast<std::uint64_t>(regions_.data()),
                            .room = regions_.size(),
                            .mask = is_written,
                            .returned = is_written | is_huge};
    while (arguments.start < arguments.end) {
        const int count = ioctl(pagemap.number(), pagemap_scan, &arguments);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 || arguments.walk_end <= arguments.start) return false;
        for (const Region& region : std::span(regions_).first(std::size_t(count))) take(region);
        arguments.start = arguments.walk_end;
    }
    return true;
}

bool PageTracker::protect(PageRange range, bool& has_huge) noexcept {
    return scan(range, protect_matching, [&](const Region& region) { has_huge |= (region.categories & is_huge) != 0; });
}

bool PageTracker::written(PageRange range, bool again, std::vector<PageRange>& into) {
    return scan(range, again ? protect_matching : 0, [&](const Region& region) {
        if (!into.empty() && into.back().end == region.start)
            into.back().end = region.end;
        else
            into.push_back({region.start, region.end});
    });
}

bool PageTracker::cool(PageRange range) noexcept {
    return madvise(reinterpret_cast<void*>(range.start), range.bytes(), cold) == 0;
}

// By a mark that differs from that of its neighbours. What it means, to leave pages out of core files, ends right
// after.
void PageTracker::set_apart(PageRange range, bool is_apart) noexcept {
    madvise(reinterpret_cast<void*>(range.start), range.bytes(), is_apart ? MADV_DONTDUMP : MADV_DODUMP);
}

std::vector<std::optional<std::uint64_t>> PageTracker::touched(std::span<const PageRange> ranges) {
    TouchedSums sums(ranges);
    const File smaps("/proc/self/smaps");
    std::size_t kept = 0;
    for (bool goes_on = smaps.number() >= 0; goes_on;) {
        const ssize_t got = read(smaps.number(), text_.data() + kept, text_.size() - kept);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        std::string_view rest(text_.data(), kept + std::size_t(got));
        for (std::size_t end; goes_on && (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1))
            goes_on = sums.take(rest.substr(0, end));
        kept = rest.size();
        if (kept == text_.size()) break;  // no line is that long
        std::memmove(text_.data(), rest.data(), kept);
    }
    return sums.result();
}

// Tries everything on memory of its own, so that what this kernel lacks is known, and what each step takes.
void PageTracker::try_out() {
    constexpr std::size_t pages = 256;
    const std::size_t bytes = pages * page_bytes_;
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw Unavailable("there is no memory to try userfaultfd on");
    const auto unmap = [bytes](char* at) { munmap(at, bytes); };
    const std::unique_ptr<char, decltype(unmap)> memory(static_cast<char*>(mapped), unmap);
    madvise(mapped, bytes, MADV_NOHUGEPAGE);
    const auto touch_all = [&](bool writes) {
        volatile char* const at = memory.get();
        for (std::size_t i = 0; i < bytes; i += page_bytes_) {
            if (writes)
                at[i] = 1;
            else
                static_cast<void>(at[i]);
        }
        return true;
    };
    touch_all(true);
    const auto address = reinterpret_cast<std::uint64_t>(mapped);
    const PageRange range{address, address + bytes};
    if (!track(range, 0)) throw Unavailable("userfaultfd does not take private memory");
    const auto timed = [units = double(bytes) / 4096](auto&& step) {
        const double begin = thread_ns();
        const bool is_done = step();
        return is_done ? (thread_ns() - begin) / units : -1;
    };
    std::vector<PageRange> found;
    for (int round = 0; round < 2; ++round) {  // the first one meets cold caches
        bool has_huge = false;
        found.clear();
        const double before = timed([&] { return touch_all(false); });
        costs_.protect = timed([&] { return protect(range, has_huge); });
        costs_.cool = timed([&] { return cool(range); });
        costs_.touch = std::max(0.0, timed([&] { return touch_all(false); }) - before);
        costs_.write = timed([&] { return touch_all(true); });
        costs_.look = timed([&] { return written(range, false, found); });
    }
    if (costs_.protect < 0 || costs_.look < 0 || found != std::vector{range})
        throw Unavailable("this kernel has no PAGEMAP_SCAN, which Linux 6.7 and later have");
}

}  // namespace firsttouch
