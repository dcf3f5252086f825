// Lines, names and files of Python, from bytes. Whole interpreters are read by tests/profile/test_python_lines.py.
#include <gtest/gtest.h>

#include <random>

#include "profile/python_frames.hpp"

namespace firsttouch::python {
namespace {

TEST(PythonFrames, AFileOfTheUserIsToldFromLibraries) {
    for (const char* file :
         {"/v/lib/python3.12/site-packages/torch/a.py", "/usr/lib/python3/dist-packages/a.py",
          "/usr/lib64/python3.9/json/a.py", "/usr/lib/python3.13t/a.py", "<frozen importlib._bootstrap>"})
        EXPECT_TRUE(is_of_a_library(file)) << file;
    for (const char* file : {"/home/me/train.py", "train.py", "<string>", "/home/me/python3.12/a.py",
                             "/home/lib/python3.12.py", "/home/me/site-packages.py", ""})
        EXPECT_FALSE(is_of_a_library(file)) << file;
}

TEST(PythonFrames, TheUsersFrameIsTheInnermostThatTheUserWroteOrRan) {
    const std::string library = "/v/site-packages/a.py", user = "/me/train.py", made = "<string>";
    EXPECT_EQ(user_frame({user}), 0u);
    EXPECT_EQ(user_frame({library, user, library}), 1u);
    EXPECT_EQ(user_frame({made, made, user}), 0u);
    EXPECT_EQ(user_frame({library, made, user}), 1u);
    EXPECT_EQ(user_frame({made, library, user}), 2u);  // made by the library
    EXPECT_EQ(user_frame({library, made, library}), 1u);
    EXPECT_EQ(user_frame({library, library}), std::nullopt);
    EXPECT_EQ(user_frame({}), std::nullopt);
}

TEST(PythonFrames, TextIsUtf8AndBytesOfFileNamesAreThemselves) {
    EXPECT_EQ(utf8("d\xfcr", 1), "d\u00fcr");
    EXPECT_EQ(utf8(std::string("\xe5\x65\x2c\x67", 4), 2), "\u65e5\u672c");
    EXPECT_EQ(utf8(std::string("\x00\xf6\x01\x00", 4), 4), "\U0001f600");
    EXPECT_EQ(utf8(std::string("\xff\xdc", 2), 2), "\xff");  // surrogateescape
    EXPECT_EQ(utf8("abc", 2), "\u6261");                     // cut
}

TEST(PythonFrames, LinesOfBothKindsOfTables) {
    const std::string pairs("\x04\x01\x02\x80\x04\x03\x06\xfe", 8);  // 4 bytes of line 11, 2 of none, 4 of 14, 6 of 12
    const std::pair<int, int> expected[] = {{0, 11}, {3, 11}, {4, 0}, {6, 14}, {10, 12}, {15, 12}, {16, 0}};
    for (const auto& [at, line] : expected) EXPECT_EQ(find_line(pairs, 10, 10, at), line) << at;
    // One unit each: the same line, one further with columns, none, +20 without columns, -1 in full.
    const std::string table("\x80\x00\xd8\x00\x00\xf8\xe8\x28\xf0\x03\x00\x01\x01", 13);
    const std::pair<int, int> lines[] = {{0, 10}, {2, 11}, {4, 0}, {6, 31}, {8, 30}, {10, 0}};
    for (const auto& [at, line] : lines) EXPECT_EQ(find_line(table, 13, 10, at), line) << at;
}

TEST(PythonFrames, BrokenTablesAreReadToTheirEnd) {
    std::mt19937 random(1);
    for (int i = 0; i < 100'000; ++i) {
        std::string table(random() % 40, '\0');
        for (char& byte : table) byte = static_cast<char>(random());
        find_line(table, 10 + int(random() % 4), 1, int(random() % 200));
    }
}

TEST(PythonFrames, AVersionThatWasNotTriedIsUnknown) {
    EXPECT_TRUE(layout_of(12, {}));
    for (const int minor : {0, 9, 13, 14}) EXPECT_FALSE(layout_of(minor, {})) << minor;
    Table table{};
    std::memcpy(table.data(), "xdebugpy", 8);
    table[1] = 0x030d00f0;
    EXPECT_TRUE(layout_of(13, table));
    table[2] = 1;  // without the GIL
    EXPECT_FALSE(layout_of(13, table));
}

}  // namespace
}  // namespace firsttouch::python
