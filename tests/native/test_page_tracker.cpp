// Which pages a process wrote and touched, by the kernel's page tables, against what writers of this test did.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "device/device.hpp"
#include "profile/page_tracker.hpp"
#include "support.hpp"

namespace firsttouch {
namespace {

constexpr std::uint64_t pages = 3000;  // of which the ends are in no whole huge page

struct Kind {
    int mapping, advice;
};
// Of the program, also in huge pages, and as a driver maps it that locks it.
constexpr Kind small{MAP_PRIVATE, MADV_NOHUGEPAGE}, huge{MAP_PRIVATE, MADV_HUGEPAGE},
    shared{MAP_SHARED, MADV_NOHUGEPAGE};

class TrackedPages : public testing::TestWithParam<Kind> {
  protected:
    void SetUp() override {
        try {
            tracker_ = std::make_unique<PageTracker>();
        } catch (const Unavailable& reason) {
            GTEST_SKIP() << reason.what();
        }
        size_ = tracker_->page_bytes();
        memory_ = static_cast<char*>(
            mmap(nullptr, (pages + 2) * size_, PROT_READ | PROT_WRITE, GetParam().mapping | MAP_ANONYMOUS, -1, 0));
        madvise(memory_, (pages + 2) * size_, GetParam().advice);
        for (std::uint64_t i = 0; i < pages + 2; ++i) memory_[i * size_] = 1;
        const auto start = reinterpret_cast<std::uint64_t>(memory_) + size_;  // not all of a mapping
        range_ = {start, start + pages * size_};
        ASSERT_TRUE(tracker_->track(range_, 1));
        ASSERT_TRUE(tracker_->protect(range_, has_huge_));
    }
    void TearDown() override {
        if (memory_ != nullptr) munmap(memory_, (pages + 2) * size_);
    }

    void write(std::uint64_t page) { reinterpret_cast<volatile char*>(range_.start)[page * size_ + page % size_] = 2; }

    std::set<std::uint64_t> written(bool again) {
        std::vector<PageRange> found;
        EXPECT_TRUE(tracker_->written(range_, again, found));
        std::set<std::uint64_t> numbers;
        for (const PageRange& each : found)
            for (std::uint64_t at = each.start; at < each.end; at += size_) numbers.insert((at - range_.start) / size_);
        return numbers;
    }

