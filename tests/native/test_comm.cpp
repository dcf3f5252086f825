// Messages between two ranks, which are threads here.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "comm/comm.hpp"
#include "comm/exchange.hpp"
#include "device/lab.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

const MpiHandles handles{MPI_IN_THREADS, 7, 8, 9, 10, 8};

// Calls work(comm, lab) in both ranks.
template <class Work>
void in_both_ranks(Work&& work) {
    void* library = dlopen(MPI_IN_THREADS, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    auto* const set_rank = reinterpret_cast<void (*)(int)>(dlsym(library, "standin_rank"));
    const auto rank = [&](int number) {
        set_rank(number);
        const auto comm = open_mpi(handles);
        const auto device = open_device("cpu");
        Lab lab(*device);
        work(*comm, lab);
    };
    std::thread other(rank, 1);
    rank(0);
    other.join();
}

constexpr Stop short_stop{.tolerance = 0.5, .seconds = 0.01, .min_samples = 3, .max_samples = 5};

TEST(Comm, MessagesArriveInOrder) {
    in_both_ranks([](Comm& comm, Lab&) {
        ASSERT_EQ(comm.size(), 2);
        std::uint32_t words[5] = {};
        if (comm.rank() == 0) {
            for (std::uint32_t i = 0; i < 5; ++i) words[i] = 100 + i;
            for (std::uint32_t& word : words) comm.start_send(&word, sizeof word, 1);
            comm.finish_all();
            comm.tell(1, 42);
        } else {
            for (std::uint32_t& word : words) comm.start_receive(&word, sizeof word, 0);
            comm.finish(0);
            comm.finish_all();
            EXPECT_EQ(comm.hear(0), 42u);
            for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ(words[i], 100 + i);
        }
    });
}

TEST(Comm, AllRanksGetSumsLargestAndEachOthersWords) {
    in_both_ranks([](Comm& comm, Lab&) {
        const auto own = static_cast<std::uint64_t>(comm.rank());
        EXPECT_EQ(comm.total(10 + own), 21u);
        EXPECT_EQ(comm.total(own == 0 ? ~std::uint64_t{0} : 3), 2u);  // modulo 2^64
        EXPECT_EQ(comm.largest(own == 1 ? 2.5 : -1.0), 2.5);
        EXPECT_EQ(comm.swap_words({1 - comm.rank()}, {70 + own}), std::vector<std::uint64_t>{71 - own});
        EXPECT_TRUE(comm.swap_words({}, {}).empty());
        EXPECT_THROW(comm.swap_words({1 - comm.rank()}, {}), std::invalid_argument);
    });
}

TEST(Comm, MessagesOfAnApplicationArriveAtTheirPlaces) {
    for (const bool staged : {false, true})
        in_both_ranks([&](Comm& comm, Lab& lab) {
            const int own = comm.rank(), other = 1 - own;
            const auto out = lab.device().allocate(Allocator::malloc, 4096);
            const auto in = lab.device().allocate(Allocator::malloc, 4096);
            const auto through_out = lab.device().allocate(Allocator::malloc, 8192);
            const auto through_in = lab.device().allocate(Allocator::malloc, 8192);
            {
                const HostView from(*out), to(*in);
                for (int i = 0; i < 4096; ++i)
                    from.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i % 100 + 100 * own),
                    to.as<std::uint8_t>()[i] = 0xff;
            }
            ExchangeRequest request{
                {{other, out.get(), 0, 100},
                 {own, out.get(), 200, 50},
                 {other, out.get(), 1000, 300},
                 {other, out.get(), 9, 0}},
                {{other, in.get(), 3000, 100}, {other, in.get(), 5, 300}, {own, in.get(), 2000, 50}}};
            if (staged) request.staging_out = through_out.get(), request.staging_in = through_in.get();
            EXPECT_GE(exchange(lab, &comm, request), 0.0);
            const HostView to(*in);
            const auto holds = [&](int at, int from, int count, int whose) {
                for (int i = 0; i < count; ++i)
                    if (to.as<std::uint8_t>()[at + i] != static_cast<std::uint8_t>((from + i) % 100 + 100 * whose))
                        return false;
                return true;
            };
            EXPECT_TRUE(holds(3000, 0, 100, other) && holds(5, 1000, 300, other) && holds(2000, 200, 50, own));
            EXPECT_TRUE(to.as<std::uint8_t>()[4] == 0xff && to.as<std::uint8_t>()[305] == 0xff &&
                        to.as<std::uint8_t>()[3100] == 0xff);
            comm.meet();
        });
}

