// What the injected library records of the driver's calls, which these tests play.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "journals.hpp"
#include "profile/inject/front/cuda/calls.hpp"
#include "support.hpp"

namespace firsttouch::inject {
namespace {

using cupti::Address;
using cupti::Handle;

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

class DriverCalls : public testing::Test {
  protected:
    // A call that the driver answers with `result` after doing `body`.
    template <class Parameters>
    std::uint32_t play(std::uint32_t id, const Parameters& parameters, const std::function<void()>& body = {},
                       int result = 0, const char* symbol = nullptr) {
        cupti::CallData data{.site = cupti::entering, .parameters = &parameters, .result = &result, .symbol = symbol};
        data.correlation = ++correlation_;
        calls_of_->entering(id, data);
        if (body) body();
        data.site = cupti::leaving;
        calls_of_->leaving(id, data);
        return data.correlation;
    }
    Address allocate(std::uint64_t bytes, Address address) {
        Address made = address;
        play(243, cupti::NewMemory{&made, bytes});
        return made;
    }

    // The contents of the records of a kind.
    std::vector<std::string> records(Kind kind) const { return records_of(folder_.path, kind); }
    template <class Fixed>
    std::vector<Fixed> all(Kind kind) const {
        std::vector<Fixed> read;
        for (const std::string& content : records(kind)) read.push_back(start_of<Fixed>(content));
        return read;
    }
    std::vector<MoveRecord> moves() const { return all<MoveRecord>(Kind::move); }

