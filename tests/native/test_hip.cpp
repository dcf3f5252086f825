// The HIP device on the stand-in of tests/standins. All tests but one need no kernel, so they also run under the
// sanitizers.
#include <cstring>

#include <chrono>
#include <thread>

#include "device/device.hpp"
#include "device/gpu.hpp"
#include "device/kernel_timer.hpp"
#include "device/library.hpp"
#include "support.hpp"

namespace firsttouch {
namespace {

constexpr std::size_t MiB = 1 << 20;

class Hip : public testing::Test {
  protected:
    void SetUp() override {
        set_library_paths("hip", {HIP_ON_HOST});
        device = open_device("hip:0");
    }
    std::size_t used() {
        const DeviceMemory now = device->memory();
        return now.total - now.free;
    }
    std::unique_ptr<Device> device;
};

TEST_F(Hip, ManagedMemoryTakesAdviceAndPrefetches) {
    const auto stream = device->stream();
    for (const Allocator allocator : {Allocator::managed, Allocator::coarse_grained}) {
        const auto buffer = device->allocate(allocator, MiB);
        for (const Advice advice : {Advice::read_mostly, Advice::preferred_gpu, Advice::preferred_cpu,
                                    Advice::accessed_by_gpu, Advice::accessed_by_cpu})
            device->advise(*buffer, advice);
        for (const Agent agent : {Agent::gpu, Agent::cpu}) device->prefetch(*stream, *buffer, MiB / 2, MiB / 4, agent);
        device->wait(*stream);
    }
    const auto plain = device->allocate(Allocator::device, MiB);
    EXPECT_EQ(message_of<Unavailable>([&] { device->prefetch(*stream, *plain, 0, MiB, Agent::gpu); }),
              "device memory cannot be prefetched");
    EXPECT_EQ(message_of<Unavailable>([&] { device->advise(*plain, Advice::read_mostly); }),
              "device memory does not support advice");
}

TEST_F(Hip, RefusedAdviceNamesTheCall) {
    const auto stream = device->stream();
    const auto buffer = device->allocate(Allocator::managed, MiB);
    const ScopedVariable failing("STANDIN_FAIL", "hipMemAdvise=1,hipMemPrefetchAsync=801");
    EXPECT_EQ(message_of<VendorError>([&] { device->advise(*buffer, Advice::preferred_gpu); }),
              "hipMemAdvise: invalid argument (hipErrorInvalidValue)");
    EXPECT_EQ(message_of<VendorError>([&] { device->prefetch(*stream, *buffer, 0, MiB, Agent::gpu); }),
              "hipMemPrefetchAsync: operation not supported (hipErrorNotSupported)");
}

TEST_F(Hip, CopiesAreOrderedAndEventsTimeThem) {
    const auto stream = device->stream(), other = device->stream();
    const auto from = device->allocate(Allocator::pinned, MiB), to = device->allocate(Allocator::device, MiB);
    const auto back = device->allocate(Allocator::pinned_noncoherent, MiB);
    auto* words = static_cast<std::uint64_t*>(from->block().host);
    for (std::size_t i = 0; i < MiB / 8; ++i) words[i] = 3 * i + 1;
    const auto begin = device->record(*stream);
    device->copy(*stream, *to, 0, *from, 0, MiB);
    const auto end = device->record(*stream);
    device->join(*other, *end);
    device->copy(*other, *back, 8, *to, 0, MiB - 8);
    device->wait(*other);
    EXPECT_GE(device->elapsed(*begin, *end), 0);
    EXPECT_EQ(std::memcmp(static_cast<char*>(back->block().host) + 8, words, MiB - 8), 0);
}

TEST_F(Hip, ATimerAddsUpMoreWorkThanItHasEvents) {
    const auto stream = device->stream();
    const auto from = device->allocate(Allocator::pinned, MiB), to = device->allocate(Allocator::device, MiB);
    KernelTimer timer(*device, *stream);
    constexpr std::size_t times = KernelTimer::most_pairs + 100;
    const auto begin = device->record(*stream);
    for (std::size_t i = 0; i < times; ++i) {
        timer.begin();
        device->copy(*stream, *to, 0, *from, 0, MiB);
        timer.end();
    }
    const auto end = device->record(*stream);
    timer.begin();  // replaced by the next one, as after an exception
    const KernelTimer::Total total = timer.take();
    EXPECT_EQ(total.pairs, times);
    EXPECT_GT(total.seconds, 0);
    EXPECT_LE(total.seconds, device->elapsed(*begin, *end) * (1 + 1e-3));
    EXPECT_EQ(timer.take().pairs, 0u);
}

TEST_F(Hip, EveryAllocatorReleasesItsMemory) {
    const std::size_t before = used();
    for (const auto& entry : device->allocators()) {
        SCOPED_TRACE(to_string(entry.allocator));
        if (!entry.available) continue;                              // transparent huge pages may be off
        if (entry.allocator == Allocator::managed_static) continue;  // needs a compiler; tests/standins has it
        const auto buffer = device->allocate(entry.allocator, 3 * MiB + 8);
        EXPECT_EQ(entry.cpu == Access::direct, buffer->block().host != nullptr);
        EXPECT_EQ(entry.gpu == Access::direct, buffer->block().address != 0);
        const bool separate = entry.device_memory && !entry.managed;
        EXPECT_GE(used() - before, separate ? 3 * MiB + 8 : 0);
    }
    EXPECT_EQ(used(), before);
}

TEST_F(Hip, AFailingStepUndoesTheStepsBeforeIt) {
    const std::size_t before = used();
    const std::pair<Allocator, const char*> steps[] = {{Allocator::vmm, "hipMemMap"},
                                                       {Allocator::vmm, "hipMemSetAccess"},
                                                       {Allocator::coarse_grained, "hipMemAdvise"},
                                                       {Allocator::pinned, "hipHostGetDevicePointer"},
                                                       {Allocator::registered, "hipHostGetDevicePointer"}};
    for (const auto& [allocator, call] : steps) {
        {
            const ScopedVariable failing("STANDIN_FAIL", std::string(call) + "=1");
            EXPECT_EQ(message_of<VendorError>([&] { device->allocate(allocator, MiB); }),
                      std::string(call) + ": invalid argument (hipErrorInvalidValue)");
        }
        device->allocate(allocator, MiB);
    }
    EXPECT_EQ(used(), before);
}

// The stand-in compiles the gate's kernel with g++, which is not possible where the tests run under emulation.
TEST_F(Hip, AGateThatGaveUpFailsTheSample) {
#if !defined(__x86_64__)
    GTEST_SKIP() << "g++ does not compile for this processor here";
#endif
    if (std::system("g++ --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no g++";
    set_library_paths("hiprtc", {HIP_ON_HOST});
    const TemporaryFolder cache;
    const ScopedVariable cache_folder("FIRSTTOUCH_CACHE", cache.path);
    const auto stream = device->stream();
    const auto in_time = spin_gate(*device, *stream);
    const auto held = device->record(*stream);
    EXPECT_NO_THROW(in_time->open());
    device->wait(*stream);

    const auto late = spin_gate(*device, *stream, std::chrono::milliseconds(1));
    device->wait(*stream);  // like a call that waits for the device while work is being queued
    const std::string message = message_of<GateTimeout>([&] { late->open(); });
    EXPECT_TRUE(contains(message, "timed out after 0.001 s"));
    EXPECT_TRUE(contains(message, "Measure less at once"));
}

TEST_F(Hip, MemoryOfAnotherDeviceNeedsAccess) {
    const ScopedVariable four("STANDIN_DEVICES", "4");
    const auto second = open_device("hip:1"), third = open_device("hip:2"), cpu = open_device("cpu");
    const auto mine = device->allocate(Allocator::device, MiB), peers = second->allocate(Allocator::device, MiB);
    const auto pinned = second->allocate(Allocator::pinned, MiB), managed = second->allocate(Allocator::managed, MiB);
    const auto plain = cpu->allocate(Allocator::malloc, MiB);
    const auto stream = device->stream();
    const auto copied = [&](Device& by, Stream& on, const Buffer& target, const Buffer& source) {
        return message_of<Unavailable>([&] { by.copy(on, target, 0, source, 0, MiB); });
    };
    // Memory that the driver shares among its devices, and plain host memory, need no call of reach.
    for (const Buffer* shared : {pinned.get(), managed.get(), plain.get()})
        EXPECT_EQ(copied(*device, *stream, *mine, *shared), "");
    EXPECT_EQ(copied(*device, *stream, *mine, *peers),
              "a copy by hip:0 cannot reach device memory of hip:1: access is not enabled; call reach first");
    device->reach(*second);
    device->reach(*second);
    EXPECT_EQ(copied(*device, *stream, *mine, *peers), "");
    // Access has a direction.
    const auto other = second->stream();
    EXPECT_NE(copied(*second, *other, *peers, *mine), "");

    const ScopedVariable unreachable("STANDIN_UNREACHABLE", "0>2");
    EXPECT_EQ(device->why_unreachable(*third), "hipDeviceCanAccessPeer: hip:0 has no peer access to hip:2");
    EXPECT_EQ(message_of<Unavailable>([&] { device->reach(*third); }),
              "hipDeviceCanAccessPeer: hip:0 has no peer access to hip:2");

    // Copies by the CPU are not ordered after the queued ones, which use the same memory.
    device->wait(*stream);
    second->wait(*other);

    // For copies by the CPU, the access that the allocators state counts.
    const auto host = cpu->stream();
    cpu->reach(*second);
    EXPECT_EQ(copied(*cpu, *host, *plain, *pinned), "");
    EXPECT_EQ(copied(*cpu, *host, *plain, *peers),
              "a copy by cpu cannot reach device memory of hip:1: the CPU cannot reach it");
}

TEST_F(Hip, EachCallMakesItsDeviceCurrent) {
    const ScopedVariable two("STANDIN_DEVICES", "2");
    const auto second = open_device("hip:1");
    const auto used_by = [](Device& owner) {
        const DeviceMemory now = owner.memory();
        return now.total - now.free;
    };
    const std::size_t before = used(), before_second = used_by(*second);
    {
        const auto mine = device->allocate(Allocator::device, MiB);
        const auto peers = second->allocate(Allocator::device, 2 * MiB);
        // A thread that never called the driver before.
        std::thread([&] {
            EXPECT_EQ(used() - before, MiB);
            EXPECT_EQ(used_by(*second) - before_second, 2 * MiB);
            const auto more = second->allocate(Allocator::vmm, 2 * MiB);
            EXPECT_EQ(used_by(*second) - before_second, 4 * MiB);
            EXPECT_EQ(used() - before, MiB);
        }).join();
    }
    EXPECT_EQ(used(), before);
    EXPECT_EQ(used_by(*second), before_second);
}

}  // namespace
}  // namespace firsttouch
