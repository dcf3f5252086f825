// Hardware counters of the CPU around a triad, by perf_event_open(2).
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "host/clock.hpp"
#include "host/loops.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

struct CounterEvent {
    const char* name;
    std::uint32_t type;
    std::uint64_t config;
};
constexpr CounterEvent events[] = {
    {"dtlb-load-misses", PERF_TYPE_HW_CACHE,
     PERF_COUNT_HW_CACHE_DTLB | (PERF_COUNT_HW_CACHE_OP_READ << 8) | (PERF_COUNT_HW_CACHE_RESULT_MISS << 16)},
    {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
};

// Counts one event of the calling thread, in user mode.
class Counter {
  public:
    explicit Counter(const std::string& name) {
        perf_event_attr attributes{};
        attributes.size = sizeof(attributes);
        attributes.disabled = 1;
        attributes.exclude_kernel = attributes.exclude_hv = 1;
        attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
        const CounterEvent* chosen = nullptr;
        for (const CounterEvent& event : events)
            if (name == event.name) chosen = &event;
        if (chosen == nullptr)
            throw std::invalid_argument("'" + name + "' is no event; accepted: dtlb-load-misses, page-faults");
        attributes.type = chosen->type;
        attributes.config = chosen->config;
        descriptor_ = static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
        if (descriptor_ >= 0) return;
        const std::string why = std::strerror(errno);
        if (errno == EACCES || errno == EPERM || errno == ENOSYS)
            throw Unavailable("perf_event_open is not allowed here (" + why + "; kernel.perf_event_paranoid, seccomp)");
        throw Unavailable("this processor or virtual machine counts no " + name + " (" + why + ")");
    }
    Counter(const Counter&) = delete;
    Counter& operator=(const Counter&) = delete;
    ~Counter() { close(descriptor_); }

    void start() {
        ioctl(descriptor_, PERF_EVENT_IOC_RESET, 0);
        ioctl(descriptor_, PERF_EVENT_IOC_ENABLE, 0);
    }
    // Returns the count since start(), scaled up if the counter was multiplexed with others.
    double stop() {
        ioctl(descriptor_, PERF_EVENT_IOC_DISABLE, 0);
        struct {
            std::uint64_t value, enabled, running;
        } reading{};
        if (read(descriptor_, &reading, sizeof(reading)) != sizeof(reading))
            throw Unavailable("the counter cannot be read");
        const std::uint64_t enabled = reading.enabled - previous_.enabled,
                            running = reading.running - previous_.running;
        previous_ = {reading.enabled, reading.running};
        if (running == 0) throw Unavailable("other programs use all of the processor's counters");
        return static_cast<double>(reading.value) * static_cast<double>(enabled) / static_cast<double>(running);
    }

  private:
    int descriptor_ = -1;
    struct {
        std::uint64_t enabled = 0, running = 0;
    } previous_;  // times at the last stop(), because a reset does not clear them
};

}  // namespace

Outcome counted_triad(Lab& lab, const CountedTriadRequest& request, const Stop& stop) {
    const Team pinned(1);
    Counter counter(request.event);  // opened first, so that nothing is allocated if this fails
    const std::uint64_t elements = request.bytes / 64 * 8;
    if (elements == 0) throw std::invalid_argument("the arrays need at least 64 bytes");
    std::unique_ptr<Buffer> arrays[3];
    for (auto& array : arrays) array = lab.device().allocate(request.allocator, elements * 8);
    constexpr double scalar = 3;
    const StreamLoop loop = stream_loop(StreamOp::triad, false);
    const double lines = static_cast<double>(3 * elements) / 8;
    Outcome outcome;
    std::vector<double> counts;
    {
        const HostView a(*arrays[0]), b(*arrays[1]), c(*arrays[2]);
        std::uint64_t seed = request.seed;
        for (const HostView* view : {&a, &b, &c}) run_on_host("stream_fill", 1, view->as<double>(), elements, seed++);
        const auto pass = [&] {
            double sum = 0;
            loop(a.as<double>(), b.as<double>(), c.as<double>(), scalar, 0, elements, &sum);
            asm volatile("" ::: "memory");
        };
        pass();
        outcome.samples = sample(stop, [&] {
            counter.start();
            const double start = now();
            pass();
            const double seconds = now() - start - clock_cost();
            counts.push_back(counter.stop());
            return seconds / lines * 1e9;
        });
    }
    outcome.counters["per_mib"] = summarise(counts).median / (lines * 64 / (1024 * 1024));
    const HostView result(*arrays[0]);
    constexpr std::uint32_t triad = 3;
    run_on_host("stream_check", 1, static_cast<const double*>(result.as<double>()), elements, triad, request.seed + 1,
                request.seed + 2, scalar, &outcome.errors);
    return outcome;
}

}  // namespace firsttouch
