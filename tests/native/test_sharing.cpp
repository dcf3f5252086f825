// Probes in which both agents use the same memory: the data are exact on every device, and faults in them are counted.
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "devices.hpp"
#include "faulty.hpp"
#include "probe/at_once.hpp"

namespace firsttouch {
namespace {

bool supports(const AllocatorInfo& entry, SharingMode mode) {
    if (entry.gpu == Access::none || mode == SharingMode::copying) return entry.gpu != Access::none;
    const bool at_once = usable_at_once(entry) || entry.disjoint == true;
    return entry.cpu != Access::none && (mode == SharingMode::lockstep || at_once);
}

using Sharing = OnDevice;

// Limits that end a test which hangs. They do not end one on a busy machine.
constexpr double patience = 60, longest = 300;

TEST_P(Sharing, HalvesAreIncrementedUnderEveryStrategy) {
    for (const auto& entry : available_allocators())
        for (const SharingMode mode : {SharingMode::concurrent, SharingMode::lockstep, SharingMode::copying}) {
            if (!supports(entry, mode)) continue;
            for (const std::size_t bytes : {std::size_t{24}, MiB / 4}) {
                SCOPED_TRACE(to_string(entry.allocator) + ", mode " + std::to_string(static_cast<int>(mode)));
                const auto array = device->allocate(entry.allocator, bytes);
                const auto copy = mode == SharingMode::copying ? device->allocate(Allocator::malloc, bytes) : nullptr;
                const Outcome outcome = concurrency(*lab, *array, nullptr, copy.get(),
                                                    {.mode = mode, .iterations = 100, .longest = longest}, brief);
                expect_few_positive(outcome);
                for (const char* counter : {"cpu_alone_ms", "gpu_alone_ms", "together_ms", "overlap"})
                    EXPECT_GT(outcome.counters.at(counter), 0);
            }
        }
}

TEST_P(Sharing, HalvesMayBeInDifferentMemory) {
    for (const auto& entry : available_allocators())
        for (const SharingMode mode : {SharingMode::lockstep, SharingMode::copying}) {
            if (!supports(entry, mode) || entry.allocator == Allocator::malloc) continue;
            SCOPED_TRACE(to_string(entry.allocator) + ", mode " + std::to_string(static_cast<int>(mode)));
            const Allocator other = available_allocators().back().allocator;
            if (!supports(device->info(other), mode)) continue;
            const auto first = device->allocate(entry.allocator, 12), second = device->allocate(other, 12);
            const auto copy = mode == SharingMode::copying ? device->allocate(Allocator::malloc, 24) : nullptr;
            const ConcurrencyRequest request{.mode = mode, .longest = longest};
            expect_few_positive(concurrency(*lab, *first, second.get(), copy.get(), request, brief));
            const auto longer = device->allocate(other, 24);
            EXPECT_THROW(concurrency(*lab, *first, longer.get(), copy.get(), {.mode = mode}, brief),
                         std::invalid_argument);
        }
}

TEST_P(Sharing, PartsMayHaveAnySize) {
    for (const auto& entry : available_allocators())
        for (const SharingMode mode : {SharingMode::concurrent, SharingMode::lockstep, SharingMode::copying}) {
            if (!supports(entry, mode)) continue;
            for (const std::size_t of_gpu : {0, 16, 44}) {
                SCOPED_TRACE(to_string(entry.allocator) + ", of the GPU " + std::to_string(of_gpu));
                const ConcurrencyRequest request{
                    .mode = mode, .iterations = 5, .threads = 2, .longest = longest, .gpu_bytes = of_gpu};
                const auto copy = mode == SharingMode::copying ? device->allocate(Allocator::malloc, 44) : nullptr;
                const auto array = device->allocate(entry.allocator, 44);
                EXPECT_EQ(concurrency(*lab, *array, nullptr, copy.get(), request, brief).errors, 0u);
                if (of_gpu == 0 || of_gpu == 44) continue;
                const auto first = device->allocate(entry.allocator, of_gpu),
                           second = device->allocate(entry.allocator, 44 - of_gpu);
                EXPECT_EQ(concurrency(*lab, *first, second.get(), copy.get(), request, brief).errors, 0u);
            }
        }
}

TEST_P(Sharing, ConcurrentUseIsRefusedWhereTheDriverExcludesIt) {
    for (const auto& entry : available_allocators()) {
        if (supports(entry, SharingMode::concurrent)) continue;
        const auto array = device->allocate(entry.allocator, 4096);
        EXPECT_THROW(concurrency(*lab, *array, nullptr, nullptr, {.mode = SharingMode::concurrent}, brief),
                     Unavailable);
    }
}

struct Contention {
    int cpu_threads, gpu_groups, group_threads = 1;
};

TEST_P(Sharing, NoIncrementUnderTheLockIsLost) {
    for (const auto& entry : available_allocators())
        for (const auto& [threads, groups, in_group] :
             {Contention{2, 0}, Contention{0, 2}, Contention{0, 2, 3}, Contention{1, 1}}) {
            if (threads > 0 && entry.cpu == Access::none) continue;
            if (groups > 0 && entry.gpu == Access::none) continue;
            if (threads > 0 && groups > 0 && entry.concurrent != true) continue;
            for (const std::uint64_t outside : {0, 1500}) {
                SCOPED_TRACE(to_string(entry.allocator) + ", " + std::to_string(threads) + " threads, " +
                             std::to_string(groups) + " groups of " + std::to_string(in_group) + ", outside " +
                             std::to_string(outside));
                const auto region = device->allocate(entry.allocator, 4096);
                const LockingRequest request{.cpu_threads = threads,
                                             .gpu_groups = groups,
                                             .group_threads = in_group,
                                             .sections = 200,
                                             .outside = outside,
                                             .patience = patience,
                                             .longest = longest,
                                             .seed = 5};
                const Outcome outcome = locking(*lab, *region, request, brief);
                expect_few_positive(outcome);
                EXPECT_GE(outcome.counters.at("sections_a_sample"), 200);
                EXPECT_GE(outcome.counters.at("sections_in_all"), outcome.counters.at("sections_a_sample"));
                EXPECT_EQ(outcome.counters.count("cpu_sections_per_s"), threads > 0);
                EXPECT_EQ(outcome.counters.count("gpu_sections_per_s"), groups > 0);
                if (groups > 0) {
                    EXPECT_GE(outcome.counters.at("gpu_threads_seen"), 1);
                    EXPECT_LE(outcome.counters.at("gpu_threads_seen"), groups * in_group);
                }
            }
        }
}

TEST_P(Sharing, ALockThatIsNeverReleasedIsReportedAsLivelock) {
    for (const auto& entry : available_allocators())
        for (const auto& [threads, groups, in_group] : {Contention{2, 0}, Contention{0, 2}, Contention{0, 1, 3}}) {
            if ((threads > 0 ? entry.cpu : entry.gpu) == Access::none) continue;
            SCOPED_TRACE(to_string(entry.allocator) + (threads > 0 ? " by threads" : " by groups"));
            const auto region = device->allocate(entry.allocator, 4096);
            LockingRequest request{.cpu_threads = threads,
                                   .gpu_groups = groups,
                                   .group_threads = in_group,
                                   .patience = 0.1,
                                   .stuck = true};
            const std::string message = message_of<std::runtime_error>([&] { locking(*lab, *region, request, brief); });
            EXPECT_TRUE(contains(message, "livelock: no critical section was entered for 0.1"));
            request.stuck = false;
            request.patience = patience;
            request.longest = longest;
            expect_few_positive(locking(*lab, *region, request, brief));
        }
}

TEST_P(Sharing, AgentsThatDoNotSeeEachOthersStoresAreRefused) {
    for (const auto& entry : available_allocators()) {
        if (entry.concurrent == true) continue;
        const auto region = device->allocate(entry.allocator, 4096);
        EXPECT_THROW(locking(*lab, *region, {.cpu_threads = 1, .gpu_groups = 1}, brief), Unavailable);
    }
}

INSTANTIATE_TEST_SUITE_P(Device, Sharing, every_device, kind_of);

class SharingFaults : public testing::Test {
  protected:
    FaultyDevice device;
    Lab lab{device};
    const ConcurrencyRequest lockstep{.mode = SharingMode::lockstep, .iterations = 10, .longest = longest};
    const ConcurrencyRequest copying{.mode = SharingMode::copying, .iterations = 10, .longest = longest};
};

TEST_F(SharingFaults, AnIncrementThatIsLostIsCounted) {
    const auto array = device.allocate(Allocator::malloc, 65536);
    EXPECT_EQ(concurrency(lab, *array, nullptr, nullptr, lockstep, brief).errors, 0u);
    device.before_map = [&](const Block& block) { static_cast<std::uint32_t*>(block.host)[777] -= 1; };
    EXPECT_EQ(concurrency(lab, *array, nullptr, nullptr, lockstep, brief).errors, 3u)
        << "by one agent, by the other, by both";
}

TEST_F(SharingFaults, AnIncrementThatIsLostInAnyPartIsCounted) {
    const auto array = device.allocate(Allocator::malloc, 65536);
    for (const std::size_t of_gpu : {4096, 49152}) {
        ConcurrencyRequest unequal = lockstep;
        unequal.gpu_bytes = of_gpu;
        device.before_map = [](const Block&) {};
        EXPECT_EQ(concurrency(lab, *array, nullptr, nullptr, unequal, brief).errors, 0u);
        for (const std::size_t at : {0, 1023, 1024, 7000, 12287, 12288, 16383}) {
            device.before_map = [at](const Block& block) { static_cast<std::uint32_t*>(block.host)[at] -= 1; };
            EXPECT_EQ(concurrency(lab, *array, nullptr, nullptr, unequal, brief).errors, 3u) << of_gpu << ", " << at;
        }
    }
}

TEST_F(SharingFaults, AHalfThatIsSwappedWronglyIsCounted) {
    const auto array = device.allocate(Allocator::malloc, 65536), copy = device.allocate(Allocator::malloc, 65536);
    EXPECT_EQ(concurrency(lab, *array, nullptr, copy.get(), copying, brief).errors, 0u);
    int copied_back = 0;
    device.after_copy = [&](const Block& block) {
        if (block.host == array->block().host) return;
        if (++copied_back == 2)
            static_cast<std::uint32_t*>(block.host)[5] -= 1;  // the first swap; a check copied the array before
    };
    EXPECT_EQ(concurrency(lab, *array, nullptr, copy.get(), copying, brief).errors, 2u) << "in both arrays";
}

TEST_F(SharingFaults, InvalidRequestsAreRefused) {
    const auto array = device.allocate(Allocator::malloc, 65536), small = device.allocate(Allocator::malloc, 4096),
               odd = device.allocate(Allocator::malloc, 12);
    EXPECT_THROW(concurrency(lab, *array, nullptr, small.get(), copying, brief), std::invalid_argument);
    EXPECT_THROW(concurrency(lab, *array, nullptr, nullptr, copying, brief), std::invalid_argument);
    EXPECT_THROW(concurrency(lab, *array, nullptr, small.get(), lockstep, brief), std::invalid_argument);
    EXPECT_THROW(concurrency(lab, *odd, nullptr, nullptr, lockstep, brief), std::invalid_argument);
    EXPECT_THROW(concurrency(lab, *array, nullptr, nullptr, {.iterations = 0}, brief), std::invalid_argument);
    const std::string message = message_of<Unavailable>(
        [&] { concurrency(lab, *array, nullptr, nullptr, {.iterations = 1'000'000'000, .longest = 1e-3}, brief); });
    EXPECT_TRUE(contains(message, "request fewer iterations"));
}

TEST_F(SharingFaults, ASectionThatIsLostIsCounted) {
    const auto region = device.allocate(Allocator::malloc, 4096);
    const LockingRequest request{
        .cpu_threads = 2, .gpu_groups = 0, .sections = 100, .outside = 3, .patience = patience, .longest = longest};
    EXPECT_EQ(locking(lab, *region, request, brief).errors, 0u);
    for (const bool inside : {true, false}) {
        int maps = 0;
        device.before_map = [&](const Block& block) {
            if ((block.host == region->block().host) == inside && ++maps == 2)  // the first map is for filling
                static_cast<std::uint64_t*>(block.host)[32] -= 1;
        };
        EXPECT_EQ(locking(lab, *region, request, brief).errors, 1u) << (inside ? "inside" : "outside");
    }
}

TEST_F(SharingFaults, InvalidRequestsForTheLockAreRefused) {
    const auto region = device.allocate(Allocator::malloc, 4096);
    for (const LockingRequest& request :
         {LockingRequest{.cpu_threads = 0, .gpu_groups = 0}, LockingRequest{.cpu_threads = -1, .gpu_groups = 2},
          LockingRequest{.gpu_groups = 0, .sections = 0}, LockingRequest{.gpu_groups = 0, .inside = 0},
          LockingRequest{.gpu_groups = 0, .inside = 17}, LockingRequest{.group_threads = 0},
          LockingRequest{.group_threads = 1025}})
        EXPECT_THROW(locking(lab, *region, request, brief), std::invalid_argument);
}

// Runs the lock's kernel on host threads for both agents, so that the thread sanitizer observes all accesses.
class Contenders {
  public:
    static constexpr std::size_t line = 32, inside = 16;

    // Runs both agents until each has entered `sections` critical sections, or for a second or longer, until each has
    // entered one. Returns the sections of each.
    std::array<std::uint64_t, 2> compete(std::uint64_t threads_each, std::uint64_t sections, bool same_board) {
        std::vector<std::uint64_t> agent_memory[2], private_words[2];
        std::vector<std::thread> threads;
        for (std::uint32_t agent = 0; agent < 2; ++agent) {
            agent_memory[agent].resize((2 + threads_each) * line);
            private_words[agent].resize(threads_each * 4096);
            for (std::uint64_t member = 0; member < threads_each; ++member)
                threads.emplace_back([&, agent, member] {
                    std::uint64_t *board = boards_[same_board ? 0 : agent].data(), *own = agent_memory[agent].data(),
                                  *shared = region.data(), *privates = private_words[agent].data();
                    std::uint64_t competitors = threads_each, inside_words = inside, outside = 1, most = UINT64_MAX,
                                  limit = UINT64_MAX;
                    std::uint32_t agent_number = agent;
                    void* arguments[] = {&board,        &own,          &shared,  &privates, &competitors,
                                         &agent_number, &inside_words, &outside, &most,     &limit};
                    host_place = {member, threads_each};
                    find_host_kernel("locking_compete")(arguments);
                });
        }
        const auto start = std::chrono::steady_clock::now();
        const auto both_finished = [&](std::uint64_t number) {
            return finished_sections(same_board, 0) >= number && finished_sections(same_board, 1) >= number;
        };
        while (!both_finished(sections)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
            if (passed.count() > (both_finished(1) ? 1 : patience)) break;
        }
        for (auto& board : boards_) std::atomic_ref<std::uint64_t>(board[3 * line]).store(1);
        for (auto& thread : threads) thread.join();
        std::array<std::uint64_t, 2> done{};
        for (std::size_t agent = 0; agent < 2; ++agent)
            for (std::uint64_t member = 0; member < threads_each; ++member)
                done[agent] += agent_memory[agent][(2 + member) * line];
        return done;
    }
    std::vector<std::uint64_t> region = std::vector<std::uint64_t>(inside * line);

  private:
    std::uint64_t finished_sections(bool same_board, std::size_t agent) {
        return std::atomic_ref<std::uint64_t>(boards_[same_board ? 0 : agent][agent * line]).load() / 2;
    }
    std::array<std::vector<std::uint64_t>, 2> boards_ = {std::vector<std::uint64_t>(4 * line),
                                                         std::vector<std::uint64_t>(4 * line)};
};

TEST(Locks, TwoGroupsOfThreadsLoseNoIncrement) {
    for (const std::uint64_t threads : {1, 2}) {
        Contenders contenders;
        const auto [first, second] = contenders.compete(threads, 20'000, true);
        EXPECT_GT(first, 0u);
        EXPECT_GT(second, 0u);
        for (std::size_t i = 0; i < contenders.region.size(); ++i)
            EXPECT_EQ(contenders.region[i], i % Contenders::line == 0 ? first + second : 0) << i;
    }
}

TEST(Locks, WithoutACommonLockLostIncrementsAreDetected) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the race is the test";
#endif
    if (usable_processors() < 2) GTEST_SKIP() << "one processor alone rarely interrupts an increment";
    bool lost = false;
    for (int attempt = 0; attempt < 20 && !lost; ++attempt) {
        Contenders contenders;
        const auto [first, second] = contenders.compete(1, 200'000, false);
        for (std::size_t i = 0; i < Contenders::inside; ++i)
            lost |= contenders.region[i * Contenders::line] != first + second;
    }
    EXPECT_TRUE(lost);
}

}  // namespace
}  // namespace firsttouch
