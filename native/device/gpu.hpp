// The common base of the CUDA and HIP devices, whose drivers have the same interface: facts, memory, streams, events
// and kernel modules. Each device adds what only its driver states or allocates, and its compiler's options. gpu.cpp
// instantiates the base for both.
//
// Api is the function table of one driver, a GpuApi with what only that driver has.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <map>
#include <type_traits>

#include "device/device.hpp"
#include "device/gpu_api.hpp"
#include "device/host/memory.hpp"
#include "device/limits.hpp"

namespace firsttouch {

// Calls a function of a table. If it fails, throws VendorError with its name and the driver's message.
template <class Api, class... P, class... A>
void call(const Api& api, int (*function)(P...), A&&... arguments) {
    if (const int result = function(std::forward<A>(arguments)...); result != 0)
        api.check(result, api.library.name_of(function));
}

// Makes a device current on the calling thread for a scope, because calls without a device argument use the current
// one. Api::Current is a context in CUDA and a device number in HIP. The destructor restores the previous one, if there
// was one.
template <class Api>
class CurrentDevice {
  public:
    using Current = typename Api::Current;
    CurrentDevice(const Api& api, Current device) : api_(api) {
        call(api_, api_.current_get, &previous_);
        if (previous_ == device) return;
        call(api_, api_.current_set, device);
        restores_ = previous_ != Api::no_current;
    }
    CurrentDevice(const CurrentDevice&) = delete;
    CurrentDevice& operator=(const CurrentDevice&) = delete;
    ~CurrentDevice() {
        if (restores_) api_.current_set(previous_);
    }

  private:
    const Api& api_;
    Current previous_{};
    bool restores_ = false;
};

// Calls `release` with the device current, for destructors. If the device cannot be made current, it is lost together
// with its resources, and there is nothing to release.
template <class Api, class F>
void release_on(const Api& api, typename Api::Current device, F&& release) noexcept {
    try {
        const CurrentDevice<Api> scope(api, device);
        release();
    } catch (const VendorError&) {
    }
}

// Undoes a step at the end of the scope, unless disarmed.
template <class F>
struct Undo {
    F undo;
    bool armed = true;
    ~Undo() {
        if (armed) undo();
    }
};
template <class F>
Undo(F) -> Undo<F>;

// Holds a stream with a kernel of one thread that polls a word of pinned memory. The kernel times out after `limit`, so
// that a host that waits for the device while it queues work does not hang; open() then throws GateTimeout.
std::unique_ptr<Gate> spin_gate(Device& device, Stream& stream,
                                std::chrono::nanoseconds limit = std::chrono::seconds(5));

// Streams, events and modules are created while their device is current.
template <class Api>
struct GpuStream : Stream {
    GpuStream(const Api& table, typename Api::Current current) : api(table), device(current) {
        call(api, api.stream_create, &handle, gpu::stream_non_blocking);
    }
    ~GpuStream() override {
        release_on(api, device, [&] { api.stream_destroy(handle); });
    }
    const Api& api;
    typename Api::Current device;
    gpu::StreamHandle handle = nullptr;
};

template <class Api>
struct GpuEvent : Event {
    GpuEvent(const Api& table, typename Api::Current current) : api(table), device(current) {
        call(api, api.event_create, &handle, 0u);
    }
    ~GpuEvent() override {
        release_on(api, device, [&] { api.event_destroy(handle); });
    }
    const Api& api;
    typename Api::Current device;
    gpu::EventHandle handle = nullptr;
};

template <class Api>
struct GpuModule {
    GpuModule(const Api& table, typename Api::Current current, const std::string& image) : api(table), device(current) {
        call(api, api.module_load, &handle, image.c_str());
    }
    ~GpuModule() {
        release_on(api, device, [&] { api.module_unload(handle); });
    }
    GpuModule(const GpuModule&) = delete;
    GpuModule& operator=(const GpuModule&) = delete;
    const Api& api;
    typename Api::Current device;
    gpu::ModuleHandle handle = nullptr;
};

template <class Api>
struct GpuKernel : Kernel {
    std::shared_ptr<GpuModule<Api>> module;
    gpu::FunctionHandle function = nullptr;
};

template <class Api>
class GpuDevice : public Device {
  public:
    // Makes this device current on the calling thread while the result lives.
    CurrentDevice<Api> make_current() const { return {api_, current_}; }
    // Calls `release` with this device current; never throws.
    template <class F>
    void while_current(F&& release) const noexcept {
        release_on(api_, current_, release);
    }

