#include "device/guard.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "device/limits.hpp"

namespace firsttouch {
namespace {

constexpr std::size_t unlimited = SIZE_MAX;
constexpr std::size_t MiB = 1024 * 1024;

std::string format_size(std::size_t bytes) {
    static const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(bytes);
    int unit = 0;
    for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
    std::ostringstream text;
    text.precision(4);
    text << value << ' ' << units[unit];
    return text.str();
}

void refuse(const char* kind, std::size_t bytes, std::size_t held, std::size_t limit, const std::string& source) {
    throw GuardRefused(std::string("needs ") + format_size(bytes) + " of " + kind + " memory with " +
                       format_size(held) + " already held; the limit is " + format_size(limit) + " (" + source + ")");
}

// Bytes left for other processes.
std::size_t reserve_of(std::size_t bytes) { return std::max<std::size_t>(512 * MiB, bytes / 50); }

std::size_t without_reserve(std::size_t bytes) { return bytes - std::min(bytes, reserve_of(bytes)); }

// The bytes that a text such as "1.5GiB", "64 mb" or "2^30" states; 0 if it is not a size. parse_size of
// src/firsttouch/base/units.py accepts the same: a whole number of bytes from 1 to 2^63 - 1, in at most 40 characters.
std::size_t parse_size(const std::string& text) {
    static const std::regex power("2\\^([0-9]{1,2})"),
        decimal("([0-9]+)(?:\\.([0-9]+))?[ \\t\\n\\r\\f\\v]*([KMGT]I?)?B?", std::regex::icase);
    constexpr std::uint64_t most = INT64_MAX;
    const char* space = " \t\n\r\f\v";
    const std::size_t first = std::min(text.find_first_not_of(space), text.size());
    const std::string size = text.substr(first, text.find_last_not_of(space) + 1 - first);
    std::smatch parts;
    if (size.size() > 40) return 0;
    if (std::regex_match(size, parts, power)) {
        const int exponent = std::stoi(parts[1]);
        return exponent < 63 ? std::size_t{1} << exponent : 0;
    }
    if (!std::regex_match(size, parts, decimal)) return 0;
    std::uint64_t scale = 1;
    if (parts[3].length() > 0)
        for (char unit = static_cast<char>(*parts[3].first & ~0x20); const char each : {'K', 'M', 'G', 'T'}) {
            scale *= parts[3].length() == 2 ? 1024 : 1000;
            if (each == unit) break;
        }
    const std::string fraction = parts[2];
    std::uint64_t bytes = 0;  // of the fraction, from its last digit on: whole after each one, if it is so after all
    for (auto digit = fraction.rbegin(); digit != fraction.rend(); ++digit) {
        bytes += static_cast<std::uint64_t>(*digit - '0') * scale;
        if (bytes % 10 != 0) return 0;
        bytes /= 10;
    }
    try {
        const std::uint64_t whole = std::stoull(parts[1]);
        return whole <= (most - bytes) / scale ? whole * scale + bytes : 0;
    } catch (const std::out_of_range&) {
        return 0;
    }
}

}  // namespace

std::size_t device_reserve(std::size_t total) { return std::min(reserve_of(total), total / 8); }

Guard& Guard::instance() {
    static Guard guard;
    return guard;
}

std::size_t Guard::environment_limit(const char* variable) {
    const char* text = std::getenv(variable);
    if (text == nullptr || *text == '\0') return unlimited;
    const std::size_t size = parse_size(text);
    if (size == 0) throw std::invalid_argument(std::string(variable) + "='" + text + "' is not a size such as 24GiB");
    return size;
}

bool Guard::oversubscription_allowed() {
    const char* text = std::getenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION");
    return text != nullptr && std::string(text) == "1";
}

std::size_t Guard::host_limit() {
    if (bound_at_start_.empty()) {
        const HostMemory memory = host_memory();
        limit_at_start_ = without_reserve(memory.usable);
        bound_at_start_ = memory.bound;
    }
    return std::min(limit_at_start_, environment_limit("FIRSTTOUCH_MAX_HOST"));
}

void Guard::add(const Charge& charge, const std::string& device, const DeviceMemory& memory) {
    const std::lock_guard lock(mutex_);
    if (charge.host > 0) {
        const std::size_t limit = host_limit();
        const std::size_t user_limit = environment_limit("FIRSTTOUCH_MAX_HOST");
        if (host_ + charge.host > limit || host_ + charge.host < host_)
            refuse("host", charge.host, host_, limit,
                   user_limit == limit ? "FIRSTTOUCH_MAX_HOST" : bound_at_start_ + " at the start, less a reserve");
        const HostMemory memory_now = host_memory();
        const std::size_t now = without_reserve(memory_now.usable);
        if (charge.host > now) refuse("host", charge.host, host_, now, memory_now.bound + " now, less a reserve");
    }
    Charge& held = held_[device];
    const auto beside_ballast = free_beside_ballast_.find(device);
    const std::size_t free =
        beside_ballast == free_beside_ballast_.end() ? memory.free : std::min(memory.free, beside_ballast->second);
    if (charge.device > 0) {
        const std::size_t user_limit = environment_limit("FIRSTTOUCH_MAX_DEVICE");
        if (user_limit != unlimited && held.device + charge.device > user_limit)
            refuse("device", charge.device, held.device, user_limit, "FIRSTTOUCH_MAX_DEVICE");
        const bool allowed = charge.managed > 0 && oversubscription_allowed();
        const std::size_t now = allowed ? unlimited : free - std::min(free, device_reserve(memory.total));
        const std::string source = "free memory of " + device + " now, less a reserve";
        if (charge.device > now) refuse("device", charge.device, held.device, now, source);
        // Managed memory occupies device memory only when it is touched there, so allocations not yet touched count
        // too.
        if (charge.managed > 0 && held.managed + charge.managed > now)
            refuse("managed", charge.managed, held.managed, now, source);
    }
    if (charge.managed > 0) {
        const std::size_t user_limit = environment_limit("FIRSTTOUCH_MAX_MANAGED");
        if (user_limit != unlimited && held.managed + charge.managed > user_limit)
            refuse("managed", charge.managed, held.managed, user_limit, "FIRSTTOUCH_MAX_MANAGED");
    }
    host_ += charge.host;
    held.host += charge.host;
    held.device += charge.device;
    held.managed += charge.managed;
    held.ballast += charge.ballast;
    if (charge.ballast > 0) free_beside_ballast_[device] = free - std::min(free, charge.ballast);
}

void Guard::remove(const Charge& charge, const std::string& device) noexcept {
    const std::lock_guard lock(mutex_);
    host_ -= charge.host;
    Charge& held = held_[device];
    held.host -= charge.host;
    held.device -= charge.device;
    held.managed -= charge.managed;
    held.ballast -= charge.ballast;
    if (held.ballast == 0) free_beside_ballast_.erase(device);
}

Charge Guard::held(const std::string& device) {
    const std::lock_guard lock(mutex_);
    return held_[device];
}

}  // namespace firsttouch
