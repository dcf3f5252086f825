#include "device/limits.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "device/host/memory.hpp"

namespace firsttouch {
namespace {

using Number = std::optional<std::size_t>;
using Fields = std::map<std::string, std::size_t>;

constexpr std::size_t largest = INT64_MAX;
constexpr std::size_t unlimited = std::size_t{1} << 60;  // version 1 states no limit as a number close to 2^63

// The number that a text is; none if it is anything else, or does not fit into 63 bits.
Number number(const std::string& text) {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value > largest) return std::nullopt;
    return value;
}

Number number_of(const std::string& path) {
    std::ifstream file(path);
    std::string word;
    return file >> word ? number(word) : std::nullopt;
}

std::vector<std::string> words_of(const std::string& line) {
    std::istringstream text(line);
    std::vector<std::string> words;
    for (std::string word; text >> word;) words.push_back(word);
    return words;
}

// Bytes by field of a meminfo file, of the machine or of a NUMA node.
Fields meminfo(const std::string& path) {
    std::ifstream file(path);
    Fields fields;
    for (std::string line; std::getline(file, line);) {
        const auto colon = line.find(':');
        if (colon == std::string::npos) continue;
        if (!line.ends_with(" kB")) continue;
        const std::size_t value = line.find_first_not_of(' ', colon + 1), name = line.rfind(' ', colon) + 1;
        if (const Number bytes = number(line.substr(value, line.size() - 3 - value)); bytes && *bytes <= largest / 1024)
            fields[line.substr(name, colon - name)] = *bytes * 1024;
    }
    return fields;
}

Number field(const Fields& fields, const std::string& name) {
    const auto found = fields.find(name);
    return found == fields.end() ? std::nullopt : Number(found->second);
}

std::size_t sum(const Fields& fields, std::initializer_list<const char*> names) {
    std::size_t bytes = 0;
    for (const char* name : names) bytes += std::min(field(fields, name).value_or(0), largest - bytes);
    return bytes;
}

std::size_t less(std::size_t bytes, std::size_t taken) { return bytes - std::min(bytes, taken); }

bool is_real(const std::string& root) { return root.empty() || root == "/"; }

// What NUMA nodes without processors may contribute to MemAvailable. 0 if no node with processors has memory, as in
// some virtual machines: then the other nodes are the host's memory.
std::size_t memory_only_nodes_available(const std::string& root) {
    std::size_t bytes = 0;
    bool processors_have_memory = false;
    std::error_code ignored;
    for (std::filesystem::directory_iterator entry(root + "/sys/devices/system/node", ignored), end;
         !ignored && entry != end; entry.increment(ignored)) {
        std::ifstream file(entry->path() / "cpulist");
        if (!file) continue;
        const Fields fields = meminfo(entry->path() / "meminfo");
        if (std::string processors; file >> processors)
            processors_have_memory |= field(fields, "MemTotal").value_or(0) > 0;
        else
            bytes += sum(fields, {"MemFree", "Active(file)", "Inactive(file)", "KReclaimable"});
    }
    return processors_have_memory ? bytes : 0;
}

// MemAvailable (since Linux 3.14), or else MemFree and half of what the kernel may reclaim, which is less.
Number machine_available(const Fields& info) {
    if (const Number stated = field(info, "MemAvailable")) return stated;
    const Number free = field(info, "MemFree");
    if (!free) return std::nullopt;
    std::size_t cached = sum(info, {"Active(file)", "Inactive(file)"});
    if (cached == 0 && field(info, "Shmem")) cached = less(sum(info, {"Cached"}), *field(info, "Shmem"));
    return *free + (cached + sum(info, {"SReclaimable"})) / 2;
}

// A limit of setrlimit(2): of /proc/self/limits in a test's copy.
Number resource_limit(const std::string& root, __rlimit_resource which, const std::string& name) {
    if (is_real(root)) {
        struct rlimit stated {};
        const bool limited = getrlimit(which, &stated) == 0 && stated.rlim_cur != RLIM_INFINITY;
        return limited ? Number(std::min<std::size_t>(stated.rlim_cur, largest)) : std::nullopt;
    }
    std::ifstream file(root + "/proc/self/limits");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(name)) {
            const auto words = words_of(line.substr(name.size()));
            return words.empty() ? std::nullopt : number(words[0]);
        }
    return std::nullopt;
}

