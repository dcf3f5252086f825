// Kernels compiled with the host prelude, and the loops of the CPU.
#include <algorithm>
#include <bit>
#include <set>

#include "host/loops.hpp"
#include "device/lab.hpp"
#include "support.hpp"

namespace firsttouch {
#if defined(__x86_64__)
namespace stream_avx512 {
StreamLoop find(StreamOp op, bool nontemporal);
}
namespace stream_avx2 {
StreamLoop find(StreamOp op, bool nontemporal);
}
#endif
namespace stream_baseline {
StreamLoop find(StreamOp op, bool nontemporal);
}

namespace {

using Word = std::uint64_t;
using Words = std::vector<Word>;

Word wrong_words(const Words& words, Word seed) {
    Word errors = 0;
    run_on_host("check_words", 0, words.data(), Word{words.size()}, seed, &errors);
    return errors;
}

TEST(Pattern, IsTheSameForAnyNumberOfThreads) {
    for (const std::size_t n : {1, 2, 3, 511, 512, 4099})
        for (const int threads : {1, 2, 3, 8}) {
            Words words(n, 0);
            run_on_host("fill_words", threads, words.data(), Word{n}, Word{42});
            EXPECT_EQ(wrong_words(words, 42), 0u);
            EXPECT_EQ(wrong_words(words, 43), n) << "another seed gives another word everywhere";
            EXPECT_EQ(std::count(words.begin(), words.end(), 0u), 0);
        }
}

TEST(Pattern, OneFlippedBitIsOneWrongWord) {
    Words words(1000);
    run_on_host("fill_words", 0, words.data(), Word{1000}, Word{7});
    for (const std::size_t at : {0, 499, 999})
        for (const int bit : {0, 31, 63}) {
            words[at] ^= Word{1} << bit;
            EXPECT_EQ(wrong_words(words, 7), 1u);
            words[at] ^= Word{1} << bit;
        }
    EXPECT_EQ(wrong_words(words, 7), 0u);
}

TEST(Pages, ATouchWritesOneWordPerPage) {
    const Word pages = 37, page_words = 512;
    Words words(pages * page_words, 0);
    run_on_host("touch_pages", 0, words.data(), Word{0}, pages, page_words, Word{3});
    for (std::size_t i = 0; i < words.size(); ++i) EXPECT_EQ(words[i] != 0, i % page_words == 0);
    Word errors = 0;
    run_on_host("check_pages", 0, static_cast<const Word*>(words.data()), Word{0}, pages, page_words, Word{3}, &errors);
    EXPECT_EQ(errors, 0u);
    words[page_words * 5] += 1;
    run_on_host("check_pages", 0, static_cast<const Word*>(words.data()), Word{0}, pages, page_words, Word{3}, &errors);
    EXPECT_EQ(errors, 1u);
}

struct Shape {
    std::size_t nodes, stride, group;  // group: nodes per group; 0: no groups
};

class Cycle : public testing::TestWithParam<Shape> {
  protected:
    Cycle()
        : stride(GetParam().stride), bytes(GetParam().nodes * stride),
          order(bytes, stride, GetParam().group * stride, 99), memory(bytes / 8, 0),
          base(reinterpret_cast<Word>(memory.data())) {
        run_on_host("chase_write", 3, memory.data(), base, order.nodes, stride, order.bits, order.group,
                    order.group_bits, order.inner_bits, order.key);
    }
    Word wrong_nodes() {
        Word errors = 0;
        run_on_host("chase_check", 3, static_cast<const Word*>(memory.data()), base, order.nodes, stride, order.bits,
                    order.group, order.group_bits, order.inner_bits, order.key, &errors);
        return errors;
    }
    Word stride, bytes;
    ChaseOrder order;
    Words memory;
    Word base;
};

TEST_P(Cycle, IsASingleCycleOverAllNodes) {
    const bool grouped = GetParam().group > 1 && GetParam().nodes >= 2 * GetParam().group;
    EXPECT_EQ(order.nodes, grouped ? GetParam().nodes / GetParam().group * GetParam().group : GetParam().nodes);
    std::vector<char> seen(order.nodes, 0);
    const Word start = base + order.node_at(0) * stride;
    Word at = start;
    for (Word step = 0; step < order.nodes; ++step) {
        ASSERT_EQ(at, base + order.node_at(step) * stride) << "the closed form and the walk differ at step " << step;
        const Word node = (at - base) / stride;
        ASSERT_LT(node, order.nodes);
        ASSERT_FALSE(seen[node]) << "visited twice";
        seen[node] = 1;
        at = *reinterpret_cast<const Word*>(at);
    }
    EXPECT_EQ(at, start) << "the cycle closes";
    EXPECT_EQ(order.node_at(order.nodes), order.node_at(0));
    EXPECT_EQ(wrong_nodes(), 0u);
}

TEST_P(Cycle, TheWalkEndsWhereTheClosedFormSays) {
    for (const std::size_t hops : {32, 64, 3200})
        EXPECT_EQ(walk_host(base + order.node_at(0) * stride, hops), base + order.node_at(hops) * stride);
}

TEST_P(Cycle, ACorruptedNodeIsCounted) {
    memory[order.node_at(order.nodes / 2) * (stride / 8)] ^= 8;
    EXPECT_EQ(wrong_nodes(), 1u);
}

TEST_P(Cycle, AGroupIsLeftOnlyAfterAllOfItsNodes) {
    if (order.group == 0) return;
    std::set<Word> left;
    for (Word step = 0; step < order.nodes; step += order.group) {
        const Word group = order.node_at(step) / order.group;
        EXPECT_TRUE(left.insert(group).second);
        for (Word inside = 0; inside < order.group; ++inside)
            ASSERT_EQ(order.node_at(step + inside) / order.group, group);
    }
}

std::vector<Shape> shapes() {
    std::vector<Shape> list;
    for (const std::size_t nodes : {1,  2,  3,  4,   5,   7,   8,   9,    15,   16,   17,   31,   33,
                                    63, 64, 65, 100, 255, 256, 257, 1000, 1023, 1024, 1025, 4097, 10'007})
        list.push_back({nodes, 64, 0});
    for (const std::size_t stride : {8, 16, 128, 4096}) list.push_back({777, stride, 0});
    for (const std::size_t group : {1, 2, 3, 16, 64})
        for (const std::size_t nodes : {1, 2, 64, 100, 128, 130, 1000, 4096}) list.push_back({nodes, 64, group});
    return list;
}
INSTANTIATE_TEST_SUITE_P(Sizes, Cycle, testing::ValuesIn(shapes()), [](const auto& info) {
    return std::to_string(info.param.nodes) + "_nodes_of_" + std::to_string(info.param.stride) + "_by_" +
           std::to_string(info.param.group);
});

TEST(ChaseOrder, WorksForSizesBeyondAnyMemory) {
    const ChaseOrder order(std::size_t{1} << 42, 64, 0, 5);
    EXPECT_EQ(order.nodes, Word{1} << 36);
    std::set<Word> places;
    for (Word step = 0; step < 10'000; ++step) {
        const Word place = order.node_at(step * 6'871'947);
        EXPECT_LT(place, order.nodes);
        EXPECT_TRUE(places.insert(place).second);
    }
}

TEST(ChaseOrder, SeedsDifferAndStepsToNeighboursAreRare) {
    const ChaseOrder one(1 << 20, 64, 0, 1), other(1 << 20, 64, 0, 2);
    int same = 0, near = 0;
    for (Word step = 0; step < one.nodes; ++step) {
        same += one.node_at(step) == other.node_at(step);
        const auto jump = static_cast<std::int64_t>(one.node_at(step + 1) - one.node_at(step));
        near += std::abs(jump) <= 2;  // a prefetcher could predict it
    }
    EXPECT_LT(same, 30);
    EXPECT_LT(near, 30);
}

using Find = StreamLoop (*)(StreamOp, bool);
struct InstructionSet {
    const char* name;
    Find find;
    bool supported;
};

class Loops : public testing::TestWithParam<InstructionSet> {};

TEST_P(Loops, EqualTheScalarLoop) {
    if (!GetParam().supported) GTEST_SKIP() << "this processor has no " << GetParam().name;
    constexpr std::size_t n = 1024;
    struct alignas(64) Array {
        double x[n];
    };
    const auto a = std::make_unique<Array>(), b = std::make_unique<Array>(), c = std::make_unique<Array>();
    for (std::size_t i = 0; i < n; ++i) b->x[i] = 1.0 + i % 251, c->x[i] = 2.0 + i % 509;
    constexpr double s = 3, untouched = -77;
    for (const StreamOp op :
         {StreamOp::copy, StreamOp::scale, StreamOp::add, StreamOp::triad, StreamOp::read, StreamOp::write})
        for (const bool nontemporal : {false, true})
            for (const auto& [first, last] :
                 {std::pair<std::size_t, std::size_t>{0, n}, {8, 16}, {64, 512}, {40, 40}}) {
                std::fill(std::begin(a->x), std::end(a->x), untouched);
                double sum = 5, expected_sum = 5;
                GetParam().find(op, nontemporal)(a->x, b->x, c->x, s, first, last, &sum);
                for (std::size_t i = 0; i < n; ++i) {
                    const bool inside = i >= first && i < last && op != StreamOp::read;
                    const double values[] = {b->x[i], s * b->x[i], b->x[i] + c->x[i], b->x[i] + s * c->x[i], 0, s};
                    ASSERT_EQ(a->x[i], inside ? values[static_cast<int>(op)] : untouched)
                        << "operation " << static_cast<int>(op) << " element " << i;
                    if (i >= first && i < last && op == StreamOp::read) expected_sum += b->x[i];
                }
                ASSERT_EQ(sum, expected_sum);
            }
}

std::vector<InstructionSet> instruction_sets() {
    std::vector<InstructionSet> list = {{"baseline", stream_baseline::find, true}};
#if defined(__x86_64__)
    list.push_back({"avx2", stream_avx2::find, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")});
    list.push_back({"avx512", stream_avx512::find, __builtin_cpu_supports("avx512f") != 0});
#endif
    return list;
}
INSTANTIATE_TEST_SUITE_P(Isa, Loops, testing::ValuesIn(instruction_sets()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(StreamLoops, CountBytesAsStreamDoes) {
    EXPECT_EQ(stream_bytes(StreamOp::copy), 16);
    EXPECT_EQ(stream_bytes(StreamOp::scale), 16);
    EXPECT_EQ(stream_bytes(StreamOp::add), 24);
    EXPECT_EQ(stream_bytes(StreamOp::triad), 24);
    EXPECT_EQ(stream_bytes(StreamOp::read), 8);
    EXPECT_EQ(stream_bytes(StreamOp::write), 8);
}

TEST(StreamData, IsExactAndEveryElementIsChecked) {
    const Word n = 1003;
    std::vector<double> a(n), b(n), c(n);
    run_on_host("stream_fill", 2, b.data(), n, Word{1});
    run_on_host("stream_fill", 3, c.data(), n, Word{2});
    const double s = 3;
    for (const std::uint32_t op : {0u, 1u, 2u, 3u, 5u}) {
        for (std::size_t i = 0; i < n; ++i) {
            const double values[] = {b[i], s * b[i], b[i] + c[i], b[i] + s * c[i], 0, s};
            a[i] = values[op];
        }
        const auto wrong = [&] {
            Word errors = 0;
            run_on_host("stream_check", 2, static_cast<const double*>(a.data()), n, op, Word{1}, Word{2}, s, &errors);
            return errors;
        };
        EXPECT_EQ(wrong(), 0u);
        a[n - 1] += 1;
        a[0] += 1;
        EXPECT_EQ(wrong(), 2u);
    }
    double sum = 0, expected = 0;
    run_on_host("stream_sum", 3, static_cast<const double*>(b.data()), n, &sum);
    run_on_host("stream_expect", 2, n, Word{1}, &expected);
    EXPECT_EQ(sum, expected);
    EXPECT_GT(sum, 0);
}

TEST(Codegen, KernelsComputeTheOperationOfTheirName) {
    Words p = {5, 0};
    for (const char* kernel : {"codegen_add_u64_device", "codegen_add_u64_system"}) {
        p = {5, 0};
        run_on_host(kernel, 1, p.data(), Word{3});
        EXPECT_EQ(p, (Words{8, 5}));
    }
    for (const char* kernel : {"codegen_add_f64_device", "codegen_add_f64_system"}) {
        double values[] = {1.5, 0};
        run_on_host(kernel, 1, &values[0], 2.0);
        EXPECT_EQ(values[0], 3.5);
        EXPECT_EQ(values[1], 1.5);
    }
    EXPECT_EQ(find_host_kernel("nothing"), nullptr);
    EXPECT_THROW(run_on_host("nothing", 1), Unavailable);
}

}  // namespace
}  // namespace firsttouch
