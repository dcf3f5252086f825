#include "device/device.hpp"
#include "device/guard.hpp"
#include "support.hpp"

namespace firsttouch {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;
const DeviceMemory roomy{80 * GiB, 80 * GiB};

std::string refusal(const Charge& charge, const DeviceMemory& memory = roomy, const std::string& device = "test:0") {
    return words_of<GuardRefused>([&] { const Reservation attempt(charge, device, memory); });
}

TEST(Guard, RefusesBeyondTheHostLimitOfTheEnvironment) {
    const Variable limit("FIRSTTOUCH_MAX_HOST", "1MiB");
    EXPECT_EQ(refusal({.host = MiB}), "");
    const std::string words = refusal({.host = MiB + 1});
    EXPECT_TRUE(holds(words, "FIRSTTOUCH_MAX_HOST"));
    EXPECT_TRUE(holds(words, "the limit is 1 MiB"));
}

TEST(Guard, RefusesBeyondTheDeviceLimitOfTheEnvironment) {
    const Variable limit("FIRSTTOUCH_MAX_DEVICE", "64KiB");
    EXPECT_EQ(refusal({.device = 64 * KiB}), "");
    EXPECT_TRUE(holds(refusal({.device = 64 * KiB + 1}), "FIRSTTOUCH_MAX_DEVICE"));
}

TEST(Guard, RefusesBeyondTheManagedLimitOfTheEnvironment) {
    const Variable limit("FIRSTTOUCH_MAX_MANAGED", "2^20");
    EXPECT_EQ(refusal({.managed = MiB}), "");
    EXPECT_TRUE(holds(refusal({.managed = MiB + 1}), "FIRSTTOUCH_MAX_MANAGED"));
}

TEST(Guard, ManagedMemoryExceedsTheDeviceOnlyWhereThatIsAllowed) {
    const DeviceMemory small{4 * GiB, GiB};
    const Charge more{.device = 2 * GiB, .managed = 2 * GiB};
    EXPECT_TRUE(holds(refusal(more, small), "free memory of test:0 now"));
    const Variable allowed("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "1");
    EXPECT_EQ(refusal(more, small), "");
    EXPECT_TRUE(holds(refusal({.device = 2 * GiB}, small), "free memory of test:0 now"));  // plain memory never does
    const Variable managed("FIRSTTOUCH_MAX_MANAGED", "1GiB");
    EXPECT_TRUE(holds(refusal(more, small), "FIRSTTOUCH_MAX_MANAGED"));  // nor beyond what the user set
    const Variable not_so("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "0");
    EXPECT_TRUE(holds(refusal(more, small), "free memory of test:0 now"));
}

TEST(Guard, SumsOverEverythingAlive) {
    const Variable host("FIRSTTOUCH_MAX_HOST", "1MiB");
    const Variable device("FIRSTTOUCH_MAX_DEVICE", "1MiB");
    const Variable managed("FIRSTTOUCH_MAX_MANAGED", "1MiB");
    const Charge half{.host = MiB / 2, .device = MiB / 2, .managed = MiB / 2};
    const Reservation one(half, "test:0", roomy);
    {
        const Reservation two(half, "test:0", roomy);
        EXPECT_TRUE(holds(refusal({.host = 1}), "1 MiB already held"));
        EXPECT_TRUE(holds(refusal({.device = 1}), "FIRSTTOUCH_MAX_DEVICE"));
        EXPECT_TRUE(holds(refusal({.managed = 1}), "FIRSTTOUCH_MAX_MANAGED"));
        // Device and managed memory are counted for each device by itself; host memory is one pool for the process.
        EXPECT_EQ(refusal({.device = MiB}, roomy, "test:1"), "");
        EXPECT_EQ(refusal({.managed = MiB}, roomy, "test:1"), "");
        EXPECT_NE(refusal({.host = 1}, roomy, "test:1"), "");
        EXPECT_EQ(Guard::instance().held("test:0").device, MiB);
        EXPECT_EQ(Guard::instance().held("test:1").device, 0u);
    }
    EXPECT_EQ(Guard::instance().held("test:0").managed, MiB / 2);
    EXPECT_EQ(refusal(half), "");
}

TEST(Guard, ARefusalChargesNothing) {
    const Variable host("FIRSTTOUCH_MAX_HOST", "1MiB");
    const Variable managed("FIRSTTOUCH_MAX_MANAGED", "1KiB");
    EXPECT_NE(refusal({.host = MiB, .managed = MiB}), "");
    EXPECT_EQ(refusal({.host = MiB}), "");
}

TEST(Guard, MovedReservationsAreGivenBackOnce) {
    const Variable host("FIRSTTOUCH_MAX_HOST", "1MiB");
    {
        Reservation one({.host = MiB}, "test:0", roomy);
        Reservation two(std::move(one));
        Reservation three;
        three = std::move(two);
        EXPECT_NE(refusal({.host = 1}), "");
        three = {};
    }
    EXPECT_EQ(refusal({.host = MiB}), "");
}

TEST(Guard, LeavesAReserveOnADevice) {
    const DeviceMemory memory{2 * GiB, GiB};
    EXPECT_EQ(refusal({.device = 512 * MiB}, memory), "");
    EXPECT_TRUE(holds(refusal({.device = 512 * MiB + 1}, memory), "now, less a reserve"));
    EXPECT_NE(refusal({.device = 1}, {2 * GiB, 512 * MiB}), "");
    EXPECT_NE(refusal({.device = 1}, {}), "");
}

TEST(Guard, CountsManagedMemoryThatIsPromisedButNotTouched) {
    const DeviceMemory memory{2 * GiB, GiB};
    const Charge most{.device = 400 * MiB, .managed = 400 * MiB};
    const Reservation one(most, "test:0", memory);
    EXPECT_TRUE(holds(refusal(most, memory), "managed"));
}

TEST(Guard, RefusesMoreThanTheMachineHas) {
    EXPECT_NE(refusal({.host = host_available()}), "");
    EXPECT_NE(refusal({.host = SIZE_MAX}), "");
    const Reservation one({.host = MiB}, "test:0", roomy);
    EXPECT_NE(refusal({.host = SIZE_MAX}), "") << "the sum wraps around";
}

TEST(Guard, ReadsSizes) {
    const auto limit = [](const std::string& text) {
        const Variable variable("FIRSTTOUCH_TEST_LIMIT", text);
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

TEST(Guard, SaysWhichSizeDoesNotParse) {
    for (const std::string text : {"plenty", "-1", "1XiB", "1e30", "inf", "nan", "2^", "2^x", "2^64", "2^9999", "2^3x",
                                   "KiB", "1 2", "0", "0x10", "0.5", "1.2.3"}) {
        const Variable variable("FIRSTTOUCH_TEST_LIMIT", text);
        const std::string words =
            words_of<std::invalid_argument>([] { Guard::environment_limit("FIRSTTOUCH_TEST_LIMIT"); });
        EXPECT_TRUE(holds(words, "FIRSTTOUCH_TEST_LIMIT='" + text + "'")) << text;
    }
}

class FabricatedRoot : public testing::Test {
  protected:
    void meminfo(std::size_t kib) {
        folder.write("proc/meminfo",
                     "MemTotal: 999999999 kB\nMemFree: 1 kB\nMemAvailable: " + std::to_string(kib) + " kB\n");
    }
    void cgroup(const std::string& path, std::size_t limit, std::size_t used, std::size_t reclaimable) {
        const std::string at = "sys/fs/cgroup" + path;
        folder.write(at + "/memory.max", std::to_string(limit) + "\n");
        folder.write(at + "/memory.current", std::to_string(used) + "\n");
        folder.write(at + "/memory.stat", "anon 5\ninactive_file " + std::to_string(reclaimable) + "\nslab 7\n");
    }
    std::size_t available() { return host_available(folder.path.string()); }
    Folder folder;
};

TEST_F(FabricatedRoot, WithoutCgroupsMemAvailableDecides) {
    meminfo(1000);
    EXPECT_EQ(available(), 1000 * KiB);
}

TEST_F(FabricatedRoot, VersionTwoCountsLimitLessUsageAndReclaimablePages) {
    meminfo(8 * 1024 * 1024);
    folder.write("proc/self/cgroup", "0::/job/step\n");
    cgroup("/job/step", 2 * GiB, GiB, 256 * MiB);
    EXPECT_EQ(available(), GiB + 256 * MiB);
}

TEST_F(FabricatedRoot, VersionTwoTakesTheTightestAncestor) {
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

TEST_F(FabricatedRoot, VersionTwoWithoutLimit) {
    meminfo(2048);
    folder.write("proc/self/cgroup", "0::/\n");
    folder.write("sys/fs/cgroup/memory.max", "max\n");
    EXPECT_EQ(available(), 2 * MiB);
}

TEST_F(FabricatedRoot, UsageBeyondTheLimitLeavesNothing) {
    meminfo(2048);
    folder.write("proc/self/cgroup", "0::/\n");
    cgroup("", MiB, 2 * MiB, 0);
    EXPECT_EQ(available(), 0u);
}

TEST_F(FabricatedRoot, VersionOne) {
    meminfo(8 * 1024 * 1024);
    folder.write("proc/self/cgroup", "12:cpu,cpuacct:/job\n4:memory:/job\n1:name=systemd:/job\n");
    const std::string at = "sys/fs/cgroup/memory/job";
    folder.write(at + "/memory.limit_in_bytes", std::to_string(GiB));
    folder.write(at + "/memory.usage_in_bytes", std::to_string(512 * MiB));
    folder.write(at + "/memory.stat", "inactive_file 1\ntotal_inactive_file " + std::to_string(128 * MiB) + "\n");
    folder.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");  // none
    folder.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1");
    EXPECT_EQ(available(), 640 * MiB);
}

TEST_F(FabricatedRoot, VersionOneInAContainerSeesItsOwnGroupAtTheTop) {
    meminfo(8 * 1024 * 1024);
    folder.write("proc/self/cgroup", "4:memory:/docker/0123\n");
    folder.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(GiB));
    folder.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "0");
    EXPECT_EQ(available(), GiB);
}

TEST(Buffers, AreChargedWhileTheyLive) {
    const Variable host("FIRSTTOUCH_MAX_HOST", "1MiB");
    const auto cpu = open_device("cpu");
    auto one = cpu->allocate(Allocator::malloc, MiB);
    EXPECT_THROW(cpu->allocate(Allocator::mmap, 1), GuardRefused);
    one->release();
    EXPECT_EQ(one->size(), 0u);
    one->release();
    const auto two = cpu->allocate(Allocator::mmap, MiB);
    EXPECT_EQ(two->size(), MiB);
}

TEST(Buffers, RefuseWhatIsNoAllocation) {
    const auto cpu = open_device("cpu");
    EXPECT_THROW(cpu->allocate(Allocator::malloc, 0), std::invalid_argument);
    EXPECT_TRUE(holds(words_of<Unavailable>([&] { cpu->allocate(Allocator::managed, 4096); }), "managed"));
    EXPECT_THROW(allocator_from("heap"), std::invalid_argument);
    for (const auto name : allocator_names) EXPECT_EQ(to_string(allocator_from(name)), name);
}

TEST(Devices, SayWhyTheyDoNotOpen) {
    for (const std::string name : {"tpu:0", "", "cuda:x", "cuda:0x", "opencl:", "opencl:99", "opencl:-1", "cpu:1"})
        EXPECT_NE(words_of<Unavailable>([&] { open_device(name); }), "") << name;
    EXPECT_THROW(count_devices("tpu"), Unavailable);
    EXPECT_EQ(count_devices("cpu"), 1);
}

}  // namespace
}  // namespace firsttouch