    TemporaryFolder folder_;
    Journal journal_{folder_.path.string()};
    Texts texts_{journal_};
    Places places_{journal_, texts_};
    Recorder recorder_{journal_, texts_, places_};
    Calls calls_{recorder_};
    Calls* calls_of_ = &calls_;  // that calls are told to
    std::uint32_t correlation_ = 0;
};

enum Flag : unsigned { captured = 1, while_captured = 2, blocking = 4, has_sample = 8, has_before = 16 };

TEST_F(DriverCalls, CopiesHaveBothAddressesTheirDirectionAndSamples) {
    std::vector<char> host(4096, 'a');
    const Address device = allocate(4096, 0x700000000000);
    play(276, cupti::CopyIn{device, host.data(), 4096});
    play(277, cupti::CopyInOn{device, host.data(), 4096, Handle(8)});
    play(278, cupti::CopyOut{host.data(), device, 4096}, [&] { host[5] = 'b'; });
    play(279, cupti::CopyOutOn{host.data(), device, 4096, Handle(8)});
    play(280, cupti::CopyWithin{device + 64, device, 64});
    play(305, cupti::CopyAny{address_of(host.data()), device, 4096});  // the driver finds the direction
    play(306, cupti::CopyAnyOn{device, address_of(host.data()), 4096, nullptr});
    const std::vector<MoveRecord> of = moves();
    ASSERT_EQ(of.size(), 7u);
    const auto is = [&](std::size_t i, Direction direction, unsigned flags) {
        EXPECT_EQ(of[i].direction, unsigned(direction)) << i;
        EXPECT_EQ(of[i].flags, flags) << i;
        EXPECT_EQ(of[i].stack != 0, (flags & blocking) != 0) << i;
    };
    is(0, Direction::to_device, blocking | has_sample);
    is(1, Direction::to_device, has_sample);
    is(2, Direction::to_host, blocking | has_sample | has_before);
    is(3, Direction::to_host, blocking | has_sample);  // into memory that is not locked
    is(4, Direction::within_devices, 0);
    is(5, Direction::to_host, blocking | has_sample | has_before);
    is(6, Direction::to_device, has_sample);
    EXPECT_EQ(of[0].sample, of[1].sample);
    EXPECT_EQ(of[2].before, of[1].sample);
    EXPECT_NE(of[2].sample, of[2].before);
    EXPECT_EQ(of[5].before, of[2].sample);
    EXPECT_EQ(of[0].source, address_of(host.data()));
    EXPECT_EQ(of[0].target, device);
    EXPECT_EQ(of[0].stream, of[4].stream);
    EXPECT_NE(of[0].stream, of[1].stream);
}

TEST_F(DriverCalls, TheHostSideOfACopyIsInAStackInDataOrInMemoryOfCuda) {
    static int in_data = 0;
    int in_stack = 0;
    std::vector<char> pinned(64), registered(64), managed(64), other(64);
    void* made = pinned.data();
    play(294, cupti::NewHost{&made, 64});
    play(379, cupti::RegisteredHost{registered.data(), 64, 0});
    Address unified = address_of(managed.data());
    play(371, cupti::NewManaged{&unified, 64, 1});
    for (void* const source : {static_cast<void*>(other.data()), static_cast<void*>(&in_stack),
                               static_cast<void*>(&in_data), static_cast<void*>(pinned.data() + 8),
                               static_cast<void*>(registered.data()), static_cast<void*>(managed.data())})
        play(276, cupti::CopyIn{0x700000000000, source, 4});
    std::thread([&] { play(276, cupti::CopyIn{0x700000000000, &in_stack, 4}); }).join();  // of another thread
    std::vector<unsigned> places;
    for (const MoveRecord& move : moves()) places.push_back(move.host);
    EXPECT_EQ(places, (std::vector<unsigned>{0, 1, 2, 3, 4, 5, 1}));
    EXPECT_EQ(moves()[5].flags & has_sample, 0u);  // reading managed memory would move it
}

TEST_F(DriverCalls, ADirectionThatTheProgramNamesWronglyIsNotReadFrom) {
    const Address device = allocate(4096, 0x700000000000), other = allocate(4096, 0x700000100000);
    play(276, cupti::CopyIn{device, reinterpret_cast<void*>(other), 4096});
    play(278, cupti::CopyOut{reinterpret_cast<void*>(other), device, 4096});
    play(305, cupti::CopyAny{0x10000, device, 64});  // as memory of another process
    play(276, cupti::CopyIn{device, reinterpret_cast<void*>(0x10000), 64});
    play(278, cupti::CopyOut{reinterpret_cast<void*>(0x10000), device, 64});
    std::vector<unsigned> directions, flags;
    for (const MoveRecord& move : moves()) {
        directions.push_back(move.direction);
        flags.push_back(move.flags);
    }
    EXPECT_EQ(directions, (std::vector<unsigned>{3, 3, 2, 1, 2}));
    EXPECT_EQ(flags, (std::vector<unsigned>{0, 0, blocking, blocking, blocking}));
}

TEST_F(DriverCalls, CopiesOfSeveralRowsAreOneOrOneASlice) {
    std::vector<char> host(1 << 16);
    const cupti::Side2D device{.type = cupti::device_memory, .device = 0x700000000000, .pitch = 512};
    const cupti::Side2D from{.x = 4, .y = 2, .type = cupti::host_memory, .host = host.data(), .pitch = 256};
    const cupti::Copy2D rows{from, device, 64, 16}, dense{from, {.type = 2, .device = 0x7000000, .pitch = 256}, 256, 4};
    play(289, cupti::CopyRowsOn{&rows, nullptr});
    play(287, cupti::CopyRows{&dense});
    const cupti::Side3D cube{.type = cupti::host_memory, .host = host.data(), .pitch = 64, .height = 8};
    const cupti::Side3D onto{.z = 1, .type = cupti::device_memory, .device = 0x700000000000, .pitch = 64, .height = 8};
    const cupti::Copy3D whole{cube, onto, 64, 8, 4}, part{cube, onto, 32, 4, 3};
    play(290, cupti::CopySlices{&whole});
    play(290, cupti::CopySlices{&part});
    const std::vector<MoveRecord> of = moves();
    ASSERT_EQ(of.size(), 6u);
    EXPECT_EQ(of[0].source, address_of(host.data()) + 2 * 256 + 4);
    EXPECT_EQ((std::vector<std::uint64_t>{of[0].bytes, of[0].rows, of[0].source_pitch, of[0].target_pitch}),
              (std::vector<std::uint64_t>{64, 16, 256, 512}));
    EXPECT_EQ((std::pair{of[1].bytes, of[1].rows}), (std::pair<std::uint64_t, std::uint64_t>{1024, 1}));
    EXPECT_EQ((std::pair{of[2].bytes, of[2].rows}), (std::pair<std::uint64_t, std::uint64_t>{2048, 1}));
    EXPECT_EQ(of[2].target, 0x700000000000u + 512);
    EXPECT_EQ((std::pair{of[5].bytes, of[5].rows}), (std::pair<std::uint64_t, std::uint64_t>{32, 4}));
    EXPECT_EQ(of[5].source, address_of(host.data()) + 2 * 512);
}

TEST_F(DriverCalls, ABatchIsCopiesInTheirOrder) {
    std::vector<char> host(4096);
    const Address device = allocate(1 << 16, 0x700000000000);
    const Address targets[] = {device, address_of(host.data())}, sources[] = {address_of(host.data()), device + 64};
    const std::size_t sizes[] = {100, 200};
    play(796, cupti::CopyBatchOn{targets, sources, sizes, 2, nullptr, nullptr, 0, nullptr});
    const cupti::Operand rows{cupti::pointer_operand, device, 128, 0, 0}, dense{1, address_of(host.data()), 0, 0, 0};
    const cupti::CopyOfBatch copies[] = {{rows, dense, 64, 4, 1, 0, 0}, {dense, dense, 16, 2, 2, 0, 0}};
    play(798, cupti::CopySlicesBatchOn{2, copies, 0, nullptr});
    std::vector<std::tuple<unsigned, std::uint64_t, std::uint64_t>> of;
    for (const MoveRecord& move : moves()) of.emplace_back(move.direction, move.bytes, move.rows);
    EXPECT_EQ(of, (decltype(of){{1, 100, 1}, {2, 200, 1}, {2, 64, 4}, {0, 64, 1}}));
}

TEST_F(DriverCalls, FillsPrefetchesAndAdviceCountBytes) {
    play(251, cupti::Fill{0x7000, 1, 100});
    play(224, cupti::FillRowsOn{0x7000, 512, 1, 10, 3, nullptr});
    play(716, cupti::PrefetchToOn{0x7000, 64, {2, 0}, 0, nullptr});
    play(457, cupti::Advice{0x7000, 64, 3, 1});
    const std::vector<MoveRecord> of = moves();
    ASSERT_EQ(of.size(), 4u);
    EXPECT_EQ((std::pair{of[0].what, of[0].bytes}), (std::pair<u8, u64>{1, 400}));
    EXPECT_EQ((std::tuple{of[1].bytes, of[1].rows, of[1].target_pitch}), (std::tuple<u64, u64, u64>{20, 3, 512}));
    EXPECT_EQ((std::pair{of[2].what, of[2].device}), (std::pair<u8, i32>{2, -1}));
    EXPECT_EQ((std::tuple{of[3].what, of[3].device, of[3].advice}), (std::tuple<u8, i32, u16>{3, 1, 3}));
}

TEST_F(DriverCalls, ACallThatFailsIsRecordedAsThatAlone) {
    char host[8];
    Address made = 0x700000000000;
    const std::uint32_t copy = play(276, cupti::CopyIn{made, host, 8}, {}, 1);
    const std::uint32_t allocation = play(243, cupti::NewMemory{&made, 64}, {}, 2);
    const std::uint32_t launch = play(307, cupti::Launch{}, {}, 700);
    EXPECT_EQ(moves().size() + records(Kind::block).size() + records(Kind::launch).size(), 0u);
    std::vector<std::pair<std::uint32_t, int>> failures;
    for (const auto& failure : all<FailureRecord>(Kind::failure)) {
        failures.emplace_back(failure.correlation, failure.error);
        EXPECT_NE(failure.site, 0u);
        EXPECT_NE(failure.function, 0u);
    }
    EXPECT_EQ(failures, (decltype(failures){{copy, 1}, {allocation, 2}, {launch, 700}}));
}

TEST_F(DriverCalls, AnAnswerIsNoFailure) {
    Address made = 0x700000000000;
    std::size_t bytes = 8;
    play(125, cupti::Stream{nullptr}, {}, 600);  // not ready
    play(120, cupti::Event{Handle(7)}, {}, 600);
    play(684, cupti::Variable{&made, &bytes, nullptr, "table"}, {}, 500);  // there is none
    play(696, cupti::GraphUpdate{Handle(1), Handle(2)}, {}, 910);          // another graph must be made
    play(245, cupti::MemoryAt{made}, {}, 4);                               // the driver has ended
    EXPECT_EQ(records(Kind::failure).size() + records(Kind::wait).size(), 0u);
    play(126, cupti::Stream{nullptr}, {}, 500);  // of what is no question
    EXPECT_EQ(records(Kind::failure).size(), 1u);
}

TEST_F(DriverCalls, BlocksBeginWhenTheCallReturnsAndEndBeforeItFrees) {
    const Address address = allocate(100, 0x700000000000);
    play(245, cupti::MemoryAt{address}, [&] { allocate(50, address); });  // by another thread, say
    std::size_t bytes = 8;
    Address variable = 0x710000000000;
    for (int i = 0; i < 2; ++i) play(684, cupti::Variable{&variable, &bytes, nullptr, "table"});
    std::vector<std::pair<unsigned, std::uint64_t>> blocks;
    for (const auto& block : all<BlockRecord>(Kind::block)) blocks.emplace_back(block.begins, block.bytes);
    EXPECT_EQ(blocks, (std::vector<std::pair<unsigned, std::uint64_t>>{{1, 100}, {0, 0}, {1, 50}, {1, 8}}));
    EXPECT_EQ(all<BlockRecord>(Kind::block).back().memory, unsigned(Memory::device_static));
}

TEST_F(DriverCalls, PointersInSmallCopiesAreThoseOfBlocksAndToldWhenTheyChange) {
    const Address a = allocate(4096, 0x700000000000), b = allocate(4096, 0x700000100000);
    std::uint64_t data[4] = {a + 8, 5, b, 0x700000050000};  // the last is between them
    const auto copy = [&] { play(276, cupti::CopyIn{0x700000200000, data, sizeof data}); };
    copy();
    copy();
    data[2] = 7;
    copy();
    std::vector<std::vector<std::uint64_t>> told;
    for (const std::string& content : records(Kind::pointers)) {
        PointersRecord record;
        std::memcpy(&record, content.data(), sizeof record);
        told.emplace_back(record.addresses);
        std::memcpy(told.back().data(), content.data() + sizeof record, record.addresses * 8);
    }
    EXPECT_EQ(told, (std::vector<std::vector<std::uint64_t>>{{a + 8, b}, {a + 8}}));
}

TEST_F(DriverCalls, WaitsAndCapturesAndWhatWasAskedAgainAndAgain) {
    char host[8] = {};
    const Handle stream = Handle(64);
    play(277, cupti::CopyInOn{0x7000, host, 8, stream});
    for (int i = 0; i < 3; ++i) play(120, cupti::Event{Handle(7)});  // there is nothing new to wait for
    play(126, cupti::Stream{stream});
    play(539, cupti::Stream{stream});
    play(277, cupti::CopyInOn{0x7000, host, 8, stream});
    play(277, cupti::CopyInOn{0x7000, host, 8, nullptr});
    play(497, cupti::Stream{stream});
    play(277, cupti::CopyInOn{0x7000, host, 8, stream});
    std::vector<unsigned> whats, flags;
    for (const auto& wait : all<WaitRecord>(Kind::wait)) {
        whats.push_back(wait.what);
        EXPECT_LT(address_of(__builtin_frame_address(0)) - wait.stack,
                  256u << 10);  // frames of the library lie between
    }
    for (const MoveRecord& move : moves()) flags.push_back(move.flags & 3);
    EXPECT_EQ(whats, (std::vector<unsigned>{1, 0}));
    EXPECT_EQ(flags, (std::vector<unsigned>{0, 3, 2, 0}));
}

TEST_F(DriverCalls, CallsOfManyThreadsAreAllThere) {
    std::vector<std::thread> threads;
    for (std::uint32_t number = 0; number < 4; ++number)
        threads.emplace_back([this, number] {
            std::vector<char> host(4096, char(number));
            const cupti::CopyOut copy{host.data(), 0x700000000000, host.size()};
            cupti::CallData data{.site = cupti::entering, .parameters = &copy};
            for (std::uint32_t i = 0; i < 300; ++i) {
                data.correlation = number * 300 + i + 1;
                data.site = cupti::entering;
                calls_.entering(278, data);
                host[i] = '!';
                data.site = cupti::leaving;
                calls_.leaving(278, data);
            }
        });
    for (std::thread& thread : threads) thread.join();
    std::set<std::uint32_t> numbers, ids;
    std::map<std::uint32_t, std::uint64_t> last;  // samples, by thread
    for (const MoveRecord& move : moves()) {
        numbers.insert(move.correlation);
        ids.insert(move.thread);
        if (last.contains(move.thread)) {
            EXPECT_EQ(move.before, last[move.thread]);
        }
        EXPECT_NE(move.sample, move.before);
        last[move.thread] = move.sample;
    }
    EXPECT_EQ((std::pair{numbers.size(), ids.size()}), (std::pair<std::size_t, std::size_t>{1200, 4}));
}

TEST_F(DriverCalls, ErrnoIsKeptAndParametersMayBeMissing) {
    cupti::CallData data{.site = cupti::entering};
    for (const std::uint32_t id : Calls::numbers()) {
        errno = 77;
        calls_.entering(id, data);
        calls_.leaving(id, data);
    }
    EXPECT_EQ(records(Kind::move).size() + records(Kind::launch).size(), 0u);
    EXPECT_EQ(records(Kind::wait).size(), 1u);  // cuCtxSynchronize has none
}

// ---------------------------------------------------------------------------------------------------------- arguments

struct Sizes {
    std::size_t offset, bytes;
};
const std::vector<Sizes> sizes{{0, 8}, {8, 24}, {32, 4}, {40, 8}};
int tell_sizes(Handle function, std::size_t i, std::size_t* offset, std::size_t* bytes) {
    if (function != Handle(1) || i >= sizes.size()) return 1;
    return *offset = sizes[i].offset, *bytes = sizes[i].bytes, 0;
}

class ArgumentsOfLaunches : public DriverCalls {
  protected:
    std::vector<std::tuple<unsigned, unsigned, std::uint64_t>> words(std::size_t record) const {
        const std::string content = records(Kind::arguments).at(record);
        ArgumentsRecord fixed;
        std::memcpy(&fixed, content.data(), sizeof fixed);
        std::vector<std::tuple<unsigned, unsigned, std::uint64_t>> read;
        for (std::uint32_t i = 0; i < fixed.words; ++i) {
            Word word;
            std::memcpy(&word, content.data() + sizeof fixed + i * sizeof word, sizeof word);
            read.emplace_back(word.parameter, word.offset, word.address);
        }
        return read;
    }

