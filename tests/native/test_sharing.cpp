// Both agents on one memory: what they leave is exact on every device, and a fault in it is counted.
#include <cstring>

#include "devices.hpp"
#include "faulty.hpp"

namespace firsttouch {
namespace {

bool may(const AllocatorInfo& entry, Strategy strategy) {
    if (entry.gpu == Access::none || strategy == Strategy::copying) return entry.gpu != Access::none;
    const bool at_once = entry.concurrent == true || entry.disjoint == true;
    return entry.cpu != Access::none && (strategy == Strategy::lockstep || at_once);
}

using Sharing = OnDevice;

TEST_P(Sharing, HalvesAreCountedUpUnderEveryStrategy) {
    for (const auto& entry : available())
        for (const Strategy strategy : {Strategy::concurrent, Strategy::lockstep, Strategy::copying}) {
            if (!may(entry, strategy)) continue;
            for (const std::size_t bytes : {std::size_t{8}, std::size_t{24}, 2 * MiB}) {
                SCOPED_TRACE(to_string(entry.allocator) + ", strategy " + std::to_string(static_cast<int>(strategy)));
                const auto array = device->allocate(entry.allocator, bytes);
                const auto copy = strategy == Strategy::copying ? device->allocate(Allocator::malloc, bytes) : nullptr;
                const Outcome outcome =
                    concurrency(*lab, *array, copy.get(), {.strategy = strategy, .iterations = 100}, brief);
                expect_positive(outcome);
                for (const char* counter : {"cpu_alone_ms", "gpu_alone_ms", "together_ms", "overlap"})
                    EXPECT_GT(outcome.counters.at(counter), 0);
            }
        }
}

TEST_P(Sharing, TheCpuKeepsOutOfMemoryThatAKernelUsesWhereTheDriverSaysSo) {
    for (const auto& entry : available()) {
        if (may(entry, Strategy::concurrent)) continue;
        const auto array = device->allocate(entry.allocator, 4096);
        EXPECT_THROW(concurrency(*lab, *array, nullptr, {.strategy = Strategy::concurrent}, brief), Unavailable);
    }
}

INSTANTIATE_TEST_SUITE_P(Device, Sharing, every_device, kind_of);

class SharingFaults : public testing::Test {
  protected:
    FaultyDevice device;
    Lab lab{device};
    const ConcurrencyRequest turns{.strategy = Strategy::lockstep, .iterations = 10};
    const ConcurrencyRequest copies{.strategy = Strategy::copying, .iterations = 10};
};

TEST_F(SharingFaults, AnIncrementThatIsLostIsCounted) {
    const auto array = device.allocate(Allocator::malloc, 65536);
    EXPECT_EQ(concurrency(lab, *array, nullptr, turns, brief).errors, 0u);
    device.before_map = [&](const Block& block) { static_cast<std::uint32_t*>(block.host)[777] -= 1; };
    EXPECT_EQ(concurrency(lab, *array, nullptr, turns, brief).errors, 3u) << "by one agent, by the other, by both";
}

TEST_F(SharingFaults, AHalfThatIsNotSwappedIsCounted) {
    const auto array = device.allocate(Allocator::malloc, 65536), copy = device.allocate(Allocator::malloc, 65536);
    EXPECT_EQ(concurrency(lab, *array, copy.get(), copies, brief).errors, 0u);
    int copied_back = 0;
    device.after_copy = [&](const Block& block) {
        if (block.host == array->block().host) return;
        if (++copied_back == 2) static_cast<std::uint32_t*>(block.host)[5] -= 1;  // the first swap; a check was before
    };
    EXPECT_EQ(concurrency(lab, *array, copy.get(), copies, brief).errors, 1u);
}

TEST_F(SharingFaults, BadRequestsSayWhy) {
    const auto array = device.allocate(Allocator::malloc, 65536), small = device.allocate(Allocator::malloc, 4096),
               odd = device.allocate(Allocator::malloc, 12);
    EXPECT_THROW(concurrency(lab, *array, small.get(), copies, brief), std::invalid_argument);
    EXPECT_THROW(concurrency(lab, *array, nullptr, copies, brief), std::invalid_argument);
    EXPECT_THROW(concurrency(lab, *array, small.get(), turns, brief), std::invalid_argument);
    EXPECT_THROW(concurrency(lab, *odd, nullptr, turns, brief), std::invalid_argument);
    EXPECT_THROW(concurrency(lab, *array, nullptr, {.iterations = 0}, brief), std::invalid_argument);
    const std::string words = words_of<Unavailable>(
        [&] { concurrency(lab, *array, nullptr, {.iterations = 1'000'000'000, .longest = 1e-3}, brief); });
    EXPECT_TRUE(holds(words, "ask for fewer"));
}

}  // namespace
}  // namespace firsttouch
