#include "host/team.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "support.hpp"

// A kernel for so many processors refuses smaller sets; 0 refuses all, as a filter of system calls may.
static std::size_t kernel_processors = 1;
extern "C" int sched_getaffinity(pid_t process, std::size_t bytes, cpu_set_t* set) noexcept {
    if (kernel_processors == 0 || bytes * 8 < kernel_processors) {
        errno = kernel_processors == 0 ? EPERM : EINVAL;
        return -1;
    }
    CPU_ZERO_S(bytes, set);
    return syscall(SYS_sched_getaffinity, process, bytes, set) < 0 ? -1 : 0;
}

namespace firsttouch {
namespace {

class Kernels : public testing::TestWithParam<std::size_t> {
  protected:
    void SetUp() override { kernel_processors = GetParam(); }
    void TearDown() override { kernel_processors = 1; }
};

TEST_P(Kernels, OfAnyNumberOfProcessorsRunTeams) {
    EXPECT_GE(usable_processors(), 1);
    EXPECT_GE(usable_cores(), 1);
    std::atomic<int> ran = 0;
    Team(3).run([&](int) { ++ran; });
    EXPECT_EQ(ran, 3);
}

INSTANTIATE_TEST_SUITE_P(Teams, Kernels, testing::Values(0, 1, 1024, 1025, 8192, 65536, 65537));

TEST(Shares, CoverAllItemsExactlyOnce) {
    for (const std::size_t n : {0, 1, 7, 8, 9, 63, 64, 1000, 4095, 4096, 4097})
        for (const int members : {1, 2, 3, 7, 64, 200})
            for (const std::size_t multiple : {1, 8, 4096}) {
                std::size_t at = 0;
                for (int member = 0; member < members; ++member) {
                    const Share share = share_of(n, member, members, multiple);
                    ASSERT_EQ(share.first, at);
                    ASSERT_LE(share.first, share.last);
                    if (share.last != n) {
                        ASSERT_EQ(share.last % multiple, 0u);
                    }
                    at = share.last;
                }
                ASSERT_EQ(at, n) << n << " over " << members;
            }
}

TEST(Teams, RunEveryMemberOncePerCall) {
    for (const int size : {1, 2, 5}) {
        Team team(size);
        EXPECT_EQ(team.size(), size);
        std::vector<int> runs(static_cast<std::size_t>(size), 0);  // not atomic: run() orders the accesses
        for (int i = 0; i < 200; ++i)
            EXPECT_GE(team.run([&](int member) { ++runs[static_cast<std::size_t>(member)]; }), 0);
        EXPECT_EQ(runs, std::vector<int>(static_cast<std::size_t>(size), 200));
    }
}

TEST(Teams, DivideAnArray) {
    std::vector<std::uint64_t> values(100'003);
    Team team(4);
    team.run([&](int member) {
        const Share share = share_of(values.size(), member, 4, 8);
        for (std::size_t i = share.first; i < share.last; ++i) values[i] += i;
    });
    const std::uint64_t n = values.size();
    EXPECT_EQ(std::accumulate(values.begin(), values.end(), std::uint64_t{0}), n * (n - 1) / 2);
}

TEST(Teams, PinTheirMembersAndRestoreTheCaller) {
    cpu_set_t before, after;
    sched_getaffinity(0, sizeof(before), &before);
    {
        Team team(usable_processors());
        team.run([](int) {
            cpu_set_t mine;
            sched_getaffinity(0, sizeof(mine), &mine);
            EXPECT_EQ(CPU_COUNT(&mine), 1);
        });
    }
    sched_getaffinity(0, sizeof(after), &after);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
    EXPECT_EQ(usable_processors(), CPU_COUNT(&before));
}

// The topology that the kernel shows for `cores` cores of two processors each.
class Topology {
  public:
    // adjacent: whether the processors of a core have successive numbers, as opposed to n and n + cores.
    Topology(int cores, bool adjacent) {
        for (int core = 0; core < cores; ++core) {
            const int first = adjacent ? 2 * core : core, second = adjacent ? first + 1 : core + cores;
            const std::string both = std::to_string(first) + (adjacent ? "-" : ",") + std::to_string(second);
            for (const int processor : {first, second})
                files_.write("cpu" + std::to_string(processor) + "/topology/thread_siblings_list", both + "\n");
        }
    }
    Cores cores(const std::vector<int>& processors) const { return group_by_core(processors, files_.path.string()); }

  private:
    TemporaryFolder files_;
};

std::vector<int> first(int n) {
    std::vector<int> list(static_cast<std::size_t>(n));
    std::iota(list.begin(), list.end(), 0);
    return list;
}

TEST(Places, OneThreadPerCoreBeforeTheSiblings) {
    for (const bool adjacent : {false, true}) {
        const Cores cores = Topology(24, adjacent).cores(first(48));
        ASSERT_EQ(cores.size(), 24u);
        for (int members = 1; members <= 48; ++members) {
            const std::vector<int> placed = place(members, cores);
            ASSERT_EQ(placed.size(), static_cast<std::size_t>(members));
            std::size_t used = 0, most = 0;
            for (const std::vector<int>& core : cores) {
                const auto of = [&](int processor) { return std::count(placed.begin(), placed.end(), processor); };
                const auto here = static_cast<std::size_t>(of(core[0]) + of(core[1]));
                EXPECT_LE(of(core[0]), 1);
                EXPECT_LE(of(core[1]), 1);
                used += here > 0;
                most = std::max(most, here);
            }
            EXPECT_EQ(used, static_cast<std::size_t>(std::min(members, 24))) << members;
            EXPECT_EQ(most, members > 24 ? 2u : 1u) << members;
        }
    }
}

TEST(Places, FewThreadsAreSpreadAndInTheOrderOfCores) {
    const Cores cores = Topology(8, false).cores(first(16));
    EXPECT_EQ(place(2, cores), (std::vector<int>{0, 4}));
    EXPECT_EQ(place(8, cores), first(8));
    EXPECT_EQ(place(10, cores), (std::vector<int>{0, 8, 1, 2, 3, 4, 12, 5, 6, 7}));
    EXPECT_EQ(place(16, cores), (std::vector<int>{0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15}));
}

TEST(Places, OnlyProcessorsThatThisProcessMayUse) {
    const Cores cores = Topology(4, false).cores({1, 2, 5, 7});
    EXPECT_EQ(cores, (Cores{{1, 5}, {2}, {7}}));
    EXPECT_EQ(place(3, cores), (std::vector<int>{1, 2, 7}));
    EXPECT_EQ(place(4, cores), (std::vector<int>{1, 5, 2, 7}));
}

TEST(Places, MoreThreadsThanProcessorsShareThemEvenly) {
    const Cores cores{{0, 2}, {1}};
    EXPECT_EQ(place(6, cores), (std::vector<int>{0, 2, 0, 2, 1, 1}));
    EXPECT_EQ(place(4, cores), (std::vector<int>{0, 2, 0, 1}));
}

TEST(Places, WithoutATopologyEveryProcessorIsACore) {
    const TemporaryFolder empty;
    EXPECT_EQ(group_by_core({3, 4, 9}, empty.path.string()), (Cores{{3}, {4}, {9}}));
    EXPECT_LE(usable_cores(), usable_processors());
    EXPECT_GE(usable_cores(), 1);
}

}  // namespace
}  // namespace firsttouch
