#include "device/device.hpp"
#include "device/guard.hpp"
#include "device/limits.hpp"
#include "support.hpp"

namespace firsttouch {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;
const DeviceMemory ample_memory{80 * GiB, 80 * GiB};

std::string refusal(const Charge& charge, const DeviceMemory& memory = ample_memory,
                    const std::string& device = "test:0") {
    return message_of<GuardRefused>([&] { const Reservation attempt(charge, device, memory); });
}

TEST(Guard, RefusesBeyondTheHostLimitOfTheEnvironment) {
    const ScopedVariable limit("FIRSTTOUCH_MAX_HOST", "1MiB");
    EXPECT_EQ(refusal({.host = MiB}), "");
    const std::string message = refusal({.host = MiB + 1});
    EXPECT_TRUE(contains(message, "FIRSTTOUCH_MAX_HOST"));
    EXPECT_TRUE(contains(message, "the limit is 1 MiB"));
}

TEST(Guard, RefusesBeyondTheDeviceLimitOfTheEnvironment) {
    const ScopedVariable limit("FIRSTTOUCH_MAX_DEVICE", "64KiB");
    EXPECT_EQ(refusal({.device = 64 * KiB}), "");
    EXPECT_TRUE(contains(refusal({.device = 64 * KiB + 1}), "FIRSTTOUCH_MAX_DEVICE"));
}

TEST(Guard, RefusesBeyondTheManagedLimitOfTheEnvironment) {
    const ScopedVariable limit("FIRSTTOUCH_MAX_MANAGED", "2^20");
    EXPECT_EQ(refusal({.managed = MiB}), "");
    EXPECT_TRUE(contains(refusal({.managed = MiB + 1}), "FIRSTTOUCH_MAX_MANAGED"));
}

TEST(Guard, ManagedMemoryExceedsTheDeviceOnlyWhereThatIsAllowed) {
    const DeviceMemory small{4 * GiB, GiB};
    const Charge more{.device = 2 * GiB, .managed = 2 * GiB};
    EXPECT_TRUE(contains(refusal(more, small), "free memory of test:0 now"));
    const ScopedVariable allowed("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "1");
    EXPECT_EQ(refusal(more, small), "");
    EXPECT_TRUE(
        contains(refusal({.device = 2 * GiB}, small), "free memory of test:0 now"));  // device memory never exceeds it
    const ScopedVariable managed("FIRSTTOUCH_MAX_MANAGED", "1GiB");
    EXPECT_TRUE(contains(refusal(more, small), "FIRSTTOUCH_MAX_MANAGED"));  // the user's limit applies too
    const ScopedVariable forbidden("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "0");
    EXPECT_TRUE(contains(refusal(more, small), "free memory of test:0 now"));
}

TEST(Guard, SumsOverAllLiveReservations) {
    const ScopedVariable host("FIRSTTOUCH_MAX_HOST", "1MiB");
    const ScopedVariable device("FIRSTTOUCH_MAX_DEVICE", "1MiB");
    const ScopedVariable managed("FIRSTTOUCH_MAX_MANAGED", "1MiB");
    const Charge half{.host = MiB / 2, .device = MiB / 2, .managed = MiB / 2};
    const Reservation first(half, "test:0", ample_memory);
    {
        const Reservation second(half, "test:0", ample_memory);
        EXPECT_TRUE(contains(refusal({.host = 1}), "1 MiB already held"));
        EXPECT_TRUE(contains(refusal({.device = 1}), "FIRSTTOUCH_MAX_DEVICE"));
        EXPECT_TRUE(contains(refusal({.managed = 1}), "FIRSTTOUCH_MAX_MANAGED"));
        // Device and managed memory are summed for each device, host memory for the process.
        EXPECT_EQ(refusal({.device = MiB}, ample_memory, "test:1"), "");
        EXPECT_EQ(refusal({.managed = MiB}, ample_memory, "test:1"), "");
        EXPECT_NE(refusal({.host = 1}, ample_memory, "test:1"), "");
        EXPECT_EQ(Guard::instance().held("test:0").device, MiB);
        EXPECT_EQ(Guard::instance().held("test:1").device, 0u);
    }
    EXPECT_EQ(Guard::instance().held("test:0").managed, MiB / 2);
    EXPECT_EQ(refusal(half), "");
}

TEST(Guard, ARefusalChargesNothing) {
    const ScopedVariable host("FIRSTTOUCH_MAX_HOST", "1MiB");
    const ScopedVariable managed("FIRSTTOUCH_MAX_MANAGED", "1KiB");
    EXPECT_NE(refusal({.host = MiB, .managed = MiB}), "");
    EXPECT_EQ(refusal({.host = MiB}), "");
}

TEST(Guard, MovedReservationsAreGivenBackOnce) {
    const ScopedVariable host("FIRSTTOUCH_MAX_HOST", "1MiB");
    {
        Reservation first({.host = MiB}, "test:0", ample_memory);
        Reservation second(std::move(first));
        Reservation three;
        three = std::move(second);
        EXPECT_NE(refusal({.host = 1}), "");
        three = {};
    }
    EXPECT_EQ(refusal({.host = MiB}), "");
}

TEST(Guard, LeavesAReserveOnADevice) {
    const std::vector<std::pair<std::size_t, std::size_t>> reserves = {
        {2 * GiB, 256 * MiB}, {4 * GiB, 512 * MiB}, {8 * GiB, 512 * MiB}, {100 * GiB, 2 * GiB}};
    for (const auto& [total, reserve] : reserves) {
        const DeviceMemory memory{total, reserve + MiB};
        EXPECT_EQ(device_reserve(total), reserve);
        EXPECT_EQ(refusal({.device = MiB}, memory), "");
        EXPECT_TRUE(contains(refusal({.device = MiB + 1}, memory), "now, less a reserve"));
        EXPECT_NE(refusal({.device = 1}, {total, reserve}), "");
    }
    EXPECT_NE(refusal({.device = 1}, {}), "");
}

TEST(Guard, CountsManagedMemoryThatIsReservedButNotTouched) {
    const DeviceMemory memory{4 * GiB, GiB};
    const Charge most{.device = 400 * MiB, .managed = 400 * MiB};
    const Reservation first(most, "test:0", memory);
    EXPECT_TRUE(contains(refusal(most, memory), "managed"));
}

TEST(Guard, BallastCountsAsTakenAndTheReserveIsKeptOnce) {
    const DeviceMemory empty{8 * GiB, 8 * GiB}, beside{8 * GiB, GiB + 512 * MiB};
    const Charge managed{.device = GiB, .managed = GiB}, more{.device = GiB + 1, .managed = GiB + 1};
    EXPECT_NE(refusal({.device = 8 * GiB - 511 * MiB, .ballast = 8 * GiB - 511 * MiB}, empty), "");
    {
        const std::size_t bytes = empty.free - beside.free;
        const Reservation ballast({.device = bytes, .ballast = bytes}, "test:0", empty);
        for (const DeviceMemory& reported : {beside, empty}) {  // the driver may count the ballast later
            EXPECT_EQ(refusal(managed, reported), "");
            EXPECT_TRUE(contains(refusal(more, reported), "the limit is 1 GiB (free memory of test:0 now, less a"));
            EXPECT_NE(refusal({.device = GiB + 1}, reported), "");
            const Reservation promise(managed, "test:0", reported);
            EXPECT_TRUE(contains(refusal({.device = 1, .managed = 1}, reported), "managed memory"));
        }
        EXPECT_EQ(refusal(more, empty, "test:1"), "");
    }
    EXPECT_EQ(refusal(more, empty), "");
}

TEST(Guard, BallastLeavesTheReserveWhereOversubscriptionIsAllowedToo) {
    const DeviceMemory empty{8 * GiB, 8 * GiB}, beside{8 * GiB, 528 * MiB};
    const std::size_t bytes = empty.free - beside.free;
    const ScopedVariable allowed("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "1");
    const Charge too_much{.device = bytes + 17 * MiB, .ballast = bytes + 17 * MiB};
    EXPECT_TRUE(contains(refusal(too_much, empty), "the limit is 7.5 GiB"));
    const Reservation held({.device = bytes, .ballast = bytes}, "test:0", empty);
    EXPECT_EQ(refusal({.device = GiB, .managed = GiB}, beside), "");
    EXPECT_EQ(refusal({.device = 16 * MiB}, beside), "");  // such as scratch data of the GPU
    EXPECT_TRUE(contains(refusal({.device = 17 * MiB}, beside), "the limit is 16 MiB"));
    const ScopedVariable device("FIRSTTOUCH_MAX_DEVICE", "7.5GiB");
    EXPECT_TRUE(contains(refusal({.device = 17 * MiB}, beside), "FIRSTTOUCH_MAX_DEVICE"));  // ballast counts here too
}

TEST(Guard, RefusesMoreThanTheMachineHas) {
    EXPECT_NE(refusal({.host = host_available()}), "");
    EXPECT_NE(refusal({.host = SIZE_MAX}), "");
    const Reservation first({.host = MiB}, "test:0", ample_memory);
    EXPECT_NE(refusal({.host = SIZE_MAX}), "") << "the sum would overflow";
}

TEST(Guard, ReadsSizes) {
    const auto limit = [](const std::string& text) {
        const ScopedVariable variable("FIRSTTOUCH_TEST_LIMIT", text);
        return Guard::environment_limit("FIRSTTOUCH_TEST_LIMIT");
    };
    EXPECT_EQ(Guard::environment_limit("FIRSTTOUCH_TEST_LIMIT"), SIZE_MAX);
    EXPECT_EQ(limit(""), SIZE_MAX);
    EXPECT_EQ(limit("4096"), 4096u);
    EXPECT_EQ(limit("1.5KiB"), 1536u);
    EXPECT_EQ(limit("24GiB"), 24 * GiB);
    EXPECT_EQ(limit("24 gib"), 24 * GiB);
    EXPECT_EQ(limit("3GB"), 3'000'000'000u);
    EXPECT_EQ(limit("2^30"), GiB);
}

TEST(Guard, NamesASizeThatDoesNotParse) {
    for (const std::string text : {"plenty", "-1", "1XiB", "1e30", "inf", "nan", "2^", "2^x", "2^64", "2^9999", "2^3x",
                                   "KiB", "1 2", "0", "0x10", "0.5", "1.2.3"}) {
        const ScopedVariable variable("FIRSTTOUCH_TEST_LIMIT", text);
        const std::string message =
            message_of<std::invalid_argument>([] { Guard::environment_limit("FIRSTTOUCH_TEST_LIMIT"); });
        EXPECT_TRUE(contains(message, "FIRSTTOUCH_TEST_LIMIT='" + text + "'")) << text;
    }
}

class FabricatedRoot : public testing::Test {
  protected:
    void meminfo(std::size_t kib) {
        folder.write("proc/meminfo",
                     "MemTotal: 999999999 kB\nMemFree: 1 kB\nMemAvailable: " + std::to_string(kib) + " kB\n");
    }
    void cgroup(const std::string& path, std::size_t limit, std::size_t used, std::size_t reclaimable) {
        const std::string group = "sys/fs/cgroup" + path;
        folder.write(group + "/memory.max", std::to_string(limit) + "\n");
        folder.write(group + "/memory.current", std::to_string(used) + "\n");
        folder.write(group + "/memory.stat", "anon 5\ninactive_file " + std::to_string(reclaimable) + "\nslab 7\n");
    }
    std::size_t available() { return host_available(folder.path.string()); }
    TemporaryFolder folder;
};

TEST_F(FabricatedRoot, WithoutCgroupsMemAvailableIsUsed) {
    meminfo(1000);
    EXPECT_EQ(available(), 1000 * KiB);
}

// GH200: node 0 is the processors', node 1 the GPU's, whose driver has made its memory a node of the kernel.
TEST_F(FabricatedRoot, MemoryOfAGpuThatIsANodeIsNotTheHosts) {
    meminfo(8 * 1024 * 1024);
    const std::string nodes = "sys/devices/system/node/node";
    folder.write(nodes + "0/cpulist", "0-71\n");
    folder.write(nodes + "0/meminfo", "Node 0 MemTotal: 6291456 kB\nNode 0 MemFree: 4194304 kB\n");
    folder.write(nodes + "1/cpulist", "\n");
    folder.write(nodes + "1/meminfo",
                 "Node 1 MemTotal:        3145728 kB\nNode 1 MemFree:         2097152 kB\n"
                 "Node 1 Active(anon): 77 kB\nNode 1 Active(file): 524288 kB\nNode 1 Inactive(file): 524288 kB\n");
    EXPECT_EQ(available(), 5 * GiB);
    folder.write(nodes + "2/cpulist", "\n");  // of another GPU that is not in use
    folder.write(nodes + "2/meminfo", "Node 2 MemTotal: 0 kB\nNode 2 MemFree: 0 kB\n");
    EXPECT_EQ(available(), 5 * GiB);
    meminfo(1024);
    EXPECT_EQ(available(), 0u) << "the host has no memory left";
}

TEST_F(FabricatedRoot, NodesWithProcessorsAreTheHosts) {
    meminfo(1000);
    for (const std::string node : {"0", "1"}) {
        folder.write("sys/devices/system/node/node" + node + "/cpulist", node + "\n");
        folder.write("sys/devices/system/node/node" + node + "/meminfo", "Node " + node + " MemFree: 500 kB\n");
    }
    folder.write("sys/devices/system/node/node2/meminfo", "Node 2 MemFree: 500 kB\n");  // without a list
    EXPECT_EQ(available(), 1000 * KiB);
}

TEST_F(FabricatedRoot, NodesWithoutProcessorsAreTheHostsIfNoOtherHasMemory) {
    meminfo(1000);
    folder.write("sys/devices/system/node/node0/cpulist", "0-3\n");
    folder.write("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 0 kB\nNode 0 MemFree: 0 kB\n");
    folder.write("sys/devices/system/node/node1/cpulist", "\n");
    folder.write("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 2000 kB\nNode 1 MemFree: 900 kB\n");
    EXPECT_EQ(available(), 1000 * KiB);
}

TEST_F(FabricatedRoot, CgroupV2SubtractsUsageWithoutReclaimablePages) {
    meminfo(8 * 1024 * 1024);
    folder.write("proc/self/cgroup", "0::/job/step\n");
    cgroup("/job/step", 2 * GiB, GiB, 256 * MiB);
    EXPECT_EQ(available(), GiB + 256 * MiB);
}

TEST_F(FabricatedRoot, CgroupV2UsesTheTightestAncestor) {
    meminfo(8 * 1024 * 1024);
    folder.write("proc/self/cgroup", "0::/job/step\n");
    cgroup("/job/step", 4 * GiB, 0, 0);
    cgroup("/job", GiB, 256 * MiB, 0);
    EXPECT_EQ(available(), 768 * MiB);
    cgroup("", 512 * MiB, 0, 0);
    EXPECT_EQ(available(), 512 * MiB);
    meminfo(100 * 1024);
    EXPECT_EQ(available(), 100 * MiB);
}

TEST_F(FabricatedRoot, CgroupV2WithoutLimit) {
    meminfo(2048);
    folder.write("proc/self/cgroup", "0::/\n");
    folder.write("sys/fs/cgroup/memory.max", "max\n");
    EXPECT_EQ(available(), 2 * MiB);
}

TEST_F(FabricatedRoot, UsageBeyondTheLimitLeavesNoMemory) {
    meminfo(2048);
    folder.write("proc/self/cgroup", "0::/\n");
    cgroup("", MiB, 2 * MiB, 0);
    EXPECT_EQ(available(), 0u);
}

TEST_F(FabricatedRoot, CgroupV1) {
    meminfo(8 * 1024 * 1024);
    folder.write("proc/self/cgroup", "12:cpu,cpuacct:/job\n4:memory:/job\n1:name=systemd:/job\n");
    const std::string group = "sys/fs/cgroup/memory/job";
    folder.write(group + "/memory.limit_in_bytes", std::to_string(GiB));
    folder.write(group + "/memory.usage_in_bytes", std::to_string(512 * MiB));
    folder.write(group + "/memory.stat", "inactive_file 1\ntotal_inactive_file " + std::to_string(128 * MiB) + "\n");
    folder.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");  // no limit
    folder.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1");
    EXPECT_EQ(available(), 640 * MiB);
}

TEST_F(FabricatedRoot, CgroupV1InAContainerHasItsGroupAtTheRoot) {
    meminfo(8 * 1024 * 1024);
    folder.write("proc/self/cgroup", "4:memory:/docker/0123\n");
    folder.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(GiB));
    folder.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "0");
    EXPECT_EQ(available(), GiB);
}

TEST_F(FabricatedRoot, AGpuThatSharesTheHostsMemoryHasWhatIsAvailableOnItsNode) {
    meminfo(8 * 1024 * 1024);
    const auto near = [&](const std::string& bus) { return host_available_near(bus, folder.path.string()); };
    EXPECT_EQ(near("0000:0F:01.0"), 8 * GiB) << "a device that the kernel does not know";
    const std::string device = "sys/bus/pci/devices/0000:0f:01.0/";
    folder.write(device + "numa_node", "-1\n");
    EXPECT_EQ(near("0000:0F:01.0"), 8 * GiB) << "a machine with one node";
    folder.write(device + "numa_node", "1\n");
    EXPECT_EQ(near("0000:0F:01.0"), 8 * GiB) << "a node that says nothing";
    folder.write("sys/devices/system/node/node1/meminfo",
                 "Node 1 MemFree: 1048576 kB\nNode 1 Inactive(file): 1048576 kB\n");
    EXPECT_EQ(near("0000:0F:01.0"), 2 * GiB);
    meminfo(1024 * 1024);
    EXPECT_EQ(near("0000:0F:01.0"), GiB) << "the node has no more than the machine";
    EXPECT_FALSE(vram_set_aside("0000:0F:01.0", folder.path.string()));
    folder.write(device + "mem_info_vram_total", "536870912\n");
    EXPECT_EQ(vram_set_aside("0000:0F:01.0", folder.path.string()), 512 * MiB);
}

TEST(Buffers, AreChargedUntilTheyAreReleased) {
    const ScopedVariable host("FIRSTTOUCH_MAX_HOST", "1MiB");
    const auto cpu = open_device("cpu");
    auto first = cpu->allocate(Allocator::malloc, MiB);
    EXPECT_THROW(cpu->allocate(Allocator::mmap, 1), GuardRefused);
    first->release();
    EXPECT_EQ(first->size(), 0u);
    first->release();
    const auto second = cpu->allocate(Allocator::mmap, MiB);
    EXPECT_EQ(second->size(), MiB);
}

TEST(Buffers, InvalidAllocationsAreRefused) {
    const auto cpu = open_device("cpu");
    EXPECT_THROW(cpu->allocate(Allocator::malloc, 0), std::invalid_argument);
    EXPECT_TRUE(contains(message_of<Unavailable>([&] { cpu->allocate(Allocator::managed, 4096); }), "managed"));
    EXPECT_THROW(allocator_from("heap"), std::invalid_argument);
    for (const auto name : allocator_names) EXPECT_EQ(to_string(allocator_from(name)), name);
}

TEST(Devices, ErrorsExplainWhyTheyDoNotOpen) {
    for (const std::string name : {"tpu:0", "", "cuda:x", "cuda:0x", "opencl:", "opencl:99", "opencl:-1", "cpu:1"})
        EXPECT_NE(message_of<Unavailable>([&] { open_device(name); }), "") << name;
    EXPECT_THROW(count_devices("tpu"), Unavailable);
    EXPECT_EQ(count_devices("cpu"), 1);
}

}  // namespace
}  // namespace firsttouch
