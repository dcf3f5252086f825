#include "host/team.hpp"

#include <sched.h>

#include <cstdint>
#include <numeric>

#include "support.hpp"

namespace firsttouch {
namespace {

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

}  // namespace
}  // namespace firsttouch
