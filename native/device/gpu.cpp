#include "device/gpu.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "device/cache.hpp"
#include "device/cuda/api.hpp"
#include "device/hip/api.hpp"
#include "device/prelude.hpp"

namespace firsttouch {
namespace {

// The kernel polls the first word of the flag and sets the second when it times out
// (src/firsttouch/base/kernels/gate.c).
class SpinGate : public Gate {
  public:
    SpinGate(Device& device, Stream& stream, Kernel& kernel, std::chrono::nanoseconds limit)
        : flag_(device.allocate(Allocator::pinned, 4096)), words_(static_cast<std::uint64_t*>(flag_->block().host)),
          limit_(limit) {
        words_[0] = words_[1] = 0;
        const Argument arguments[] = {*flag_, static_cast<std::uint64_t>(limit.count())};
        device.launch(stream, kernel, {1, 1}, arguments);
        stream_ = &stream;
    }
    ~SpinGate() override {
        raise();
        try {
            flag_->device().wait(*stream_);  // the kernel reads the flag until it ends
        } catch (const std::exception&) {
        }
    }
    void open() override {
        const bool timed_out = __atomic_load_n(words_ + 1, __ATOMIC_ACQUIRE) != 0;
        raise();
        if (timed_out) throw GateTimeout(std::chrono::duration<double>(limit_).count());
    }

  private:
    void raise() { __atomic_store_n(words_, std::uint64_t{1}, __ATOMIC_RELEASE); }

    std::unique_ptr<Buffer> flag_;
    std::uint64_t* words_;
    std::chrono::nanoseconds limit_;
    Stream* stream_ = nullptr;
};

std::string seconds_text(double seconds) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g s", seconds);
    return text;
}

}  // namespace

GateTimeout::GateTimeout(double seconds)
    : runtime_error(
          "work behind a gate was still being queued when the gate timed out after " + seconds_text(seconds) +
          ", so its time would be wrong: a call that queues work waited for the device, or the process was delayed. "
          "Measure less at once (a smaller size or more bytes per chunk), on a machine with an idle processor and "
          "without a debugger") {}

std::unique_ptr<Gate> spin_gate(Device& device, Stream& stream, std::chrono::nanoseconds limit) {
    const auto spin = device.kernel(kernel_source("gate"), "gate_wait");
    return std::make_unique<SpinGate>(device, stream, *spin, limit);
}

template <class Api>
Facts GpuDevice<Api>::facts() {
    char title[256] = {}, bus[64] = {};
    call(api_, api_.device_name, title, static_cast<int>(sizeof(title)), ordinal_);
    api_.device_pci_bus_id(bus, sizeof(bus), ordinal_);
    int version = 0;
    api_.version(&version);
    const DeviceMemory device_memory = available_memory();
    Facts facts = {{"title", std::string(title)}, {"uuid", uuid()}, {"pci_bus", std::string(bus)}};
    std::ranges::move(versions(version), std::back_inserter(facts));
    facts.emplace_back("memory_bytes", static_cast<std::int64_t>(device_memory.total));
    facts.emplace_back("memory_free_bytes", static_cast<std::int64_t>(device_memory.free));
    if (const auto bytes = l1_bytes()) facts.emplace_back("l1_bytes", *bytes);
    facts.emplace_back("line_bytes", std::int64_t{128});  // AMD: of the L2 cache (CDNA 2 and CDNA 3 white papers)
    static constexpr std::pair<const char*, int> numbers[] = {
        {"multiprocessors", Api::multiprocessors},
        {"threads_per_multiprocessor", Api::threads_per_multiprocessor},
        {"l2_bytes", Api::l2_bytes},
        {"clock_khz", Api::clock_rate_khz},
        {"memory_clock_khz", Api::memory_clock_khz},
        {"memory_bus_bits", Api::memory_bus_bits},
        {"wall_clock_khz", Api::wall_clock_khz},
        {"warp_size", Api::warp_size}};
    for (const auto& [key, which] : numbers)
        if (which != gpu::no_attribute) facts.emplace_back(key, std::int64_t{attribute(which)});
    static constexpr std::pair<const char*, int> switches[] = {
        {"integrated", Api::integrated},
        {"largeBar", Api::large_bar},
        {"unifiedAddressing", Api::unified_addressing},
        {"managedMemory", Api::managed_memory},
        {"concurrentManagedAccess", Api::concurrent_managed_access},
        {"pageableMemoryAccess", Api::pageable_memory_access},
        {"pageableMemoryAccessUsesHostPageTables", Api::pageable_uses_host_page_tables},
        {"directManagedMemAccessFromHost", Api::direct_managed_access_from_host},
        {"hostNativeAtomicSupported", Api::host_native_atomics},
        {"hostRegisterSupported", Api::host_register_supported},
        {"canUseHostPointerForRegisteredMem", Api::can_use_host_pointer_for_registered},
        {"fineGrainSupport", Api::fine_grain_support},
        {"virtualMemoryManagement", Api::virtual_memory_management}};
    for (const auto& [key, which] : switches)
        if (which != gpu::no_attribute) facts.emplace_back(key, attribute(which) != 0);
    facts.emplace_back("copies_between_devices", api_.memcpy_peer_async != nullptr);
    return facts;
}

