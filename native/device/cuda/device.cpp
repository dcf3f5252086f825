// The CUDA Device, on the driver API alone.
#include <cstdio>
#include <map>

#include "device/backends.hpp"
#include "device/cache.hpp"
#include "device/cuda/api.hpp"
#include "device/host/memory.hpp"
#include "device/prelude.hpp"

namespace firsttouch {
namespace cuda {
namespace {

// First-level data cache per multiprocessor in bytes, by compute capability (CUDA C++ Programming Guide, "Compute
// Capabilities": unified data cache size). The driver does not tell.
std::int64_t l1_bytes_of(int capability) {
    static const std::map<int, int> kib = {{60, 24},   {61, 48},   {70, 128}, {72, 128}, {75, 96},
                                           {80, 192},  {86, 128},  {87, 192}, {89, 128}, {90, 256},
                                           {100, 256}, {103, 256}, {120, 128}};
    const auto found = kib.find(capability);
    return found == kib.end() ? 0 : std::int64_t{found->second} * 1024;
}

struct CudaStream : Stream {
    explicit CudaStream(Driver& api) : driver(api) {
        driver.check(driver.stream_create(&handle, stream_non_blocking), "cuStreamCreate");
    }
    ~CudaStream() override { driver.stream_destroy(handle); }
    Driver& driver;
    StreamHandle handle = nullptr;
};

struct CudaEvent : Event {
    explicit CudaEvent(Driver& api) : driver(api) { driver.check(driver.event_create(&handle, 0), "cuEventCreate"); }
    ~CudaEvent() override { driver.event_destroy(handle); }
    Driver& driver;
    EventHandle handle = nullptr;
};

struct LoadedModule {
    LoadedModule(Driver& api, const std::string& image) : driver(api) {
        driver.check(driver.module_load(&handle, image.c_str()), "cuModuleLoadData");
    }
    ~LoadedModule() { driver.module_unload(handle); }
    LoadedModule(const LoadedModule&) = delete;
    LoadedModule& operator=(const LoadedModule&) = delete;
    Driver& driver;
    Module handle = nullptr;
};

struct CudaKernel : Kernel {
    std::shared_ptr<LoadedModule> module;
    Function function = nullptr;
};

class CudaDevice : public Device {
  public:
    explicit CudaDevice(int index) : Device("cuda:" + std::to_string(index)), driver_(Driver::instance()) {
        driver_.check(driver_.device_get(&ordinal_, index), "cuDeviceGet");
        driver_.check(driver_.context_retain(&context_, ordinal_), "cuDevicePrimaryCtxRetain");
        driver_.check(driver_.context_set(context_), "cuCtxSetCurrent");
        capability_ = attribute(compute_major) * 10 + attribute(compute_minor);
        state_allocators();
    }
    ~CudaDevice() override {
        modules_.clear();
        driver_.context_release(ordinal_);
    }

    Facts facts() override;
    const std::vector<AllocatorInfo>& allocators() override { return allocators_; }
    DeviceMemory memory() override {
        DeviceMemory memory;
        driver_.check(driver_.mem_info(&memory.free, &memory.total), "cuMemGetInfo");
        return memory;
    }
    Block obtain(Allocator allocator, std::size_t bytes, Pages pages) override;
    void release(Block& block) noexcept override;
    void* map(const Block& block) override {
        if (block.host == nullptr) throw Unavailable("the CPU cannot reach " + to_string(block.allocator) + " memory");
        return block.host;
    }
    void unmap(const Block&, void*) override {}