// A mount point with its \040 decoded.
std::string unescaped(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        unsigned value = 0;
        const char* digits = text.data() + i + 1;
        if (text[i] == '\\' && text.size() - i > 3 && std::from_chars(digits, digits + 3, value, 8).ptr == digits + 3) {
            out += static_cast<char>(value);
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

std::vector<std::string> parts_of(const std::string& path) {
    std::vector<std::string> parts;
    std::istringstream text(path);
    for (std::string part; std::getline(text, part, '/');)
        if (!part.empty() && part != ".") parts.push_back(part);
    return parts;
}

bool lists(const std::string& text, char separator, const std::string& name) {
    std::istringstream words(text);
    for (std::string word; std::getline(words, word, separator);)
        if (word == name) return true;
    return false;
}

// The path of a process's group by controller; that of version 2 by ''.
std::map<std::string, std::string> group_paths(const std::string& process, const std::string& root) {
    std::map<std::string, std::string> paths;
    std::ifstream membership(root + "/proc/" + process + "/cgroup");
    for (std::string line; std::getline(membership, line);) {
        const auto first = line.find(':'), second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string path = line.substr(second + 1);
        if (process != "self" && (path == "/.." || path.starts_with("/../"))) continue;
        std::istringstream controllers(line.substr(first + 1, second - first - 1) + ",");
        for (std::string name; std::getline(controllers, name, ',');) paths[name] = path;
    }
    return paths;
}

struct GroupMount {
    int version;
    std::string root, point;
};

std::vector<GroupMount> group_mounts(const std::string& controller, const std::string& root) {
    std::vector<GroupMount> mounts;
    bool any = false;
    std::ifstream list(root + "/proc/self/mountinfo");
    for (std::string line; std::getline(list, line);) {
        const auto separator = line.find(" - ");
        if (separator == std::string::npos) continue;
        const auto mount = words_of(line.substr(0, separator)), described = words_of(line.substr(separator + 3));
        if (mount.size() < 5 || described.size() < 3) continue;
        const int version = described[0] == "cgroup2" ? 2 : described[0] == "cgroup" ? 1 : 0;
        any |= version > 0;
        if (version == 2 || (version == 1 && lists(described[2], ',', controller)))
            mounts.push_back({version, unescaped(mount[3]), unescaped(mount[4])});
    }
    if (any) return mounts;
    const std::string usual = "/sys/fs/cgroup";
    return {{2, "/", usual}, {2, "/", usual + "/unified"}, {1, "/", usual + "/" + controller}};
}

bool has_controller(const std::string& folder, const std::string& controller) {
    std::ifstream file(folder + "/cgroup.controllers");
    for (std::string name; file >> name;)
        if (name == controller) return true;
    std::error_code ignored;
    return std::filesystem::exists(folder + "/" + controller + ".max", ignored);
}

// The number in a file of a device.
Number of_device(std::string pci_bus, const std::string& file, const std::string& root) {
    for (char& c : pci_bus)
        if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    return pci_bus.empty() ? std::nullopt : number_of(root + "/sys/bus/pci/devices/" + pci_bus + "/" + file);
}

}  // namespace

std::vector<std::pair<int, std::string>> group_folders(const std::string& controller, const std::string& process,
                                                       const std::string& root) {
    auto paths = group_paths(process, root);
    std::vector<std::pair<int, std::string>> found;
    for (const GroupMount& mount : group_mounts(controller, root)) {
        const auto path = paths.find(mount.version == 2 ? "" : controller);
        if (path == paths.end()) continue;
        auto parts = parts_of(path->second);
        // In a container, the mount may begin at the container's own group.
        const auto above = parts_of(mount.root);
        if (parts.size() >= above.size() && std::equal(above.begin(), above.end(), parts.begin()))
            parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(above.size()));
        std::erase(parts, "..");
        std::vector<std::string> folders = {mount.point};
        for (const auto& part : parts) folders.push_back(folders.back() + "/" + part);
        std::ranges::reverse(folders);
        const bool controlled = std::ranges::any_of(
            folders, [&](const std::string& folder) { return has_controller(root + folder, controller); });
        if (mount.version == 1 || controlled)
            for (const auto& folder : folders) found.emplace_back(mount.version, folder);
    }
    return found;
}

