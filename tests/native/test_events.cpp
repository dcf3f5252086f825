// Unified-memory events from the records of a stand-in for CUPTI.
#include "events/events.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

#include "../standins/cupti.cpp"
#include "cupti_standin.hpp"
#include "device/device.hpp"
#include "host/clock.hpp"
#include "support.hpp"

namespace firsttouch {
namespace {

std::multimap<std::string, MemoryEvent> by_kind(std::vector<MemoryEvent> events) {
    std::multimap<std::string, MemoryEvent> found;
    for (MemoryEvent& event : events) found.emplace(event.kind, std::move(event));
    return found;
}

TEST(Events, RecordsOfEveryKindAreDecoded) {
    const double before = now();
    EventSource source(standin());
    const auto events = by_kind(source.take());
    const double after = now();
    ASSERT_EQ(events.size(), 9u);
    for (const auto& [kind, event] : events) {
        EXPECT_GE(event.start, before - 1e-3) << kind;
        EXPECT_LE(event.end, after + 1e-3) << kind;
        const bool has_duration =
            kind == "h2d" || kind == "d2h" || kind == "d2d" || kind == "gpu_fault" || kind == "throttling";
        EXPECT_EQ(event.end > event.start, has_duration) << kind;
    }
    const MemoryEvent& faulted = std::find_if(events.begin(), events.end(), [](const auto& entry) {
                                     return entry.second.bytes == 2 << 20;
                                 })->second;
    EXPECT_STREQ(faulted.kind, "h2d");
    EXPECT_STREQ(faulted.cause, "fault");
    EXPECT_EQ(faulted.address, 0x200000u);
    EXPECT_EQ(faulted.source + ">" + faulted.target, "cpu>cuda:0");
    const auto first_of = [&](const char* kind) -> const MemoryEvent& { return events.find(kind)->second; };
    EXPECT_EQ(first_of("d2h").source + ">" + first_of("d2h").target, "cuda:0>cpu");
    EXPECT_STREQ(first_of("d2h").cause, "eviction");
    EXPECT_EQ(first_of("d2d").source + ">" + first_of("d2d").target, "cuda:0>cuda:1");
    EXPECT_STREQ(first_of("d2d").cause, "access_counter");
    EXPECT_STREQ(first_of("remote_map").cause, "policy");
    EXPECT_EQ(first_of("remote_map").bytes, 4096u);
    EXPECT_EQ(first_of("throttling").bytes, 0u);
    EXPECT_EQ(first_of("throttling").source, "cuda:0");
}

TEST(Events, ValuesThatAreNotSizesAreNotReadAsBytes) {
    EventSource source(standin());
    const auto events = by_kind(source.take());
    const MemoryEvent& cpu = events.find("cpu_fault")->second;
    EXPECT_EQ(cpu.bytes, 0u);  // the value is a program counter
    EXPECT_EQ(cpu.count, 1u);
    EXPECT_EQ(cpu.source + ">" + cpu.target, "cpu>");
    EXPECT_STREQ(cpu.cause, "write");
    EXPECT_TRUE(contains(describe_instruction(cpu.instruction), "strtoul"));
    const MemoryEvent& gpu = events.find("gpu_fault")->second;
    EXPECT_EQ(gpu.bytes, 0u);
    EXPECT_EQ(gpu.count, 7u);
    EXPECT_EQ(gpu.source + ">" + gpu.target, "cuda:0>");
    EXPECT_STREQ(gpu.cause, "read");
}

TEST(Events, ProcessorsOfThrashingAreReadFromTheFieldOfTheVersion) {
    for (const auto& [version, devices] :
         {std::pair{"130000", "cpu+cuda:0+cuda:1+cuda:64"}, {"24", "cpu+cuda:0+cuda:1"}}) {
        const ScopedVariable variable("STANDIN_CUPTI_VERSION", version);
        EventSource source(standin());
        const auto events = by_kind(source.take());
        ASSERT_EQ(events.size(), 9u) << version;
        EXPECT_EQ(events.find("thrashing")->second.source, devices) << version;
        EXPECT_EQ(events.find("thrashing")->second.bytes, 65536u) << version;
    }
}

TEST(Events, TwoReadingsOfBothClocksMapOneToTheOther) {
    // CUPTI's clock runs at half the rate of the host's.
    const ClockMap clock{{1'000'000'000'000, 50.0}, {1'000'000'002'000, 50.000'004}};
    EXPECT_DOUBLE_EQ(clock(1'000'000'000'000), 50.0);
    EXPECT_DOUBLE_EQ(clock(1'000'000'001'000), 50.000'002);
    EXPECT_DOUBLE_EQ(clock(1'000'000'003'000), 50.000'005);
    EXPECT_DOUBLE_EQ(clock(999'999'999'000), 49.999'999);
    const ClockMap still{{7, 1.0}, {7, 1.0}};
    EXPECT_DOUBLE_EQ(still(7), 1.0);
}

TEST(Events, RefusalsAreOneSentenceAndReleaseCupti) {
    const std::pair<const char*, const char*> refused[] = {
        {"cuptiSubscribe=39", "another tool uses CUPTI"},
        {"cuptiActivityConfigureUnifiedMemoryCounter=28", "does not support unified-memory events on this platform"},
        {"cuptiActivityConfigureUnifiedMemoryCounter=29", "CUDA_VISIBLE_DEVICES"},
        {"cuptiActivityConfigureUnifiedMemoryCounter=30", "without peer access to each other"},
        {"cuptiActivityConfigureUnifiedMemoryCounter=31", "MPS"},
        {"cuptiActivityEnable=35", "permission"},
        {"cuptiSubscribe=15", "may not match the driver"},
        {"cuptiActivityRegisterCallbacks=999", "cuptiActivityRegisterCallbacks failed: STANDIN_ERROR (999)"},
    };
    for (const auto& [failure, reason] : refused) {
        const ScopedVariable variable("STANDIN_CUPTI_FAILS", failure);
        const std::string message = message_of<Unavailable>([] { EventSource source(standin()); });
        EXPECT_TRUE(contains(message, reason)) << failure;
        EXPECT_EQ(message.find('\n'), std::string::npos);
    }
    EXPECT_EQ(EventSource(standin()).take().size(), 9u);
}

TEST(Events, OneRecorderPerProcess) {
    EventSource first(standin());
    EXPECT_TRUE(contains(message_of<Unavailable>([] { EventSource second(standin()); }), "another tool uses CUPTI"));
    EXPECT_EQ(first.take().size(), 9u);
}

TEST(Events, RefusedCountersAreLeftOut) {
    const ScopedVariable variable("STANDIN_CUPTI_REFUSES", "5678");
    EventSource source(standin());
    EXPECT_EQ(source.kinds(), (std::vector<std::string>{"h2d", "d2h", "cpu_fault", "gpu_fault"}));
    EXPECT_EQ(source.take().size(), 5u);
}

TEST(Events, AFailureWhileRecordingHasTheVendorsMessage) {
    EventSource source(standin());
    const ScopedVariable variable("STANDIN_CUPTI_FAILS", "cuptiActivityFlushAll=999");
    EXPECT_EQ(message_of<VendorError>([&] { source.take(); }), "cuptiActivityFlushAll: STANDIN_ERROR (999)");
}

TEST(Events, BuffersAreReused) {
    const ScopedVariable many("STANDIN_CUPTI_REPEAT", "2000");  // about 2 MiB per flush; the buffers have 64 MiB in all
    EventSource source(standin());
    for (int i = 0; i < 40; ++i) ASSERT_EQ(source.take().size(), 18000u);
    EXPECT_EQ(source.dropped(), 0u);
}

// The driver drops events that nobody fetches in time.
TEST(Events, EventsAreFetchedWhileTheyArrive) {
    constexpr std::uint64_t room = 1000, times = 20;
    const ScopedVariable none("STANDIN_CUPTI_REPEAT", "0"), little("STANDIN_CUPTI_ROOM", std::to_string(room));
    EventSource source(standin());
    const std::uint64_t before = events_until_now();
    const double end = now() + 30;
    for (std::uint64_t i = 1; i <= times; ++i) {
        for (std::uint64_t j = 0; j < room; ++j) standin_move(bytes_h2d, j << 12, 4096, 2);
        while (events_until_now() < before + i * room && now() < end)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(source.take().size(), times * room);
}

// The number and the bytes of all events in the totals.
std::pair<std::uint64_t, std::uint64_t> counted(EventSource& source) {
    std::pair<std::uint64_t, std::uint64_t> sum;
    for (const PhaseTotals& phase : source.phases(0).phases)
        for (const auto& of : phase.causes) sum.first += of.count, sum.second += of.bytes;
    return sum;
}

TEST(Events, RecordsThatAreNotListedAreInTheTotals) {
    EventSource source(standin());
    {
        const ScopedVariable many("STANDIN_CUPTI_REPEAT", "60000");
        const ScopedVariable variable("STANDIN_CUPTI_DROPPED", "3");
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the script begins after the recording
        const std::size_t listed = source.take().size();
        EXPECT_LT(listed, 540'000u);
        EXPECT_EQ(source.unlisted(), 540'000 - listed);
        EXPECT_EQ(source.dropped(), 3u);
    }
    const ScopedVariable none("STANDIN_CUPTI_REPEAT", "0");
    EXPECT_EQ(source.unlisted(), 0u);
    const std::uint64_t each = (2 << 20) + 2 * (64 << 10) + 2 * 4096 + 8192;
    EXPECT_EQ(counted(source), std::pair(std::uint64_t(540'000), 60'000 * each));
    source.restart();
    EXPECT_EQ(counted(source), std::pair(std::uint64_t(0), std::uint64_t(0)));
}

// Records of one microsecond each, delivered in the opposite order within each of `chunks` deliveries.
void compare_totals_with_records(std::uint64_t chunks, std::uint64_t per_chunk) {
    const ScopedVariable none("STANDIN_CUPTI_REPEAT", "0");
    EventSource source(standin());
    const std::uint64_t origin = clock_now();
    std::uint64_t bytes[3] = {}, faults = 0;
    for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
        std::vector<CounterRecord3> records;
        for (std::uint64_t i = 0; i < per_chunk; ++i) {
            const ScriptedRecord& scripted = script[i % 3 == 2 ? 4 : i % 3];
            const std::uint64_t start = origin + 1000 * (chunk * per_chunk + i);
            CounterRecord3 record = record_of(scripted, start, start + 1);
            record.prefix.start = start, record.prefix.end = start + 800;
            bytes[i % 3] += scripted.value;
            faults += i % 3 == 2 ? scripted.value : 0;
            records.push_back(record);
        }
        std::ranges::reverse(records);
        deliver(records);
        source.take();
    }
    const std::uint64_t count = chunks * per_chunk;
    const auto phases = source.phases(0).phases;
    ASSERT_EQ(phases.size(), 1u);
    ASSERT_EQ(phases[0].causes.size(), 3u);
    for (const auto& of : phases[0].causes) {
        const bool is_fault = std::string(kind_name(of.kind)) == "gpu_fault";
        const bool is_prefetch = std::string(cause_name(of.kind, of.cause)) == "prefetch";
        EXPECT_EQ(of.count, count / 3);
        EXPECT_EQ(of.bytes, is_fault ? 0 : bytes[is_prefetch ? 1 : 0]);
        EXPECT_EQ(of.faults, is_fault ? faults : 0);
        EXPECT_EQ(of.summed_ns, 800 * (count / 3));
        EXPECT_EQ(of.busy_ns, 800 * (count / 3));
    }
    EXPECT_EQ(phases[0].to_device_ns, 800 * (count / 3 * 2));
    EXPECT_EQ(phases[0].fault_ns, 800 * (count / 3));
    std::uint64_t in_bins = 0, bytes_in_bins = 0;
    const TimedCourse course = source.course();
    for (const auto& of : course.rows)
        for (const auto& bin : of.bins) in_bins += bin.count, bytes_in_bins += bin.bytes;
    EXPECT_EQ(in_bins, count);
    EXPECT_EQ(bytes_in_bins, bytes[0] + bytes[1]);
    EXPECT_GE(course.bin_ns * EventCourse::bins, 1000 * (count - 1));
}

TEST(Events, TotalsEqualTheSumsOfTheRecords) { compare_totals_with_records(10, 9'999); }

TEST(Events, TotalsEqualTheSumsOfTenMillionRecords) {
    if (std::getenv("FIRSTTOUCH_EXHAUSTIVE") == nullptr) GTEST_SKIP() << "FIRSTTOUCH_EXHAUSTIVE is not set";
    compare_totals_with_records(1000, 9'999);
}

TEST(Events, RecordsBelongToThePhaseInWhichTheyStart) {
    const ScopedVariable none("STANDIN_CUPTI_REPEAT", "0");
    EventSource source(standin());
    const auto at_now = [] {
        const std::uint64_t now = clock_now();
        CounterRecord3 record = record_of(script[0], now, now + 2);
        return record;
    };
    EXPECT_EQ(source.mark("compute"), 1u);
    const std::vector<CounterRecord3> first{at_now()};
    EXPECT_EQ(source.mark("readback", true), 2u);
    deliver({at_now(), at_now()});
    deliver(first);  // late
    const TimedPhases found = source.phases(1);
    ASSERT_EQ(found.phases.size(), 2u);
    EXPECT_EQ(found.phases[0].name, "compute");
    EXPECT_EQ(found.phases[0].causes.at(0).count, 1u);
    EXPECT_EQ(found.phases[1].causes.at(0).count, 2u);
    EXPECT_NEAR(found.clock(found.phases[1].start_ns), now(), 0.5);
    const TimedCourse course = source.course();
    ASSERT_EQ(course.rows.size(), 1u);
    std::uint64_t in_course = 0;
    for (const auto& bin : course.rows[0].bins) in_course += bin.count;
    EXPECT_EQ(in_course, 2u);  // it began again with readback
}

TEST(Events, SeveralThreadsDeliverBuffers) {
    EventSource source(standin());
    std::vector<CounterRecord3> records(1000, record_of(script[0], 1, 2));
    std::size_t found = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&] {
                for (int n = 0; n < 20; ++n) deliver(records);
            });
        for (int n = 0; n < 20; ++n) found += source.take().size();
    }
    EXPECT_EQ(found + source.take().size(), 4u * 20u * 1000u + 21u * 9u);
}

TEST(Events, ABufferCompletedAfterTheRecordingIsIgnored) {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, most = 0;
    {
        EventSource source(standin());
        state.request(&buffer, &size, &most);
        ASSERT_NE(buffer, nullptr);
    }
    state.complete(nullptr, 0, buffer, size, size);
    EventSource source(standin());
    EXPECT_EQ(source.take().size(), 9u);
}

TEST(Events, AnInstructionOutsideAllLibrariesHasNoName) {
    EXPECT_EQ(describe_instruction(0), "");
    EXPECT_EQ(describe_instruction(8), "");
    EXPECT_TRUE(contains(describe_instruction(reinterpret_cast<std::uint64_t>(&std::puts) + 1), "puts+0x1"));
}

}  // namespace
}  // namespace firsttouch