    std::unique_ptr<Kernel> kernel(const Source& source, const std::string& entry) override;
    Binary compile(const Source& source) override;
    std::unique_ptr<Stream> stream() override { return std::make_unique<CudaStream>(driver_); }
    void launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments) override;
    void copy(Stream& stream, const Buffer& target, std::size_t target_offset, const Buffer& source,
              std::size_t source_offset, std::size_t bytes) override {
        driver_.check(driver_.memcpy_async(address_of(target.block()) + target_offset,
                                           address_of(source.block()) + source_offset, bytes, handle(stream)),
                      "cuMemcpyAsync");
    }
    void prefetch(Stream& stream, const Buffer& buffer, std::size_t offset, std::size_t bytes, Agent agent) override {
        if (!migrates(buffer)) throw Unavailable(to_string(buffer.allocator()) + " memory is not prefetched");
        driver_.check(driver_.mem_prefetch(buffer.block().address + offset, bytes,
                                           agent == Agent::gpu ? ordinal_ : the_host, handle(stream)),
                      "cuMemPrefetchAsync");
    }
    void advise(const Buffer& buffer, Advice advice) override {
        if (!migrates(buffer)) throw Unavailable(to_string(buffer.allocator()) + " memory takes no advice");
        // CUmem_advise: 1 read mostly, 3 preferred location, 5 accessed by.
        static constexpr struct {
            int number;
            bool of_gpu;
        } numbers[] = {{1, true}, {3, true}, {3, false}, {5, true}, {5, false}};
        const auto& [number, of_gpu] = numbers[static_cast<std::size_t>(advice)];
        driver_.check(driver_.mem_advise(buffer.block().address, buffer.size(), number, of_gpu ? ordinal_ : the_host),
                      "cuMemAdvise");
    }
    void wait(Stream& stream) override { driver_.check(driver_.stream_wait(handle(stream)), "cuStreamSynchronize"); }
    std::unique_ptr<Event> record(Stream& stream) override {
        auto event = std::make_unique<CudaEvent>(driver_);
        driver_.check(driver_.event_record(event->handle, handle(stream)), "cuEventRecord");
        return event;
    }
    double elapsed(Event& from, Event& to) override {
        float milliseconds = 0;
        driver_.check(driver_.event_wait(static_cast<CudaEvent&>(to).handle), "cuEventSynchronize");
        driver_.check(driver_.event_elapsed(&milliseconds, static_cast<CudaEvent&>(from).handle,
                                            static_cast<CudaEvent&>(to).handle),
                      "cuEventElapsedTime");
        return milliseconds * 1e-3;
    }
    void join(Stream& stream, Event& event) override {
        driver_.check(driver_.stream_wait_event(handle(stream), static_cast<CudaEvent&>(event).handle, 0),
                      "cuStreamWaitEvent");
    }
    std::unique_ptr<Gate> hold(Stream& stream) override;
    Clocks clocks() override;

  private:
    int attribute(int which) const {
        int value = 0;
        return driver_.device_attribute(&value, which, ordinal_) == 0 ? value : 0;
    }
    std::string uuid() const;
    std::string architecture() const { return "sm_" + std::to_string(capability_); }
    static StreamHandle handle(Stream& stream) { return static_cast<CudaStream&>(stream).handle; }
    // One address space: host memory is copied by its host address.
    static DevicePointer address_of(const Block& block) {
        return block.address != 0 ? block.address : reinterpret_cast<DevicePointer>(block.host);
    }
    // Whether the driver moves its pages: managed memory, and plain memory where the GPU reaches it.
    bool migrates(const Buffer& buffer) {
        const AllocatorInfo& entry = info(buffer.allocator());
        return entry.managed || (is_host_allocator(buffer.allocator()) && entry.gpu != Access::none);
    }
    static constexpr DeviceOrdinal the_host = -1;  // CU_DEVICE_CPU
    void state_allocators();
    AllocationProperties properties() const {
        return {
            .type = 1, .requested_handle_types = 0, .location = {1, ordinal_}, .win32_metadata = nullptr, .flags = {}};
    }
    void obtain_vmm(Block& block);
    void obtain_static(Block& block);
    void obtain_host_pinned(Block& block, unsigned flags);
    void obtain_registered(Block& block, Pages pages);
    std::string image(const Source& source);

