// The CUDA Device. It uses the driver API only.
#include <cstdio>
#include <map>

#include "device/backends.hpp"
#include "device/cache.hpp"
#include "device/cuda/api.hpp"
#include "device/gpu.hpp"

namespace firsttouch {
namespace cuda {
namespace {

// First-level data cache per multiprocessor in bytes, by compute capability (CUDA C++ Programming Guide, "Compute
// Capabilities": unified data cache size). The driver does not report it.
std::int64_t l1_bytes_of(int capability) {
    static const std::map<int, int> kib = {{60, 24},   {61, 48},   {70, 128}, {72, 128}, {75, 96},
                                           {80, 192},  {86, 128},  {87, 192}, {89, 128}, {90, 256},
                                           {100, 256}, {103, 256}, {120, 128}};
    const auto entry = kib.find(capability);
    return entry == kib.end() ? 0 : std::int64_t{entry->second} * 1024;
}

class CudaDevice : public GpuDevice<Driver> {
  public:
    explicit CudaDevice(int index) : GpuDevice("cuda:" + std::to_string(index), Driver::instance()) {
        call(api_, api_.device_get, &ordinal_, index);
        call(api_, api_.context_retain, &current_, ordinal_);
        const auto scope = make_current();
        capability_ = attribute(compute_major) * 10 + attribute(compute_minor);
        add_allocators();
    }
    ~CudaDevice() override {
        modules_.clear();
        // Another owner may keep the context, but this thread must not have a released one as current.
        Context context = nullptr;
        if (api_.current_get(&context) == 0 && context == current_) api_.current_set(nullptr);
        api_.context_release(ordinal_);
    }

    Facts facts() override;
    Capabilities capabilities() override;
    Block obtain(Allocator allocator, std::size_t bytes, Pages pages) override;
    void release(Block& block) noexcept override;
    Binary compile(const Source& source) override;
    Clocks clocks() override;
    Facts usage() override;

  private:
    // All devices share one address space, so the addresses alone identify the memory, also on a peer.
    void queue_copy(Stream& stream, const Buffer& target, std::size_t target_offset, const Buffer& source,
                    std::size_t source_offset, std::size_t bytes) override {
        const auto scope = make_current();
        call(api_, api_.memcpy_async, address_of(target.block()) + target_offset,
             address_of(source.block()) + source_offset, bytes, handle(stream));
    }
    std::string uuid() const;
    Nvml::Handle nvml_handle();
    std::string architecture() const { return "sm_" + std::to_string(capability_); }
    void add_allocators();
    std::string static_image(std::size_t bytes) const;
    void release_on_device(Block& block);
    void obtain_host_pinned(Block& block, unsigned flags);
    std::string image(const Source& source) override;