    Facts facts() override;
    Capabilities capabilities() override;
    const std::vector<AllocatorInfo>& allocators() override { return allocators_; }
    DeviceMemory memory() override {
        const auto scope = make_current();
        DeviceMemory memory;
        call(api_, api_.mem_info, &memory.free, &memory.total);
        return memory;
    }
    // Where the device's memory is the host's, drivers count the page cache as used, which the kernel gives back.
    DeviceMemory available_memory() override {
        DeviceMemory now = memory();
        if (!is_integrated()) return now;
        char bus[64] = {};
        api_.device_pci_bus_id(bus, sizeof(bus), ordinal_);
        if (!is_set_aside(bus, now.total)) now.free = std::min(now.total, std::max(now.free, host_available_near(bus)));
        return now;
    }
    Block obtain(Allocator allocator, std::size_t bytes, Pages pages) override;
    void release(Block& block) noexcept override;
    void* map(const Block& block) override {
        if (block.host == nullptr) throw Unavailable("the CPU cannot reach " + to_string(block.allocator) + " memory");
        return block.host;
    }
    void unmap(const Block&, void*) override {}

    std::unique_ptr<Kernel> kernel(const Source& source, const std::string& entry) override;
    std::unique_ptr<Stream> stream() override {
        const auto scope = make_current();
        return std::make_unique<GpuStream<Api>>(api_, current_);
    }
    std::optional<std::string> why_unreachable(Device& device) override;
    void copy_between(Stream& stream, const Buffer& target, const Buffer& source, std::size_t bytes) override;
    void prefetch(Stream& stream, const Buffer& buffer, std::size_t offset, std::size_t bytes, Agent agent) override {
        if (!migrates(buffer)) throw Unavailable(to_string(buffer.allocator()) + " memory cannot be prefetched");
        const auto scope = make_current();
        call(api_, api_.mem_prefetch, pointer(buffer.block().address + offset), bytes,
             agent == Agent::gpu ? ordinal_ : gpu::host_ordinal, handle(stream));
    }
    void advise(const Buffer& buffer, Advice advice) override {
        if (!migrates(buffer)) throw Unavailable(to_string(buffer.allocator()) + " memory does not support advice");
        // CUmem_advise and hipMemoryAdvise: 1 read mostly, 3 preferred location, 5 accessed by.
        static constexpr struct {
            int number;
            bool of_gpu;
        } numbers[] = {{1, true}, {3, true}, {3, false}, {5, true}, {5, false}};
        const auto& [number, of_gpu] = numbers[static_cast<std::size_t>(advice)];
        const auto scope = make_current();
        call(api_, api_.mem_advise, pointer(buffer.block().address), buffer.size(), number,
             of_gpu ? ordinal_ : gpu::host_ordinal);
    }
    void wait(Stream& stream) override {
        const auto scope = make_current();
        call(api_, api_.stream_wait, handle(stream));
    }
    std::unique_ptr<Event> record(Stream& stream) override {
        const auto scope = make_current();
        auto event = std::make_unique<GpuEvent<Api>>(api_, current_);
        call(api_, api_.event_record, event->handle, handle(stream));
        return event;
    }
    void record(Stream& stream, std::unique_ptr<Event>& event) override {
        if (event == nullptr) {
            event = record(stream);
            return;
        }
        const auto scope = make_current();
        call(api_, api_.event_record, handle(*event), handle(stream));
    }
    double elapsed(Event& from, Event& to) override {
        const auto scope = make_current();
        float milliseconds = 0;
        call(api_, api_.event_wait, handle(to));
        call(api_, api_.event_elapsed, &milliseconds, handle(from), handle(to));
        return milliseconds * 1e-3;
    }
    void join(Stream& stream, Event& event) override {
        const auto scope = make_current();
        call(api_, api_.stream_wait_event, handle(stream), handle(event), 0u);
    }
    std::unique_ptr<Gate> hold(Stream& stream) override { return spin_gate(*this, stream); }

  protected:
    using Pointer = typename Api::Pointer;

    GpuDevice(int index, const Api& api) : Device(std::string(Api::language) + ":" + std::to_string(index)), api_(api) {
        call(api_, api_.device_get, &ordinal_, index);
    }

