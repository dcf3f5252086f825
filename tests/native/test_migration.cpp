// The migration probe on the host, and on devices that record advice, lose a launch, or corrupt data.
#include <algorithm>
#include <cstring>

#include "faulty.hpp"
#include "probe/probes.hpp"
#include "support.hpp"

namespace firsttouch {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;
const Stop once{.tolerance = 0.1, .seconds = 0, .min_samples = 1, .max_samples = 1};

// Records advice and prefetches, and drops the launch number `dropped`.
class RecordingDevice : public FaultyDevice {
  public:
    struct PrefetchedRange {
        std::size_t bytes, offset, size;
        Agent agent;
        bool operator==(const PrefetchedRange&) const = default;
    };
    std::vector<std::pair<std::size_t, Advice>> advice;
    std::vector<PrefetchedRange> prefetches;
    int launches = 0, dropped = -1;

    void advise(const Buffer& buffer, Advice given) override { advice.emplace_back(buffer.size(), given); }
    void prefetch(Stream&, const Buffer& buffer, std::size_t offset, std::size_t bytes, Agent agent) override {
        prefetches.push_back({buffer.size(), offset, bytes, agent});
    }

  protected:
    void queue_launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments) override {
        if (launches++ != dropped) FaultyDevice::queue_launch(stream, kernel, grid, arguments);
    }
};

class Migration : public testing::Test {
  protected:
    static MigrationRequest request_of(std::size_t bytes) {
        MigrationRequest request;
        request.allocator = Allocator::malloc;
        request.bytes = bytes;
        request.iterations = 3;
        return request;
    }
    MigrationOutcome measure(const MigrationRequest& request) { return migration(lab, request, once); }

    RecordingDevice device;
    Lab lab{device};
};

TEST_F(Migration, EveryAccessPatternPassesTheCheck) {
    for (const auto& [run, stride] : {std::pair<std::size_t, std::size_t>{128, 128},
                                      {128, 1024},
                                      {8, 8},
                                      {8, 4 * KiB},
                                      {8, 64 * KiB},
                                      {8, 2 * MiB},
                                      {64, 192}})
        for (const std::size_t rest : {std::size_t(0), 24 * KiB + 8})
            for (const bool shuffled : {false, true})
                for (const bool update : {false, true}) {
                    const std::size_t bytes = std::max(256 * KiB, 2 * stride) + rest;
                    MigrationRequest request = request_of(bytes);
                    request.run_bytes = run;
                    request.stride_bytes = stride;
                    request.shuffled = shuffled;
                    request.update = update;
                    request.sequential = !shuffled;
                    SCOPED_TRACE(std::to_string(run) + " of " + std::to_string(stride) + " in " +
                                 std::to_string(bytes));
                    const MigrationOutcome outcome = measure(request);
                    EXPECT_EQ(outcome.errors, 0u);
                    ASSERT_EQ(outcome.samples.values.size(), 1u);
                    EXPECT_GT(outcome.samples.values[0], 0);
                }
}

TEST_F(Migration, ALostPassIsCounted) {
    device.dropped = 3 + 1;  // three passes of the warm-up, then the second that is measured
    MigrationRequest request = request_of(MiB);
    request.stride_bytes = 1024;
    EXPECT_EQ(measure(request).errors, MiB / 8 / 8) << "one word in eight was updated once too few";
    device.launches = 0;
    request.update = false;
    EXPECT_EQ(measure(request).errors, 1u) << "the sum of what was read";
}

TEST_F(Migration, ChangedWordsAreCountedWhetherAccessedOrNot) {
    for (const std::size_t word : {std::size_t{0}, std::size_t{17}, MiB / 8 - 1})
        for (const int when : {4, 5}) {  // the warm-up fills and reads, the measurement fills, reads and checks
            int maps = 0;
            device.before_map = [&](const Block& block) {
                if (++maps == when) static_cast<std::uint64_t*>(block.host)[word] ^= 1u << 20;
            };
            MigrationRequest request = request_of(MiB);
            request.stride_bytes = 1024;
            // A word that changes after the CPU's read also spoils its sum.
            EXPECT_EQ(measure(request).errors, when == 4 ? 1u : 2u) << word;
            EXPECT_EQ(maps, 5);
        }
}

TEST_F(Migration, CopiesAreCheckedToo) {
    MigrationRequest request = request_of(MiB);
    request.copied = true;
    const MigrationOutcome right = measure(request);
    EXPECT_EQ(right.errors, 0u);
    EXPECT_TRUE(right.counters.contains("copy_in_ms"));
    device.after_copy = [](const Block& block) {
        if (block.bytes == MiB) static_cast<char*>(block.host)[777] ^= 1;
    };
    request.starts_on = Agent::gpu;  // so that the byte is changed once, by the copy back
    const MigrationOutcome wrong = measure(request);
    EXPECT_EQ(wrong.errors, 1u);
    EXPECT_FALSE(wrong.counters.contains("copy_in_ms"));
}