TEST(Comm, MessagesArriveInReceivesThatBeganBefore) {
    for (const bool staged : {false, true})
        in_both_ranks([&](Comm& comm, Lab& lab) {
            const int own = comm.rank(), other = 1 - own;
            const std::size_t sent[] = {100, 0}, come = sent[other];
            const auto out = lab.device().allocate(Allocator::malloc, 4096);
            const auto in = lab.device().allocate(Allocator::malloc, 4096);
            const auto through = lab.device().allocate(Allocator::malloc, 4096);
            std::memset(HostView(*out).as<char>(), 1 + own, 4096);
            std::memset(HostView(*in).as<char>(), 0xff, 4096);
            const Buffer* const staging = staged ? through.get() : nullptr;
            for (int round = 0; round < 2; ++round) {
                Receives receives(lab, comm, {{other, in.get(), 64, 1000}}, staging, false);
                EXPECT_EQ(comm.total(1), 2u);
                EXPECT_EQ(receives.finish({{other, out.get(), 8, sent[own]}}, staging), std::vector<std::size_t>{come});
                const HostView to(*in);
                const auto at = [&](std::size_t i) { return to.as<std::uint8_t>()[i]; };
                EXPECT_EQ(at(63), 0xff);
                if (come > 0) EXPECT_EQ(at(64), 1 + other);
                if (come > 0) EXPECT_EQ(at(64 + come - 1), 1 + other);
                EXPECT_EQ(at(64 + come), 0xff);
                comm.meet();
            }
            EXPECT_THROW(Receives(lab, comm, {{other, in.get(), 4000, 100}}, nullptr, false), std::invalid_argument);
        });
}

TEST(Comm, WrongMessagesOfAnApplicationAreRefused) {
    const auto device = open_device("cpu");
    Lab lab(*device);
    const auto memory = device->allocate(Allocator::malloc, 64);
    const auto refused = [&](const ExchangeRequest& request) {
        EXPECT_THROW(exchange(lab, nullptr, request), std::invalid_argument);
    };
    refused({{{0, memory.get(), 60, 8}}, {{0, memory.get(), 0, 8}}});  // beyond the end
    refused({{{0, memory.get(), 0, 8}}, {}});                          // nobody receives it
    refused({{{1, memory.get(), 0, 8}}, {}});                          // there is no other rank
}

TEST(Comm, AnErrorOfTheLibraryIsTold) {
    in_both_ranks([](Comm& comm, Lab&) {
        if (comm.rank() != 0) return;
        const unsigned char bad = 0xee;
        try {
            comm.send(&bad, 1, 1);
            FAIL() << "no exception";
        } catch (const VendorError& error) {
            EXPECT_STREQ(error.what(), "MPI_Send: error 15");
        }
        EXPECT_THROW(comm.send(&bad, std::size_t{1} << 31, 1), Unavailable);
    });
}