    int capability_ = 0;
    std::unique_ptr<Nvml> nvml_;
    bool nvml_tried_ = false;
};

std::string CudaDevice::uuid() const {
    gpu::Uuid id{};
    if (api_.device_uuid(&id, ordinal_) != 0) return "";
    std::string text = "GPU-";
    for (int i = 0; i < 16; ++i) {
        char hex[4];
        std::snprintf(hex, sizeof(hex), "%02x", id.bytes[i]);
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += hex;
    }
    return text;
}

Facts CudaDevice::facts() {
    char title[256] = {}, bus[64] = {};
    call(api_, api_.device_name, title, static_cast<int>(sizeof(title)), ordinal_);
    api_.device_pci_bus_id(bus, sizeof(bus), ordinal_);
    int version = 0;
    api_.version(&version);
    const DeviceMemory device_memory = available_memory();
    Facts facts = {{"title", std::string(title)},
                   {"uuid", uuid()},
                   {"pci_bus", std::string(bus)},
                   {"driver_api", std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10)},
                   {"compute_capability", std::to_string(capability_ / 10) + "." + std::to_string(capability_ % 10)},
                   {"memory_bytes", static_cast<std::int64_t>(device_memory.total)},
                   {"memory_free_bytes", static_cast<std::int64_t>(device_memory.free)},
                   {"l1_bytes", l1_bytes_of(capability_)},
                   {"line_bytes", std::int64_t{128}}};
    static const std::pair<const char*, int> numbers[] = {{"multiprocessors", multiprocessors},
                                                          {"threads_per_multiprocessor", threads_per_multiprocessor},
                                                          {"l2_bytes", l2_bytes},
                                                          {"clock_khz", clock_rate_khz},
                                                          {"memory_clock_khz", memory_clock_khz},
                                                          {"memory_bus_bits", memory_bus_bits}};
    for (const auto& [key, which] : numbers) facts.emplace_back(key, std::int64_t{attribute(which)});
    static const std::pair<const char*, int> switches[] = {
        {"integrated", integrated},
        {"unifiedAddressing", unified_addressing},
        {"managedMemory", managed_memory},
        {"concurrentManagedAccess", concurrent_managed_access},
        {"pageableMemoryAccess", pageable_memory_access},
        {"pageableMemoryAccessUsesHostPageTables", pageable_uses_host_page_tables},
        {"directManagedMemAccessFromHost", direct_managed_access_from_host},
        {"hostNativeAtomicSupported", host_native_atomics},
        {"hostRegisterSupported", host_register_supported},
        {"canUseHostPointerForRegisteredMem", can_use_host_pointer_for_registered},
        {"virtualMemoryManagement", virtual_memory_management}};
    for (const auto& [key, which] : switches) facts.emplace_back(key, attribute(which) != 0);
    facts.emplace_back("copies_between_devices", api_.memcpy_peer_async != nullptr);
    return facts;
}

Capabilities CudaDevice::capabilities() {
    const bool discrete = attribute(integrated) == 0;
    Capabilities capabilities = gpu_capabilities(!discrete, "cubin");
    capabilities.page_migration = discrete && attribute(concurrent_managed_access) != 0;
    capabilities.memory_guidance = attribute(concurrent_managed_access) != 0;
    capabilities.memory_events = true;  // through CUPTI
    capabilities.host_native_atomics = attribute(host_native_atomics) != 0;
    return capabilities;
}

void CudaDevice::add_allocators() {
    allocators_ = host_allocators();
    const bool pageable = attribute(pageable_memory_access) != 0;
    for (auto& entry : allocators_) {
        entry.gpu = pageable ? Access::direct : Access::none;
        entry.migrates_on_fault =
            pageable && attribute(integrated) == 0 && attribute(pageable_uses_host_page_tables) == 0;
        if (pageable)
            entry.concurrent = entry.shared_atomics = true;
        else
            entry.gpu_reason = "pageableMemoryAccess is 0: the GPU cannot reach plain host memory (no HMM, no ATS)";
    }
    using A = Allocator;
    constexpr Access direct = Access::direct, none = Access::none;
    // An integrated GPU allocates from the host's memory.
    AllocatorInfo on_device{.allocator = A::device,
                            .cpu = none,
                            .gpu = direct,
                            .host_memory = attribute(integrated) != 0,
                            .device_memory = true,
                            .on_demand = false};
    add_allocator(on_device);
    on_device.allocator = A::vmm;
    add_allocator(on_device, attribute(virtual_memory_management) != 0 && api_.mem_create != nullptr,
                  "the driver does not support virtual memory management");
    // The GPU accesses page-locked host memory over the link, where its atomics are atomic for the CPU too only with
    // hardware support (CUDA C++ Programming Guide, "Mapped Memory").
    AllocatorInfo page_locked{
        .cpu = direct, .gpu = direct, .host_memory = true, .on_demand = false, .concurrent = true};
    page_locked.shared_atomics = attribute(host_native_atomics) != 0;
    for (const A allocator : {A::pinned, A::pinned_wc, A::registered}) {
        page_locked.allocator = allocator;
        add_allocator(page_locked, allocator != A::registered || attribute(host_register_supported) != 0,
                      "hostRegisterSupported is 0");
    }
    const bool concurrent = attribute(concurrent_managed_access) != 0;
    // Managed pages may be in host or device memory, so they are charged to both limits. Without concurrent managed
    // access the CPU may not touch any of them while any kernel runs (CUDA C++ Programming Guide, "Unified Memory").
    const AllocatorInfo managed_entry{.allocator = A::managed,
                                      .cpu = direct,
                                      .gpu = direct,
                                      .host_memory = true,
                                      .device_memory = true,
                                      .managed = true,
                                      .on_demand = true,
                                      .concurrent = concurrent,
                                      .shared_atomics = concurrent,
                                      .disjoint = concurrent};
    AllocatorInfo static_entry = managed_entry;
    static_entry.allocator = A::managed_static;
    add_allocator(managed_entry, attribute(managed_memory) != 0, "managedMemory is 0");
    add_allocator(static_entry, attribute(managed_memory) != 0, "managedMemory is 0");
}

void CudaDevice::obtain_host_pinned(Block& block, unsigned flags) {
    call(api_, api_.mem_host_alloc, &block.base, block.bytes, gpu::host_portable | host_device_map | flags);
    block.host = block.base;
    Undo free_host{[&] { api_.mem_free_host(block.base); }};
    block.address = mapped_address(block.base);
    free_host.armed = false;
}

// A module with one __managed__ array. It is written in PTX, so that no compiler is needed.
std::string CudaDevice::static_image(std::size_t bytes) const {
    return ".version 7.0\n.target sm_" + std::to_string(std::min(capability_, 80)) +
           "\n.address_size 64\n.visible .global .attribute(.managed) .align 128 .b8 firsttouch_static[" +
           std::to_string(bytes) + "];\n";
}

Block CudaDevice::obtain(Allocator allocator, std::size_t bytes, Pages pages) {
    if (is_host_allocator(allocator)) return obtain_plain(allocator, bytes, pages);
    const auto scope = make_current();
    Block block{.allocator = allocator, .bytes = bytes};
    switch (allocator) {
    case Allocator::device:
        call(api_, api_.mem_alloc, &block.address, bytes);
        break;
    case Allocator::vmm:
        obtain_vmm(block);
        break;
    case Allocator::pinned:
        obtain_host_pinned(block, 0);
        break;
    case Allocator::pinned_wc:
        obtain_host_pinned(block, host_write_combined);
        break;
    case Allocator::registered:
        obtain_registered(block, pages, gpu::register_portable | gpu::register_mapped);
        break;
    case Allocator::managed:
        call(api_, api_.mem_alloc_managed, &block.address, bytes, gpu::managed_attach_global);
        block.host = reinterpret_cast<void*>(block.address);
        break;
    case Allocator::managed_static:
        obtain_static(block, static_image(bytes));
        break;
    default:
        throw Unavailable(name() + " has no allocator " + to_string(allocator));
    }
    return block;
}

void CudaDevice::release(Block& block) noexcept {
    if (is_host_allocator(block.allocator)) return release_host(block);
    release_on(api_, current_, [&] { release_on_device(block); });
    block = {};
}

void CudaDevice::release_on_device(Block& block) {
    switch (block.allocator) {
    case Allocator::device:
    case Allocator::managed:
        api_.mem_free(block.address);
        break;
    case Allocator::vmm:
        release_vmm(block);
        break;
    case Allocator::pinned:
    case Allocator::pinned_wc:
        api_.mem_free_host(block.base);
        break;
    case Allocator::registered:
        release_registered(block);
        break;
    case Allocator::managed_static:
        release_static(block);
        break;
    default:
        break;
    }
}

Binary CudaDevice::compile(const Source& source) {
    return nvrtc_compile(translation_unit(source, "cuda"), source.name, architecture());
}

std::string CudaDevice::image(const Source& source) {
    int driver_version = 0, major = 0, minor = 0;
    api_.version(&driver_version);
    Driver::compiler().version(&major, &minor);
    const std::string key = "cuda/" + architecture() + "/" + std::to_string(driver_version) + "/" +
                            std::to_string(major) + "." + std::to_string(minor) + "/" +
                            translation_unit(source, "cuda");
    return cached(key, [&] { return compile(source).code; });
}

// This GPU's NVML handle, or nullptr if NVML is missing or does not know the GPU.
Nvml::Handle CudaDevice::nvml_handle() {
    if (!nvml_tried_) {
        nvml_tried_ = true;
        try {
            nvml_ = std::make_unique<Nvml>();
        } catch (const Unavailable&) {
        }
    }
    Nvml::Handle gpu = nullptr;
    return nvml_ != nullptr && nvml_->by_uuid(uuid().c_str(), &gpu) == 0 ? gpu : nullptr;
}

Clocks CudaDevice::clocks() {
    Clocks clocks;
    const Nvml::Handle gpu = nvml_handle();
    if (gpu == nullptr) return clocks;
    unsigned value = 0;
    if (nvml_->clock(gpu, 1, &value) == 0) clocks.core_mhz = value;
    if (nvml_->clock(gpu, 2, &value) == 0) clocks.memory_mhz = value;
    if (nvml_->temperature(gpu, 0, &value) == 0) clocks.temperature_c = value;
    if (nvml_->power(gpu, &value) == 0) clocks.power_w = value / 1000.0;
    unsigned long long reasons = 0;
    if (nvml_->throttle_reasons(gpu, &reasons) == 0) clocks.throttle = throttle_reasons(reasons & ~application_clocks);
    return clocks;
}

Facts CudaDevice::usage() {
    const Nvml::Handle gpu = nvml_handle();
    if (gpu == nullptr) return {};
    const auto bytes = [](unsigned long long value) { return static_cast<std::int64_t>(value); };
    if (NvmlMemoryV2 memory; nvml_->memory_v2 != nullptr && nvml_->memory_v2(gpu, &memory) == 0)
        return {{"total_bytes", bytes(memory.total)},
                {"used_bytes", bytes(memory.used)},
                {"free_bytes", bytes(memory.free)},
                {"reserved_bytes", bytes(memory.reserved)}};
    if (NvmlMemory memory{}; nvml_->memory(gpu, &memory) == 0)
        return {{"total_bytes", bytes(memory.total)},
                {"used_bytes", bytes(memory.used)},
                {"free_bytes", bytes(memory.free)}};
    return {};
}

}  // namespace
}  // namespace cuda

int count_cuda() {
    const auto& driver = cuda::Driver::instance();
    int count = 0;
    call(driver, driver.device_count, &count);
    return count;
}

std::unique_ptr<Device> open_cuda(int index) { return std::make_unique<cuda::CudaDevice>(index); }

}  // namespace firsttouch