    void SetUp() override {
        blocks_.add(0x700000000000, {4096, Memory::device});
        blocks_.add(0x600000000000, {4096, Memory::pinned});
        driver_.kernel_parameter = &tell_sizes;  // and no function takes a kernel
    }
    Blocks blocks_;
    DriverFunctions driver_;
    Arguments arguments_{journal_, texts_, blocks_};
    const char* name_ = "_Z1kPf5Views1xPf";
};

TEST_F(ArgumentsOfLaunches, WordsOfEveryParameterThatAreAddressesOncePerCombination) {
    std::uint64_t first = 0x700000000008, views[3] = {5, 0x600000000010, 0x600000002000}, last = 1;
    int number = 3;
    void* parameters[] = {&first, views, &number, &last};
    const std::uint32_t one = arguments_.number(driver_, Handle(1), name_, parameters, nullptr);
    EXPECT_EQ(arguments_.number(driver_, Handle(1), name_, parameters, nullptr), one);
    last = 0x700000000FFF;
    EXPECT_EQ(arguments_.number(driver_, Handle(1), name_, parameters, nullptr), one + 1);
    // The same in one buffer, of which a part is missing.
    std::uint64_t buffer[6] = {first, views[0], views[1], views[2], 3, last};
    std::size_t bytes = sizeof buffer;
    void* extra[] = {reinterpret_cast<void*>(launch_buffer), buffer, reinterpret_cast<void*>(launch_buffer_bytes),
                     &bytes, nullptr};
    EXPECT_EQ(arguments_.number(driver_, Handle(1), name_, nullptr, extra), one + 1);
    bytes = 40;
    EXPECT_EQ(arguments_.number(driver_, Handle(1), name_, nullptr, extra), one);
    EXPECT_EQ(words(0), (decltype(words(0)){{0, 0, 0x700000000008}, {1, 8, 0x600000000010}}));
    EXPECT_EQ(words(1).back(), (std::tuple<unsigned, unsigned, std::uint64_t>{3, 0, 0x700000000FFF}));
    EXPECT_EQ(all<ArgumentsRecord>(Kind::arguments)[0].sizes_known, 1);
}

TEST_F(ArgumentsOfLaunches, WithoutSizesThePointersOfTheMangledName) {
    std::uint64_t pointer = 0x700000000000;
    void* parameters[] = {&pointer, &pointer, &pointer, &pointer};
    const auto number = [&](const char* name, Handle function) {
        return arguments_.number(DriverFunctions{}, function, name, parameters, nullptr);
    };
    EXPECT_EQ(number("plain", Handle(2)), 0u);  // unknown
    EXPECT_NE(number("_Z1kI3FooIiE3BarEvPKfiT_PT0_", Handle(3)), 0u);
    EXPECT_EQ(words(0), (decltype(words(0)){{0, 0, pointer}, {3, 0, pointer}}));
    EXPECT_NE(number("_Z4nonev", Handle(4)), 0u);
    EXPECT_EQ(all<ArgumentsRecord>(Kind::arguments)[0].sizes_known, 0);
    EXPECT_EQ(all<ArgumentsRecord>(Kind::arguments)[1].sizes_known, 1);
    EXPECT_NE(number("_Z3newPf", Handle(3)), 0u);  // its module was unloaded, and its handle used again
    EXPECT_EQ(words(2).size(), 1u);
    EXPECT_NE(number("__nv_static_24__11_bbl_cpp1_ii_e251c242__Z4ownsPKfi", Handle(5)), 0u);  // static in its file
    EXPECT_EQ(words(3).size(), 1u);
}

// ------------------------------------------------------------------------------- what ends beside calls that succeed

TEST_F(DriverCalls, ACaptureEndsAlsoWithAnError) {
    constexpr int invalidated = 901, unjoined = 904, wrong_thread = 908;
    const auto flags_of_a_launch = [&](Handle stream) {
        cupti::Launch launch{};
        launch.stream = stream;
        play(307, launch);
        return unsigned(all<LaunchRecord>(Kind::launch).back().flags);
    };
    for (const int error : {invalidated, unjoined}) {
        play(539, cupti::Stream{Handle(8)});
        EXPECT_EQ(flags_of_a_launch(Handle(8)), captured | while_captured);
        play(497, cupti::Stream{Handle(8)}, {}, error);
        EXPECT_EQ(flags_of_a_launch(Handle(8)), 0u) << error;
    }
    play(720, cupti::Stream{Handle(8)});  // to a graph that is there
    play(497, cupti::Stream{Handle(8)}, {}, wrong_thread);
    EXPECT_EQ(flags_of_a_launch(Handle(8)), captured | while_captured);
    play(326, cupti::Stream{Handle(8)});  // destroyed; another gets its handle
    EXPECT_EQ(flags_of_a_launch(Handle(8)), 0u);
    play(539, cupti::Stream{Handle(16)}, {}, invalidated);  // did not begin
    EXPECT_EQ(flags_of_a_launch(Handle(16)), 0u);
}

// ----------------------------------------------------------------------------------------- memory that graphs allocate

constexpr Address in_graph = 0x760000000000;
struct OfGraph {
    int type;
    Address address;
    std::size_t bytes;
};
const std::vector<OfGraph> nodes{{cupti::allocation_node, in_graph, 4096}, {cupti::free_node, in_graph, 0}};
int tell_nodes(Handle, Handle* told, std::size_t* count) {
    if (told == nullptr) return *count = nodes.size(), 0;
    for (std::size_t i = 0; i < *count; ++i) told[i] = const_cast<OfGraph*>(&nodes[i]);
    return 0;
}
int tell_type(Handle node, int* type) { return *type = static_cast<OfGraph*>(node)->type, 0; }
int tell_allocation(Handle node, cupti::AllocationNodeParameters* out) {
    return out->bytes = static_cast<OfGraph*>(node)->bytes, out->address = static_cast<OfGraph*>(node)->address, 0;
}
int tell_free(Handle node, Address* out) { return *out = static_cast<OfGraph*>(node)->address, 0; }
int tell_capturing(Handle stream, int* status) { return *status = stream == Handle(24) ? 1 : 0, 0; }

class MemoryOfGraphs : public DriverCalls {
  protected:
    static DriverFunctions driver() {
        DriverFunctions driver;
        driver.graph_nodes = &tell_nodes;
        driver.node_type = &tell_type;
        driver.allocation_node = &tell_allocation;
        driver.free_node = &tell_free;
        driver.is_capturing = &tell_capturing;
        return driver;
    }
    MemoryOfGraphs() { calls_of_ = &graphs_; }
    std::uint32_t allocate_on(Handle stream, Address address = in_graph) {
        return play(598, cupti::NewMemoryOn{&address, 4096, stream});
    }
    // Whether each begins, its address, and the call that its place is of.
    using Told = std::vector<std::tuple<bool, Address, std::uint32_t>>;
    Told blocks() const {
        Told told;
        for (const auto& block : all<BlockRecord>(Kind::block))
            told.emplace_back(block.begins != 0, block.address, block.correlation);
        return told;
    }
    Calls graphs_{recorder_, driver()};
};

TEST_F(MemoryOfGraphs, LivesFromTheLaunchOfTheGraphAndNotFromItsCapture) {
    play(539, cupti::Stream{Handle(8)});
    const std::uint32_t allocation = allocate_on(Handle(8));
    allocate_on(Handle(24), in_graph + 8192);  // a stream that joined what is captured
    play(600, cupti::MemoryAtOn{in_graph, Handle(8)});
    const std::uint32_t beside = allocate_on(Handle(16), 0x700000000000);
    play(497, cupti::Stream{Handle(8)});
    Handle executable = Handle(64);
    play(643, cupti::NewGraph{&executable, Handle(32)});
    EXPECT_EQ(blocks(), (Told{{true, 0x700000000000, beside}}));
    const std::uint32_t first = play(514, cupti::GraphLaunch{executable, Handle(8)});
    const std::uint32_t second = play(514, cupti::GraphLaunch{executable, Handle(8)});
    EXPECT_EQ(blocks(), (Told{{true, 0x700000000000, beside},
                              {true, in_graph, allocation},
                              {false, in_graph, first},
                              {true, in_graph, allocation},
                              {false, in_graph, second}}));
}

TEST_F(MemoryOfGraphs, OfANodeThatTheProgramAddedHasThePlaceOfTheLaunch) {
    Handle executable = Handle(64);
    play(643, cupti::NewGraph{&executable, Handle(32)});
    const std::uint32_t launch = play(514, cupti::GraphLaunch{executable, Handle(8)});
    EXPECT_EQ(blocks(), (Told{{true, in_graph, launch}, {false, in_graph, launch}}));
}

TEST_F(DriverCalls, AGraphThatIsLaunchedIntoACaptureDoesNotRun) {
    play(539, cupti::Stream{Handle(8)});
    play(514, cupti::GraphLaunch{Handle(64), Handle(8)});
    EXPECT_EQ(records(Kind::launch).size(), 0u);
    play(514, cupti::GraphLaunch{Handle(64), Handle(16)});  // beside it
    EXPECT_EQ(records(Kind::launch).size(), 1u);
}

TEST_F(DriverCalls, AllMappingsOfARangeEndWithIt) {
    constexpr Address base = 0x700000000000, step = 2 << 20;
    for (Address i = 0; i < 5; ++i) play(551, cupti::MappedMemory{base + i * step, step, 0, 1, 0});
    play(552, cupti::UnmappedMemory{base + step, 3 * step});
    play(552, cupti::UnmappedMemory{base + step, 3 * step});  // which nothing is mapped in any more
    std::map<Address, int> alive;
    for (const BlockRecord& block : all<BlockRecord>(Kind::block)) alive[block.address] += block.begins != 0 ? 1 : -1;
    EXPECT_EQ(alive,
              (std::map<Address, int>{
                  {base, 1}, {base + step, 0}, {base + 2 * step, 0}, {base + 3 * step, 0}, {base + 4 * step, 1}}));
}

TEST_F(DriverCalls, TheAddressesThatAProgramReservesAreToldAndWhenItGivesThemBack) {
    Address reserved = 0x700000000000;
    play(547, cupti::NewReserved{&reserved, 8 << 20, 0, 0, 0});
    play(548, cupti::ReleasedReserved{reserved, 8 << 20});
    std::vector<std::pair<std::uint64_t, std::uint64_t>> told;
    for (const ReservedRecord& each : all<ReservedRecord>(Kind::reserved)) told.emplace_back(each.address, each.bytes);
    EXPECT_EQ(told, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{reserved, 8 << 20}, {reserved, 0}}));
}

