// What the layer remembers of a program's OpenCL objects.
#pragma once

#include <cstdint>
#include <map>
#include <compare>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "profile/inject/core/arguments.hpp"
#include "profile/inject/front/opencl/api.hpp"

namespace firsttouch::opencl_layer {

// A buffer or an image. OpenCL's have no address, so that each gets one where no pointer of a process is.
struct Memory {
    std::uint64_t address = 0;
    Size bytes = 0;
    Flags flags = 0;
    const void* host = nullptr;
    int references = 1;
    bool is_part = false;                           // of another buffer
    Size element_bytes = 0, width = 0, height = 0;  // of an image

    bool is_shared() const { return (flags & (memory_use_host | memory_alloc_host)) != 0; }
};

struct Mapping {
    std::uint64_t device = 0;
    Size bytes = 0;
    Flags flags = 0;
    bool is_shared = false;
};

struct KernelInfo {
    std::string name;
    std::vector<inject::Parameter> parameters;
    auto operator<=>(const KernelInfo&) const = default;
};
struct Kernel {
    const KernelInfo* info = nullptr;   // which stays
    std::vector<std::uint64_t> values;  // an address of each parameter, or 0
    int references = 1;
};

// From any thread. Throws std::bad_alloc.
class Objects final : public inject::Kernels {
  public:
    Memory add_memory(Object memory, Memory of);
    // A buffer within another one; false if that is not known.
    bool add_part(Object part, Object whole, Size origin, Size bytes);
    void retain_memory(Object memory);
    // What is gone with this reference: nothing of 0 bytes.
    Memory release_memory(Object memory);
    Memory find(Object memory) const;

    void add_mapping(const void* at, const Mapping& mapping);
    Mapping end_mapping(const void* at);

    void add_svm(const void* at, Size bytes);
    bool end_svm(const void* at);

    void add_kernel(Object kernel, const KernelInfo& info);
    void clone_kernel(Object kernel, Object clone);
    void retain_kernel(Object kernel);
    void release_kernel(Object kernel);
    void set_argument(Object kernel, UInt index, Size bytes, const void* value);
    void set_pointer(Object kernel, UInt index, const void* at);
    // Pointers that a kernel uses beside its arguments.
    void set_pointers(Object kernel, const void* const* pointers, std::size_t count);
    // With its arguments as they are now; without info if it is not known.
    Kernel kernel(Object kernel) const;

    // handle: a KernelInfo.
    const char* name_of(inject::Handle handle) const override;
    bool find_parameters(inject::Handle handle, std::vector<inject::Parameter>& parameters) const override;

  private:
    mutable std::mutex mutex_;
    std::unordered_map<Object, Memory> memory_;
    std::unordered_map<Object, Kernel> kernels_;
    std::set<KernelInfo> infos_;
    std::multimap<const void*, Mapping> mappings_;
    std::unordered_map<const void*, Size> svm_;
    std::uint64_t next_ = std::uint64_t(1) << 56;
};

}  // namespace firsttouch::opencl_layer