    Driver& driver_;
    DeviceOrdinal ordinal_ = 0;
    Context context_ = nullptr;
    int capability_ = 0;
    std::vector<AllocatorInfo> allocators_;
    std::map<std::string, std::shared_ptr<LoadedModule>> modules_;
    std::unique_ptr<Nvml> nvml_;
    bool nvml_tried_ = false;
};

std::string CudaDevice::uuid() const {
    Uuid id{};
    if (driver_.device_uuid(&id, ordinal_) != 0) return "";
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
    driver_.check(driver_.device_name(title, sizeof(title), ordinal_), "cuDeviceGetName");
    driver_.device_pci_bus_id(bus, sizeof(bus), ordinal_);
    int version = 0;
    driver_.driver_version(&version);
    const DeviceMemory now = memory();
    Facts facts = {{"title", std::string(title)},
                   {"uuid", uuid()},
                   {"pci_bus", std::string(bus)},
                   {"driver_api", std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10)},
                   {"compute_capability", std::to_string(capability_ / 10) + "." + std::to_string(capability_ % 10)},
                   {"memory_bytes", static_cast<std::int64_t>(now.total)},
                   {"memory_free_bytes", static_cast<std::int64_t>(now.free)},
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
    return facts;
}

void CudaDevice::state_allocators() {
    allocators_ = host_allocators();
    const bool pageable = attribute(pageable_memory_access) != 0;
    for (auto& entry : allocators_) {
        entry.gpu = pageable ? Access::direct : Access::none;
        if (pageable)
            entry.concurrent = entry.shared_atomics = true;
        else
            entry.gpu_reason = "pageableMemoryAccess is 0: the GPU cannot reach plain host memory (no HMM, no ATS)";
    }
    const auto add = [&](AllocatorInfo entry, bool available, const char* reason) {
        entry.available = available;
        if (!available) entry.reason = reason;
        allocators_.push_back(std::move(entry));
    };
    using A = Allocator;
    constexpr Access direct = Access::direct, none = Access::none;
    add({.allocator = A::device, .cpu = none, .gpu = direct, .device_memory = true, .on_demand = false}, true, "");
    add({.allocator = A::vmm, .cpu = none, .gpu = direct, .device_memory = true, .on_demand = false},
        attribute(virtual_memory_management) != 0 && driver_.mem_create != nullptr,
        "the driver has no virtual memory management here");
    // The GPU reaches pinned host memory over the link, where its atomics are the CPU's too only by hardware support
    // (CUDA C++ Programming Guide, "Mapped Memory").
    AllocatorInfo over_link{.cpu = direct, .gpu = direct, .host_memory = true, .on_demand = false, .concurrent = true};
    over_link.shared_atomics = attribute(host_native_atomics) != 0;
    for (const A allocator : {A::pinned, A::pinned_wc, A::registered}) {
        over_link.allocator = allocator;
        add(over_link, allocator != A::registered || attribute(host_register_supported) != 0,
            "hostRegisterSupported is 0");
    }
    const bool together = attribute(concurrent_managed_access) != 0;
    // Managed pages may end on either side, so both limits bear them.
    const AllocatorInfo managed_entry{.allocator = A::managed,
                                      .cpu = direct,
                                      .gpu = direct,
                                      .host_memory = true,
                                      .device_memory = true,
                                      .managed = true,
                                      .on_demand = true,
                                      .concurrent = together,
                                      .shared_atomics = together};
    AllocatorInfo static_entry = managed_entry;
    static_entry.allocator = A::managed_static;
    add(managed_entry, attribute(managed_memory) != 0, "managedMemory is 0");
    add(static_entry, attribute(managed_memory) != 0, "managedMemory is 0");
}

void CudaDevice::obtain_host_pinned(Block& block, unsigned flags) {
    driver_.check(driver_.mem_host_alloc(&block.base, block.bytes, host_portable | host_device_map | flags),
                  "cuMemHostAlloc");
    block.host = block.base;
    driver_.check(driver_.mem_host_device_pointer(&block.address, block.base, 0), "cuMemHostGetDevicePointer");
}

void CudaDevice::obtain_registered(Block& block, Pages pages) {
    Block plain = obtain_host(Allocator::malloc, block.bytes, pages);
    plain.allocator = Allocator::malloc;
    const Result result = driver_.mem_host_register(plain.host, block.bytes, register_portable | register_device_map);
    if (result != 0) {
        release_host(plain);
        driver_.check(result, "cuMemHostRegister");
    }
    block.base = plain.base;
    block.host = plain.host;
    driver_.check(driver_.mem_host_device_pointer(&block.address, block.host, 0), "cuMemHostGetDevicePointer");
}

void CudaDevice::obtain_vmm(Block& block) {
    const AllocationProperties wanted = properties();
    std::size_t granularity = 0;
    driver_.check(driver_.mem_granularity(&granularity, &wanted, 0), "cuMemGetAllocationGranularity");
    block.reserved = (block.bytes + granularity - 1) / granularity * granularity;
    AllocationHandle handle = 0;
    driver_.check(driver_.mem_create(&handle, block.reserved, &wanted, 0), "cuMemCreate");
    Result result = driver_.address_reserve(&block.address, block.reserved, 0, 0, 0);
    if (result == 0) {
        result = driver_.mem_map(block.address, block.reserved, 0, handle, 0);
        if (result == 0) {
            const AccessDescription access{{1, ordinal_}, 3};
            result = driver_.mem_set_access(block.address, block.reserved, &access, 1);
            if (result != 0) driver_.mem_unmap(block.address, block.reserved);
        }
        if (result != 0) driver_.address_free(block.address, block.reserved);
    }
    driver_.mem_release(handle);  // the mapping keeps the memory
    driver_.check(result, "cuMemAddressReserve, cuMemMap, cuMemSetAccess");
}

// A module that holds one __managed__ array, written in PTX so that no compiler is needed.
void CudaDevice::obtain_static(Block& block) {
    const std::string text =
        ".version 7.0\n.target sm_" + std::to_string(std::min(capability_, 80)) +
        "\n.address_size 64\n.visible .global .attribute(.managed) .align 128 .b8 firsttouch_static[" +
        std::to_string(block.bytes) + "];\n";
    Module module = nullptr;
    driver_.check(driver_.module_load(&module, text.c_str()), "cuModuleLoadData of a __managed__ array");
    std::size_t size = 0;
    const Result result = driver_.module_global(&block.address, &size, module, "firsttouch_static");
    if (result != 0) driver_.module_unload(module);
    driver_.check(result, "cuModuleGetGlobal");
    block.handle = module;
    block.host = reinterpret_cast<void*>(block.address);
}

Block CudaDevice::obtain(Allocator allocator, std::size_t bytes, Pages pages) {
    if (is_host_allocator(allocator)) {
        Block block = obtain_host(allocator, bytes, pages);
        if (info(allocator).gpu == Access::direct) block.address = reinterpret_cast<DevicePointer>(block.host);
        return block;
    }
    Block block{.allocator = allocator, .bytes = bytes};
    switch (allocator) {
    case Allocator::device:
        driver_.check(driver_.mem_alloc(&block.address, bytes), "cuMemAlloc");
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
        obtain_registered(block, pages);
        break;
    case Allocator::managed:
        driver_.check(driver_.mem_alloc_managed(&block.address, bytes, managed_attach_global), "cuMemAllocManaged");
        block.host = reinterpret_cast<void*>(block.address);
        break;
    case Allocator::managed_static:
        obtain_static(block);
        break;
    default:
        throw Unavailable(name() + " has no allocator " + to_string(allocator));
    }
    return block;
}

void CudaDevice::release(Block& block) noexcept {
    switch (block.allocator) {
    case Allocator::device:
    case Allocator::managed:
        driver_.mem_free(block.address);
        break;
    case Allocator::vmm:
        driver_.mem_unmap(block.address, block.reserved);
        driver_.address_free(block.address, block.reserved);
        break;
    case Allocator::pinned:
    case Allocator::pinned_wc:
        driver_.mem_free_host(block.base);
        break;
    case Allocator::registered:
        driver_.mem_host_unregister(block.host);
        block.allocator = Allocator::malloc;
        release_host(block);
        break;
    case Allocator::managed_static:
        driver_.module_unload(static_cast<Module>(block.handle));
        break;
    default:
        release_host(block);
    }
    block = {};
}

Binary CudaDevice::compile(const Source& source) {
    Compiled compiled = nvrtc_compile(translation_unit(source, "cuda"), source.name, architecture());
    return {"cubin", std::move(compiled.cubin), std::move(compiled.ptx), std::move(compiled.log)};
}

std::string CudaDevice::image(const Source& source) {
    int driver_version = 0, major = 0, minor = 0;
    driver_.driver_version(&driver_version);
    Nvrtc::instance().version(&major, &minor);
    const std::string key = "cuda/" + architecture() + "/" + std::to_string(driver_version) + "/" +
                            std::to_string(major) + "." + std::to_string(minor) + "/" +
                            translation_unit(source, "cuda");
    return cached(key, [&] { return compile(source).code; });
}

std::unique_ptr<Kernel> CudaDevice::kernel(const Source& source, const std::string& entry) {
    std::string key = source.name;
    for (const auto& [name, value] : source.defines) key += " " + name + "=" + value;
    key += "\n" + source.text;
    auto& module = modules_[key];
    if (module == nullptr) module = std::make_shared<LoadedModule>(driver_, image(source));
    auto kernel = std::make_unique<CudaKernel>();
    kernel->module = module;
    driver_.check(driver_.module_function(&kernel->function, module->handle, entry.c_str()), "cuModuleGetFunction");
    return kernel;
}

void CudaDevice::launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments) {
    void* pointers[24];
    DevicePointer addresses[24];
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
    driver_.check(driver_.launch(static_cast<CudaKernel&>(kernel).function, grid.blocks, 1, 1, grid.threads, 1, 1, 0,
                                 handle(stream), pointers, nullptr),
                  "cuLaunchKernel");
}

// A kernel of one thread that watches a word of pinned memory. It ends by itself after five seconds.
class SpinGate : public Gate {
  public:
    SpinGate(Device& device, Stream& stream, Kernel& kernel)
        : flag_(device.allocate(Allocator::pinned, 4096)), word_(static_cast<std::uint64_t*>(flag_->block().host)) {
        *word_ = 0;
        const Argument arguments[] = {*flag_, std::uint64_t{5'000'000'000}};
        device.launch(stream, kernel, {1, 1}, arguments);
        stream_ = &stream;
    }
    ~SpinGate() override {
        open();
        try {
            flag_->device().wait(*stream_);  // the kernel reads the flag until it ends
        } catch (const std::exception&) {
        }
    }
    void open() override { __atomic_store_n(word_, std::uint64_t{1}, __ATOMIC_RELEASE); }

  private:
    std::unique_ptr<Buffer> flag_;
    std::uint64_t* word_;
    Stream* stream_ = nullptr;
};

std::unique_ptr<Gate> CudaDevice::hold(Stream& stream) {
    const auto spin = kernel(kernel_source("gate"), "gate_wait");
    return std::make_unique<SpinGate>(*this, stream, *spin);
}

Clocks CudaDevice::clocks() {
    if (!nvml_tried_) {
        nvml_tried_ = true;
        try {
            nvml_ = std::make_unique<Nvml>();
        } catch (const Unavailable&) {
        }
    }
    Clocks clocks;
    Nvml::Handle gpu = nullptr;
    if (nvml_ == nullptr || nvml_->by_uuid(uuid().c_str(), &gpu) != 0) return clocks;
    unsigned value = 0;
    if (nvml_->clock(gpu, 1, &value) == 0) clocks.core_mhz = value;
    if (nvml_->clock(gpu, 2, &value) == 0) clocks.memory_mhz = value;
    if (nvml_->temperature(gpu, 0, &value) == 0) clocks.temperature_c = value;
    if (nvml_->power(gpu, &value) == 0) clocks.power_w = value / 1000.0;
    unsigned long long reasons = 0;
    // nvml.h, nvmlClocksEventReasons: idle (1) and the applications' own clock setting (2) are no throttling.
    static const std::pair<unsigned long long, const char*> names[] = {
        {0x4, "power cap"},           {0x8, "hardware slowdown"},   {0x10, "sync boost"},
        {0x20, "thermal (software)"}, {0x40, "thermal (hardware)"}, {0x80, "power brake"},
        {0x100, "display clocks"}};
    if (nvml_->throttle_reasons(gpu, &reasons) == 0)
        for (const auto& [bit, name] : names)
            if ((reasons & bit) != 0) clocks.throttle.emplace_back(name);
    return clocks;
}

}  // namespace
}  // namespace cuda

int count_cuda() {
    auto& driver = cuda::Driver::instance();
    int count = 0;
    driver.check(driver.device_count(&count), "cuDeviceGetCount");
    return count;
}

std::unique_ptr<Device> open_cuda(int index) { return std::make_unique<cuda::CudaDevice>(index); }

}  // namespace firsttouch
