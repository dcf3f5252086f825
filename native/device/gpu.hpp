// A Device on a driver API of CUDA's shape: streams, events, modules of kernels, managed and virtual memory. The CUDA
// and the HIP device derive from it; what they allocate, state and compile is their own.
//
// Api is the table of one vendor's functions, under the same member names for both.
#pragma once

#include <bit>
#include <map>

#include "device/device.hpp"
#include "device/host/memory.hpp"
#include "device/prelude.hpp"

namespace firsttouch {

// Calls a function of a table; throws VendorError with its name and the driver's words where it fails.
template <class Api, class... P, class... A>
void call(const Api& api, int (*function)(P...), A&&... arguments) {
    if (const int result = function(std::forward<A>(arguments)...); result != 0)
        api.check(result, api.library.name_of(function));
}

// Undoes a step at the end of its scope unless all went well.
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

// Holds a stream by a kernel of one thread that watches a word of pinned memory. It ends by itself after five seconds.
std::unique_ptr<Gate> spin_gate(Device& device, Stream& stream);

template <class Api>
struct GpuStream : Stream {
    explicit GpuStream(const Api& table) : api(table) { call(api, api.stream_create, &handle, non_blocking); }
    ~GpuStream() override { api.stream_destroy(handle); }
    static constexpr unsigned non_blocking = 1;  // CU_STREAM_NON_BLOCKING, hipStreamNonBlocking
    const Api& api;
    typename Api::Stream handle = nullptr;
};

template <class Api>
struct GpuEvent : Event {
    explicit GpuEvent(const Api& table) : api(table) { call(api, api.event_create, &handle, 0u); }
    ~GpuEvent() override { api.event_destroy(handle); }
    const Api& api;
    typename Api::Event handle = nullptr;
};

template <class Api>
struct GpuModule {
    GpuModule(const Api& table, const std::string& image) : api(table) {
        call(api, api.module_load, &handle, image.c_str());
    }
    ~GpuModule() { api.module_unload(handle); }
    GpuModule(const GpuModule&) = delete;
    GpuModule& operator=(const GpuModule&) = delete;
    const Api& api;
    typename Api::Module handle = nullptr;
};

template <class Api>
struct GpuKernel : Kernel {
    std::shared_ptr<GpuModule<Api>> module;
    typename Api::Function function = nullptr;
};

template <class Api>
class GpuDevice : public Device {
  public:
    const std::vector<AllocatorInfo>& allocators() override { return allocators_; }
    DeviceMemory memory() override {
        DeviceMemory memory;
        call(api_, api_.mem_info, &memory.free, &memory.total);
        return memory;
    }
    void* map(const Block& block) override {
        if (block.host == nullptr) throw Unavailable("the CPU cannot reach " + to_string(block.allocator) + " memory");
        return block.host;
    }
    void unmap(const Block&, void*) override {}

    std::unique_ptr<Kernel> kernel(const Source& source, const std::string& entry) override;
    std::unique_ptr<Stream> stream() override { return std::make_unique<GpuStream<Api>>(api_); }
    void launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments) override;
    void prefetch(Stream& stream, const Buffer& buffer, std::size_t offset, std::size_t bytes, Agent agent) override {
        if (!migrates(buffer)) throw Unavailable(to_string(buffer.allocator()) + " memory is not prefetched");
        call(api_, api_.mem_prefetch, pointer(buffer.block().address + offset), bytes,
             agent == Agent::gpu ? ordinal_ : the_host, handle(stream));
    }
    void advise(const Buffer& buffer, Advice advice) override {
        if (!migrates(buffer)) throw Unavailable(to_string(buffer.allocator()) + " memory takes no advice");
        // CUmem_advise and hipMemoryAdvise: 1 read mostly, 3 preferred location, 5 accessed by.
        static constexpr struct {
            int number;
            bool of_gpu;
        } numbers[] = {{1, true}, {3, true}, {3, false}, {5, true}, {5, false}};
        const auto& [number, of_gpu] = numbers[static_cast<std::size_t>(advice)];
        call(api_, api_.mem_advise, pointer(buffer.block().address), buffer.size(), number,
             of_gpu ? ordinal_ : the_host);
    }
    void wait(Stream& stream) override { call(api_, api_.stream_wait, handle(stream)); }
    std::unique_ptr<Event> record(Stream& stream) override {
        auto event = std::make_unique<GpuEvent<Api>>(api_);
        call(api_, api_.event_record, event->handle, handle(stream));
        return event;
    }
    double elapsed(Event& from, Event& to) override {
        float milliseconds = 0;
        call(api_, api_.event_wait, handle(to));
        call(api_, api_.event_elapsed, &milliseconds, handle(from), handle(to));
        return milliseconds * 1e-3;
    }
    void join(Stream& stream, Event& event) override {
        call(api_, api_.stream_wait_event, handle(stream), handle(event), 0u);
    }
    std::unique_ptr<Gate> hold(Stream& stream) override { return spin_gate(*this, stream); }

  protected:
    using Pointer = typename Api::Pointer;

