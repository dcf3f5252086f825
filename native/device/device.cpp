#include "device/device.hpp"

#include <algorithm>
#include <charconv>

#include "device/backends.hpp"
#include "device/host/memory.hpp"

namespace firsttouch {
namespace {

// Plain host memory needs no access to be opened.
bool has_only_host_memory(Device& device) {
    return std::ranges::all_of(device.allocators(),
                               [](const auto& entry) { return is_host_allocator(entry.allocator); });
}

}  // namespace

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

Reservation Device::reserve(Allocator allocator, std::size_t bytes, bool ballast, bool host_only) {
    const AllocatorInfo& entry = info(allocator);
    if (!entry.available) throw Unavailable(to_string(allocator) + ": " + entry.reason);
    const bool moves = entry.migrates_on_fault && !host_only, on_device = entry.device_memory || moves;
    const Charge charge{.host = entry.host_memory ? bytes : 0,
                        .device = on_device ? bytes : 0,
                        .managed = entry.managed || moves ? bytes : 0,
                        .ballast = ballast && entry.device_memory ? bytes : 0};
    return {charge, name(), on_device ? available_memory() : DeviceMemory{}};
}

std::unique_ptr<Buffer> Device::allocate(Allocator allocator, std::size_t bytes, Pages pages, bool ballast,
                                         bool host_only) {
    if (bytes == 0) throw std::invalid_argument("cannot allocate zero bytes");
    Reservation reservation = reserve(allocator, bytes, ballast, host_only);
    const Block block = obtain(allocator, bytes, pages);
    return std::make_unique<Buffer>(*this, std::move(reservation), block);
}

std::unique_ptr<Buffer> Device::map_file(int descriptor, std::size_t bytes) {
    if (bytes == 0) throw std::invalid_argument("cannot map zero bytes");
    Reservation reservation = reserve(Allocator::mmap, bytes, false, true);  // pages of a file stay on the host
    Block block = map_host_file(descriptor, bytes);
    if (info(Allocator::mmap).gpu == Access::direct) block.address = reinterpret_cast<unsigned long long>(block.host);
    return std::make_unique<Buffer>(*this, std::move(reservation), block);
}

void Device::launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments) {
    for (const Argument& argument : arguments)
        if (argument.buffer != nullptr) require_reach(*argument.buffer, kernel_user);
    queue_launch(stream, kernel, grid, arguments);
}

void Device::copy(Stream& stream, const Buffer& target, std::size_t target_offset, const Buffer& source,
                  std::size_t source_offset, std::size_t bytes) {
    for (const Buffer* buffer : {&target, &source}) require_reach(*buffer, "a copy by ");
    queue_copy(stream, target, target_offset, source, source_offset, bytes);
}

void Device::copy_between(Stream&, const Buffer&, const Buffer&, std::size_t) {
    throw Unavailable("the driver of " + name_ + " has no copy that names two devices");
}

void Device::require_reach(const Buffer& buffer, const char* user) {
    if (&buffer.device() == this || buffer.device().name() == name_) return;
    if (const auto reason = why_out_of_reach(buffer))
        throw Unavailable(user + name_ + " cannot reach " + to_string(buffer.allocator()) + " memory of " +
                          buffer.device().name() + ": " + *reason);
}

void Device::reach(Device& peer) {
    if (peer.name() == name_) return;
    if (const auto reason = why_unreachable(peer)) throw Unavailable(*reason);
    open_access(peer);
    reached_.insert(peer.name());
}

std::optional<std::string> Device::why_unreachable(Device& peer) {
    if (peer.name() == name_ || has_only_host_memory(peer)) return std::nullopt;
    return name_ + " and " + peer.name() + " have different drivers and cannot share device memory";
}

std::optional<std::string> Device::why_out_of_reach(const Buffer& buffer) {
    if (is_host_allocator(buffer.allocator()) || reached_.contains(buffer.device().name())) return std::nullopt;
    if (const auto reason = why_unreachable(buffer.device())) return reason;
    return "access is not enabled; call reach first";
}

unsigned long long Device::kernel_address(const Buffer& buffer) {
    const Block& block = buffer.block();
    if (&buffer.device() == this || !is_host_allocator(block.allocator)) return block.address;
    return info(block.allocator).gpu == Access::direct ? reinterpret_cast<unsigned long long>(block.host) : 0;
}

unsigned long long Device::require_address(const Buffer& buffer, const char* user) {
    require_reach(buffer, user);
    if (const auto address = kernel_address(buffer); address != 0) return address;
    throw Unavailable(user + name_ + " cannot reach " + to_string(buffer.allocator()) + " memory");
}

std::unique_ptr<Device> open_device(const std::string& name) {
    const auto colon = name.find(':');
    const std::string kind = name.substr(0, colon);
    int index = 0;
    if (colon != std::string::npos) {
        const char* last = name.data() + name.size();
        const auto [end, error] = std::from_chars(name.data() + colon + 1, last, index);
        if (error != std::errc() || end != last || index < 0) index = -1;
    }
    for (const auto& backend : backends()) {
        if (backend.kind != kind || index < 0) continue;
        if (const int count = backend.count(); index >= count)
            throw Unavailable("there is no " + name + ": this machine has " + std::to_string(count) + " " + kind +
                              (count == 1 ? " device" : " devices"));
        return backend.open(index);
    }
    std::string known;
    for (const auto& backend : backends()) known += (known.empty() ? "" : ", ") + backend.names;
    throw Unavailable("'" + name + "' is not a device; devices are " + known);
}

int count_devices(const std::string& kind) {
    for (const auto& backend : backends())
        if (backend.kind == kind) return backend.count();
    throw Unavailable("'" + kind + "' is not a kind of device");
}

const std::vector<Backend>& backends() {
    static const std::vector<Backend> table = {
        {"cpu", "cpu", [] { return 1; }, [](int) { return open_host(); }},
        {"opencl", "opencl:N", count_opencl, open_opencl},
        {"cuda", "cuda:N", count_cuda, open_cuda},
        {"hip", "hip:N", count_hip, open_hip},
    };
    return table;
}

}  // namespace firsttouch
