#include "profile/perf.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <string>
#include <system_error>
#include <vector>

namespace firsttouch {
namespace {

using Words = std::initializer_list<std::uint64_t>;

std::uint64_t pair(std::uint32_t low, std::uint32_t high) {
    std::uint64_t word = 0;
    const std::array<std::uint32_t, 2> both{low, high};
    std::memcpy(&word, both.data(), sizeof(word));
    return word;
}

// A ring as the kernel fills it. The first record begins where the one behind it wraps around.
class FabricatedRing {
  public:
    explicit FabricatedRing(std::size_t bytes, std::uint64_t begin = 0) : bytes_(bytes), tail(begin), head(begin) {}

    void add(std::uint32_t type, std::uint16_t misc, Words words, const std::string& text = {}, Words rest = {}) {
        std::vector<std::byte> body;
        const auto append = [&](const void* from, std::size_t size) {
            const auto* at = static_cast<const std::byte*>(from);
            body.insert(body.end(), at, at + size);
        };
        for (const std::uint64_t word : words) append(&word, sizeof(word));
        append(text.data(), text.size());
        body.resize((body.size() + 7) / 8 * 8);
        for (const std::uint64_t word : rest) append(&word, sizeof(word));
        const perf_event_header header{type, misc, static_cast<std::uint16_t>(sizeof(perf_event_header) + body.size())};
        add_raw(header, body);
    }
    void add_raw(const perf_event_header& header, const std::vector<std::byte>& body) {
        std::array<std::byte, sizeof(header)> first{};
        std::memcpy(first.data(), &header, sizeof(header));
        for (const std::byte byte : first) bytes_[head++ & (bytes_.size() - 1)] = byte;
        for (const std::byte byte : body) bytes_[head++ & (bytes_.size() - 1)] = byte;
    }
    std::uint64_t decode(PerfRecords& into) const { return decode_ring(bytes_, tail, head, into); }

  private:
    std::vector<std::byte> bytes_;

