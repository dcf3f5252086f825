// What AMD's code objects tell of kernels, and that damaged ones neither end the process nor are read beyond their end.
#include <elf.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <random>

#include "profile/inject/front/hip/code_object.hpp"
#include "profile/inject/front/hip/kernels.hpp"

namespace firsttouch::hip_front {
namespace {

using inject::Parameter;

// msgpack, as far as it is needed.
std::string text(std::string_view value) {
    if (value.size() < 32) return std::string(1, static_cast<char>(0xA0 | value.size())) + std::string(value);
    return "\xD9" + std::string(1, static_cast<char>(value.size())) + std::string(value);
}
std::string map(unsigned pairs) { return std::string(1, static_cast<char>(0x80 | pairs)); }
std::string array(unsigned values) { return std::string(1, static_cast<char>(0x90 | values)); }
std::string number(unsigned value) {
    if (value < 128) return std::string(1, static_cast<char>(value));
    return std::string("\xCD") + static_cast<char>(value >> 8) + static_cast<char>(value & 255);
}

std::string parameter(unsigned offset, unsigned bytes, const char* kind, const char* access = nullptr) {
    std::string made = map(access == nullptr ? 3 : 4) + text(".offset") + number(offset) + text(".size") +
                       number(bytes) + text(".value_kind") + text(kind);
    if (access != nullptr) made += text(".actual_access") + text(access);
    return made;
}
std::string kernel(std::string_view name, const std::vector<std::string>& parameters) {
    std::string made = map(3) + text(".name") + text(name) + text(".wavefront_size") + number(64) + text(".args") +
                       array(static_cast<unsigned>(parameters.size()));
    for (const std::string& of : parameters) made += of;
    return made;
}
std::string metadata(const std::vector<std::string>& kernels) {
    std::string made = map(3) + text("amdhsa.version") + array(2) + number(1) + number(2) + text("amdhsa.kernels") +
                       array(static_cast<unsigned>(kernels.size()));
    for (const std::string& of : kernels) made += of;
    return made + text("amdhsa.target") + text("amdgcn-amd-amdhsa--gfx90a:xnack-");
}

template <class Type>
std::string bytes_of(const Type& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string code_object(std::string packed) {
    const Elf64_Nhdr note{7, static_cast<Elf64_Word>(packed.size()), 32};
    packed.resize((packed.size() + 3) / 4 * 4);
    const std::string notes = bytes_of(note) + std::string("AMDGPU\0\0", 8) + packed;
    Elf64_Ehdr file{};
    std::memcpy(file.e_ident, "\177ELF\2\1\1\100", 8);
    file.e_phoff = sizeof file;
    file.e_phentsize = sizeof(Elf64_Phdr);
    file.e_phnum = 1;
    file.e_shoff = sizeof file + sizeof(Elf64_Phdr) + notes.size();
    Elf64_Phdr segment{};
    segment.p_type = PT_NOTE;
    segment.p_offset = sizeof file + sizeof segment;
    segment.p_filesz = notes.size();
    return bytes_of(file) + bytes_of(segment) + notes;
}

std::string bundle(const std::vector<std::string>& images) {
    constexpr std::string_view target = "hipv4-amdgcn-amd-amdhsa--gfx90a";
    const std::size_t head_bytes = 4096;
    std::string head = "__CLANG_OFFLOAD_BUNDLE__" + bytes_of(std::uint64_t(images.size())), content;
    for (const std::string& image : images) {
        for (const std::uint64_t value : {head_bytes + content.size(), image.size(), target.size()})
            head += bytes_of(value);
        head += target;
        content += image;
    }
    head.resize(head_bytes);
    return head + content;
}

const std::vector<std::string> scale = {parameter(0, 8, "global_buffer", "write_only"),
                                        parameter(8, 8, "global_buffer", "read_only"), parameter(16, 24, "by_value"),
                                        parameter(40, 4, "hidden_block_count_x")};
const std::vector<Parameter> of_scale = {
    {.offset = 0, .bytes = 8, .access = 2}, {.offset = 8, .bytes = 8, .access = 1}, {.offset = 16, .bytes = 24}};

// By its size, or as one whose size is not told.
KernelParameters read_kernels(std::string_view image, bool is_size_told = true) {
    KernelParameters kernels;
    add_kernels(is_size_told ? image : readable_from(image.data()), kernels);
    return kernels;
}

TEST(CodeObjects, TellOffsetsSizesAndAccessesOfWhatAProgramPasses) {
    const std::string name(200, 'k');
    const std::string image = code_object(metadata({kernel("scale", scale), kernel(name, {}), kernel("one", {})}));
    const KernelParameters kernels = read_kernels(image);
    EXPECT_EQ(kernels.size(), 3u);
    EXPECT_EQ(kernels.find("scale")->second, of_scale);
    EXPECT_TRUE(kernels.find(name)->second.empty());
    EXPECT_EQ(read_kernels(image, false), kernels);
}

TEST(CodeObjects, OfSeveralInABundleAnAccessIsToldIfAllTellTheSame) {
    std::vector<std::string> others = scale;
    others[0] = parameter(0, 8, "global_buffer");
    const std::string image =
        bundle({"", code_object(metadata({kernel("scale", scale)})), code_object(metadata({kernel("scale", others)}))});
    std::vector<Parameter> expected = of_scale;
    expected[0].access = 0;
    EXPECT_EQ(read_kernels(image).find("scale")->second, expected);
    EXPECT_EQ(read_kernels(image, false), read_kernels(image));
}

TEST(CodeObjects, WhatIsNoneTellsNothing) {
    for (const std::string& image :
         {std::string(), std::string("CCOB") + std::string(100, '\1'), std::string(5000, '\0'),
          std::string("__CLANG_OFFLOAD_BUNDLE__"), code_object(""), code_object(text("no map")),
          code_object(metadata({kernel("huge", {parameter(0, 60000, "by_value")})}))})
        EXPECT_TRUE(read_kernels(image).empty());
    EXPECT_TRUE(readable_from(nullptr).empty());
}

// Deeply nested, as a recursion would run out of stack.
TEST(CodeObjects, ANestOfListsEndsTheReading) {
    EXPECT_TRUE(read_kernels(code_object(map(1) + text("other") + std::string(1 << 20, '\x91'))).empty());
    EXPECT_TRUE(read_kernels(code_object(map(1) + text("amdhsa.kernels") + std::string(1 << 16, '\xDD'))).empty());
}

// Each image ends where a page ends that cannot be read.
TEST(CodeObjects, DamagedOnesAreNotReadBeyondTheirEnd) {
    const int mutations = std::getenv("FIRSTTOUCH_EXHAUSTIVE") == nullptr ? 5000 : 100'000;
    const std::string plain = code_object(metadata({kernel("scale", scale), kernel("other", scale)}));
    const std::string images[] = {plain, bundle({plain, plain})};
    constexpr std::size_t page = 4096;
    const std::size_t room = 4 * page;
    auto* const memory =
        static_cast<char*>(mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_EQ(mprotect(memory + room, page, PROT_NONE), 0);
    std::mt19937 random(7);
    const auto drawn = [&](std::size_t below) { return random() % below; };
    std::size_t found = 0;
    for (int i = 0; i < mutations; ++i) {
        std::string image = images[i % 2];
        for (std::size_t k = 1 + drawn(4); k > 0; --k) {
            const std::size_t at = drawn(2) == 0 ? drawn(image.size()) : drawn(200);  // heads are short
            image[at] = static_cast<char>(drawn(4) == 0 ? 0xFF : random());
        }
        if (drawn(4) == 0) image.resize(1 + drawn(image.size()));
        ASSERT_LE(image.size(), room);
        char* const at = memory + room - image.size();
        std::memcpy(at, image.data(), image.size());
        found += read_kernels({at, image.size()}).size();
        if (i % 16 == 0) {
            EXPECT_EQ(readable_from(at).size(), image.size());
        }
    }
    EXPECT_GT(found, 0u);
    munmap(memory, room + page);
}

TEST(HipKernels, AreReadWhenTheyAreLaunchedAndForgottenWithTheirModule) {
    Kernels kernels;
    std::string image = bundle({code_object(metadata({kernel("scale", scale)}))});
    int module = 0, function = 0, unknown = 0;
    kernels.add_linked(&module, image.data());
    kernels.add_kernel(&function, &module, "scale");
    kernels.add_kernel(&unknown, &module, "unknown");
    std::vector<Parameter> parameters;
    EXPECT_STREQ(kernels.name_of(&function), "scale");
    ASSERT_TRUE(kernels.find_parameters(&function, parameters));
    EXPECT_EQ(parameters, of_scale);
    EXPECT_FALSE(kernels.find_parameters(&unknown, parameters));
    const char* const name = kernels.name_of(&function);
    kernels.remove_module(&module);
    EXPECT_STREQ(name, "scale");
    EXPECT_EQ(kernels.name_of(&function), nullptr);
    EXPECT_FALSE(kernels.find_parameters(&function, parameters));
}

TEST(HipKernels, AManagedVariableIsTakenOnceItHasAnAddress) {
    Kernels kernels;
    int module = 0, other = 0;
    void *address = nullptr, *never = &other;
    kernels.add_managed({&module, &address, {"managed", 8}});
    kernels.add_managed({&other, &never, {"gone", 8}});
    kernels.remove_module(&other);
    EXPECT_TRUE(kernels.take_managed().empty());
    address = &module;
    ASSERT_EQ(kernels.take_managed().size(), 1u);
    EXPECT_TRUE(kernels.take_managed().empty());
}

}  // namespace
}  // namespace firsttouch::hip_front
