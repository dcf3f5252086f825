#include "device/guard.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace firsttouch {
namespace {

constexpr std::size_t unlimited = SIZE_MAX;
constexpr std::size_t MiB = 1024 * 1024;

std::size_t read_bytes(const std::string& path) {
    std::ifstream file(path);
    std::string word;
    if (!(file >> word) || word == "max") return unlimited;
    try {
        return std::stoull(word);
    } catch (const std::exception&) {
        return unlimited;
    }
}

std::size_t meminfo_available(const std::string& root) {
    std::ifstream file(root + "/proc/meminfo");
    for (std::string line; std::getline(file, line);)
        if (line.rfind("MemAvailable:", 0) == 0) return std::stoull(line.substr(13)) * 1024;
    return unlimited;
}

// What each cgroup from ours up to the root leaves; page cache that can be reclaimed is not counted as used.
std::size_t cgroup_available(const std::string& root) {
    std::size_t least = unlimited;
    std::ifstream membership(root + "/proc/self/cgroup");
    for (std::string line; std::getline(membership, line);) {
        const auto second = line.find(':', line.find(':') + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(line.find(':') + 1, second - line.find(':') - 1);
        const bool v2 = controllers.empty();
        if (!v2 && controllers.find("memory") == std::string::npos) continue;
        const std::string base = root + (v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
        for (std::string path = line.substr(second + 1);; path = path.substr(0, path.rfind('/'))) {
            if (path == "/") path.clear();
            const std::string folder = base + path;
            const std::size_t limit = read_bytes(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
            if (limit < unlimited / 4) {
                std::size_t used = read_bytes(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
                std::ifstream statistics(folder + "/memory.stat");
                std::string key;
                std::size_t value = 0;
                while (statistics >> key >> value)
                    if (key == (v2 ? "inactive_file" : "total_inactive_file") && used != unlimited)
                        used -= std::min(used, value);
                if (used != unlimited) least = std::min(least, limit - std::min(limit, used));
            }
            if (path.empty()) break;
        }
    }
    return least;
}

std::string human(std::size_t bytes) {
    static const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(bytes);
    int unit = 0;
    for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
    std::ostringstream text;
    text.precision(4);
    text << value << ' ' << units[unit];
    return text.str();
}

void refuse(const char* what, std::size_t wanted, std::size_t alive, std::size_t limit, const std::string& why) {
    throw GuardRefused(std::string("needs ") + human(wanted) + " of " + what + " memory with " + human(alive) +
                       " already held; the limit is " + human(limit) + " (" + why + ")");
}

// Memory that is always left to other processes.
std::size_t reserve_of(std::size_t total) { return std::max<std::size_t>(512 * MiB, total / 50); }
std::size_t less_reserve(std::size_t bytes) { return bytes - std::min(bytes, reserve_of(bytes)); }

}  // namespace

std::size_t host_available(const std::string& root) {
    return std::min(meminfo_available(root), cgroup_available(root));
}

Guard& Guard::instance() {
    static Guard guard;
    return guard;
}

std::size_t Guard::environment_limit(const char* variable) {
    const char* text = std::getenv(variable);
    if (text == nullptr || *text == '\0') return unlimited;
    const std::string value(text);
    const std::invalid_argument no_size(std::string(variable) + "='" + value + "' is not a size such as 24GiB");
    const bool power = value.rfind("2^", 0) == 0;
    const std::string digits = value.substr(power ? 2 : 0);
    // Digits and one point alone: stod would take "inf", "nan", signs, exponents and hexadecimal numbers too.
    std::size_t end = digits.find_first_not_of("0123456789.");
    if (end == std::string::npos) end = digits.size();
    if (end == 0 || digits[0] == '.' || std::count(digits.begin(), digits.begin() + static_cast<long>(end), '.') > 1)
        throw no_size;
    double number = 0;
    try {
        number = std::stod(digits.substr(0, end));
    } catch (const std::exception&) {
        throw no_size;
    }
    if (power) {
        if (end != digits.size() || number != std::floor(number) || number > 63) throw no_size;
        return std::size_t{1} << static_cast<int>(number);
    }
    std::string unit;
    for (; end < digits.size(); ++end)
        if (!std::isspace(static_cast<unsigned char>(digits[end])))
            unit += static_cast<char>(std::toupper(static_cast<unsigned char>(digits[end])));
    if (!unit.empty() && unit.back() == 'B') unit.pop_back();
    static const std::map<std::string, double> scales = {
        {"", 1},           {"K", 1e3},           {"M", 1e6},
        {"G", 1e9},        {"T", 1e12},          {"KI", 1024.0},
        {"MI", 1048576.0}, {"GI", 1073741824.0}, {"TI", 1099511627776.0}};
    const auto scale = scales.find(unit);
    if (scale == scales.end() || number * scale->second >= 0x1p64 || number * scale->second < 1) throw no_size;
    return static_cast<std::size_t>(number * scale->second);
}

bool Guard::oversubscription_allowed() {
    const char* text = std::getenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION");
    return text != nullptr && std::string(text) == "1";
}

std::size_t Guard::host_limit() {
    if (at_start_ == 0) at_start_ = less_reserve(host_available());
    return std::min(at_start_, environment_limit("FIRSTTOUCH_MAX_HOST"));
}

void Guard::take(const Charge& charge, const std::string& device, const DeviceMemory& memory) {
    const std::lock_guard lock(mutex_);
    if (charge.host > 0) {
        const std::size_t limit = host_limit();
        const std::size_t asked = environment_limit("FIRSTTOUCH_MAX_HOST");
        if (host_ + charge.host > limit || host_ + charge.host < host_)
            refuse("host", charge.host, host_, limit,
                   asked == limit ? "FIRSTTOUCH_MAX_HOST" : "what was free at the start less a reserve");
        const std::size_t now = less_reserve(host_available());
        if (charge.host > now) refuse("host", charge.host, host_, now, "what is free now less a reserve");
    }
    Charge& held = held_[device];
    if (charge.device > 0) {
        const std::size_t asked = environment_limit("FIRSTTOUCH_MAX_DEVICE");
        if (asked != unlimited && held.device + charge.device > asked)
            refuse("device", charge.device, held.device, asked, "FIRSTTOUCH_MAX_DEVICE");
        const bool may_exceed = charge.managed > 0 && oversubscription_allowed();
        const std::size_t now = may_exceed ? unlimited : memory.free - std::min(memory.free, reserve_of(memory.total));
        if (charge.device > now)
            refuse("device", charge.device, held.device, now, "what " + device + " has free now less a reserve");
        // Managed memory takes device memory only once it is touched there: count what is promised too.
        if (charge.managed > 0 && held.managed + charge.managed > now)
            refuse("managed", charge.managed, held.managed, now, "what " + device + " has free now less a reserve");
    }
    if (charge.managed > 0) {
        const std::size_t asked = environment_limit("FIRSTTOUCH_MAX_MANAGED");
        if (asked != unlimited && held.managed + charge.managed > asked)
            refuse("managed", charge.managed, held.managed, asked, "FIRSTTOUCH_MAX_MANAGED");
    }
    host_ += charge.host;
    held.host += charge.host;
    held.device += charge.device;
    held.managed += charge.managed;
}

void Guard::give(const Charge& charge, const std::string& device) noexcept {
    const std::lock_guard lock(mutex_);
    host_ -= charge.host;
    Charge& held = held_[device];
    held.host -= charge.host;
    held.device -= charge.device;
    held.managed -= charge.managed;
}

Charge Guard::held(const std::string& device) {
    const std::lock_guard lock(mutex_);
    return held_[device];
}

}  // namespace firsttouch
