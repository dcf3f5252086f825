// The common base of the CUDA and HIP devices, whose drivers have the same interface: streams, events, kernel modules,
// managed memory and virtual memory. Each device adds its allocators, facts and compiler.
//
// Api is the function table of one driver, a GpuApi with what only that driver has.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <map>

#include "device/device.hpp"
#include "device/gpu_api.hpp"
#include "device/host/memory.hpp"
#include "device/limits.hpp"
#include "device/prelude.hpp"

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
        if (!capabilities().shares_host_memory) return now;
        char bus[64] = {};
        api_.device_pci_bus_id(bus, sizeof(bus), ordinal_);
        if (!is_set_aside(bus, now.total)) now.free = std::min(now.total, std::max(now.free, host_available_near(bus)));
        return now;
    }
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

    GpuDevice(std::string name, const Api& api) : Device(std::move(name)), api_(api) {}

    void queue_launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments) override;
    void open_access(Device& device) override;
    std::optional<std::string> why_out_of_reach(const Buffer& buffer) override;
    // Whether the firmware has set the device's memory of `total` bytes aside, so that the kernel has none of it.
    virtual bool is_set_aside(const std::string& /*pci_bus*/, std::size_t /*total*/) { return false; }

    // Returns a source's machine code for this device, compiled or from the cache.
    virtual std::string image(const Source& source) = 0;

    // The capabilities that all such devices have. integrated: the device's memory is host memory, so no page migrates.
    Capabilities gpu_capabilities(bool integrated, std::string machine_code) const {
        return {.shares_host_memory = integrated,
                .gpu_hierarchy = true,
                .coherent_during_kernel = true,  // page-locked host memory
                .uncached_loads = true,
                .device_scope_atomics = true,
                .device_clock = true,
                .reports_free_memory = true,
                .machine_code = std::move(machine_code)};
    }
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
    // Whether the driver migrates its pages: managed memory, and plain host memory if the GPU has access.
    bool migrates(const Buffer& buffer) {
        const AllocatorInfo& entry = info(buffer.allocator());
        return entry.managed || (is_host_allocator(buffer.allocator()) && entry.gpu != Access::none);
    }

    void add_allocator(AllocatorInfo entry, bool available = true, const char* reason = "") {
        entry.available = available;
        if (!available) entry.reason = reason;
        allocators_.push_back(std::move(entry));
    }
    Block obtain_plain(Allocator allocator, std::size_t bytes, Pages pages) {
        Block block = obtain_host(allocator, bytes, pages);
        if (info(allocator).gpu == Access::direct) block.address = reinterpret_cast<unsigned long long>(block.host);
        return block;
    }
    void obtain_vmm(Block& block);
    void release_vmm(const Block& block) noexcept {
        std::erase_if(mappings_, [&](const Mapping& mapping) { return mapping.start == pointer(block.address); });
        api_.mem_unmap(pointer(block.address), block.reserved);
        api_.address_free(pointer(block.address), block.reserved);
    }
    // Loads a module with one managed array, firsttouch_static.
    void obtain_static(Block& block, const std::string& image);
    void release_static(const Block& block) noexcept {
        api_.module_unload(static_cast<gpu::ModuleHandle>(block.handle));
    }
    void obtain_registered(Block& block, Pages pages, unsigned flags);
    void release_registered(Block& block) noexcept {
        api_.mem_host_unregister(block.host);
        block.allocator = Allocator::malloc;
        release_host(block);
    }
    // The address of page-locked host memory in kernels.
    unsigned long long mapped_address(void* host) const {
        Pointer mapped{};
        call(api_, api_.mem_host_device_pointer, &mapped, host, 0u);
        return address(mapped);
    }

    // Peer access does not cover virtual memory management: each mapping needs access for each device.
    struct Mapping {
        Pointer start;
        std::size_t bytes;
    };
    void grant_access(const Mapping& mapping, int ordinal) const {
        // Both vendors: location type 1 is a device, access 3 is read and write.
        const gpu::AccessDescription access{{1, ordinal}, 3};
        call(api_, api_.mem_set_access, mapping.start, mapping.bytes, &access, std::size_t{1});
    }

    const Api& api_;
    int ordinal_ = 0;
    typename Api::Current current_{};
    std::vector<Mapping> mappings_;
    std::vector<int> peers_;  // ordinals of the devices that have access to this device's memory
    std::vector<AllocatorInfo> allocators_;
    std::map<std::string, std::shared_ptr<GpuModule<Api>>> modules_;
};

template <class Api>
std::unique_ptr<Kernel> GpuDevice<Api>::kernel(const Source& source, const std::string& entry) {
    std::string key = source.name;
    for (const auto& [name, value] : source.defines) key += " " + name + "=" + value;
    key += "\n" + source.text;
    const auto scope = make_current();
    auto& module = modules_[key];
    if (module == nullptr) module = std::make_shared<GpuModule<Api>>(api_, current_, image(source));
    auto kernel = std::make_unique<GpuKernel<Api>>();
    kernel->module = module;
    call(api_, api_.module_function, &kernel->function, module->handle, entry.c_str());
    return kernel;
}

template <class Api>
std::optional<std::string> GpuDevice<Api>::why_unreachable(Device& device) {
    const auto* peer = dynamic_cast<GpuDevice<Api>*>(&device);
    if (peer == nullptr || peer->ordinal_ == ordinal_) return Device::why_unreachable(device);
    int possible = 0;
    try {
        call(api_, api_.peer_possible, &possible, ordinal_, peer->ordinal_);
    } catch (const VendorError& failed) {
        return failed.what();
    }
    if (possible != 0) return std::nullopt;
    return api_.library.name_of(api_.peer_possible) + ": " + name() + " has no peer access to " + device.name();
}

