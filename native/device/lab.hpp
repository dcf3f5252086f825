// What every probe needs besides a device: a stream, compiled kernels, a buffer for results, filling and checking.
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

// What a probe returns: samples, the number of wrong words, and further counters.
struct Outcome {
    Samples samples;
    std::uint64_t errors = 0;
    std::map<std::string, double> counters;
};

using Defines = std::vector<std::pair<std::string, std::string>>;

// Runs a kernel of the host prelude on a team, or on `threads` pinned threads (0: all) of a team of its own; the
// seconds that the kernel took. The arguments have the very types of its parameters.
template <class... A>
double run_on_team(Team& team, const std::string& kernel, A... arguments) {
    const HostKernel function = find_host_kernel(kernel);
    if (function == nullptr) throw Unavailable("the core holds no host version of kernel " + kernel);
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

    // A kernel of the embedded file `source`, compiled once per set of defines.
    Kernel& kernel(const std::string& source, const std::string& entry, const Defines& defines = {});

    // Queues `entry` over about n items, one a thread.
    template <class... A>
    void over(std::uint64_t n, const std::string& source, const std::string& entry, const A&... arguments) {
        const Argument list[] = {Argument(arguments)...};
        device_.launch(stream(), kernel(source, entry), grid_for(n), list);
    }
    Grid grid_for(std::uint64_t n) const;

    // Whether the device states that it works in the host's own memory.
    bool shares_host_memory();

    // Whether the agent can work on the buffer in place, the GPU being the buffer's own device.
    bool reaches(Agent agent, const Buffer& buffer);

    // Fills with a seed's pattern, or counts the 8-byte words (and odd bytes at the end) that differ from it. The
    // agent works in place; the CPU maps the buffer where its allocator requires that. A buffer of another device is
    // filled and checked, written and read by that device, after this lab's work has ended.
    void fill(const Buffer& buffer, std::uint64_t seed, Agent agent);
    std::uint64_t check(const Buffer& buffer, std::uint64_t seed, Agent agent);

    // 64 KiB of device memory for what kernels report; `words` of it read back or cleared.
    Buffer& results();
    void clear_results();
    std::vector<std::uint64_t> read_results(std::size_t words);

    // 64 KiB, zeroed when made, in which the CPU and a running kernel see each other's stores. Throws Unavailable where
    // the device states no such memory.
    Buffer& board();

    // Bytes in or out of any buffer through the host, by the device's copies where the CPU cannot reach it.
    void write(const Buffer& buffer, std::size_t offset, const void* bytes, std::size_t count);
    void read(const Buffer& buffer, std::size_t offset, void* bytes, std::size_t count);

    // The buffer's address for kernels of this lab's device.
    std::uint64_t device_address(const Buffer& buffer);

  private:
    // Whether the buffer belongs to another device; if so, waits for this lab's work.
    bool is_foreign(const Buffer& buffer);

    Device& device_;
    std::unique_ptr<Stream> stream_;
    std::unique_ptr<Buffer> results_;
    std::unique_ptr<Buffer> board_;
    std::map<std::string, std::unique_ptr<Kernel>> kernels_;
};

// Seconds that the device needs for what `work` queues, on its own clock.
template <class Work>
double device_seconds(Lab& lab, Work&& work) {
    const auto from = lab.device().record(lab.stream());
    work();
    const auto to = lab.device().record(lab.stream());
    lab.device().wait(lab.stream());
    return lab.device().elapsed(*from, *to);
}

}  // namespace firsttouch
