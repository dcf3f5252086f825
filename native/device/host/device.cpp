// The CPU as a device: host allocators, kernels compiled with the host prelude, copies by memcpy.
#include <cstring>

#include "device/backends.hpp"
#include "device/host/memory.hpp"
#include "device/limits.hpp"
#include "host/clock.hpp"
#include "host/kernels.hpp"
#include "host/team.hpp"

namespace firsttouch {
namespace {

struct HostStream : Stream {};
struct HostEvent : Event {
    double time = now();
};
struct CompiledKernel : Kernel {
    HostKernel function;
};
struct OpenGate : Gate {
    void open() override {}
};

class HostDevice : public Device {
  public:
    HostDevice() : Device("cpu"), allocators_(host_allocators()) {}

    Facts facts() override {
        return {{"title", std::string("host processor")}, {"processors", std::int64_t{usable_processors()}}};
    }
    Capabilities capabilities() override {
        return {.runs_kernels = false,
                .on_host_processor = true,
                .shares_host_memory = true,
                .coherent_during_kernel = true,
                .host_native_atomics = true,
                .time_class = TimeClass::host};
    }
    const std::vector<AllocatorInfo>& allocators() override { return allocators_; }
    DeviceMemory memory() override {
        const std::size_t now = host_available();
        return {now, now};
    }
    Block obtain(Allocator allocator, std::size_t bytes, Pages pages) override {
        return obtain_host(allocator, bytes, pages);
    }
    void release(Block& block) noexcept override { release_host(block); }
    void* map(const Block& block) override { return block.host; }
    void unmap(const Block&, void*) override {}

    std::unique_ptr<Kernel> kernel(const Source& source, const std::string& entry) override {
        auto kernel = std::make_unique<CompiledKernel>();
        kernel->function = find_host_kernel(entry);
        if (kernel->function == nullptr)
            throw Unavailable("there is no host version of kernel " + entry + " of " + source.name);
        return kernel;
    }
    Binary compile(const Source& source) override {
        throw Unavailable(source.name + ": host kernels are compiled when firsttouch is built");
    }
    std::unique_ptr<Stream> stream() override { return std::make_unique<HostStream>(); }
    // The CPU's access to another device's memory depends on the allocator only; there is nothing to open.
    std::optional<std::string> why_unreachable(Device&) override { return std::nullopt; }

    void prefetch(Stream&, const Buffer&, std::size_t, std::size_t, Agent) override {
        throw Unavailable("cpu does not support prefetching");
    }
    void advise(const Buffer&, Advice) override { throw Unavailable("cpu does not support memory advice"); }
    void wait(Stream&) override {}
    std::unique_ptr<Event> record(Stream&) override { return std::make_unique<HostEvent>(); }
    double elapsed(Event& from, Event& to) override {
        return static_cast<HostEvent&>(to).time - static_cast<HostEvent&>(from).time;
    }
    void join(Stream&, Event&) override {}
    std::unique_ptr<Gate> hold(Stream&) override { return std::make_unique<OpenGate>(); }

  protected:
    std::optional<std::string> why_out_of_reach(const Buffer& buffer) override {
        const Access access = buffer.device().info(buffer.allocator()).cpu;
        if (access == Access::direct) return std::nullopt;
        return access == Access::mapped ? "the CPU can access it only while it is mapped" : "the CPU cannot reach it";
    }
    void queue_launch(Stream&, Kernel& kernel, Grid, std::span<const Argument> arguments) override {
        std::vector<void*> addresses(arguments.size());
        std::vector<void*> pointers;
        pointers.reserve(arguments.size());
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            addresses[i] = const_cast<unsigned char*>(arguments[i].bytes);
            if (arguments[i].buffer != nullptr) {
                pointers.push_back(arguments[i].buffer->block().host);
                addresses[i] = &pointers.back();
            }
        }
        Team team(usable_processors());
        run_on(team, static_cast<CompiledKernel&>(kernel).function, addresses.data());
    }
    void queue_copy(Stream&, const Buffer& target, std::size_t target_offset, const Buffer& source,
                    std::size_t source_offset, std::size_t bytes) override {
        std::memcpy(static_cast<char*>(target.block().host) + target_offset,
                    static_cast<const char*>(source.block().host) + source_offset, bytes);
    }

  private:
    std::vector<AllocatorInfo> allocators_;
};

}  // namespace

std::unique_ptr<Device> open_host() { return std::make_unique<HostDevice>(); }

}  // namespace firsttouch
