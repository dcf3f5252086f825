#include "device/host/memory.hpp"

#include <sched.h>

#include <cstring>
#include <system_error>
#include <thread>

#include "device/host/node.hpp"
#include "device/library.hpp"
#include "device/prelude.hpp"
#include "support.hpp"

namespace firsttouch {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

bool aligned(const void* address, std::size_t to) { return reinterpret_cast<std::uintptr_t>(address) % to == 0; }

TEST(HostMemory, EveryAllocatorReturnsWritableAlignedMemory) {
    for (const AllocatorInfo& entry : host_allocators())
        for (const Pages pages : {Pages::policy, Pages::base, Pages::huge})
            for (const std::size_t bytes : {std::size_t{1}, std::size_t{4095}, base_page, 3 * huge_page + 17}) {
                Block block = obtain_host(entry.allocator, bytes, pages);
                EXPECT_EQ(block.bytes, bytes);
                const bool huge = pages == Pages::huge || entry.allocator == Allocator::malloc_thp;
                const std::size_t alignment = bytes < base_page ? alignof(double) : huge ? huge_page : base_page;
                EXPECT_TRUE(aligned(block.host, alignment)) << to_string(entry.allocator);
                std::memset(block.host, 0x5A, bytes);
                EXPECT_EQ(static_cast<unsigned char*>(block.host)[bytes - 1], 0x5A);
                release_host(block);
                EXPECT_EQ(block.host, nullptr);
            }
}

TEST(HostMemory, AHugePageIsWhatTheKernelStates) {
    const TemporaryFolder folder;
    const std::string root = folder.path.string();
    EXPECT_EQ(huge_page_bytes(4 * KiB, root), 2 * MiB);
    EXPECT_EQ(huge_page_bytes(16 * KiB, root), 32 * MiB);
    EXPECT_EQ(huge_page_bytes(64 * KiB, root), 512 * MiB);
    const std::string file = "sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
    folder.write(file, std::to_string(512 * MiB) + "\n");
    EXPECT_EQ(huge_page_bytes(64 * KiB, root), 512 * MiB);
    folder.write(file, std::to_string(2 * MiB) + "\n");  // Power 9: base pages of 64 KiB
    EXPECT_EQ(huge_page_bytes(64 * KiB, root), 2 * MiB);
    for (const char* nonsense : {"", "many\n", "0\n", "-1\n", "4096\n"}) {
        folder.write(file, nonsense);
        EXPECT_EQ(huge_page_bytes(64 * KiB, root), 512 * MiB) << nonsense;
    }
}

TEST(HostMemory, ImpossibleSizesThrow) {
    EXPECT_THROW(obtain_host(Allocator::mmap, std::size_t{1} << 60, Pages::base), std::bad_alloc);
}

TEST(HostMemory, ResidencyReportsTouchedPages) {
    const std::size_t bytes = 4 * huge_page;
    Block block = obtain_host(Allocator::mmap, bytes, Pages::base);
    EXPECT_EQ(residency(block.host, bytes).numa_node, -1);
    EXPECT_EQ(residency(block.host, bytes).page_bytes, 0u);
    std::memset(block.host, 1, bytes);
    const Residency touched = residency(block.host, bytes);
    EXPECT_EQ(touched.page_bytes, base_page);
    EXPECT_GE(touched.numa_node, -1);  // -1 where the kernel forbids move_pages
    release_host(block);
}

TEST(HostMemory, PageTablesShowWhichPagesArePresent) {
    const std::size_t pages = 40;
    Block block = obtain_host(Allocator::mmap, pages * base_page, Pages::base);
    auto* bytes = static_cast<char*>(block.host);
    for (const std::size_t page : {3, 7, 39}) bytes[page * base_page + 11] = 1;
    std::vector<bool> present;
    try {
        present = pages_present(block.host, block.bytes);
    } catch (const Unavailable& reason) {
        release_host(block);
        GTEST_SKIP() << reason.what();
    }
    ASSERT_EQ(present.size(), pages);
    for (std::size_t page = 0; page < pages; ++page) EXPECT_EQ(present[page], page == 3 || page == 7 || page == 39);
    EXPECT_EQ(pages_present(bytes + 3 * base_page + 1, 4 * base_page),
              std::vector<bool>({true, false, false, false, true}))
        << "from the page that holds the first byte to the one that holds the last";
    release_host(block);
}

TEST(HostMemory, DiscardedPagesAreWholeAndZero) {
    Block block = obtain_host(Allocator::mmap, 4 * base_page, Pages::base);
    auto* bytes = static_cast<char*>(block.host);
    std::memset(bytes, 1, block.bytes);
    EXPECT_FALSE(discard_pages(bytes + 1, base_page)) << "no whole page";
    EXPECT_TRUE(discard_pages(bytes + 1, 2 * base_page));
    EXPECT_EQ(bytes[base_page - 1], 1);
    EXPECT_EQ(bytes[base_page], 0);
    EXPECT_EQ(bytes[2 * base_page - 1], 0);
    EXPECT_EQ(bytes[2 * base_page], 1) << "a page of which only the first byte is in the range";
    release_host(block);
}

TEST(HostMemory, HugePagesAreHonoured) {
    bool supported = false;
    for (const AllocatorInfo& entry : host_allocators())
        if (entry.allocator == Allocator::malloc_thp) supported = entry.available;
    if (!supported) GTEST_SKIP() << "no transparent huge pages here";
    Block block = obtain_host(Allocator::malloc_thp, 8 * huge_page, Pages::policy);
    std::memset(block.host, 1, 8 * huge_page);
    const std::size_t page = residency(block.host, 8 * huge_page).page_bytes;
    EXPECT_TRUE(page == huge_page || page == base_page) << page;  // base: no huge page was free
    release_host(block);
}

TEST(NodeScopes, BindThreadsThatStartInsideAndRestoreThisOne) {
    const int before = usable_processors();
    cpu_set_t allowed;
    ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    int first = 0;
    while (!CPU_ISSET(first, &allowed)) ++first;
    Block touched = obtain_host(Allocator::mmap, MiB, Pages::base);
    std::memset(touched.host, 1, MiB);
    const auto where = pages_on_nodes(touched.host, MiB, 16);
    release_host(touched);
    if (where.size() != 1) GTEST_SKIP() << "the kernel does not tell where pages are, or spreads them";
    const int node = where.begin()->first;
    try {
        const NodeScope scope({first}, node);
        EXPECT_EQ(usable_processors(), 1);
        Block block = obtain_host(Allocator::mmap, MiB, Pages::base);
        EXPECT_TRUE(pages_on_nodes(block.host, MiB, 16).empty()) << "untouched pages are nowhere";
        int inside = 0;
        std::thread([&] {
            inside = usable_processors();
            std::memset(block.host, 1, MiB);
        }).join();
        EXPECT_EQ(inside, 1);
        EXPECT_EQ(pages_on_nodes(block.host, MiB, 16), (std::map<int, std::size_t>{{node, 16}}));
        release_host(block);
    } catch (const Unavailable& reason) {
        GTEST_SKIP() << reason.what();
    }
    EXPECT_EQ(usable_processors(), before);
    EXPECT_TRUE(contains(message_of<Unavailable>([] { NodeScope({}, 4096); }), "node4096"));
    EXPECT_TRUE(contains(message_of<std::system_error>([] { NodeScope({1'000'000}, std::nullopt); }), "affinity"));
    EXPECT_EQ(usable_processors(), before);
}

TEST(Libraries, ErrorsListThePathsTried) {
    set_library_paths("nothing", {"/nowhere/libfirst.so", "libsecond-firsttouch.so"});
    const std::string message = message_of<Unavailable>([] { Library("nothing", {"libthird-firsttouch.so.1"}); });
    for (const char* part : {"nothing library", "/nowhere/libfirst.so", "libsecond"})
        EXPECT_TRUE(contains(message, part));
}

TEST(Libraries, UseTheFirstPathThatOpensAndNameAMissingFunction) {
    set_library_paths("maths", {"/nowhere/libm.so", "libm.so.6", "libc.so.6"});
    Library library("maths", {});
    EXPECT_EQ(library.path(), "libm.so.6");
    double (*root)(double) = library.function("sqrt");
    EXPECT_EQ(root(9), 3);
    EXPECT_EQ(library.name_of(root), "sqrt");
    EXPECT_EQ(Library("unset", {"libm.so.6"}).path(), "libm.so.6") << "without paths, the fallbacks";
    EXPECT_EQ(message_of<Unavailable>([&] { library.function("firsttouch_nothing"); }),
              "libm.so.6 has no function firsttouch_nothing");
    int (*nothing)() = library.optional_function("firsttouch_nothing");
    EXPECT_EQ(nothing, nullptr);
}

TEST(KernelFiles, AreEmbedded) {
    const std::string text = translation_unit(kernel_source("stream", {{"UNROLL", "4"}}), "cuda");
    EXPECT_EQ(text.rfind("#define UNROLL 4\n", 0), 0u);
    for (const char* part : {"__global__", "mix64", "stream_triad"}) EXPECT_TRUE(contains(text, part));
    EXPECT_THROW(kernel_file("nothing.c"), std::out_of_range);
}

}  // namespace
}  // namespace firsttouch