GroupLimits group_limits(const std::string& root) {
    // Kept, because the list of mounts is slow to read and every allocation asks.
    static const auto own = group_folders("memory");
    GroupLimits least;
    std::optional<int> seen;
    for (const auto& [version, name] : is_real(root) ? own : group_folders("memory", "self", root)) {
        seen = version;
        const std::string folder = root + name;
        const auto limited = [](Number bytes) { return bytes && *bytes > 0 && *bytes < unlimited ? bytes : Number(); };
        GroupLimits group;
        group.limit = limited(number_of(folder + (version == 2 ? "/memory.max" : "/memory.limit_in_bytes")));
        group.high = limited(number_of(folder + "/memory.high"));
        if (!group.limit && !group.high) continue;
        group.used = number_of(folder + (version == 2 ? "/memory.current" : "/memory.usage_in_bytes"));
        std::ifstream statistics(folder + "/memory.stat");
        for (std::string key, value; statistics >> key >> value;)
            if (key == (version == 2 ? "inactive_file" : "total_inactive_file")) group.reclaimable = number(value);
        const std::size_t bound = std::min(group.limit.value_or(largest), group.high.value_or(largest));
        group.headroom = less(bound, less(group.used.value_or(0), group.reclaimable.value_or(0)));
        if (!least.headroom || *group.headroom < *least.headroom) least = group;
    }
    least.version = seen;
    return least;
}

HostMemory host_memory(const std::string& root) {
    const Fields info = meminfo(root + "/proc/meminfo");
    HostMemory memory{.total = field(info, "MemTotal"), .available = machine_available(info)};
    struct sysinfo system {};
    if (is_real(root) && sysinfo(&system) == 0) {  // without /proc; the page cache counts as used
        if (!memory.total) memory.total = std::size_t{system.totalram} * system.mem_unit;
        if (!memory.available) memory.available = std::size_t{system.freeram} * system.mem_unit;
    }
    if (memory.total && memory.available) memory.available = std::min(*memory.available, *memory.total);
    memory.usable = memory.available ? less(*memory.available, memory_only_nodes_available(root)) : 0;
    memory.bound = memory.available ? "free memory" : "free memory, which the kernel does not state";
    const auto bound_by = [&](Number left, const char* name) {
        if (left && *left < memory.usable) memory.usable = *left, memory.bound = name;
    };
    bound_by(group_limits(root).headroom, "what its control group may still use");
    const Number committable = field(info, "CommitLimit"), committed = field(info, "Committed_AS");
    if (number_of(root + "/proc/sys/vm/overcommit_memory") == 2 && committable)
        bound_by(less(*committable, committed.value_or(0)), "what the commit limit (vm.overcommit_memory=2) leaves");
    const Number space = resource_limit(root, RLIMIT_AS, "Max address space");
    const Number data = resource_limit(root, RLIMIT_DATA, "Max data size");
    if (!space && !data) return memory;
    std::ifstream statm(root + "/proc/self/statm");
    std::size_t pages[6] = {};  // the first is the address space, the last is data and stack
    for (auto& count : pages)
        if (!(statm >> count)) count = 0;
    if (space) bound_by(less(*space, pages[0] * base_page), "what the limit of address space (ulimit -v) leaves");
    if (data) bound_by(less(*data, pages[5] * base_page), "what the limit of data (ulimit -d) leaves");
    return memory;
}

std::size_t host_available(const std::string& root) { return host_memory(root).usable; }

std::size_t host_available_near(const std::string& pci_bus, const std::string& root) {
    const std::size_t usable = host_available(root);
    const Number node = of_device(pci_bus, "numa_node", root);
    if (!node) return usable;
    const Fields fields = meminfo(root + "/sys/devices/system/node/node" + std::to_string(*node) + "/meminfo");
    if (!field(fields, "MemFree")) return usable;
    return std::min(usable, sum(fields, {"MemFree", "Active(file)", "Inactive(file)", "KReclaimable"}));
}

bool huge_pages_denied(const std::string& root) {
    std::ifstream status(root + "/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("THP_enabled:")) return words_of(line).back() == "0";
    if (!is_real(root)) return false;
    return prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1;  // before Linux 5.0
}

std::optional<std::size_t> vram_set_aside(const std::string& pci_bus, const std::string& root) {
    return of_device(pci_bus, "mem_info_vram_total", root);
}

}  // namespace firsttouch
