#include "profile/inject/front/opencl/objects.hpp"

#include <cstring>
#include <utility>

namespace firsttouch::opencl_layer {
namespace {

constexpr std::uint64_t between = 64 << 10;  // addresses of memory
constexpr std::uint32_t beside = 1 << 16;    // the offset of the first pointer that is no argument

}  // namespace

Memory Objects::add_memory(Object memory, Memory of) {
    const std::scoped_lock lock(mutex_);
    of.address = next_;
    next_ += (of.bytes + 2 * between - 1) / between * between;
    return memory_[memory] = of;
}

bool Objects::add_part(Object part, Object whole, Size origin, Size bytes) {
    const std::scoped_lock lock(mutex_);
    const auto found = memory_.find(whole);
    if (found == memory_.end()) return false;
    Memory made = found->second;
    made.address += origin;
    made.bytes = bytes;
    made.references = 1;
    made.is_part = true;
    memory_[part] = made;
    return true;
}

void Objects::retain_memory(Object memory) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = memory_.find(memory); found != memory_.end()) ++found->second.references;
}

Memory Objects::release_memory(Object memory) {
    const std::scoped_lock lock(mutex_);
    const auto found = memory_.find(memory);
    if (found == memory_.end() || --found->second.references > 0) return {};
    Memory gone = found->second;
    memory_.erase(found);
    return gone;
}

Memory Objects::find(Object memory) const {
    const std::scoped_lock lock(mutex_);
    const auto found = memory_.find(memory);
    return found == memory_.end() ? Memory{} : found->second;
}

void Objects::add_mapping(const void* at, const Mapping& mapping) {
    const std::scoped_lock lock(mutex_);
    mappings_.emplace(at, mapping);
}

// Of a range that was mapped more than once, the mapping that was last.
Mapping Objects::end_mapping(const void* at) {
    const std::scoped_lock lock(mutex_);
    const auto after = mappings_.upper_bound(at);
    if (after == mappings_.begin() || std::prev(after)->first != at) return {};
    const Mapping ended = std::prev(after)->second;
    mappings_.erase(std::prev(after));
    return ended;
}

void Objects::add_svm(const void* at, Size bytes) {
    const std::scoped_lock lock(mutex_);
    svm_[at] = bytes;
}
bool Objects::end_svm(const void* at) {
    const std::scoped_lock lock(mutex_);
    return svm_.erase(at) != 0;
}

void Objects::add_kernel(Object kernel, const KernelInfo& info) {
    const std::scoped_lock lock(mutex_);
    Kernel made{.info = &*infos_.insert(info).first, .values = {}};
    made.values.resize(info.parameters.size());
    kernels_.insert_or_assign(kernel, std::move(made));
}
void Objects::clone_kernel(Object kernel, Object clone) {
    const std::scoped_lock lock(mutex_);
    const auto found = kernels_.find(kernel);
    if (found == kernels_.end()) return;
    Kernel copy = found->second;
    copy.references = 1;
    kernels_.insert_or_assign(clone, std::move(copy));
}
void Objects::retain_kernel(Object kernel) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = kernels_.find(kernel); found != kernels_.end()) ++found->second.references;
}
void Objects::release_kernel(Object kernel) {
    const std::scoped_lock lock(mutex_);
    const auto found = kernels_.find(kernel);
    if (found != kernels_.end() && --found->second.references == 0) kernels_.erase(found);
}

// A value of the size of a pointer may be that of a memory object, or any number.
void Objects::set_argument(Object kernel, UInt index, Size bytes, const void* value) {
    const std::scoped_lock lock(mutex_);
    const auto found = kernels_.find(kernel);
    if (found == kernels_.end() || index >= found->second.values.size()) return;
    found->second.values[index] = 0;
    if (bytes != sizeof(Object) || value == nullptr) return;
    Object memory;
    std::memcpy(&memory, value, sizeof memory);
    if (const auto of = memory_.find(memory); of != memory_.end()) found->second.values[index] = of->second.address;
}
void Objects::set_pointer(Object kernel, UInt index, const void* at) {
    const std::scoped_lock lock(mutex_);
    const auto found = kernels_.find(kernel);
    if (found != kernels_.end() && index < found->second.values.size())
        found->second.values[index] = reinterpret_cast<std::uint64_t>(at);
}
void Objects::set_pointers(Object kernel, const void* const* pointers, std::size_t count) {
    const std::scoped_lock lock(mutex_);
    const auto found = kernels_.find(kernel);
    if (found == kernels_.end()) return;
    Kernel& of = found->second;
    KernelInfo info = *of.info;
    std::erase_if(info.parameters, [](const inject::Parameter& parameter) { return parameter.offset >= beside; });
    of.values.resize(info.parameters.size());
    for (std::size_t i = 0; i < count; ++i) {
        info.parameters.push_back({.offset = beside + std::uint32_t(i), .bytes = 8});
        of.values.push_back(reinterpret_cast<std::uint64_t>(pointers[i]));
    }
    of.info = &*infos_.insert(std::move(info)).first;
}
Kernel Objects::kernel(Object kernel) const {
    const std::scoped_lock lock(mutex_);
    const auto found = kernels_.find(kernel);
    return found == kernels_.end() ? Kernel{} : found->second;
}

const char* Objects::name_of(inject::Handle handle) const {
    return static_cast<const KernelInfo*>(handle)->name.c_str();
}
bool Objects::find_parameters(inject::Handle handle, std::vector<inject::Parameter>& parameters) const {
    parameters = static_cast<const KernelInfo*>(handle)->parameters;
    return true;
}

}  // namespace firsttouch::opencl_layer
