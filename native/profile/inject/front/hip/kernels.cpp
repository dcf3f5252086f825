#include "profile/inject/front/hip/kernels.hpp"

#include <utility>

namespace firsttouch::hip_front {

void Kernels::add_linked(const void* module, const void* image) {
    const std::scoped_lock lock(mutex_);
    modules_[module] = {.unread = image, .kernels = {}};
}

void Kernels::add_loaded(const void* module, KernelParameters kernels) {
    Module made{.kernels = std::move(kernels)};
    const std::scoped_lock lock(mutex_);
    modules_[module] = std::move(made);
}

void Kernels::remove_module(const void* module) {
    const std::scoped_lock lock(mutex_);
    modules_.erase(module);
    std::erase_if(kernels_, [&](const auto& of) { return of.second.module == module; });
    std::erase_if(managed_, [&](const ManagedVariable& of) { return of.module == module; });
}

void Kernels::add_kernel(const void* kernel, const void* module, const char* name) {
    const std::scoped_lock lock(mutex_);
    kernels_[kernel] = {module, &*names_.emplace(name).first};
}

void Kernels::add_variable(const void* symbol, const Variable& variable) {
    const std::scoped_lock lock(mutex_);
    variables_[symbol] = variable;
}

Variable Kernels::variable(const void* symbol) {
    const std::scoped_lock lock(mutex_);
    const auto found = variables_.find(symbol);
    return found == variables_.end() ? Variable() : found->second;
}

void Kernels::add_managed(const ManagedVariable& variable) {
    const std::scoped_lock lock(mutex_);
    managed_.push_back(variable);
    awaits_managed_ = true;
}

std::vector<ManagedVariable> Kernels::take_managed() {
    std::vector<ManagedVariable> taken;
    if (!awaits_managed_.load(std::memory_order_relaxed)) return taken;
    const std::scoped_lock lock(mutex_);
    std::erase_if(managed_, [&](const ManagedVariable& of) {
        if (*of.address == nullptr) return false;
        taken.push_back(of);
        return true;
    });
    awaits_managed_ = !managed_.empty();
    return taken;
}

const char* Kernels::name_of(inject::Handle kernel) const {
    const std::scoped_lock lock(mutex_);
    const auto found = kernels_.find(kernel);
    return found == kernels_.end() ? nullptr : found->second.name->c_str();
}

bool Kernels::find_parameters(inject::Handle kernel, std::vector<inject::Parameter>& parameters) const {
    const std::scoped_lock lock(mutex_);
    const auto found = kernels_.find(kernel);
    if (found == kernels_.end()) return false;
    const auto module = modules_.find(found->second.module);
    if (module == modules_.end()) return false;
    if (const void* const image = std::exchange(module->second.unread, nullptr); image != nullptr)
        add_kernels(readable_from(image), module->second.kernels);
    const auto known = module->second.kernels.find(*found->second.name);
    if (known == module->second.kernels.end()) return false;
    parameters = known->second;
    return true;
}

}  // namespace firsttouch::hip_front