    void queue_launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments) override;
    void open_access(Device& device) override;
    std::optional<std::string> why_out_of_reach(const Buffer& buffer) override;
    // Whether the firmware has set the device's memory of `total` bytes aside, so that the kernel has none of it.
    virtual bool is_set_aside(const std::string& /*pci_bus*/, std::size_t /*total*/) { return false; }

    virtual std::string uuid() const = 0;
    // The facts that follow the identity: the version of the driver, of which `driver` is the number, and the
    // architecture.
    virtual Facts versions(int driver) const = 0;
    // Bytes of a first-level data cache, if there is a source for it.
    virtual std::optional<std::int64_t> l1_bytes() const { return std::nullopt; }

    // Obtains memory of an allocator that only this vendor has. Throws Unavailable if it has no such allocator.
    virtual void obtain_own(Block& block) {
        throw Unavailable(name() + " has no allocator " + to_string(block.allocator));
    }
    // The machine code of a module with one managed array of this size, firsttouch_static.
    virtual std::string static_image(std::size_t bytes) = 0;

    // Macros, NAME=VALUE, that the prelude needs and cannot query.
    virtual std::vector<std::string> defines() const { return {}; }
    // Returns a source's machine code for this device, compiled or from the cache.
    std::string image(const Source& source);

    int attribute(int which) const {
        int value = 0;
        return api_.device_attribute(&value, which, ordinal_) == 0 ? value : 0;
    }
    static gpu::StreamHandle handle(Stream& stream) { return static_cast<GpuStream<Api>&>(stream).handle; }
    static gpu::EventHandle handle(Event& event) { return static_cast<GpuEvent<Api>&>(event).handle; }
    static Pointer pointer(unsigned long long address) { return std::bit_cast<Pointer>(address); }
    static unsigned long long address(Pointer pointer) { return std::bit_cast<unsigned long long>(pointer); }
    // All memory shares one address space, so the host address of host memory serves for copies.
    static unsigned long long address_of(const Block& block) {
        return block.address != 0 ? block.address : reinterpret_cast<unsigned long long>(block.host);
    }

    bool is_integrated() const { return attribute(Api::integrated) != 0; }

    void add_allocator(AllocatorInfo entry, bool available = true, const char* reason = "");
    // Plain host memory. atomics: those of CPU and GPU on it are mutually atomic, if the GPU has access; gpu_reason:
    // why it has none.
    void add_plain(bool atomics, const std::string& gpu_reason);
    void add_vmm();
    void add_managed(AllocatorInfo entry, Allocator allocator);
    AllocatorInfo device_entry(Allocator allocator, Access cpu) const;
    AllocatorInfo page_locked_entry(Allocator allocator, bool atomics) const;
    AllocatorInfo managed_entry(bool on_demand, bool atomics) const;

    // The address in kernels of memory from a call of the driver.
    template <class... Flags>
    unsigned long long obtained(ApiCall<Pointer*, std::size_t, Flags...> function, std::size_t bytes,
                                std::type_identity_t<Flags>... flags) {
        Pointer start{};
        call(api_, function, &start, bytes, flags...);
        return address(start);
    }
    void obtain_managed(Block& block);
    void obtain_page_locked(Block& block, unsigned flags);

    const Api& api_;
    int ordinal_ = 0;
    std::string architecture_;  // for the compiler
    typename Api::Current current_{};
    std::vector<AllocatorInfo> allocators_;
    std::map<std::string, std::shared_ptr<GpuModule<Api>>> modules_;

  private:
    // Peer access does not cover virtual memory management: each mapping needs access for each device.
    struct Mapping {
        Pointer start;
        std::size_t bytes;
    };
    void grant_access(const Mapping& mapping, int ordinal) const;
    // Whether the driver migrates its pages: managed memory, and plain host memory if the GPU has access.
    bool migrates(const Buffer& buffer);
    Block obtain_plain(Allocator allocator, std::size_t bytes, Pages pages);
    void obtain_vmm(Block& block);
    void obtain_static(Block& block);
    void obtain_registered(Block& block, Pages pages);
    void release_on_device(Block& block) noexcept;
    unsigned long long mapped_address(void* host) const;  // of page-locked host memory in kernels

    std::vector<Mapping> mappings_;
    std::vector<int> peers_;  // ordinals of the devices that have access to this device's memory
};

}  // namespace firsttouch
