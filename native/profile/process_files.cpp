#include "profile/process_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace firsttouch {

namespace {

// Reads a file of /proc as text. Returns false if the process is gone.
template <std::size_t size>
bool read_text(int descriptor, char (&text)[size]) {
    const ssize_t length = pread(descriptor, text, size - 1, 0);
    if (length <= 0) return false;
    text[length] = '\0';
    return true;
}

// Skips `count` fields that are separated by single spaces.
const char* skip(const char* at, int count) {
    while (count-- > 0 && at != nullptr) {
        at = std::strchr(at, ' ');
        if (at != nullptr) ++at;
    }
    return at;
}

std::uint64_t number(const char* at) { return at == nullptr ? 0 : std::strtoull(at, nullptr, 10); }

// Sources: proc(5). The name in stat may hold spaces and parentheses, so fields are counted from its last ')'.
ProcessCounters counters(std::int64_t key, int statm, int stat) {
    ProcessCounters found{.key = key};
    char text[1024];
    if (!read_text(stat, text)) return found;
    const char* const after_name = std::strrchr(text, ')');
    if (after_name == nullptr || after_name[1] != ' ') return found;
    const char* const state = after_name + 2;  // field 3
    const char* const minor = skip(state, 7);  // field 10
    const char* const major = skip(minor, 2);  // field 12
    if (major == nullptr) return found;
    found.minor_faults = number(minor), found.major_faults = number(major);
    const char letter = *state;
    if (!read_text(statm, text)) return found;
    found.resident_pages = number(skip(text, 1));
    found.state = letter;
    return found;
}

}  // namespace

ProcessFiles::~ProcessFiles() {
    while (!files_.empty()) remove(files_.back().key);
}

bool ProcessFiles::add(std::int64_t key, std::int64_t pid) {
    const std::string folder = root_ + "/" + std::to_string(pid);
    const int statm = open((folder + "/statm").c_str(), O_RDONLY | O_CLOEXEC);
    const int stat = statm < 0 ? -1 : open((folder + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
    if (stat < 0) {
        if (statm >= 0) close(statm);
        return false;
    }
    files_.push_back({key, statm, stat});
    return true;
}

void ProcessFiles::remove(std::int64_t key) {
    const auto found = std::ranges::find(files_, key, &Files::key);
    if (found == files_.end()) return;
    close(found->statm);
    close(found->stat);
    files_.erase(found);
}

std::vector<ProcessCounters> ProcessFiles::read() const {
    std::vector<ProcessCounters> found;
    found.reserve(files_.size());
    for (const Files& files : files_) found.push_back(counters(files.key, files.statm, files.stat));
    return found;
}

}  // namespace firsttouch