template <class Api>
Capabilities GpuDevice<Api>::capabilities() {
    const bool concurrent = attribute(Api::concurrent_managed_access) != 0;
    return {.shares_host_memory = is_integrated(),
            .gpu_hierarchy = true,
            .page_migration = !is_integrated() && concurrent,
            .memory_guidance = concurrent,
            .coherent_during_kernel = true,  // page-locked host memory
            .host_native_atomics = attribute(Api::host_native_atomics) != 0,
            .uncached_loads = true,
            .device_scope_atomics = true,
            .device_clock = true,
            .reports_free_memory = true,
            .machine_code = Api::machine_code};
}

template <class Api>
void GpuDevice<Api>::add_allocator(AllocatorInfo entry, bool available, const char* reason) {
    entry.available = available;
    if (!available) entry.reason = reason;
    allocators_.push_back(std::move(entry));
}

template <class Api>
void GpuDevice<Api>::add_plain(bool atomics, const std::string& gpu_reason) {
    const bool pageable = attribute(Api::pageable_memory_access) != 0;
    for (AllocatorInfo entry : host_allocators()) {
        entry.gpu = pageable ? Access::direct : Access::none;
        entry.migrates_on_fault = pageable && !is_integrated() && attribute(Api::pageable_uses_host_page_tables) == 0;
        if (pageable) {
            entry.concurrent = true;
            entry.shared_atomics = atomics;
        } else {
            entry.gpu_reason = "pageableMemoryAccess is 0: the GPU cannot reach plain host memory (" + gpu_reason + ")";
        }
        allocators_.push_back(std::move(entry));
    }
}

template <class Api>
void GpuDevice<Api>::add_vmm() {  // the mapping is for the GPU only
    add_allocator(device_entry(Allocator::vmm, Access::none),
                  attribute(Api::virtual_memory_management) != 0 && api_.mem_create != nullptr,
                  "the driver does not support virtual memory management");
}

template <class Api>
void GpuDevice<Api>::add_managed(AllocatorInfo entry, Allocator allocator) {
    entry.allocator = allocator;
    add_allocator(std::move(entry), attribute(Api::managed_memory) != 0, "managedMemory is 0");
}

// An integrated GPU allocates from the host's memory.
template <class Api>
AllocatorInfo GpuDevice<Api>::device_entry(Allocator allocator, Access cpu) const {
    return {.allocator = allocator,
            .cpu = cpu,
            .gpu = Access::direct,
            .host_memory = is_integrated(),
            .device_memory = true,
            .on_demand = false};
}

template <class Api>
AllocatorInfo GpuDevice<Api>::page_locked_entry(Allocator allocator, bool atomics) const {
    return {.allocator = allocator,
            .cpu = Access::direct,
            .gpu = Access::direct,
            .host_memory = true,
            .on_demand = false,
            .concurrent = true,
            .shared_atomics = atomics};
}

// Managed pages may be in host or device memory, so they are charged to both limits. Without concurrent managed access
// the CPU may not touch any of them while any kernel runs (CUDA C++ Programming Guide, "Unified Memory").
template <class Api>
AllocatorInfo GpuDevice<Api>::managed_entry(bool on_demand, bool atomics) const {
    const bool concurrent = attribute(Api::concurrent_managed_access) != 0;
    return {.allocator = Allocator::managed,
            .cpu = Access::direct,
            .gpu = Access::direct,
            .host_memory = true,
            .device_memory = true,
            .managed = true,
            .on_demand = on_demand,
            .concurrent = concurrent,
            .shared_atomics = concurrent && atomics,
            .disjoint = concurrent};
}

template <class Api>
Block GpuDevice<Api>::obtain(Allocator allocator, std::size_t bytes, Pages pages) {
    if (is_host_allocator(allocator)) return obtain_plain(allocator, bytes, pages);
    const auto scope = make_current();
    Block block{.allocator = allocator, .bytes = bytes};
    switch (allocator) {
    case Allocator::device:
        block.address = obtained(api_.mem_alloc, bytes);
        break;
    case Allocator::vmm:
        obtain_vmm(block);
        break;
    case Allocator::pinned:
        obtain_page_locked(block, Api::host_flags);
        break;
    case Allocator::registered:
        obtain_registered(block, pages);
        break;
    case Allocator::managed:
        obtain_managed(block);
        break;
    case Allocator::managed_static:
        obtain_static(block);
        break;
    default:
        obtain_own(block);
    }
    // The CPU can use all memory of an APU.
    if (block.host == nullptr && info(allocator).cpu == Access::direct)
        block.host = reinterpret_cast<void*>(block.address);
    return block;
}

