// The HIP Device, for AMD GPUs. It uses the HIP runtime's module API and hipRTC.
#include <algorithm>
#include <cctype>
#include <cstdio>

#include "device/backends.hpp"
#include "device/gpu.hpp"
#include "device/hip/api.hpp"
#include "device/prelude.hpp"

namespace firsttouch {
namespace hip {
namespace {

class HipDevice : public GpuDevice<Runtime> {
  public:
    explicit HipDevice(int index) : GpuDevice(index, Runtime::instance()) {
        current_ = index;
        const auto scope = make_current();
        Properties properties{};
        call(api_, api_.device_properties, &properties, index);
        architecture_ = properties.architecture();  // with its features, such as gfx90a:sramecc+:xnack-
        add_allocators();
    }

    // Without XNACK, managed memory is page-locked host memory (HIP documentation, "Unified memory management").
    Capabilities capabilities() override {
        Capabilities capabilities = GpuDevice::capabilities();
        if (xnack() != "on") capabilities.page_migration = false;
        return capabilities;
    }
    Binary compile(const Source& source) override {
        return hiprtc_compile(translation_unit(source, Runtime::language), source.name, architecture_, defines());
    }

  private:
    // All devices share one address space, so the addresses alone identify the memory, also on a peer.
    void queue_copy(Stream& stream, const Buffer& target, std::size_t target_offset, const Buffer& source,
                    std::size_t source_offset, std::size_t bytes) override {
        const auto scope = make_current();
        call(api_, api_.memcpy_async, pointer(address_of(target.block()) + target_offset),
             pointer(address_of(source.block()) + source_offset), bytes, copy_by_address, handle(stream));
    }
    bool has(const char* feature) const { return architecture_.find(feature) != std::string::npos; }
    std::string xnack() const { return has("xnack+") ? "on" : has("xnack-") ? "off" : "none"; }
    std::string uuid() const override;
    // hip_version.h: major * 10^7 + minor * 10^5 + patch
    Facts versions(int driver) const override {
        return {{"runtime", std::to_string(driver / 10'000'000) + "." + std::to_string(driver / 100'000 % 100) + "." +
                                std::to_string(driver % 100'000)},
                {"arch", architecture_},
                {"xnack", xnack()}};
    }
    // The rate of the constant-rate clock.
    std::vector<std::string> defines() const override {
        const int khz = attribute(wall_clock_khz);
        if (khz <= 0) return {};
        return {"WALL_CLOCK_KHZ=" + std::to_string(khz)};
    }
    void add_allocators();
    void obtain_own(Block& block) override;
    std::string static_image(std::size_t bytes) override {
        return image({"static", kernel_file("static.hip.h"), {{"BYTES", std::to_string(bytes)}}});
    }
    bool is_set_aside(const std::string& pci_bus, std::size_t total) override {
        return attribute(direct_managed_access_from_host) == 0 && vram_set_aside(pci_bus) == total;  // a small APU
    }
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

// Sources: HIP documentation, "Coherence control" (which memory is fine-grained, that is, coherent while a kernel runs)
// and "Unified memory management" (how pages are allocated, with and without XNACK). System-scope atomics on
// fine-grained host memory are atomic for the CPU too if the link supports atomics (ROCm documentation, "Hardware
// atomics operation support").
void HipDevice::add_allocators() {
    using A = Allocator;
    // CPU and GPU of an APU share one memory: the CPU can access all of it, and it is charged to both limits. Whether
    // that access is coherent is stated by the kernel driver: HIP takes directManagedMemAccessFromHost from its
    // CoherentHostAccess, which it sets for APUs such as MI300A, and not for small ones, where the CPU's mapping of
    // device memory is write-combined.
    const bool apu = is_integrated();
    const bool coherent = apu && attribute(direct_managed_access_from_host) != 0;
    const bool atomics = coherent || attribute(host_native_atomics) != 0;
    add_plain(atomics, xnack() == "off"  ? "XNACK is off; HSA_XNACK=1 requests it"
                       : xnack() == "on" ? "XNACK is on, but the Linux kernel has no HMM"
                                         : "the GPU has no XNACK");
    AllocatorInfo on_device = device_entry(A::device, apu ? Access::direct : Access::none);
    if (coherent) on_device.concurrent = on_device.shared_atomics = true;  // otherwise not stated
    add_allocator(on_device);
    add_vmm();
    // There is no pinned-wc: according to hip_runtime_api.h, write-combined memory is not functional within the HIP
    // runtime.
    AllocatorInfo on_host = page_locked_entry(A::pinned, atomics);
    on_host.device_memory = apu;
    add_allocator(on_host);
    on_host.allocator = A::registered;
    add_allocator(on_host);
    on_host.allocator = A::pinned_noncoherent;
    on_host.concurrent = on_host.shared_atomics = false;
    on_host.disjoint =
        true;  // nothing maps or protects it, and the GPU's caches write back the bytes that they changed
    add_allocator(on_host);
    AllocatorInfo managed = managed_entry(xnack() == "on", atomics);
    add_managed(managed, A::managed);
    add_managed(managed, A::managed_static);
    on_device.allocator = A::fine_grained;
    if (apu) {
        on_device.concurrent = true;
        on_device.shared_atomics = atomics;
    }
    add_allocator(on_device, attribute(fine_grain_support) != 0 && api_.mem_alloc_flags != nullptr,
                  "the device has no fine-grained memory (fineGrainSupport is 0)");
    managed.concurrent = managed.shared_atomics = false;
    if (managed.disjoint == true) managed.disjoint.reset();
    add_managed(managed, A::coarse_grained);
}

void HipDevice::obtain_own(Block& block) {
    switch (block.allocator) {
    case Allocator::fine_grained:
        block.address = obtained(api_.mem_alloc_flags, block.bytes, malloc_fine_grained);
        break;
    case Allocator::pinned_noncoherent:
        obtain_page_locked(block, host_non_coherent);
        break;
    case Allocator::coarse_grained: {
        obtain_managed(block);
        Undo free_managed{[&] { api_.mem_free(pointer(block.address)); }};
        call(api_, api_.mem_advise, pointer(block.address), block.bytes, advise_coarse_grain, ordinal_);
        free_managed.armed = false;
        break;
    }
    default:
        GpuDevice::obtain_own(block);
    }
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