TEST_F(Migration, EveryBufferGetsTheAdviceInOrder) {
    MigrationRequest request = request_of(4 * MiB);
    request.advice = {Advice::preferred_cpu, Advice::accessed_by_gpu};
    const MigrationOutcome outcome = measure(request);
    const std::vector<std::pair<std::size_t, Advice>> expected = {{2 * MiB, Advice::preferred_cpu},
                                                                  {2 * MiB, Advice::accessed_by_gpu},
                                                                  {4 * MiB, Advice::preferred_cpu},
                                                                  {4 * MiB, Advice::accessed_by_gpu}};
    EXPECT_EQ(device.advice, expected);
    EXPECT_TRUE(outcome.counters.contains("advise_ms"));
    EXPECT_TRUE(device.prefetches.empty());
    EXPECT_FALSE(outcome.counters.contains("prefetch_ms"));
}

TEST_F(Migration, AWholePrefetchIsDividedAt2MiBAndCoversTheBuffer) {
    MigrationRequest request = request_of(9 * MiB + 16);
    request.prefetch = Prefetch::whole;
    request.streams = 4;
    EXPECT_TRUE(measure(request).counters.contains("prefetch_ms"));
    std::erase_if(device.prefetches, [&](const auto& part) { return part.bytes != request.bytes; });  // the warm-up's
    ASSERT_EQ(device.prefetches.size(), 4u);
    std::size_t end = 0;
    for (const auto& part : device.prefetches) {
        EXPECT_EQ(part.offset, end);
        EXPECT_EQ(part.offset % (2 * MiB), 0u);
        EXPECT_EQ(part.agent, Agent::gpu);
        end = part.offset + part.size;
    }
    EXPECT_EQ(end, request.bytes);
}

TEST_F(Migration, APrefetchPerIterationPrecedesEachPass) {
    MigrationRequest request = request_of(MiB);
    request.prefetch = Prefetch::iteration;
    const MigrationOutcome outcome = measure(request);
    const RecordingDevice::PrefetchedRange all{MiB, 0, MiB, Agent::gpu};
    EXPECT_EQ(device.prefetches, std::vector(6, all)) << "three of the warm-up, three that are measured";
    EXPECT_FALSE(outcome.counters.contains("prefetch_ms")) << "its time is part of the passes";
}

TEST_F(Migration, APrefetchBackFollowsThePassesAndIsNotInTheSample) {
    MigrationRequest request = request_of(MiB);
    request.prefetch = Prefetch::back;
    const MigrationOutcome outcome = measure(request);
    const RecordingDevice::PrefetchedRange all{MiB, 0, MiB, Agent::cpu};
    EXPECT_EQ(device.prefetches, std::vector(2, all)) << "one of the warm-up, one that is measured";
    EXPECT_TRUE(outcome.counters.contains("prefetch_back_ms"));
    const auto& phases = outcome.repetitions.at(0);
    const auto back = std::ranges::find(phases, "prefetch_back", &RepetitionStep::name);
    ASSERT_NE(back, phases.end());
    EXPECT_EQ((back - 1)->name, "iteration_2");
    EXPECT_EQ((back + 1)->name, "cpu_read");
    EXPECT_FALSE(back->counted);
}

TEST_F(Migration, PhasesDoNotOverlapAndTheSampleIsTheSumOfTheCountedOnes) {
    MigrationRequest request = request_of(MiB);
    request.advice = {Advice::read_mostly};
    request.prefetch = Prefetch::whole;
    request.update = false;
    const MigrationOutcome outcome = migration(lab, request, {.tolerance = 0, .seconds = 0, .min_samples = 2});
    ASSERT_EQ(outcome.repetitions.size(), outcome.samples.values.size());
    for (std::size_t i = 0; i < outcome.repetitions.size(); ++i) {
        std::vector<std::string> names;
        double time = 0, counted = 0;
        for (const RepetitionStep& phase : outcome.repetitions[i]) {
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

TEST_F(Migration, InvalidRequestsAreRefused) {
    const auto refused = [&](auto&& change) {
        MigrationRequest request = request_of(MiB);
        change(request);
        EXPECT_THROW(measure(request), std::invalid_argument);
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

TEST_F(Migration, AdviceThatADeviceDoesNotSupportIsUnavailable) {
    FaultyDevice plain;
    Lab plain_lab(plain);
    MigrationRequest request = request_of(MiB);
    request.advice = {Advice::read_mostly};
    EXPECT_THROW(migration(plain_lab, request, once), Unavailable);
    request.advice.clear();
    request.prefetch = Prefetch::whole;
    EXPECT_THROW(migration(plain_lab, request, once), Unavailable);
    EXPECT_EQ(plain.live_blocks, 0) << "all blocks are released";
}

}  // namespace
}  // namespace firsttouch