    GpuDevice(std::string name, const Api& api) : Device(std::move(name)), api_(api) {}

    // Machine code of a source for this device, from the cache where it is there.
    virtual std::string image(const Source& source) = 0;

    int attribute(int which) const {
        int value = 0;
        return api_.device_attribute(&value, which, ordinal_) == 0 ? value : 0;
    }
    static typename Api::Stream handle(Stream& stream) { return static_cast<GpuStream<Api>&>(stream).handle; }
    static typename Api::Event handle(Event& event) { return static_cast<GpuEvent<Api>&>(event).handle; }
    static Pointer pointer(unsigned long long address) { return std::bit_cast<Pointer>(address); }
    static unsigned long long address(Pointer pointer) { return std::bit_cast<unsigned long long>(pointer); }
    // One address space: host memory is copied by its host address.
    static unsigned long long address_of(const Block& block) {
        return block.address != 0 ? block.address : reinterpret_cast<unsigned long long>(block.host);
    }
    // Whether the driver moves its pages: managed memory, and plain memory where the GPU reaches it.
    bool migrates(const Buffer& buffer) {
        const AllocatorInfo& entry = info(buffer.allocator());
        return entry.managed || (is_host_allocator(buffer.allocator()) && entry.gpu != Access::none);
    }

    void state(AllocatorInfo entry, bool available = true, const char* reason = "") {
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
        api_.mem_unmap(pointer(block.address), block.reserved);
        api_.address_free(pointer(block.address), block.reserved);
    }
    void obtain_registered(Block& block, Pages pages, unsigned flags);
    void release_registered(Block& block) noexcept {
        api_.mem_host_unregister(block.host);
        block.allocator = Allocator::malloc;
        release_host(block);
    }
    // Where kernels see page-locked host memory.
    unsigned long long mapped_address(void* host) const {
        Pointer mapped{};
        call(api_, api_.mem_host_device_pointer, &mapped, host, 0u);
        return address(mapped);
    }

    static constexpr int the_host = -1;  // CU_DEVICE_CPU, hipCpuDeviceId
    const Api& api_;
    int ordinal_ = 0;
    std::vector<AllocatorInfo> allocators_;
    std::map<std::string, std::shared_ptr<GpuModule<Api>>> modules_;
};

template <class Api>
std::unique_ptr<Kernel> GpuDevice<Api>::kernel(const Source& source, const std::string& entry) {
    std::string key = source.name;
    for (const auto& [name, value] : source.defines) key += " " + name + "=" + value;
    key += "\n" + source.text;
    auto& module = modules_[key];
    if (module == nullptr) module = std::make_shared<GpuModule<Api>>(api_, image(source));
    auto kernel = std::make_unique<GpuKernel<Api>>();
    kernel->module = module;
    call(api_, api_.module_function, &kernel->function, module->handle, entry.c_str());
    return kernel;
}

template <class Api>
void GpuDevice<Api>::launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments) {
    void* pointers[24];
    unsigned long long addresses[24];
    if (arguments.size() > 24) throw std::invalid_argument("a kernel takes at most 24 arguments");
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i].buffer != nullptr) {
            addresses[i] = arguments[i].buffer->block().address;
            if (addresses[i] == 0)
                throw Unavailable("a kernel of " + name() + " cannot reach " +
                                  to_string(arguments[i].buffer->allocator()) + " memory");
            pointers[i] = &addresses[i];
        } else {
            pointers[i] = const_cast<unsigned char*>(arguments[i].bytes);
        }
    }
    void** const no_extra = nullptr;
    call(api_, api_.launch, static_cast<GpuKernel<Api>&>(kernel).function, grid.blocks, 1u, 1u, grid.threads, 1u, 1u,
         0u, handle(stream), pointers, no_extra);
}

template <class Api>
void GpuDevice<Api>::obtain_vmm(Block& block) {
    // Both vendors: type 1 is pinned, location type 1 is a device, access 3 is read and write, granularity 0 the least.
    const typename Api::AllocationProperties wanted{.type = 1, .location = {1, ordinal_}};
    const typename Api::AccessDescription access{{1, ordinal_}, 3};
    std::size_t granularity = 0;
    call(api_, api_.mem_granularity, &granularity, &wanted, 0);
    const std::size_t bytes = (block.bytes + granularity - 1) / granularity * granularity;
    typename Api::AllocationHandle memory{};
    call(api_, api_.mem_create, &memory, bytes, &wanted, 0ull);
    const Undo release{[&] { api_.mem_release(memory); }};  // also when all goes well: the mapping keeps the memory
    Pointer place{};
    call(api_, api_.address_reserve, &place, bytes, std::size_t{0}, Pointer{}, 0ull);
    Undo give_back{[&] { api_.address_free(place, bytes); }};
    call(api_, api_.mem_map, place, bytes, std::size_t{0}, memory, 0ull);
    Undo unmap{[&] { api_.mem_unmap(place, bytes); }};
    call(api_, api_.mem_set_access, place, bytes, &access, std::size_t{1});
    unmap.armed = give_back.armed = false;
    block.address = address(place);
    block.reserved = bytes;
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
