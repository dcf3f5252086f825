// The HIP Device, for AMD GPUs. It uses the HIP runtime's module API and hipRTC.
#include <algorithm>
#include <cctype>
#include <cstdio>

#include "device/backends.hpp"
#include "device/cache.hpp"
#include "device/gpu.hpp"
#include "device/hip/api.hpp"

namespace firsttouch {
namespace hip {
namespace {

class HipDevice : public GpuDevice<Runtime> {
  public:
    explicit HipDevice(int index) : GpuDevice("hip:" + std::to_string(index), Runtime::instance()) {
        call(api_, api_.device_get, &ordinal_, index);
        current_ = index;
        const auto scope = make_current();
        Properties properties{};
        call(api_, api_.device_properties, &properties, index);
        architecture_ = properties.architecture();
        add_allocators();
    }

    Facts facts() override;
    Capabilities capabilities() override;
    Block obtain(Allocator allocator, std::size_t bytes, Pages pages) override;
    void release(Block& block) noexcept override;
    Binary compile(const Source& source) override;

  private:
    // All devices share one address space, so the addresses alone identify the memory, also on a peer.
    void queue_copy(Stream& stream, const Buffer& target, std::size_t target_offset, const Buffer& source,
                    std::size_t source_offset, std::size_t bytes) override {
        const auto scope = make_current();
        call(api_, api_.memcpy_async, pointer(address_of(target.block()) + target_offset),
             pointer(address_of(source.block()) + source_offset), bytes, copy_by_address, handle(stream));
    }
    bool has(const char* feature) const { return architecture_.find(feature) != std::string::npos; }
    std::string uuid() const;
    std::string xnack() const { return has("xnack+") ? "on" : has("xnack-") ? "off" : "none"; }
    // The rate of the constant-rate clock, which the prelude needs and cannot query.
    std::vector<std::string> defines() const {
        const int khz = attribute(wall_clock_khz);
        if (khz <= 0) return {};
        return {"WALL_CLOCK_KHZ=" + std::to_string(khz)};
    }
    void add_allocators();
    void obtain_pinned(Block& block, unsigned flags);
    void obtain_managed(Block& block);
    std::string static_image(std::size_t bytes);
    void release_on_device(Block& block);
    std::string image(const Source& source) override;
    bool is_set_aside(const std::string& pci_bus, std::size_t total) override {
        return attribute(direct_managed_access_from_host) == 0 && vram_set_aside(pci_bus) == total;  // a small APU
    }

