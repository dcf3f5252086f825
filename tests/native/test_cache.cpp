// The cache of compiled programs. A truncated or changed file is never used.
#include "device/cache.hpp"

#include <sys/resource.h>

#include <csignal>
#include <vector>

#include "support.hpp"

namespace firsttouch {
namespace {

class Cache : public testing::Test {
  protected:
    std::string get() {
        return cached("a key", [&] {
            ++computed;
            return value;
        });
    }
    std::vector<std::filesystem::path> files() const {
        std::vector<std::filesystem::path> all;
        for (const auto& entry : std::filesystem::directory_iterator(folder.path)) all.push_back(entry.path());
        return all;
    }

    const TemporaryFolder folder;
    const ScopedVariable cache_folder{"FIRSTTOUCH_CACHE", folder.path};
    const std::string value = std::string(100'000, 'x') + std::string("\0\n\xff", 3);
    int computed = 0;
};

TEST_F(Cache, ComputesAValueOnce) {
    EXPECT_EQ(get(), value);
    EXPECT_EQ(get(), value);
    EXPECT_EQ(computed, 1);
    EXPECT_EQ(cached("another key", [] { return std::string("other"); }), "other");
    EXPECT_EQ(get(), value);
    EXPECT_EQ(files().size(), 2u) << "no temporary files are left";
}

TEST_F(Cache, CreatesItsFolder) {
    const ScopedVariable inside("FIRSTTOUCH_CACHE", folder.path / "new" / "cache");
    get();
    EXPECT_EQ(get(), value);
    EXPECT_EQ(computed, 1);
}

TEST_F(Cache, AFailureIsNotCached) {
    EXPECT_THROW(cached("a key", []() -> std::string { throw std::runtime_error("does not compile"); }),
                 std::runtime_error);
    EXPECT_EQ(get(), value);
}

TEST_F(Cache, ATruncatedOrChangedFileIsReplaced) {
    get();
    const std::filesystem::path file = files().at(0);
    const auto size = std::filesystem::file_size(file);
    const std::function<void()> damages[] = {
        [&] { std::filesystem::resize_file(file, size / 2); },
        [&] { std::filesystem::resize_file(file, size - 1); },
        [&] { std::filesystem::resize_file(file, 10); },
        [&] { std::filesystem::resize_file(file, 0); },
        [&] { std::fstream(file).seekp(static_cast<std::streamoff>(size / 2)) << 'y'; },
        [&] { std::ofstream(file) << "machine code of an older version"; },
    };
    int expected = 1;
    for (const auto& damage : damages) {
        damage();
        EXPECT_EQ(get(), value);
        EXPECT_EQ(computed, ++expected);
        EXPECT_EQ(get(), value);  // from the file that was replaced
        EXPECT_EQ(computed, expected);
    }
}

// A limit on the size of files makes a write fail half way, as a full disk does.
TEST_F(Cache, AWriteThatFailsLeavesNoFile) {
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit small{4096, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const std::string found = get();
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(found, value);
    EXPECT_TRUE(files().empty());
    EXPECT_EQ(get(), value);
    EXPECT_EQ(computed, 2);
}

TEST_F(Cache, WithoutAUsableFolderAValueIsComputedEachTime) {
    folder.write("file", "");
    const ScopedVariable inside("FIRSTTOUCH_CACHE", folder.path / "file");
    EXPECT_EQ(get(), value);
    EXPECT_EQ(get(), value);
    EXPECT_EQ(computed, 2);
}

}  // namespace
}  // namespace firsttouch