TEST_F(DriverCalls, AFreeIsAWaitIfTheDriverWaitsForWhatIsUnderWay) {
    char host[8] = {};
    Address ordered = 0x720000000000;
    void* pinned = host;
    const auto waits_for = [this](const std::function<void()>& free, bool has_work = true) {
        const std::size_t before = records(Kind::wait).size();
        if (has_work) play(307, cupti::Launch{});
        free();
        const auto waits = all<WaitRecord>(Kind::wait);
        return waits.size() > before && waits.back().what == 4;
    };
    const auto allocate_ordered = [&] { play(598, cupti::NewMemoryOn{&ordered, 64, nullptr}); };
    const auto free_at = [this](Address address, int result = 0) { play(245, cupti::MemoryAt{address}, {}, result); };
    EXPECT_TRUE(waits_for([&] { free_at(allocate(64, 0x700000000000)); }));
    EXPECT_FALSE(waits_for([&] { free_at(allocate(64, 0x700000000000)); }, false));  // for nothing
    EXPECT_FALSE(waits_for([&] { free_at(allocate(64, 0x700000000000), 1); }));      // it failed
    EXPECT_FALSE(waits_for([&] { free_at(0); }));
    EXPECT_FALSE(waits_for([&] { allocate_ordered(), play(600, cupti::MemoryAtOn{ordered, nullptr}); }));
    EXPECT_FALSE(waits_for([&] { allocate_ordered(), free_at(ordered); }));
    EXPECT_TRUE(waits_for([&] { play(294, cupti::NewHost{&pinned, 8}), play(38, cupti::ReleasedHost{pinned}); }));
    EXPECT_TRUE(waits_for([&] { play(379, cupti::RegisteredHost{host, 8, 0}), play(302, cupti::ReleasedHost{host}); }));
    EXPECT_FALSE(waits_for([&] {
        play(551, cupti::MappedMemory{0x730000000000, 2 << 20, 0, 1, 0});
        play(552, cupti::UnmappedMemory{0x730000000000, 2 << 20});
    }));
}