template <class Api>
void GpuDevice<Api>::release(Block& block) noexcept {
    if (is_host_allocator(block.allocator)) return release_host(block);
    while_current([&] { release_on_device(block); });
    block = {};
}

template <class Api>
void GpuDevice<Api>::release_on_device(Block& block) noexcept {
    switch (block.allocator) {
    case Allocator::device:
    case Allocator::fine_grained:
    case Allocator::managed:
    case Allocator::coarse_grained:
        api_.mem_free(pointer(block.address));
        break;
    case Allocator::vmm:
        std::erase_if(mappings_, [&](const Mapping& mapping) { return mapping.start == pointer(block.address); });
        api_.mem_unmap(pointer(block.address), block.reserved);
        api_.address_free(pointer(block.address), block.reserved);
        break;
    case Allocator::pinned:
    case Allocator::pinned_wc:
    case Allocator::pinned_noncoherent:
        api_.mem_free_host(block.base);
        break;
    case Allocator::registered:
        api_.mem_host_unregister(block.host);
        block.allocator = Allocator::malloc;
        release_host(block);
        break;
    case Allocator::managed_static:
        api_.module_unload(static_cast<gpu::ModuleHandle>(block.handle));
        break;
    default:
        break;
    }
}

template <class Api>
std::string GpuDevice<Api>::image(const Source& source) {
    int version = 0, major = 0, minor = 0;
    api_.version(&version);
    Api::compiler().version(&major, &minor);
    std::string key = std::string(Api::language) + "/" + architecture_ + "/" + std::to_string(version) + "/" +
                      std::to_string(major) + "." + std::to_string(minor) + "/";
    for (const auto& define : defines()) key += define + "/";
    return cached(key + translation_unit(source, Api::language), [&] { return compile(source).code; });
}

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
bool GpuDevice<Api>::migrates(const Buffer& buffer) {
    const AllocatorInfo& entry = info(buffer.allocator());
    return entry.managed || (is_host_allocator(buffer.allocator()) && entry.gpu != Access::none);
}

template <class Api>
Block GpuDevice<Api>::obtain_plain(Allocator allocator, std::size_t bytes, Pages pages) {
    Block block = obtain_host(allocator, bytes, pages);
    if (info(allocator).gpu == Access::direct) block.address = reinterpret_cast<unsigned long long>(block.host);
    return block;
}

template <class Api>
void GpuDevice<Api>::obtain_managed(Block& block) {
    block.address = obtained(api_.mem_alloc_managed, block.bytes, gpu::managed_attach_global);
    block.host = reinterpret_cast<void*>(block.address);
}

template <class Api>
unsigned long long GpuDevice<Api>::mapped_address(void* host) const {
    Pointer mapped{};
    call(api_, api_.mem_host_device_pointer, &mapped, host, 0u);
    return address(mapped);
}

template <class Api>
void GpuDevice<Api>::obtain_page_locked(Block& block, unsigned flags) {
    call(api_, api_.mem_host_alloc, &block.base, block.bytes, gpu::host_portable | flags);
    Undo free_host{[&] { api_.mem_free_host(block.base); }};
    block.address = mapped_address(block.base);
    free_host.armed = false;
    block.host = block.base;
}

template <class Api>
void GpuDevice<Api>::grant_access(const Mapping& mapping, int ordinal) const {
    // Both vendors: location type 1 is a device, access 3 is read and write.
    const gpu::AccessDescription access{{1, ordinal}, 3};
    call(api_, api_.mem_set_access, mapping.start, mapping.bytes, &access, std::size_t{1});
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
void GpuDevice<Api>::obtain_static(Block& block) {
    const std::string image = static_image(block.bytes);
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
void GpuDevice<Api>::obtain_registered(Block& block, Pages pages) {
    Block plain = obtain_host(Allocator::malloc, block.bytes, pages);
    Undo free_plain{[&] { release_host(plain); }};
    call(api_, api_.mem_host_register, plain.host, block.bytes, gpu::register_portable | gpu::register_mapped);
    Undo unregister{[&] { api_.mem_host_unregister(plain.host); }};
    block.address = mapped_address(plain.host);
    unregister.armed = free_plain.armed = false;
    block.base = plain.base;
    block.host = plain.host;
}

template class GpuDevice<cuda::Driver>;
template class GpuDevice<hip::Runtime>;

}  // namespace firsttouch
