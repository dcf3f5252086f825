#include "device/device.hpp"

#include <charconv>

#include "device/backends.hpp"
#include "device/host/memory.hpp"

namespace firsttouch {

void Buffer::release() noexcept {
    if (block_.bytes == 0) return;
    device_->release(block_);
    block_ = {};
    reservation_ = {};
}

HostView::HostView(const Buffer& buffer) : buffer_(buffer), data_(buffer.device().map(buffer.block())) {}
HostView::~HostView() { buffer_.device().unmap(buffer_.block(), data_); }

const AllocatorInfo& Device::info(Allocator allocator) {
    for (const auto& entry : allocators())
        if (entry.allocator == allocator) return entry;
    throw Unavailable(name() + " has no allocator " + to_string(allocator));
}

Reservation Device::reserve(Allocator allocator, std::size_t bytes) {
    const AllocatorInfo& entry = info(allocator);
    if (!entry.available) throw Unavailable(to_string(allocator) + ": " + entry.reason);
    const Charge charge{.host = entry.host_memory ? bytes : 0,
                        .device = entry.device_memory ? bytes : 0,
                        .managed = entry.managed ? bytes : 0};
    return {charge, name(), entry.device_memory ? memory() : DeviceMemory{}};
}

std::unique_ptr<Buffer> Device::allocate(Allocator allocator, std::size_t bytes, Pages pages) {
    if (bytes == 0) throw std::invalid_argument("cannot allocate zero bytes");
    Reservation reservation = reserve(allocator, bytes);
    const Block block = obtain(allocator, bytes, pages);
    return std::make_unique<Buffer>(*this, std::move(reservation), block);
}

std::unique_ptr<Buffer> Device::map_file(int descriptor, std::size_t bytes) {
    if (bytes == 0) throw std::invalid_argument("cannot map zero bytes");
    Reservation reservation = reserve(Allocator::mmap, bytes);
    Block block = map_host_file(descriptor, bytes);
    if (info(Allocator::mmap).gpu == Access::direct) block.address = reinterpret_cast<unsigned long long>(block.host);
    return std::make_unique<Buffer>(*this, std::move(reservation), block);
}

std::unique_ptr<Device> open_device(const std::string& name) {
    const auto colon = name.find(':');
    const std::string kind = name.substr(0, colon);
    int index = 0;
    if (colon != std::string::npos) {
        const char* last = name.data() + name.size();
        const auto [end, problem] = std::from_chars(name.data() + colon + 1, last, index);
        if (problem != std::errc() || end != last || index < 0) index = -1;
    }
    for (const auto& backend : backends()) {
        if (backend.kind != kind || index < 0) continue;
        if (const int count = backend.count(); index >= count)
            throw Unavailable("there is no " + name + ": this machine has " + std::to_string(count) + " " + kind +
                              (count == 1 ? " device" : " devices"));
        return backend.open(index);
    }
    throw Unavailable("'" + name + "' is not a device; devices are cpu, opencl:N, cuda:N and hip:N");
}

int count_devices(const std::string& kind) {
    for (const auto& backend : backends())
        if (backend.kind == kind) return backend.count();
    throw Unavailable("'" + kind + "' is not a kind of device");
}

const std::vector<Backend>& backends() {
    static const std::vector<Backend> table = {
        {"cpu", [] { return 1; }, [](int) { return open_host(); }},
        {"opencl", count_opencl, open_opencl},
        {"cuda", count_cuda, open_cuda},
        {"hip", count_hip, open_hip},
    };
    return table;
}

}  // namespace firsttouch