TEST(Comm, EveryByteOfEverySizeArrives) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{13}, std::size_t{4096}, std::size_t{100'000}})
        for (const bool staged : {false, true})
            in_both_ranks([&](Comm& comm, Lab& lab) {
                const auto source = lab.device().allocate(Allocator::malloc, bytes);
                const auto target = lab.device().allocate(Allocator::malloc, bytes);
                const auto staging = lab.device().allocate(Allocator::malloc, 2 * bytes);
                const MessageRequest request{bytes, 1 - comm.rank(), 3, staged ? staging.get() : nullptr};
                const Outcome outcome = message(lab, comm, *source, *target, request, short_stop);
                EXPECT_EQ(outcome.errors, 0u);
                EXPECT_EQ(outcome.samples.values.empty(), comm.rank() == 1);
                if (comm.rank() == 0) {
                    EXPECT_GT(outcome.counters.at("latency_us"), 0);
                }
            });
}

TEST(Comm, WrongRequestsAreRefused) {
    in_both_ranks([](Comm& comm, Lab& lab) {
        const auto memory = lab.device().allocate(Allocator::malloc, 64);
        const auto refused = [&](const MessageRequest& request) {
            EXPECT_THROW(message(lab, comm, *memory, *memory, request, short_stop), std::invalid_argument);
        };
        refused({.bytes = 0, .peer = 1 - comm.rank()});
        refused({.bytes = 65, .peer = 1 - comm.rank()});
        refused({.bytes = 8, .peer = comm.rank()});
        refused({.bytes = 8, .peer = 2});
        refused({.bytes = 64, .peer = 1 - comm.rank(), .staging = memory.get()});
    });
}

struct Shape {
    Collective operation;
    std::size_t source, target;  // blocks of two ranks
};
constexpr Shape shapes[] = {{Collective::all_reduce, 1, 1}, {Collective::reduce_scatter, 2, 1},
                            {Collective::all_gather, 1, 2}, {Collective::broadcast, 1, 1},
                            {Collective::reduce, 1, 1},     {Collective::all_to_all, 2, 2}};

TEST(Comm, EveryCollectiveOperationArrives) {
    for (const auto& [operation, in_source, in_target] : shapes)
        for (const std::size_t block : {std::size_t{1}, std::size_t{5'000}})
            for (const bool staged : {false, true})
                in_both_ranks(
                    [&, in_source = in_source, in_target = in_target, operation = operation](Comm& comm, Lab& lab) {
                        const auto memory = [&](std::size_t blocks) {
                            return lab.device().allocate(Allocator::malloc, 4 * blocks * block);
                        };
                        const auto source = memory(in_source), target = memory(in_target), from = memory(in_source),
                                   to = memory(in_target);
                        const CollectiveRank rank{
                            lab, comm, *source, *target, staged ? from.get() : nullptr, staged ? to.get() : nullptr};
                        const Outcome outcome = collective({&rank, 1}, {operation, block, 3}, short_stop);
                        EXPECT_EQ(outcome.errors, 0u);
                        EXPECT_EQ(outcome.samples.values.empty(), comm.rank() == 1);
                        if (comm.rank() == 1) return;
                        EXPECT_GT(outcome.counters.at("interval_us"), 0);
                        EXPECT_LE(outcome.counters.at("least_us"), outcome.counters.at("mean_us"));
                    });
}

TEST(Comm, WrongCollectiveRequestsAreRefused) {
    in_both_ranks([](Comm& comm, Lab& lab) {
        const auto memory = lab.device().allocate(Allocator::malloc, 64);
        for (const auto& [operation, block] :
             {std::pair{Collective::all_reduce, 0}, {Collective::all_reduce, 17}, {Collective::all_gather, 9}}) {
            const CollectiveRequest request{operation, static_cast<std::size_t>(block)};
            const CollectiveRank rank{lab, comm, *memory, *memory};
            EXPECT_THROW(collective({&rank, 1}, request, short_stop), std::invalid_argument);
        }
        const CollectiveRequest request{Collective::all_reduce, 1};
        EXPECT_THROW(collective({}, request, short_stop), std::invalid_argument);
        const CollectiveRank rank{lab, comm, *memory, *memory}, twice[] = {rank, rank};
        EXPECT_THROW(collective(twice, request, short_stop), std::invalid_argument);  // a rank is not two
    });
}

}  // namespace
}  // namespace firsttouch
