// The migration probe on the host, and on devices that take advice, lose a pass, or corrupt what they hold.
#include <algorithm>
#include <cstring>

#include "faulty.hpp"
#include "probe/probes.hpp"
#include "support.hpp"

namespace firsttouch {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;
const Stop once{.tolerance = 0.1, .seconds = 0, .min_samples = 1, .max_samples = 1};

// Takes advice and prefetches by writing them down; may lose launches.
class WatchedDevice : public FaultyDevice {
  public:
    struct Part {
        std::size_t bytes, offset, size;
        Agent agent;
        bool operator==(const Part&) const = default;
    };
    std::vector<std::pair<std::size_t, Advice>> advice;
    std::vector<Part> prefetches;
    int launches = 0, lose = -1;

    void advise(const Buffer& buffer, Advice one) override { advice.emplace_back(buffer.size(), one); }
    void prefetch(Stream&, const Buffer& buffer, std::size_t offset, std::size_t bytes, Agent agent) override {
        prefetches.push_back({buffer.size(), offset, bytes, agent});
    }

  protected:
    void queue_launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments) override {
        if (launches++ != lose) FaultyDevice::queue_launch(stream, kernel, grid, arguments);
    }
};

class Migration : public testing::Test {
  protected:
    static MigrationRequest request(std::size_t bytes) {
        MigrationRequest request;
        request.allocator = Allocator::malloc;
        request.bytes = bytes;
        request.iterations = 3;
        return request;
    }
    MigrationOutcome measure(const MigrationRequest& request) { return migration(lab, request, once); }

    WatchedDevice device;
    Lab lab{device};
};

TEST_F(Migration, EveryTouchLeavesWhatItShould) {
    for (const std::size_t bytes : {4 * MiB, 4 * MiB + 24 * KiB + 8})
        for (const auto& [run, stride] : {std::pair<std::size_t, std::size_t>{128, 128},
                                          {128, 1024},
                                          {8, 8},
                                          {8, 4 * KiB},
                                          {8, 64 * KiB},
                                          {8, 2 * MiB},
                                          {64, 192}})
            for (const bool shuffled : {false, true})
                for (const bool update : {false, true}) {
                    MigrationRequest wanted = request(bytes);
                    wanted.run_bytes = run;
                    wanted.stride_bytes = stride;
                    wanted.shuffled = shuffled;
                    wanted.update = update;
                    wanted.sequential = !shuffled;
                    SCOPED_TRACE(std::to_string(run) + " of " + std::to_string(stride) + " in " +
                                 std::to_string(bytes));
                    const MigrationOutcome outcome = measure(wanted);
                    EXPECT_EQ(outcome.errors, 0u);
                    ASSERT_EQ(outcome.samples.values.size(), 1u);
                    EXPECT_GT(outcome.samples.values[0], 0);
                }
}

TEST_F(Migration, APassThatIsLostIsCounted) {
    device.lose = 3 + 1;  // three passes of the warm-up, then the second that counts
    MigrationRequest wanted = request(MiB);
    wanted.stride_bytes = 1024;
    EXPECT_EQ(measure(wanted).errors, MiB / 8 / 8) << "an eighth of the words was taken once too few";
    device.launches = 0;
    wanted.update = false;
    EXPECT_EQ(measure(wanted).errors, 1u) << "the sum of what was read";
}

TEST_F(Migration, WordsThatChangeAreCountedWhetherTakenOrNot) {
    for (const std::size_t word : {std::size_t{0}, std::size_t{17}, MiB / 8 - 1})
        for (const int when : {4, 5}) {  // warm-up: filled, read; then filled, read, checked
            int maps = 0;
            device.before_map = [&](const Block& block) {
                if (++maps == when) static_cast<std::uint64_t*>(block.host)[word] ^= 1u << 20;
            };
            MigrationRequest wanted = request(MiB);
            wanted.stride_bytes = 1024;
            // A word that changes after the CPU's read also spoils its sum.
            EXPECT_EQ(measure(wanted).errors, when == 4 ? 1u : 2u) << word;
            EXPECT_EQ(maps, 5);
        }
}

TEST_F(Migration, CopiesAreCheckedToo) {
    MigrationRequest wanted = request(MiB);
    wanted.copied = true;
    const MigrationOutcome right = measure(wanted);
    EXPECT_EQ(right.errors, 0u);
    EXPECT_TRUE(right.counters.contains("copy_in_ms"));
    device.after_copy = [](const Block& block) {
        if (block.bytes == MiB) static_cast<char*>(block.host)[777] ^= 1;
    };
    wanted.starts_on = Agent::gpu;  // so that a byte is changed once, on its way back
    const MigrationOutcome wrong = measure(wanted);
    EXPECT_EQ(wrong.errors, 1u);
    EXPECT_FALSE(wrong.counters.contains("copy_in_ms"));
}