  public:
    std::uint64_t tail, head;
};

void add_start(FabricatedRing& ring, std::uint32_t pid, std::uint32_t parent, std::uint32_t tid, std::uint64_t ns) {
    ring.add(PERF_RECORD_FORK, 0, {pair(pid, parent), pair(tid, parent), ns, pair(pid, tid), ns});
}
void add_name(FabricatedRing& ring, std::uint32_t pid, const std::string& name, bool executed, std::uint64_t ns) {
    ring.add(PERF_RECORD_COMM, executed ? PERF_RECORD_MISC_COMM_EXEC : 0, {pair(pid, pid)}, name + '\0',
             {pair(pid, pid), ns});
}

TEST(PerfRing, DecodesEveryKindOfRecord) {
    FabricatedRing ring(4096);
    add_start(ring, 11, 10, 11, 100);
    add_name(ring, 11, "program", true, 101);
    ring.add(PERF_RECORD_MMAP2, 0, {pair(11, 11), 0x4000, 0x2000, 0x1000, 0, 0, 0, pair(5, 2)},
             std::string("/usr/lib/a.so\0", 14), {pair(11, 11), 102});
    ring.add(PERF_RECORD_SAMPLE, 0, {0x4010, pair(11, 12), 103, 0x7000});
    ring.add(PERF_RECORD_EXIT, 0, {pair(11, 10), pair(12, 10), 104, pair(11, 12), 104});
    ring.add(PERF_RECORD_LOST, 0, {1, 42, pair(11, 12), 105});
    PerfRecords records;
    EXPECT_EQ(ring.decode(records), ring.head);

    ASSERT_EQ(records.starts.size(), 1u);
    EXPECT_EQ(records.starts[0].pid, 11u);
    EXPECT_EQ(records.starts[0].parent, 10u);
    EXPECT_EQ(records.starts[0].ns, 100u);
    EXPECT_TRUE(records.starts[0].is_process());
    ASSERT_EQ(records.names.size(), 1u);
    EXPECT_EQ(records.names[0].name, "program");
    EXPECT_TRUE(records.names[0].executed);
    EXPECT_EQ(records.names[0].ns, 101u);
    ASSERT_EQ(records.mappings.size(), 1u);
    EXPECT_EQ(records.mappings[0].file, "/usr/lib/a.so");
    EXPECT_EQ(records.mappings[0].address, 0x4000u);
    EXPECT_EQ(records.mappings[0].length, 0x2000u);
    EXPECT_EQ(records.mappings[0].offset, 0x1000u);
    EXPECT_EQ(records.mappings[0].ns, 102u);
    ASSERT_EQ(records.samples.size(), 1u);
    EXPECT_EQ(records.samples[0].instruction, 0x4010u);
    EXPECT_EQ(records.samples[0].tid, 12u);
    EXPECT_EQ(records.samples[0].ns, 103u);
    EXPECT_EQ(records.samples[0].address, 0x7000u);
    ASSERT_EQ(records.ends.size(), 1u);
    EXPECT_EQ(records.ends[0].tid, 12u);
    EXPECT_EQ(records.ends[0].ns, 104u);
    EXPECT_EQ(records.lost, 42u);
}

TEST(PerfRing, RecordsWrapAroundAtEveryPlace) {
    for (std::uint64_t begin = 0; begin < 256; begin += 8) {
        FabricatedRing ring(256, (std::uint64_t{1} << 40) + begin);
        add_name(ring, 7, "fifteen letters", false, 1);
        add_start(ring, 8, 7, 8, 2);
        ring.add(PERF_RECORD_SAMPLE, 0, {1, pair(8, 9), 3, 4});
        PerfRecords records;
        ASSERT_EQ(ring.decode(records), ring.head);
        ASSERT_EQ(records.names.size(), 1u);
        EXPECT_EQ(records.names[0].name, "fifteen letters");
        ASSERT_EQ(records.starts.size(), 1u);
        EXPECT_EQ(records.starts[0].ns, 2u);
        ASSERT_EQ(records.samples.size(), 1u);
        EXPECT_EQ(records.samples[0].address, 4u);
    }
}

TEST(PerfRing, UnknownTypesAreSkipped) {
    FabricatedRing ring(1024);
    for (const std::uint32_t type : {0u, 5u, 6u, 14u, 21u, 1000u, ~0u}) ring.add(type, 0xFFFF, {1, 2, 3});
    ring.add(PERF_RECORD_LOST_SAMPLES, 0, {5, 0, 0});
    add_start(ring, 8, 7, 8, 2);
    PerfRecords records;
    EXPECT_EQ(ring.decode(records), ring.head);
    EXPECT_EQ(records.starts.size(), 1u);
    EXPECT_EQ(records.lost, 5u);
}

TEST(PerfRing, ImpossibleSizesEndTheReading) {
    for (const int size : {0, 7, 4096, 65535}) {
        FabricatedRing ring(1024);
        add_start(ring, 8, 7, 8, 2);
        ring.add_raw({PERF_RECORD_SAMPLE, 0, static_cast<std::uint16_t>(size)}, std::vector<std::byte>(32));
        add_start(ring, 9, 7, 9, 3);
        PerfRecords records;
        EXPECT_EQ(ring.decode(records), ring.head);
        EXPECT_EQ(records.starts.size(), 1u);
    }
    FabricatedRing ring(1024);  // a record that ends before its fields do
    ring.add(PERF_RECORD_MMAP2, 0, {pair(1, 1)});
    ring.add(PERF_RECORD_SAMPLE, 0, {});
    ring.add(PERF_RECORD_COMM, 0, {});
    PerfRecords records;
    EXPECT_EQ(ring.decode(records), ring.head);
    EXPECT_EQ(records.mappings.at(0).file, "");
    EXPECT_EQ(records.names.at(0).name, "");
    ring.head = ring.tail + 4;
    EXPECT_EQ(ring.decode(records), ring.head);
}

TEST(PerfRecords, AreMergedAndTakenByTime) {
    PerfRecords records;
    FabricatedRing first(1024), second(1024);
    add_start(first, 1, 9, 1, 10), add_start(first, 2, 9, 2, 30);
    add_start(second, 3, 9, 3, 20), add_start(second, 4, 9, 4, 40);
    first.decode(records), second.decode(records);
    records.lost = 3;
    records.sort_by_time();
    const PerfRecords taken = records.take_until(30);
    std::vector<std::uint32_t> order;
    for (const ThreadStart& start : taken.starts) order.push_back(start.pid);
    EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 3, 2}));
    EXPECT_EQ(taken.lost, 3u);
    ASSERT_EQ(records.starts.size(), 1u);
    EXPECT_EQ(records.starts[0].pid, 4u);
    EXPECT_EQ(records.lost, 0u);
}