    std::string architecture_;  // with its features, such as gfx90a:sramecc+:xnack-
};

// HIP's UUID has 16 bytes. On most GPUs they are the digits of a number as text; otherwise they are shown in
// hexadecimal.
std::string HipDevice::uuid() const {
    gpu::Uuid id{};
    if (api_.device_uuid(&id, ordinal_) != 0) return "";
    const std::string raw(id.bytes, id.bytes + sizeof(id.bytes));
    std::string text = "GPU-";
    if (std::all_of(raw.begin(), raw.end(), [](unsigned char c) { return std::isxdigit(c); })) return text + raw;
    for (const unsigned char c : raw) {
        char hex[4];
        std::snprintf(hex, sizeof(hex), "%02x", c);
        text += hex;
    }
    return text;
}

Facts HipDevice::facts() {
    char title[256] = {}, bus[64] = {};
    call(api_, api_.device_name, title, static_cast<int>(sizeof(title)), ordinal_);
    api_.device_pci_bus_id(bus, sizeof(bus), ordinal_);
    int version = 0;
    api_.version(&version);  // hip_version.h: major * 10^7 + minor * 10^5 + patch
    const DeviceMemory device_memory = available_memory();
    Facts facts = {{"title", std::string(title)},
                   {"uuid", uuid()},
                   {"pci_bus", std::string(bus)},
                   {"runtime", std::to_string(version / 10'000'000) + "." + std::to_string(version / 100'000 % 100) +
                                   "." + std::to_string(version % 100'000)},
                   {"arch", architecture_},
                   {"xnack", xnack()},
                   {"memory_bytes", static_cast<std::int64_t>(device_memory.total)},
                   {"memory_free_bytes", static_cast<std::int64_t>(device_memory.free)},
                   {"line_bytes", std::int64_t{128}}};  // of the L2 cache: CDNA 2 and CDNA 3 white papers
    static const std::pair<const char*, int> numbers[] = {{"multiprocessors", multiprocessors},
                                                          {"threads_per_multiprocessor", threads_per_multiprocessor},
                                                          {"l2_bytes", l2_bytes},
                                                          {"clock_khz", clock_rate_khz},
                                                          {"memory_clock_khz", memory_clock_khz},
                                                          {"memory_bus_bits", memory_bus_bits},
                                                          {"wall_clock_khz", wall_clock_khz},
                                                          {"warp_size", warp_size}};
    for (const auto& [key, which] : numbers) facts.emplace_back(key, std::int64_t{attribute(which)});
    static const std::pair<const char*, int> switches[] = {
        {"integrated", integrated},
        {"largeBar", large_bar},
        {"managedMemory", managed_memory},
        {"concurrentManagedAccess", concurrent_managed_access},
        {"pageableMemoryAccess", pageable_memory_access},
        {"pageableMemoryAccessUsesHostPageTables", pageable_uses_host_page_tables},
        {"directManagedMemAccessFromHost", direct_managed_access_from_host},
        {"hostNativeAtomicSupported", host_native_atomics},
        {"hostRegisterSupported", host_register_supported},
        {"canUseHostPointerForRegisteredMem", can_use_host_pointer_for_registered},
        {"fineGrainSupport", fine_grain_support},
        {"virtualMemoryManagement", virtual_memory_management}};
    for (const auto& [key, which] : switches) facts.emplace_back(key, attribute(which) != 0);
    facts.emplace_back("copies_between_devices", api_.memcpy_peer_async != nullptr);
    return facts;
}

// Without XNACK, managed memory is page-locked host memory (HIP documentation, "Unified memory management").
Capabilities HipDevice::capabilities() {
    const bool discrete = attribute(integrated) == 0;
    Capabilities capabilities = gpu_capabilities(!discrete, "hsaco");
    capabilities.page_migration = discrete && xnack() == "on" && attribute(concurrent_managed_access) != 0;
    capabilities.memory_guidance = attribute(concurrent_managed_access) != 0;
    capabilities.host_native_atomics = attribute(host_native_atomics) != 0;
    return capabilities;
}

// Sources: HIP documentation, "Coherence control" (which memory is fine-grained, that is, coherent while a kernel runs)
// and "Unified memory management" (how pages are allocated, with and without XNACK). System-scope atomics on
// fine-grained host memory are atomic for the CPU too if the link supports atomics (ROCm documentation, "Hardware
// atomics operation support").
void HipDevice::add_allocators() {
    using A = Allocator;
    constexpr Access direct = Access::direct, none = Access::none;
    // CPU and GPU of an APU share one memory: the CPU can access all of it, and it is charged to both limits. Whether
    // that access is coherent is stated by the kernel driver: HIP takes directManagedMemAccessFromHost from its
    // CoherentHostAccess, which it sets for APUs such as MI300A, and not for small ones, where the CPU's mapping of
    // device memory is write-combined.
    const bool apu = attribute(integrated) != 0;
    const bool coherent = apu && attribute(direct_managed_access_from_host) != 0;
    const bool atomics = coherent || attribute(host_native_atomics) != 0;
    const bool pageable = attribute(pageable_memory_access) != 0;
    allocators_ = host_allocators();
    for (auto& entry : allocators_) {
        entry.gpu = pageable ? direct : none;
        entry.migrates_on_fault =
            pageable && attribute(integrated) == 0 && attribute(pageable_uses_host_page_tables) == 0;
        if (pageable) {
            entry.concurrent = true;
            entry.shared_atomics = atomics;
        } else {
            entry.gpu_reason = "pageableMemoryAccess is 0: the GPU cannot reach plain host memory (" +
                               std::string(xnack() == "off"  ? "XNACK is off; HSA_XNACK=1 requests it"
                                           : xnack() == "on" ? "XNACK is on, but the Linux kernel has no HMM"
                                                             : "the GPU has no XNACK") +
                               ")";
        }
    }
    AllocatorInfo on_device{.allocator = A::device,
                            .cpu = apu ? direct : none,
                            .gpu = direct,
                            .host_memory = apu,
                            .device_memory = true,
                            .on_demand = false};
    AllocatorInfo mapped = on_device;  // the mapping is for the GPU only
    mapped.allocator = A::vmm;
    mapped.cpu = none;
    if (coherent) on_device.concurrent = on_device.shared_atomics = true;  // otherwise not stated
    add_allocator(on_device);
    add_allocator(mapped, attribute(virtual_memory_management) != 0 && api_.mem_create != nullptr,
                  "the driver does not support virtual memory management");
    // There is no pinned-wc: according to hip_runtime_api.h, write-combined memory is not functional within the HIP
    // runtime.
    AllocatorInfo on_host{.allocator = A::pinned,
                          .cpu = direct,
                          .gpu = direct,
                          .host_memory = true,
                          .device_memory = apu,
                          .on_demand = false,
                          .concurrent = true,
                          .shared_atomics = atomics};
    add_allocator(on_host);
    on_host.allocator = A::registered;
    add_allocator(on_host);
    on_host.allocator = A::pinned_noncoherent;
    on_host.concurrent = on_host.shared_atomics = false;
    on_host.disjoint =
        true;  // nothing maps or protects it, and the GPU's caches write back the bytes that they changed
    add_allocator(on_host);
    AllocatorInfo managed{.allocator = A::managed,
                          .cpu = direct,
                          .gpu = direct,
                          .host_memory = true,
                          .device_memory = true,
                          .managed = true,
                          .on_demand = xnack() == "on",
                          .concurrent = attribute(concurrent_managed_access) != 0,
                          .shared_atomics = attribute(concurrent_managed_access) != 0 && atomics,
                          .disjoint = attribute(concurrent_managed_access) != 0};
    add_allocator(managed, attribute(managed_memory) != 0, "managedMemory is 0");
    AllocatorInfo static_array = managed;
    static_array.allocator = A::managed_static;
    add_allocator(static_array, attribute(managed_memory) != 0, "managedMemory is 0");
    on_device.allocator = A::fine_grained;
    if (apu) {
        on_device.concurrent = true;
        on_device.shared_atomics = atomics;
    }
    add_allocator(on_device, attribute(fine_grain_support) != 0 && api_.mem_alloc_flags != nullptr,
                  "the device has no fine-grained memory (fineGrainSupport is 0)");
    managed.allocator = A::coarse_grained;
    managed.concurrent = managed.shared_atomics = false;
    if (managed.disjoint == true) managed.disjoint.reset();
    add_allocator(managed, attribute(managed_memory) != 0, "managedMemory is 0");
}

void HipDevice::obtain_pinned(Block& block, unsigned flags) {
    call(api_, api_.mem_host_alloc, &block.base, block.bytes, gpu::host_portable | flags);
    Undo free_host{[&] { api_.mem_free_host(block.base); }};
    block.address = mapped_address(block.base);
    free_host.armed = false;
    block.host = block.base;
}

void HipDevice::obtain_managed(Block& block) {
    call(api_, api_.mem_alloc_managed, &block.base, block.bytes, gpu::managed_attach_global);
    Undo free_managed{[&] { api_.mem_free(block.base); }};
    if (block.allocator == Allocator::coarse_grained)
        call(api_, api_.mem_advise, block.base, block.bytes, advise_coarse_grain, ordinal_);
    free_managed.armed = false;
    block.address = address(block.base);
    block.host = block.base;
}

// A module with one __managed__ array.
std::string HipDevice::static_image(std::size_t bytes) {
    return image({"static", kernel_file("static.hip.h"), {{"BYTES", std::to_string(bytes)}}});
}

Block HipDevice::obtain(Allocator allocator, std::size_t bytes, Pages pages) {
    if (is_host_allocator(allocator)) return obtain_plain(allocator, bytes, pages);
    const auto scope = make_current();
    Block block{.allocator = allocator, .bytes = bytes};
    switch (allocator) {
    case Allocator::device:
        call(api_, api_.mem_alloc, &block.base, bytes);
        block.address = address(block.base);
        break;
    case Allocator::fine_grained:
        call(api_, api_.mem_alloc_flags, &block.base, bytes, malloc_fine_grained);
        block.address = address(block.base);
        break;
    case Allocator::vmm:
        obtain_vmm(block);
        break;
    case Allocator::pinned:
        obtain_pinned(block, host_coherent);
        break;
    case Allocator::pinned_noncoherent:
        obtain_pinned(block, host_non_coherent);
        break;
    case Allocator::registered:
        obtain_registered(block, pages, gpu::register_portable | gpu::register_mapped);
        break;
    case Allocator::managed:
    case Allocator::coarse_grained:
        obtain_managed(block);
        break;
    case Allocator::managed_static:
        obtain_static(block, static_image(bytes));
        break;
    default:
        throw Unavailable(name() + " has no allocator " + to_string(allocator));
    }
    if (block.host == nullptr && info(allocator).cpu == Access::direct) block.host = block.base;
    return block;
}

void HipDevice::release(Block& block) noexcept {
    if (is_host_allocator(block.allocator)) return release_host(block);
    release_on(api_, current_, [&] { release_on_device(block); });
    block = {};
}

void HipDevice::release_on_device(Block& block) {
    switch (block.allocator) {
    case Allocator::device:
    case Allocator::fine_grained:
    case Allocator::managed:
    case Allocator::coarse_grained:
        api_.mem_free(block.base);
        break;
    case Allocator::vmm:
        release_vmm(block);
        break;
    case Allocator::pinned:
    case Allocator::pinned_noncoherent:
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

Binary HipDevice::compile(const Source& source) {
    return hiprtc_compile(translation_unit(source, "hip"), source.name, architecture_, defines());
}

std::string HipDevice::image(const Source& source) {
    int version = 0, major = 0, minor = 0;
    api_.version(&version);
    Runtime::compiler().version(&major, &minor);
    std::string key = "hip/" + architecture_ + "/" + std::to_string(version) + "/" + std::to_string(major) + "." +
                      std::to_string(minor) + "/";
    for (const auto& define : defines()) key += define + "/";
    return cached(key + translation_unit(source, "hip"), [&] { return compile(source).code; });
}

}  // namespace
}  // namespace hip

int count_hip() {
    const auto& runtime = hip::Runtime::instance();
    int count = 0;
    const hip::Result result = runtime.device_count(&count);
    if (result == hip::no_device)
        throw Unavailable("hipGetDeviceCount: " + std::string(runtime.get_error_string(result)));
    runtime.check(result, "hipGetDeviceCount");
    return count;
}

std::unique_ptr<Device> open_hip(int index) { return std::make_unique<hip::HipDevice>(index); }

}  // namespace firsttouch