TEST_F(Migration, AdviceIsGivenInOrderToEveryBuffer) {
    MigrationRequest wanted = request(4 * MiB);
    wanted.advice = {Advice::preferred_cpu, Advice::accessed_by_gpu};
    const MigrationOutcome outcome = measure(wanted);
    const std::vector<std::pair<std::size_t, Advice>> expected = {{2 * MiB, Advice::preferred_cpu},
                                                                  {2 * MiB, Advice::accessed_by_gpu},
                                                                  {4 * MiB, Advice::preferred_cpu},
                                                                  {4 * MiB, Advice::accessed_by_gpu}};
    EXPECT_EQ(device.advice, expected);
    EXPECT_TRUE(outcome.counters.contains("advise_ms"));
    EXPECT_TRUE(device.prefetches.empty());
    EXPECT_FALSE(outcome.counters.contains("prefetch_ms"));
}

TEST_F(Migration, AWholePrefetchIsCutAtLargeBlocksAndCoversAll) {
    MigrationRequest wanted = request(9 * MiB + 16);
    wanted.prefetch = Prefetch::whole;
    wanted.streams = 4;
    EXPECT_TRUE(measure(wanted).counters.contains("prefetch_ms"));
    std::erase_if(device.prefetches, [&](const auto& part) { return part.bytes != wanted.bytes; });  // the warm-up's
    ASSERT_EQ(device.prefetches.size(), 4u);
    std::size_t end = 0;
    for (const auto& part : device.prefetches) {
        EXPECT_EQ(part.offset, end);
        EXPECT_EQ(part.offset % (2 * MiB), 0u);
        EXPECT_EQ(part.agent, Agent::gpu);
        end = part.offset + part.size;
    }
    EXPECT_EQ(end, wanted.bytes);
}

TEST_F(Migration, APrefetchOfEveryIterationComesBeforeEach) {
    MigrationRequest wanted = request(MiB);
    wanted.prefetch = Prefetch::iteration;
    const MigrationOutcome outcome = measure(wanted);
    const WatchedDevice::Part whole{MiB, 0, MiB, Agent::gpu};
    EXPECT_EQ(device.prefetches, std::vector(6, whole)) << "three of the warm-up, three that count";
    EXPECT_FALSE(outcome.counters.contains("prefetch_ms")) << "it lies in the passes";
}

TEST_F(Migration, StepsFollowOneAnotherAndTheSampleIsTheSumOfThoseThatCount) {
    MigrationRequest wanted = request(MiB);
    wanted.advice = {Advice::read_mostly};
    wanted.prefetch = Prefetch::whole;
    wanted.update = false;
    const MigrationOutcome outcome = migration(lab, wanted, {.tolerance = 0, .seconds = 0, .min_samples = 2});
    ASSERT_EQ(outcome.repetitions.size(), outcome.samples.values.size());
    for (std::size_t i = 0; i < outcome.repetitions.size(); ++i) {
        std::vector<std::string> names;
        double time = 0, counted = 0;
        for (const Phase& phase : outcome.repetitions[i]) {
            names.push_back(phase.name);
            EXPECT_GE(phase.start, time);
            EXPECT_GE(phase.end, phase.start);
            time = phase.end;
            if (phase.counted) counted += phase.seconds * 1e3;
        }
        const std::vector<std::string> expected = {"initialise",  "advise",      "prefetch", "iteration_0",
                                                   "iteration_1", "iteration_2", "cpu_read", "check"};
        EXPECT_EQ(names, expected);
        EXPECT_DOUBLE_EQ(counted, outcome.samples.values[i]);
    }
    EXPECT_FALSE(outcome.counters.contains("check_ms"));
}

TEST_F(Migration, NonsenseIsRefused) {
    const auto refused = [&](auto&& change) {
        MigrationRequest wanted = request(MiB);
        change(wanted);
        EXPECT_THROW(measure(wanted), std::invalid_argument);
    };
    refused([](MigrationRequest& r) { r.run_bytes = 24; });
    refused([](MigrationRequest& r) { r.run_bytes = 4; });
    refused([](MigrationRequest& r) { r.stride_bytes = 64; });
    refused([](MigrationRequest& r) { r.stride_bytes = 132; });
    refused([](MigrationRequest& r) { r.stride_bytes = 2 * MiB; });
    refused([](MigrationRequest& r) { r.bytes = MiB + 4; });
    refused([](MigrationRequest& r) { r.iterations = 0; });
    refused([](MigrationRequest& r) { r.streams = 0; });
}

TEST_F(Migration, AdviceThatADeviceDoesNotTakeIsUnavailable) {
    FaultyDevice plain;
    Lab bench(plain);
    MigrationRequest wanted = request(MiB);
    wanted.advice = {Advice::read_mostly};
    EXPECT_THROW(migration(bench, wanted, once), Unavailable);
    wanted.advice.clear();
    wanted.prefetch = Prefetch::whole;
    EXPECT_THROW(migration(bench, wanted, once), Unavailable);
    EXPECT_EQ(plain.alive, 0) << "and nothing is left behind";
}

}  // namespace
}  // namespace firsttouch
