// The watch of host data: what its records say of time in which it was not permitted to look.
#include "profile/inject/core/host_watch.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <filesystem>
#include <memory>
#include <string>

#include "device/device.hpp"
#include "journals.hpp"

namespace firsttouch::inject {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t was_gone = 2, began_late = 4;
constexpr std::uint64_t second = 1'000'000'000, bytes = 64 << 20;
constexpr double little = 0.01;  // of a second, less than looking at 64 MiB takes
constexpr std::uint64_t long_time = 10'000 * second;

class Watched : public ::testing::Test {
  protected:
    void SetUp() override {
        char name[] = "/tmp/watched-XXXXXX";
        folder_ = mkdtemp(name);
        data_ = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        ASSERT_NE(data_, MAP_FAILED);
        for (std::uint64_t at = 0; at < bytes; at += 4096) data_[at] = 1;
        journal_ = std::make_unique<Journal>(folder_);
    }
    void TearDown() override {
        journal_.reset();
        munmap(data_, bytes);
        fs::remove_all(folder_);
    }
    // Null where this kernel tells nothing.
    std::unique_ptr<HostWatch> watch(double percent) {
        try {
            return std::make_unique<HostWatch>(*journal_, percent, monotonic_ns());
        } catch (const Unavailable&) {
            return nullptr;
        }
    }
    HostSide side(std::uint64_t from, std::uint64_t size, bool is_target) const {
        return {.address = reinterpret_cast<std::uint64_t>(data_) + from, .bytes = size, .is_target = is_target};
    }
    std::vector<std::uint32_t> flags() const {
        std::vector<std::uint32_t> found;
        for (const std::string& content : records_of(folder_, Kind::host))
            found.push_back(start_of<HostRecord>(content).flags);
        return found;
    }

    std::string folder_;
    char* data_ = nullptr;
    std::unique_ptr<Journal> journal_;
};

TEST_F(Watched, AWindowThatBeginsAfterItsCopySaysSo) {
    const auto watch = this->watch(little);
    if (watch == nullptr) GTEST_SKIP() << "this kernel does not tell which pages are written";
    const std::uint64_t now = monotonic_ns();
    watch->copied(now, side(0, bytes, true));
    watch->passes(now + long_time);  // so that it may look
    watch->copies(now + long_time + second, side(0, bytes, true));
    EXPECT_EQ(flags(), std::vector<std::uint32_t>{began_late});
}

TEST_F(Watched, AWindowThatBeginsAtItsCopyIsWhole) {
    const auto watch = this->watch(1e6);
    if (watch == nullptr) GTEST_SKIP() << "this kernel does not tell which pages are written";
    const std::uint64_t now = monotonic_ns();
    watch->copied(now, side(0, bytes, true));
    watch->copies(now + second, side(0, bytes, true));
    EXPECT_EQ(flags(), std::vector<std::uint32_t>{0});
}

TEST_F(Watched, AGapLastsUntilAllOfARangeIsCopiedAgain) {
    const auto watch = this->watch(little);
    if (watch == nullptr) GTEST_SKIP() << "this kernel does not tell which pages are written";
    const std::uint64_t now = monotonic_ns(), later = now + long_time;
    watch->copied(now, side(0, bytes, true));  // not looked at
    for (const std::uint64_t part : {bytes / 2, bytes}) {
        watch->copies(later, side(0, part, true));
        watch->copied(later, side(0, part, true));
    }
    watch->copies(later + second, side(0, bytes, true));
    EXPECT_EQ(flags(), (std::vector<std::uint32_t>{began_late, 0}));
}

TEST_F(Watched, WhatWasNotLookedAtInTheEndMayHaveBeenUsed) {
    const auto watch = this->watch(1e6);
    if (watch == nullptr) GTEST_SKIP() << "this kernel does not tell which pages are written";
    const std::uint64_t now = monotonic_ns();
    watch->copied(now, side(0, bytes, true));
    watch->frees(now + second);
    munmap(data_, bytes);
    watch->finish(now + 2 * second);
    EXPECT_EQ(flags(), std::vector<std::uint32_t>{was_gone});
    data_ = static_cast<char*>(mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

}  // namespace
}  // namespace firsttouch::inject