    std::unique_ptr<PageTracker> tracker_;
    std::uint64_t size_ = 0;
    char* memory_ = nullptr;
    PageRange range_{0, 0};
    bool has_huge_ = false;
};

INSTANTIATE_TEST_SUITE_P(, TrackedPages, testing::Values(small, huge, shared));

TEST_P(TrackedPages, WritesOfThreadsAndSystemCallsEqualWhatWasWritten) {
    std::mt19937 generator(7);
    for (int round = 0; round < 20; ++round) {
        std::set<std::uint64_t> expected;
        for (unsigned i = generator() % 300; i > 0; --i) expected.insert(generator() % pages);
        const std::vector<std::uint64_t> all(expected.begin(), expected.end());
        std::vector<std::thread> threads;
        for (std::size_t thread = 0; thread < 3; ++thread)
            threads.emplace_back([&, thread] {
                for (std::size_t i = thread; i < all.size(); i += 3) write(all[i]);
            });
        for (std::thread& thread : threads) thread.join();
        const std::uint64_t first = generator() % (pages - 50);
        const int zeros = open("/dev/zero", O_RDONLY);
        EXPECT_EQ(read(zeros, reinterpret_cast<void*>(range_.start + first * size_ + 1), 40 * size_),
                  ssize_t(40 * size_));
        close(zeros);
        for (std::uint64_t i = first; i <= first + 40; ++i) expected.insert(i);
        EXPECT_EQ(written(false), expected);
        EXPECT_EQ(written(true), expected);
        EXPECT_EQ(written(true), std::set<std::uint64_t>());
    }
}

TEST_P(TrackedPages, AForkedChildIsNotTrackedAndItsParentStillIs) {
    write(5);
    const pid_t child = fork();
    if (child == 0) {
        for (std::uint64_t i = 100; i < 200; ++i) write(i);
        _exit(0);
    }
    write(7);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    write(9);
    EXPECT_EQ(written(true), (std::set<std::uint64_t>{5, 7, 9}));
}

TEST_P(TrackedPages, TouchesSinceItWasCooled) {
    ASSERT_TRUE(tracker_->cool(range_));
    if (GetParam().advice == MADV_NOHUGEPAGE) {
        EXPECT_FALSE(has_huge_);
    }
    EXPECT_EQ(tracker_->touched(std::vector{range_}).front(), 0u);
    volatile char sum = 0;
    for (std::uint64_t i = 0; i < pages; ++i)
        sum = static_cast<char>(sum + reinterpret_cast<char*>(range_.start)[i * size_]);
    EXPECT_EQ(tracker_->touched(std::vector{range_}).front(), pages * size_);
    EXPECT_EQ(written(false), std::set<std::uint64_t>());
}

TEST_P(TrackedPages, ARangeThatIsSetApartLaterTellsOfItsTouchesAlone) {
    if (GetParam().advice == MADV_HUGEPAGE) return;  // pages of which are not touched alone
    ASSERT_TRUE(tracker_->cool(range_));
    for (std::uint64_t page = 10; page < 20; ++page)
        static_cast<void>(reinterpret_cast<volatile char*>(range_.start)[page * size_]);
    const PageRange read{range_.start + 10 * size_, range_.start + 20 * size_},
        unread{range_.start + 21 * size_, range_.start + 31 * size_};
    for (const PageRange& range : {read, unread}) tracker_->set_apart(range, true);
    const std::vector ranges{read, unread};
    EXPECT_EQ(tracker_->touched(ranges), (std::vector<std::optional<std::uint64_t>>{read.bytes(), 0}));
    for (const PageRange& range : ranges) tracker_->set_apart(range, false);
    EXPECT_EQ(tracker_->touched(std::vector{range_}), (std::vector<std::optional<std::uint64_t>>{read.bytes()}));
}

TEST_P(TrackedPages, AReleasedRangeIsWrittenFromThenOn) {
    tracker_->release({range_.start, range_.start + 100 * size_}, 1);
    write(3000 - 1);
    std::set<std::uint64_t> expected{3000 - 1};
    for (std::uint64_t i = 0; i < 100; ++i) expected.insert(i);
    EXPECT_EQ(written(true), expected);
}

TEST_P(TrackedPages, ARangeThatTheProgramUnmapsOrReplacesIsToldAsGone) {
    std::vector<PageRange> found;
    munmap(memory_, (pages + 2) * size_);
    EXPECT_FALSE(tracker_->written(range_, false, found));
    memory_ = static_cast<char*>(
        mmap(memory_, (pages + 2) * size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    write(3);
    EXPECT_FALSE(tracker_->written(range_, false, found));
    EXPECT_FALSE(tracker_->protect(range_, has_huge_));
    EXPECT_TRUE(found.empty());
}

TEST_P(TrackedPages, NeighboursOfOtherColoursAreToldApart) {
    const PageRange before{range_.start - size_, range_.start}, after{range_.end, range_.end + size_};
    ASSERT_TRUE(tracker_->track(before, 0) && tracker_->track(after, 2));
    const auto touched = tracker_->touched(std::vector{before, range_, after});
    ASSERT_TRUE(touched[0] && touched[1] && touched[2]);
    EXPECT_EQ(*touched[0] + *touched[2], 2 * size_);
    tracker_->forget(after);
    EXPECT_TRUE(tracker_->track(after, 1));  // one mapping with the range before it
    EXPECT_EQ(tracker_->touched(std::vector{range_}).front(), std::nullopt);
}

TEST_P(TrackedPages, DescriptorsThatTheProgramClosesAreNotUsed) {
    for (int i = 3; i < 4096; ++i) {
        std::error_code error;
        const std::string file = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(i), error);
        if (file.find("userfaultfd") != std::string::npos) close(i);
    }
    std::vector<PageRange> found;
    EXPECT_FALSE(tracker_->written(range_, false, found));  // with its descriptor, a range is as it was before
    const int zeros = open("/dev/zero", O_RDONLY);
    EXPECT_FALSE(tracker_->track(range_, 0));
    close(zeros);
}

TEST(TrackedRanges, AreMerged) {
    std::vector<PageRange> ranges{{2, 4}, {8, 9}};
    merge_into(ranges, std::vector<PageRange>{{1, 2}, {3, 5}, {9, 12}});
    EXPECT_EQ(ranges, (std::vector<PageRange>{{1, 5}, {8, 12}}));
}

}  // namespace
}  // namespace firsttouch
