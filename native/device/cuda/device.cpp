// The CUDA Device. It uses the driver API only.
#include <cstdio>
#include <map>

#include "device/backends.hpp"
#include "device/cuda/api.hpp"
#include "device/gpu.hpp"
#include "device/prelude.hpp"

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
    explicit CudaDevice(int index) : GpuDevice(index, Driver::instance()) {
        call(api_, api_.context_retain, &current_, ordinal_);
        const auto scope = make_current();
        capability_ = attribute(compute_major) * 10 + attribute(compute_minor);
        architecture_ = "sm_" + std::to_string(capability_);
        add_allocators();
    }
    ~CudaDevice() override {
        modules_.clear();
        // Another owner may keep the context, but this thread must not have a released one as current.
        Context context = nullptr;
        if (api_.current_get(&context) == 0 && context == current_) api_.current_set(nullptr);
        api_.context_release(ordinal_);
    }

    Capabilities capabilities() override {
        Capabilities capabilities = GpuDevice::capabilities();
        capabilities.memory_events = true;  // through CUPTI
        return capabilities;
    }
    Binary compile(const Source& source) override {
        return nvrtc_compile(translation_unit(source, Driver::language), source.name, architecture_);
    }
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
    std::string uuid() const override;
    Facts versions(int driver) const override {
        return {{"driver_api", std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10)},
                {"compute_capability", std::to_string(capability_ / 10) + "." + std::to_string(capability_ % 10)}};
    }
    std::optional<std::int64_t> l1_bytes() const override { return l1_bytes_of(capability_); }
    Nvml::Handle nvml_handle();
    void add_allocators();
    void obtain_own(Block& block) override;
    std::string static_image(std::size_t bytes) override;

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

void CudaDevice::add_allocators() {
    add_plain(true, "no HMM, no ATS");
    add_allocator(device_entry(Allocator::device, Access::none));
    add_vmm();
    // The GPU accesses page-locked host memory over the link, where its atomics are atomic for the CPU too only with
    // hardware support (CUDA C++ Programming Guide, "Mapped Memory").
    const bool atomics = attribute(host_native_atomics) != 0;
    add_allocator(page_locked_entry(Allocator::pinned, atomics));
    add_allocator(page_locked_entry(Allocator::pinned_wc, atomics));
    add_allocator(page_locked_entry(Allocator::registered, atomics), attribute(host_register_supported) != 0,
                  "hostRegisterSupported is 0");
    for (const Allocator allocator : {Allocator::managed, Allocator::managed_static})
        add_managed(managed_entry(true, true), allocator);
}

void CudaDevice::obtain_own(Block& block) {
    if (block.allocator != Allocator::pinned_wc) return GpuDevice::obtain_own(block);
    obtain_page_locked(block, host_device_map | host_write_combined);
}

// It is written in PTX, so that no compiler is needed.
std::string CudaDevice::static_image(std::size_t bytes) {
    return ".version 7.0\n.target sm_" + std::to_string(std::min(capability_, 80)) +
           "\n.address_size 64\n.visible .global .attribute(.managed) .align 128 .b8 firsttouch_static[" +
           std::to_string(bytes) + "];\n";
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