// Another thread may be within a call, with a mutex that then is locked for ever in the child.
TEST_F(DriverCalls, AForkedProcessDoesNothing) {
    const auto allocates = [this](Address address) {
        int result = 0;
        const cupti::NewMemory made{&address, 64};
        const cupti::CallData data{.site = cupti::leaving, .parameters = &made, .result = &result};
        calls_.leaving(243, data);
    };
    allocates(0x700000000000);
    std::atomic<bool> ends{false};
    std::thread other([&] {
        for (Address address = 0x600000000000; !ends; address += 64) allocates(address);
    });
    const auto child_ends = [&](auto&& fork_by) {
        const long child = fork_by();
        if (child == 0) {
            alarm(10);  // where it hangs
            allocates(0x500000000000);
            const pid_t grandchild = fork();
            if (grandchild == 0) {
                allocates(0x500000001000);
                _exit(0);
            }
            int status = 1;
            waitpid(grandchild, &status, 0);
            _exit(status == 0 ? 0 : 1);
        }
        int status = 1;
        waitpid(pid_t(child), &status, 0);
        return status == 0;
    };
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(child_ends([] { return long(fork()); }));
    ends = true;
    other.join();
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path), {}), 1);  // one journal
}

// ------------------------------------------------------------------------------------------------- places and samples

