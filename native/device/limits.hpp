// The limits of this process's memory as the kernel states them: the one reader for the guard and for the facts of a
// machine. `root` replaces / in tests. Nothing here throws, and what cannot be read is never taken for unlimited.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace firsttouch {

// (version, folder) of a process's control group and of each parent group, innermost first, in every mounted hierarchy
// that has the controller. Without a list of mounts, those of the usual places. A path that begins with /.. leads out
// of this process's namespace: its own limits still are those of the groups that are visible, another process's group
// is not among them. Source: Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst of Linux.
std::vector<std::pair<int, std::string>>
group_folders(const std::string& controller, const std::string& process = "self", const std::string& root = "");

// Limits of the group, of this process's and their parents, that leaves least. high: the limit of version 2 above which
// the kernel throttles. reclaimable: the part of `used` that is inactive page cache. No headroom: no limit.
struct GroupLimits {
    std::optional<int> version;
    std::optional<std::size_t> limit, high, used, reclaimable, headroom;
};
GroupLimits group_limits(const std::string& root = "");

// total and available: of the whole machine; available is MemAvailable, or a lower bound where the kernel does not
// state it. usable: what this process may use now, the least of all limits. bound: which of them that is.
struct HostMemory {
    std::optional<std::size_t> total, available;
    std::size_t usable = 0;
    std::string bound;
};
HostMemory host_memory(const std::string& root = "");

// Bytes of host memory that this process may use now. NUMA nodes without processors do not count: they may be a GPU's
// memory, as on Grace Hopper, which is charged to the device.
std::size_t host_available(const std::string& root = "");

// Bytes available for a device whose memory is the host's: on a machine with several nodes of memory, on its own one.
std::size_t host_available_near(const std::string& pci_bus, const std::string& root = "");

// Whether transparent huge pages are switched off for this process alone, even where it asks for them: by
// PR_SET_THP_DISABLE of prctl(2), which a process inherits from the one that started it.
bool huge_pages_denied(const std::string& root = "");

// Bytes that the firmware has set aside as memory of an AMD GPU, or none if its driver does not say.
std::optional<std::size_t> vram_set_aside(const std::string& pci_bus, const std::string& root = "");

}  // namespace firsttouch
