// The kernels and static variables that a program registered or loaded.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "profile/inject/core/arguments.hpp"
#include "profile/inject/front/hip/code_object.hpp"

namespace firsttouch::hip_front {

struct Variable {
    std::string name;
    std::uint64_t bytes = 0;  // 0: not known
};
struct ManagedVariable {
    const void* module = nullptr;
    void* const* address = nullptr;  // where the runtime writes the address
    Variable variable;
};

class Kernels final : public inject::Kernels {
  public:
    // Of what is linked into the program, and read when one of its kernels is launched: libraries have gigabytes of it.
    void add_linked(const void* module, const void* image);
    void add_loaded(const void* module, KernelParameters kernels);
    void remove_module(const void* module);
    // kernel: the function of the host that stands for it, or the runtime's handle.
    void add_kernel(const void* kernel, const void* module, const char* name);

    void add_variable(const void* symbol, const Variable& variable);
    Variable variable(const void* symbol);
    void add_managed(const ManagedVariable& variable);
    // Those that were not taken before and have an address now.
    std::vector<ManagedVariable> take_managed();

    const char* name_of(inject::Handle kernel) const override;
    bool find_parameters(inject::Handle kernel, std::vector<inject::Parameter>& parameters) const override;
    bool knows_of_none() const override { return true; }

  private:
    struct Module {
        const void* unread = nullptr;
        KernelParameters kernels;
    };
    struct Kernel {
        const void* module = nullptr;
        const std::string* name = nullptr;
    };

    mutable std::mutex mutex_;
    mutable std::unordered_map<const void*, Module> modules_;
    std::unordered_map<const void*, Kernel> kernels_;
    std::set<std::string, std::less<>> names_;  // never shrinks: names are handed out
    std::unordered_map<const void*, Variable> variables_;
    std::vector<ManagedVariable> managed_;
    std::atomic<bool> awaits_managed_{false};  // some of them
};

}  // namespace firsttouch::hip_front
