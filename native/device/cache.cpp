#include "device/cache.hpp"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace firsttouch {
namespace {

std::uint64_t fnv1a(const std::string& text, std::uint64_t hash) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
    return hash;
}

std::filesystem::path folder() {
    if (const char* chosen = std::getenv("FIRSTTOUCH_CACHE"); chosen != nullptr && *chosen != '\0') return chosen;
    if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
        return std::filesystem::path(cache) / "firsttouch";
    if (const char* home = std::getenv("HOME"); home != nullptr)
        return std::filesystem::path(home) / ".cache" / "firsttouch";
    return {};
}

}  // namespace

std::string cached(const std::string& key, const std::function<std::string()>& make) {
    char name[40];
    std::snprintf(name, sizeof(name), "%016llx%016llx",
                  static_cast<unsigned long long>(fnv1a(key, 0xCBF29CE484222325ull)),
                  static_cast<unsigned long long>(fnv1a(key, 0x9AE16A3B2F90404Full)));
    const std::filesystem::path directory = folder();
    if (directory.empty()) return make();
    const std::filesystem::path path = directory / name;
    if (std::ifstream file(path, std::ios::binary); file) {
        std::ostringstream content;
        content << file.rdbuf();
        if (!content.str().empty()) return content.str();
    }
    std::string value = make();
    std::error_code ignored;
    std::filesystem::create_directories(directory, ignored);
    const std::filesystem::path temporary = path.string() + "." + std::to_string(getpid());
    if (std::ofstream file(temporary, std::ios::binary);
        file && file.write(value.data(), static_cast<std::streamsize>(value.size()))) {
        file.close();
        std::filesystem::rename(temporary, path, ignored);
    }
    if (ignored) std::filesystem::remove(temporary, ignored);
    return value;
}

}  // namespace firsttouch
