#include "device/library.hpp"

#include <dlfcn.h>

#include <mutex>

#include "device/device.hpp"

namespace firsttouch {
namespace {
std::mutex paths_mutex;
std::map<std::string, std::vector<std::string>> paths;
}  // namespace

void set_library_paths(const std::string& name, std::vector<std::string> candidates) {
    const std::lock_guard lock(paths_mutex);
    paths[name] = std::move(candidates);
}

std::vector<std::string> library_paths(const std::string& name) {
    const std::lock_guard lock(paths_mutex);
    const auto entry = paths.find(name);
    return entry == paths.end() ? std::vector<std::string>{} : entry->second;
}

Library::Library(const std::string& name, const std::vector<std::string>& fallbacks) {
    const std::vector<std::string> set = library_paths(name);
    std::string tried;
    for (const auto& candidate : set.empty() ? fallbacks : set) {
        handle_ = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle_ != nullptr) {
            path_ = candidate;
            return;
        }
        const std::string error = dlerror();
        if (tried.find(error) == std::string::npos) tried += (tried.empty() ? "" : "; ") + error;
    }
    throw Unavailable("the " + name + " library was not found: " + tried);
}

Symbol Library::optional_function(const std::string& name) {
    void* const address = dlsym(handle_, name.c_str());
    if (address != nullptr) names_[address] = name;
    return {address};
}

Symbol Library::function(const std::string& name) {
    const Symbol found = optional_function(name);
    if (found.address == nullptr) throw Unavailable(path_ + " has no function " + name);
    return found;
}

std::string Library::name_at(const void* address) const {
    const auto entry = names_.find(address);
    if (entry == names_.end()) return "a function of " + path_;
    const std::string& name = entry->second;
    return name.ends_with("_v2") ? name.substr(0, name.size() - 3) : name;
}

}  // namespace firsttouch
