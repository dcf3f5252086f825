// What the injected library wrote into the files of a journal.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "profile/inject/core/journal.hpp"

namespace firsttouch::inject {

struct Read {
    FileHeader header{};
    std::vector<std::pair<Kind, std::string>> records;
};

inline Read read_journal(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string all(std::istreambuf_iterator<char>(file), {});
    Read read;
    if (all.size() < sizeof read.header) return read;
    std::memcpy(&read.header, all.data(), sizeof read.header);
    EXPECT_EQ(read.header.magic, magic);
    for (std::size_t at = read.header.header_bytes; at + sizeof(RecordHeader) <= all.size();) {
        RecordHeader record;
        std::memcpy(&record, all.data() + at, sizeof record);
        if (record.size == 0) break;
        const std::size_t in_chunk = (at - read.header.header_bytes) % read.header.chunk_bytes;
        EXPECT_LE(in_chunk + record.size, read.header.chunk_bytes);
        if (record.kind != Kind::padding)
            read.records.emplace_back(record.kind, all.substr(at + sizeof record, record.size - sizeof record));
        at += record.size;
    }
    return read;
}

// The contents of the records of a kind in all files of a folder.
inline std::vector<std::string> records_of(const std::filesystem::path& folder, Kind kind) {
    std::vector<std::string> contents;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        for (auto& [of, content] : read_journal(entry.path()).records)
            if (of == kind) contents.push_back(std::move(content));
    return contents;
}

template <class Fixed>
Fixed start_of(const std::string& content) {
    Fixed fixed;
    std::memcpy(&fixed, content.data(), sizeof fixed);
    return fixed;
}

}  // namespace firsttouch::inject