// Where the kernel, a container or an emulator refuses perf events, the exception says which call failed.
TEST(PerfEvents, SeeAChildOrSayWhatFailed) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        char byte = 0;
        close(pipe_ends[1]);
        if (read(pipe_ends[0], &byte, 1) < 0) _exit(1);
        execl("/bin/sh", "sh", "-c", "(exit 0); (exit 0); exit 0", nullptr);
        _exit(127);
    }
    close(pipe_ends[0]);
    try {
        PerfEvents events(child, 1, true);
        EXPECT_EQ(events.read(true).records.names.size(), 0u);
        close(pipe_ends[1]);
        ASSERT_EQ(waitpid(child, nullptr, 0), child);
        const PerfEvents::Batch told = events.read(true);
        EXPECT_EQ(told.records.starts.size(), 2u);
        EXPECT_EQ(told.processes.size(), 3u);
        EXPECT_EQ(told.records.names.at(0).name, "sh");
        EXPECT_EQ(told.records.samples.size(), events.counted());
        EXPECT_FALSE(told.records.mappings.empty());
    } catch (const std::system_error& error) {
        close(pipe_ends[1]);
        waitpid(child, nullptr, 0);
        EXPECT_TRUE(std::string(error.what()).starts_with("perf_event_open: ") ||
                    std::string(error.what()).starts_with("mmap: "))
            << error.what();
        EXPECT_NE(error.code().value(), 0);
    }
    EXPECT_THROW(PerfEvents(child, 1, false), std::system_error);  // it has ended
}

// What the kernel says of each processor, the last answer of all that follow.
std::vector<int> find_in(const std::vector<int>& answers) {
    return find_processors(
        [&](int processor) { return answers[std::min(static_cast<std::size_t>(processor), answers.size() - 1)]; });
}

int why_none(const std::vector<int>& answers) {
    try {
        find_in(answers);
    } catch (const std::system_error& error) {
        return error.code().value();
    }
    return 0;
}

TEST(Perf, ProcessorsAreThoseThatTheKernelTakes) {
    EXPECT_EQ(find_in({0, 0, EINVAL}), (std::vector<int>{0, 1}));
    EXPECT_EQ(find_in({ENODEV, 0, ENODEV, ENODEV, 0, EINVAL}), (std::vector<int>{1, 4}));
    EXPECT_EQ(find_in({0, ENODEV}), std::vector<int>{0});
    std::vector<int> many(5000, 0);
    many.push_back(EINVAL);
    EXPECT_EQ(find_in(many).size(), 5000U);
}

TEST(Perf, ARefusalIsNoEndOfTheProcessors) {
    EXPECT_EQ(why_none({EINVAL}), EINVAL);
    EXPECT_EQ(why_none({EACCES}), EACCES);
    EXPECT_EQ(why_none({0, EMFILE}), EMFILE);
    EXPECT_EQ(why_none({ENODEV}), ENODEV);
}

}  // namespace
}  // namespace firsttouch
