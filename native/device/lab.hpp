// The Lab: what every probe needs in addition to a device. It has a stream, compiled kernels and a buffer for results,
// and fills and checks buffers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/prelude.hpp"
#include "host/kernels.hpp"
#include "host/team.hpp"
#include "probe/sampling.hpp"

namespace firsttouch {

// The result of a probe: samples, the number of wrong words, and other counters.
struct Outcome {
    Samples samples;
    std::uint64_t errors = 0;
    std::map<std::string, double> counters;
};

using Defines = std::vector<std::pair<std::string, std::string>>;

// Runs a host kernel on a team, or on a new team of `threads` pinned threads (0: one for each usable processor).
// Returns the seconds that the kernel took. The arguments must have exactly the types of the kernel's parameters.
template <class... A>
double run_on_team(Team& team, const std::string& kernel, A... arguments) {
    const HostKernel function = find_host_kernel(kernel);
    if (function == nullptr) throw Unavailable("there is no host version of kernel " + kernel);
    void* pointers[] = {&arguments...};
    return run_on(team, function, pointers);
}
template <class... A>
double run_on_host(const std::string& kernel, int threads, A... arguments) {
    Team team(threads > 0 ? threads : usable_processors());
    return run_on_team(team, kernel, arguments...);
}

class Lab {
  public:
    explicit Lab(Device& device) : device_(device) {}

    Device& device() { return device_; }
    Stream& stream();

    // Returns a kernel of the embedded file `source`, compiled once for each set of defines.
    Kernel& kernel(const std::string& source, const std::string& entry, const Defines& defines = {});
    // The same for launches that are timed. If `counted`, the kernel's name begins with "counted_", by which a profiler
    // tells it from launches that warm up, search or check.
    Kernel& timed_kernel(bool counted, const std::string& source, const std::string& entry,
                         const Defines& defines = {});

    // Queues `entry` over n items, about one for each thread.
    template <class... A>
    void over(std::uint64_t n, const std::string& source, const std::string& entry, const A&... arguments) {
        const Argument list[] = {Argument(arguments)...};
        device_.launch(stream(), kernel(source, entry), grid_for(n), list);
    }
    Grid grid_for(std::uint64_t n) const;

    // Whether the device states that its memory is host memory.
    bool shares_host_memory();

    // Whether the agent can access the buffer in place. "gpu" is the device that allocated the buffer.
    bool reaches(Agent agent, const Buffer& buffer);
    // The agent that fills or checks a buffer in place: the preferred one if it has access, otherwise the other.
    Agent agent_with_access(const Buffer& buffer, Agent preferred = Agent::cpu) {
        return reaches(preferred, buffer) ? preferred : preferred == Agent::cpu ? Agent::gpu : Agent::cpu;
    }

    // fill writes a seed's pattern. check counts the 8-byte words that differ from it; bytes after the last whole word
    // count as one. The agent works in place; the CPU maps the buffer if its allocator requires it. A buffer of another
    // device is filled, checked, written and read by that device, after this lab's work has ended.
    void fill(const Buffer& buffer, std::uint64_t seed, Agent agent);
    std::uint64_t check(const Buffer& buffer, std::uint64_t seed, Agent agent);

    // 64 KiB of device memory for results of kernels, and calls that zero it or read its first `words` 64-bit words.
    Buffer& results();
    void clear_results();
    std::vector<std::uint64_t> read_results(std::size_t words);

    // 64 KiB of memory, initially zero, in which the CPU and a running kernel see each other's stores. Throws
    // Unavailable if the device states no such memory.
    Buffer& board();

    // Copy bytes into or out of any buffer, with a copy by the device.
    void write(const Buffer& buffer, std::size_t offset, const void* bytes, std::size_t count);
    void read(const Buffer& buffer, std::size_t offset, void* bytes, std::size_t count);

    // Calls work(lab) with the lab of the buffer's own device, and waits for what it queued. If that is another device,
    // this lab's work ends first; throws Unavailable, before anything is written, if this lab's device cannot reach it.
    template <class Work>
    void at_owner(const Buffer& buffer, Work&& work) {
        const auto queue_and_wait = [&](Lab& owner) {
            work(owner);
            owner.device().wait(owner.stream());
        };
        if (!is_foreign(buffer)) return queue_and_wait(*this);
        device_.require_reach(buffer, Device::kernel_user);
        Lab owner(buffer.device());
        queue_and_wait(owner);
    }

    // The buffer's address in kernels of this lab's device.
    std::uint64_t device_address(const Buffer& buffer);

  private:
    // Returns whether the buffer belongs to another device; if so, waits for this lab's work first.
    bool is_foreign(const Buffer& buffer);

    Device& device_;
    std::unique_ptr<Stream> stream_;
    std::unique_ptr<Buffer> results_;
    std::unique_ptr<Buffer> board_;
    std::map<std::string, std::unique_ptr<Kernel>> kernels_;
};

// Returns the seconds, on the device's clock, that the device takes for the work that `work` queues.
template <class Work>
double device_seconds(Lab& lab, Work&& work) {
    const auto from = lab.device().record(lab.stream());
    work();
    const auto to = lab.device().record(lab.stream());
    lab.device().wait(lab.stream());
    return lab.device().elapsed(*from, *to);
}

}  // namespace firsttouch
