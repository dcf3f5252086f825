#include "host/activity.hpp"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "host/clock.hpp"

namespace firsttouch {
namespace {

// Opens the event for one thread and those that it starts. Returns a negative number if that is impossible.
int open_tlb_loads(int thread, bool in_kernel) {
    perf_event_attr attributes{};
    attributes.size = sizeof(attributes);
    attributes.type = PERF_TYPE_HW_CACHE;
    attributes.config =
        PERF_COUNT_HW_CACHE_DTLB | (PERF_COUNT_HW_CACHE_OP_READ << 8) | (PERF_COUNT_HW_CACHE_RESULT_ACCESS << 16);
    attributes.inherit = attributes.exclude_hv = 1;
    attributes.exclude_kernel = !in_kernel;
    attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    return static_cast<int>(syscall(SYS_perf_event_open, &attributes, thread, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

// In the kernel too if that is allowed for this thread.
bool counts_in_kernel() {
    const int event = open_tlb_loads(0, true);
    if (event >= 0) close(event);
    return event >= 0;
}

// All interrupts of all processors since the machine started. Other lines of the file count errors.
double interrupts() {
    double sum = 0;
    std::ifstream file("/proc/interrupts");
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string name;
        if (!(words >> name) || name.back() != ':' || name == "ERR:" || name == "MIS:") continue;
        for (double count = 0; words >> count;) sum += count;
    }
    return sum;
}

}  // namespace

std::string why_no_tlb_loads() {
    const int event = open_tlb_loads(0, counts_in_kernel());
    if (event >= 0) {
        close(event);
        return "";
    }
    const std::string why = std::strerror(errno);
    if (errno == EACCES || errno == EPERM || errno == ENOSYS)
        return "perf_event_open is not allowed here (" + why + "; kernel.perf_event_paranoid, seccomp)";
    return "this processor or virtual machine counts no dTLB-loads (" + why + ")";
}

HostActivity::HostActivity() : in_kernel_(counts_in_kernel()) {
    std::error_code ignored;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
        const int event = open_tlb_loads(std::stoi(thread.path().filename().string()), in_kernel_);
        if (event >= 0) events_.push_back(event);
    }
    for (const int event : events_) ioctl(event, PERF_EVENT_IOC_RESET, 0);
    interrupts_ = interrupts();
    start_ = now();
}

HostActivity::~HostActivity() {
    for (const int event : events_) close(event);
}

std::map<std::string, double> HostActivity::end(double bytes) {
    const double seconds = now() - start_, more = interrupts() - interrupts_;
    std::map<std::string, double> counters;
    // Processors that were switched off in between take their interrupts with them.
    if (interrupts_ > 0 && more >= 0 && seconds > 0) counters["interrupts_per_s"] = more / seconds;
    double loads = 0;
    bool counted = false;
    for (const int event : events_) {
        struct {
            std::uint64_t value, enabled, running;
        } reading{};
        if (read(event, &reading, sizeof(reading)) != sizeof(reading) || reading.running == 0) continue;
        loads += static_cast<double>(reading.value) * static_cast<double>(reading.enabled) /
                 static_cast<double>(reading.running);
        counted = true;
    }
    if (counted && seconds > 0) {
        counters["tlb_loads_in_kernel"] = in_kernel_;
        counters["tlb_loads_per_s"] = loads / seconds;
        counters["tlb_loads_per_mib"] = loads / (bytes / (1024 * 1024));
    }
    return counters;
}

}  // namespace firsttouch
