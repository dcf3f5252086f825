#include "device/cache.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace firsttouch {
namespace {

// FNV-1a, 64 bits.
std::uint64_t fnv1a(const std::string& text, std::uint64_t hash = 0xCBF29CE484222325ull) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
    return hash;
}

std::string hex(std::uint64_t value) {
    char digits[17];
    std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(value));
    return digits;
}

std::filesystem::path cache_directory() {
    if (const char* chosen = std::getenv("FIRSTTOUCH_CACHE"); chosen != nullptr && *chosen != '\0') return chosen;
    if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
        return std::filesystem::path(cache) / "firsttouch";
    if (const char* home = std::getenv("HOME"); home != nullptr)
        return std::filesystem::path(home) / ".cache" / "firsttouch";
    return {};
}

// The first two lines of a file: the format, then size and checksum of the content.
std::string header_of(const std::string& content) {
    return "firsttouch cache 1\n" + std::to_string(content.size()) + " " + hex(fnv1a(content)) + "\n";
}

std::optional<std::string> load(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::nullopt;
    std::ostringstream stream;
    stream << file.rdbuf();
    const std::string text = stream.str();
    const auto first = text.find('\n');
    const auto second = first == std::string::npos ? first : text.find('\n', first + 1);
    if (second == std::string::npos) return std::nullopt;
    std::string content = text.substr(second + 1);
    if (content.empty() || text.compare(0, second + 1, header_of(content)) != 0) return std::nullopt;
    return content;
}

bool write_all(int descriptor, const std::string& bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
        const ssize_t written = write(descriptor, bytes.data() + done, bytes.size() - done);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        done += static_cast<std::size_t>(written);
    }
    return true;
}

// Writes, syncs and renames a temporary file, so that other processes see a complete file or none. A failure, such as a
// full disk, leaves no file behind.
void store(const std::filesystem::path& path, const std::string& content) {
    std::string temporary = path.string() + ".XXXXXX";
    const int descriptor = mkostemp(temporary.data(), O_CLOEXEC);
    if (descriptor < 0) return;
    const bool written = write_all(descriptor, header_of(content) + content) && fsync(descriptor) == 0;
    const bool closed = close(descriptor) == 0;
    if (!written || !closed || std::rename(temporary.c_str(), path.c_str()) != 0) unlink(temporary.c_str());
}

}  // namespace

std::string cached(const std::string& key, const std::function<std::string()>& make) {
    const std::filesystem::path directory = cache_directory();
    if (directory.empty()) return make();
    // The suffix is the version of the file format. Earlier releases use names without a suffix and would load the
    // header as part of the kernel.
    const std::filesystem::path path = directory / (hex(fnv1a(key)) + hex(fnv1a(key, 0x9AE16A3B2F90404Full)) + ".1");
    if (std::optional<std::string> content = load(path)) return *std::move(content);
    std::string value = make();
    std::error_code ignored;
    std::filesystem::create_directories(directory, ignored);
    store(path, value);
    return value;
}

}  // namespace firsttouch