template <class Api>
void GpuDevice<Api>::copy_between(Stream& stream, const Buffer& target, const Buffer& source, std::size_t bytes) {
    if (api_.memcpy_peer_async == nullptr) return Device::copy_between(stream, target, source, bytes);
    for (const Buffer* buffer : {&target, &source})
        if (dynamic_cast<GpuDevice<Api>*>(&buffer->device()) == nullptr ||
            !buffer->device().info(buffer->allocator()).device_memory)
            throw Unavailable(to_string(buffer->allocator()) + " memory of " + buffer->device().name() +
                              " is not device memory of this driver, between which its copies name two devices");
    const auto context = [](const Buffer& buffer) { return dynamic_cast<GpuDevice<Api>&>(buffer.device()).current_; };
    const auto scope = make_current();
    call(api_, api_.memcpy_peer_async, pointer(target.block().address), context(target),
         pointer(source.block().address), context(source), bytes, handle(stream));
}

template <class Api>
void GpuDevice<Api>::open_access(Device& device) {
    auto* peer = dynamic_cast<GpuDevice<Api>*>(&device);
    if (peer == nullptr || peer->ordinal_ == ordinal_) return;
    try {
        const auto scope = make_current();
        const int result = api_.peer_enable(peer->current_, 0u);
        if (result != gpu::peer_enabled_before) api_.check(result, api_.library.name_of(api_.peer_enable));
        const auto on_peer = peer->make_current();
        if (std::ranges::find(peer->peers_, ordinal_) != peer->peers_.end()) return;
        for (const Mapping& mapping : peer->mappings_) peer->grant_access(mapping, ordinal_);
        peer->peers_.push_back(ordinal_);
    } catch (const VendorError& failed) {
        throw Unavailable(name() + " cannot reach " + device.name() + ": " + failed.what());
    }
}

// Page-locked host memory is allocated as portable and managed memory as global, so all devices of the driver have
// access.
template <class Api>
std::optional<std::string> GpuDevice<Api>::why_out_of_reach(const Buffer& buffer) {
    if (dynamic_cast<GpuDevice<Api>*>(&buffer.device()) != nullptr) {
        const AllocatorInfo& entry = buffer.device().info(buffer.allocator());
        if (entry.managed || (entry.host_memory && !entry.device_memory)) return std::nullopt;
    }
    return Device::why_out_of_reach(buffer);
}

template <class Api>
void GpuDevice<Api>::queue_launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments) {
    void* pointers[24];
    unsigned long long addresses[24];
    if (arguments.size() > 24) throw std::invalid_argument("a kernel takes at most 24 arguments");
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i].buffer != nullptr) {
            addresses[i] = require_address(*arguments[i].buffer, kernel_user);
            pointers[i] = &addresses[i];
        } else {
            pointers[i] = const_cast<unsigned char*>(arguments[i].bytes);
        }
    }
    void** const no_extra = nullptr;
    const auto scope = make_current();
    call(api_, api_.launch, static_cast<GpuKernel<Api>&>(kernel).function, grid.blocks, 1u, 1u, grid.threads, 1u, 1u,
         0u, handle(stream), pointers, no_extra);
}

template <class Api>
void GpuDevice<Api>::obtain_vmm(Block& block) {
    // Both vendors: type 1 is pinned, location type 1 is a device, granularity 0 is the minimum.
    const gpu::AllocationProperties properties{.type = 1, .location = {1, ordinal_}};
    std::size_t granularity = 0;
    call(api_, api_.mem_granularity, &granularity, &properties, 0);
    const std::size_t bytes = (block.bytes + granularity - 1) / granularity * granularity;
    typename Api::AllocationHandle memory{};
    call(api_, api_.mem_create, &memory, bytes, &properties, 0ull);
    const Undo release{[&] { api_.mem_release(memory); }};  // always: the mapping keeps the memory
    Pointer start{};
    call(api_, api_.address_reserve, &start, bytes, std::size_t{0}, Pointer{}, 0ull);
    Undo free_addresses{[&] { api_.address_free(start, bytes); }};
    call(api_, api_.mem_map, start, bytes, std::size_t{0}, memory, 0ull);
    Undo unmap{[&] { api_.mem_unmap(start, bytes); }};
    grant_access({start, bytes}, ordinal_);
    for (const int peer : peers_) grant_access({start, bytes}, peer);
    mappings_.push_back({start, bytes});
    unmap.armed = free_addresses.armed = false;
    block.address = address(start);
    block.reserved = bytes;
}

template <class Api>
void GpuDevice<Api>::obtain_static(Block& block, const std::string& image) {
    gpu::ModuleHandle module{};
    call(api_, api_.module_load, &module, image.c_str());
    Undo unload{[&] { api_.module_unload(module); }};
    Pointer array{};
    std::size_t size = 0;
    call(api_, api_.module_global, &array, &size, module, "firsttouch_static");
    if (size != block.bytes)
        throw Unavailable(api_.library.name_of(api_.module_global) + " found " + std::to_string(size) +
                          " bytes of a managed array of " + std::to_string(block.bytes));
    unload.armed = false;
    block.handle = module;
    block.address = address(array);
    block.host = reinterpret_cast<void*>(block.address);
}

template <class Api>
void GpuDevice<Api>::obtain_registered(Block& block, Pages pages, unsigned flags) {
    Block plain = obtain_host(Allocator::malloc, block.bytes, pages);
    Undo free_plain{[&] { release_host(plain); }};
    call(api_, api_.mem_host_register, plain.host, block.bytes, flags);
    Undo unregister{[&] { api_.mem_host_unregister(plain.host); }};
    block.address = mapped_address(plain.host);
    unregister.armed = free_plain.armed = false;
    block.base = plain.base;
    block.host = plain.host;
}

}  // namespace firsttouch