__attribute__((noinline)) CallPlace deep(Places& places, int depth) {
    const CallPlace place = depth == 0 ? places.of_this_call() : deep(places, depth - 1);
    asm volatile("");
    return place;
}

TEST_F(DriverCalls, AChainOfCallsThatWasUnwoundIsRecognised) {
    std::vector<std::uint32_t> here;
    for (int i = 0; i < 3; ++i) {
        here.push_back(deep(places_, 2).number);
        here.push_back(deep(places_, 2).number);  // from another place, at the same depth
        here.push_back(deep(places_, 3).number);
    }
    EXPECT_EQ(here, (std::vector<std::uint32_t>{1, 2, 3, 1, 2, 3, 1, 2, 3}));
    std::uint32_t of_thread = 0;
    std::thread([&] { of_thread = deep(places_, 2).number; }).join();
    EXPECT_EQ(of_thread, 4u);
    EXPECT_EQ(records(Kind::site).size(), 4u);
}

TEST(Samples, ChangeWithWhatTheyCover) {
    for (const std::uint64_t bytes : {1ull, 63ull, 4096ull, 8192ull, 8193ull, 100'000ull, 5'000'000ull}) {
        std::vector<char> data(bytes, 'x');
        const HostRows rows{address_of(data.data()), bytes};
        std::uint64_t first = 0, second = 0;
        ASSERT_TRUE(sample(rows, first));
        for (const std::uint64_t at : {std::uint64_t(0), bytes - 1}) {  // both ends are always covered
            data[at] ^= 1;
            ASSERT_TRUE(sample(rows, second));
            EXPECT_NE(first, second) << bytes;
            data[at] ^= 1;
        }
    }
}

TEST(Samples, OfRowsLeaveOutWhatIsBetweenThem) {
    std::vector<char> data(64 * 1024, 'x');
    for (const std::uint64_t width : {100u, 3u, 900u}) {
        std::uint64_t first = 0, second = 0;
        const HostRows rows{address_of(data.data()), width, 64, 1024};
        ASSERT_TRUE(sample(rows, first));
        data[1000] ^= 1;
        ASSERT_TRUE(sample(rows, second));
        EXPECT_EQ(first, second);
        data[63 * 1024 + width - 1] ^= 1;
        ASSERT_TRUE(sample(rows, second));
        EXPECT_NE(first, second);
    }
}

TEST(Samples, AreNotTakenOfMemoryThatIsNotThere) {
    constexpr std::size_t bytes = 1 << 20;
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::uint64_t hash = 0;
    const HostRows rows{address_of(memory), bytes};
    EXPECT_FALSE(sample_touched(rows, false, hash));  // and none of its pages is mapped by that
    EXPECT_FALSE(sample_touched({address_of(memory), 100}, false, hash));
    std::memset(memory, 1, bytes);
    EXPECT_TRUE(sample_touched(rows, false, hash));
    EXPECT_TRUE(is_readable(rows));
    munmap(memory, bytes);
    EXPECT_FALSE(is_readable(rows));
    EXPECT_FALSE(sample_touched(rows, true, hash));
}

}  // namespace
}  // namespace firsttouch::inject
