#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "bindings/handle.hpp"
#include "device/backends.hpp"
#include "device/cuda/api.hpp"
#include "device/hip/api.hpp"
#include "device/host/memory.hpp"
#include "device/host/node.hpp"
#include "device/library.hpp"
#include "device/limits.hpp"
#include "host/clock.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace firsttouch {

Agent agent_from(const std::string& name) {
    if (name == "cpu") return Agent::cpu;
    if (name == "gpu") return Agent::gpu;
    throw std::invalid_argument("'" + name + "' is not an agent; agents are cpu and gpu");
}

Pages pages_from(const std::string& name) {
    if (name == "policy") return Pages::policy;
    if (name == "base") return Pages::base;
    if (name == "huge") return Pages::huge;
    throw std::invalid_argument("'" + name + "' is not a page size; page sizes are policy, base and huge");
}

namespace {

const char* access_name(Access access) {
    return access == Access::direct ? "direct" : access == Access::mapped ? "mapped" : "none";
}

nb::dict dict_of(const Facts& facts) {
    nb::dict out;
    for (const auto& [key, value] : facts) std::visit([&](const auto& v) { out[key.c_str()] = nb::cast(v); }, value);
    return out;
}

template <class T>
void add_known(nb::dict& out, const char* name, const std::optional<T>& value) {
    if (value) out[name] = *value;
}

nb::list allocators_of(DeviceHandle& handle) {
    nb::list out;
    for (const auto& entry : handle.device->allocators()) {
        nb::dict row;
        row["name"] = to_string(entry.allocator);
        row["available"] = entry.available;
        row["reason"] = entry.reason;
        row["cpu"] = access_name(entry.cpu);
        row["gpu"] = access_name(entry.gpu);
        row["gpu_reason"] = entry.gpu_reason;
        row["host_memory"] = entry.host_memory;
        row["device_memory"] = entry.device_memory;
        row["managed"] = entry.managed;
        row["migrates_on_fault"] = entry.migrates_on_fault;
        const auto optional = [](const std::optional<bool>& value) { return value ? nb::cast(*value) : nb::none(); };
        row["on_demand"] = optional(entry.on_demand);
        row["concurrent"] = optional(entry.concurrent);
        row["shared_atomics"] = optional(entry.shared_atomics);
        row["disjoint"] = optional(entry.concurrent == true ? entry.concurrent : entry.disjoint);
        out.append(row);
    }
    return out;
}

const char* time_class_name(TimeClass time_class) {
    return time_class == TimeClass::host ? "host" : time_class == TimeClass::host_kernels ? "host-kernels" : "gpu";
}

nb::dict capabilities_of(DeviceHandle& handle) {
    const Capabilities capabilities = handle.device->capabilities();
    nb::dict out;
    out["runs_kernels"] = capabilities.runs_kernels;
    out["on_host_processor"] = capabilities.on_host_processor;
    out["shares_host_memory"] = capabilities.shares_host_memory;
    out["gpu_hierarchy"] = capabilities.gpu_hierarchy;
    out["page_migration"] = capabilities.page_migration;
    out["memory_guidance"] = capabilities.memory_guidance;
    out["memory_events"] = capabilities.memory_events;
    out["coherent_during_kernel"] = capabilities.coherent_during_kernel;
    out["host_native_atomics"] = capabilities.host_native_atomics;
    out["uncached_loads"] = capabilities.uncached_loads;
    out["device_scope_atomics"] = capabilities.device_scope_atomics;
    out["device_clock"] = capabilities.device_clock;
    out["reports_free_memory"] = capabilities.reports_free_memory;
    out["time_class"] = time_class_name(capabilities.time_class);
    out["machine_code"] = capabilities.machine_code;
    return out;
}

nb::object clocks_of(DeviceHandle& handle) {
    const Clocks clocks = handle.device->clocks();
    if (clocks.core_mhz < 0 && clocks.temperature_c < 0) return nb::none();
    const auto optional = [](double value) -> nb::object { return value < 0 ? nb::none() : nb::cast(value); };
    nb::dict out;
    out["core_mhz"] = optional(clocks.core_mhz);
    out["memory_mhz"] = optional(clocks.memory_mhz);
    out["temperature_c"] = optional(clocks.temperature_c);
    out["power_w"] = optional(clocks.power_w);
    out["throttle"] = clocks.throttle;
    return out;
}

// A NodeScope that Python enters and leaves.
struct OnNode {
    std::vector<int> processors;
    std::optional<int> memory;
    std::optional<NodeScope> scope = std::nullopt;
};

Source source_of(const std::string& name, const std::string& text,
                 const std::vector<std::pair<std::string, std::string>>& defines) {
    return {name, text, defines};
}

}  // namespace

void bind_device(nb::module_& m) {
    // The most specific last, because nanobind tries exception translators in reverse order of registration.
    nb::exception<Unavailable>(m, "Unavailable", PyExc_RuntimeError);
    nb::exception<VendorError>(m, "VendorError", PyExc_RuntimeError);
    nb::exception<GuardRefused>(m, "GuardRefused", PyExc_MemoryError);

    m.def("set_library_paths", &set_library_paths, "name"_a, "candidates"_a,
          "Sets the paths or sonames to try, in order, when the vendor library `name` is first needed.");
    m.def("count_devices", &count_devices, "kind"_a,
          "Returns the number of devices of a kind (cpu, opencl, cuda, hip). Raises Unavailable with the reason.");
    m.def(
        "device_kinds",
        [] {
            std::vector<std::string> kinds;
            for (const auto& backend : backends()) kinds.push_back(backend.kind);
            return kinds;
        },
        "Returns the kinds of device that this module can open.");
    m.def("throttle_reasons", &cuda::throttle_reasons, "mask"_a,
          "Returns the names of the reasons in a mask of NVML's clock events, or the number of an unknown one.\n\n"
          "Idle is left out.");
    m.def("clock_cost", &clock_cost, "Returns the seconds that one reading of the host's clock takes.");
    m.def("usable_processors", &usable_processors, "Returns the number of processors that this process may run on.");
    m.def("usable_cores", &usable_cores, "Returns the number of cores to which these processors belong.");
    m.def(
        "page_sizes", [] { return std::pair(base_page, huge_page); },
        "Returns the bytes of a base page and of a transparent huge page of the host's processor.");
    m.def(
        "guard_limits",
        [] {
            nb::dict out;
            out["host"] = Guard::instance().host_limit();
            for (const char* name : {"FIRSTTOUCH_MAX_HOST", "FIRSTTOUCH_MAX_DEVICE", "FIRSTTOUCH_MAX_MANAGED"}) {
                const std::size_t limit = Guard::environment_limit(name);
                out[name] = limit == SIZE_MAX ? nb::none() : nb::cast(limit);
            }
            return out;
        },
        nb::sig("def guard_limits() -> dict[str, int | None]"),
        "Returns the guard's limits in bytes: the limit of host memory, and those that environment variables set.");
    m.def("guard_reserve", &device_reserve, "total"_a,
          "Returns the bytes of a device's memory of `total` bytes that the guard leaves for other processes.");
    m.def("oversubscription_allowed", &Guard::oversubscription_allowed,
          "True if managed memory may exceed the device's free memory.");
    m.def(
        "guard_held",
        [](const std::string& device) {
            const Charge held = Guard::instance().held(device);
            nb::dict out;
            out["host"] = held.host;
            out["device"] = held.device;
            out["managed"] = held.managed;
            return out;
        },
        "device"_a, nb::sig("def guard_held(device: str) -> dict[str, int]"),
        "Returns the bytes that this process holds through a device, by limit: host, device, managed.");
    m.def("host_available", &host_available, "root"_a = "",
          "Returns the bytes of available host memory. Tests pass another root directory.");
    m.def("huge_pages_denied", &huge_pages_denied, "root"_a = "",
          "True if transparent huge pages are switched off for this process alone (PR_SET_THP_DISABLE).");
    m.def(
        "host_memory",
        [](const std::string& root) {
            const HostMemory memory = host_memory(root);
            nb::dict out;
            add_known(out, "total_bytes", memory.total);
            add_known(out, "available_bytes", memory.available);
            if (!memory.available) return out;
            out["available_to_process_bytes"] = memory.usable;
            out["available_bound"] = memory.bound;
            return out;
        },
        "root"_a = "", nb::sig("def host_memory(root: str = \"\") -> dict[str, int | str]"),
        "Returns the bytes of host memory: of the machine, and those that this process may use with what limits them.");
    m.def(
        "group_limits",
        [](const std::string& root) {
            const GroupLimits group = group_limits(root);
            nb::dict out;
            add_known(out, "cgroup_version", group.version);
            add_known(out, "cgroup_limit_bytes", group.limit);
            add_known(out, "cgroup_high_bytes", group.high);
            add_known(out, "cgroup_used_bytes", group.used);
            add_known(out, "cgroup_reclaimable_bytes", group.reclaimable);
            return out;
        },
        "root"_a = "", nb::sig("def group_limits(root: str = \"\") -> dict[str, int]"),
        "Returns the limits of the control group, of this process's and their parents, that leaves least memory.");
    m.def(
        "group_folders",
        [](const std::string& controller, const std::string& process, const std::string& root) {
            nb::list out;
            for (const auto& [version, folder] : group_folders(controller, process, root))
                out.append(std::make_pair(version, nb::bytes(folder.data(), folder.size())));
            return out;
        },
        "controller"_a, "process"_a = "self", "root"_a = "",
        nb::sig("def group_folders(controller: str, process: str = \"self\", root: str = \"\") -> "
                "list[tuple[int, bytes]]"),
        "Returns (version, folder) of a process's control group and of each parent group, innermost first.");
    m.def("kernel_file", &kernel_file, "name"_a,
          "Returns the text of an embedded file of src/firsttouch/base/kernels.");
    m.def(
        "host_kernel_code",
        [](const std::string& name) {
            const HostKernel kernel = find_host_kernel(name);
            if (kernel == nullptr) throw Unavailable("there is no host version of kernel " + name);
            return nb::bytes(reinterpret_cast<const char*>(kernel), 512);
        },
        "name"_a, "Returns the machine code of a host kernel: 512 bytes from its entry.");
    m.def(
        "nvrtc_compile",
        [](const std::string& text, const std::string& name, const std::string& architecture) {
            const Binary binary = cuda::nvrtc_compile(text, name, architecture);
            return std::make_tuple(nb::bytes(binary.code.data(), binary.code.size()), binary.assembly, binary.log);
        },
        "text"_a, "name"_a, "architecture"_a, "Compiles CUDA C++ without a GPU. Returns (cubin, PTX, log).");
    m.def(
        "hiprtc_compile",
        [](const std::string& text, const std::string& name, const std::string& architecture) {
            const Binary binary = hip::hiprtc_compile(text, name, architecture);
            return std::make_tuple(nb::bytes(binary.code.data(), binary.code.size()), binary.log);
        },
        "text"_a, "name"_a, "architecture"_a, "Compiles HIP C++ without a GPU. Returns (code object, log).");
    m.def(
        "translation_unit",
        [](const std::string& name, const std::string& language,
           const std::vector<std::pair<std::string, std::string>>& defines, const std::string& text) {
            const Source source = text.empty() ? kernel_source(name, defines) : source_of(name, text, defines);
            return translation_unit(source, language);
        },
        "name"_a, "language"_a, "defines"_a = std::vector<std::pair<std::string, std::string>>{}, "text"_a = "",
        "Returns the text to compile for a kernel in a language (cuda, hip, opencl), with prelude and defines.\n\n"
        "The kernel is `text`, or by default the embedded file `name`.");

    nb::class_<BufferHandle> buffer(
        m, "Buffer", "An allocation charged to the guard. As a context manager, it is freed at the end of the block.");
    buffer.def_prop_ro("size", [](BufferHandle& b) { return b.get().size(); })
        .def_prop_ro("allocator", [](BufferHandle& b) { return to_string(b.get().allocator()); })
        .def_prop_ro(
            "device", [](BufferHandle& b) { return b.owner->device->name(); },
            "Name of the device that allocated the buffer.")
        .def(
            "__enter__", [](BufferHandle& b) -> BufferHandle& { return b; }, nb::rv_policy::reference)
        .def(
            "__exit__", [](BufferHandle& b, nb::handle, nb::handle, nb::handle) { b.buffer.reset(); }, "type"_a.none(),
            "value"_a.none(), "traceback"_a.none())
        .def("free", [](BufferHandle& b) { b.buffer.reset(); })
        .def(
            "fill",
            [](BufferHandle& b, std::uint64_t seed, const std::string& agent) {
                b.owner->lab.fill(b.get(), seed, agent_from(agent));
            },
            "seed"_a, "agent"_a, "The agent fills the buffer with the seed's pattern.")
        .def(
            "check",
            [](BufferHandle& b, std::uint64_t seed, const std::string& agent) {
                return b.owner->lab.check(b.get(), seed, agent_from(agent));
            },
            "seed"_a, "agent"_a,
            "Returns the number of words that differ from the seed's pattern, as the agent reads them.")
        .def(
            "read",
            [](BufferHandle& b, std::size_t offset, std::size_t count) {
                if (count > b.get().size() || offset > b.get().size() - count)
                    throw std::out_of_range("read beyond the end of the buffer");
                PyObject* bytes =
                    PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(count));  // not initialised
                if (bytes == nullptr) throw nb::python_error();
                nb::object owned = nb::steal(bytes);
                b.owner->lab.read(b.get(), offset, PyBytes_AsString(bytes), count);
                return nb::steal<nb::bytes>(owned.release());
            },
            "offset"_a, "count"_a)
        .def(
            "write",
            [](BufferHandle& b, std::size_t offset, nb::bytes bytes) {
                if (bytes.size() > b.get().size() || offset > b.get().size() - bytes.size())
                    throw std::out_of_range("write beyond the end of the buffer");
                b.owner->lab.write(b.get(), offset, bytes.c_str(), bytes.size());
            },
            "offset"_a, "bytes"_a)
        .def(
            "residency",
            [](BufferHandle& b) {
                const HostView view(b.get());
                const auto [node, page_bytes] = residency(view.data(), b.get().size());
                return std::make_pair(node < 0 ? std::nullopt : std::optional<int>(node),
                                      page_bytes == 0 ? std::nullopt : std::optional<std::size_t>(page_bytes));
            },
            "Returns the NUMA node and the page size in bytes of the buffer's pages in host memory, each None if "
            "unknown.")
        .def(
            "pages_on_nodes",
            [](BufferHandle& b) {
                const HostView view(b.get());
                return pages_on_nodes(view.data(), b.get().size(), 4096);
            },
            "Returns how many of at most 4096 pages, spread evenly over the buffer, are on each NUMA node; untouched "
            "ones are left out.")
        .def_prop_ro(
            "address", [](BufferHandle& b) { return reinterpret_cast<std::uintptr_t>(b.get().block().host); },
            "The CPU's address, or 0 if the buffer has none or must be mapped first.");

    nb::class_<OnNode>(
        m, "OnNode",
        "A context in which this thread, and those that it starts, run on the given processors and take "
        "new pages from one NUMA node only.\n\nNo processors, or no node, leaves that as it is. Entering "
        "raises Unavailable with the kernel's words.")
        .def(
            "__init__",
            [](OnNode* on, std::vector<int> processors, std::optional<int> memory) {
                new (on) OnNode{std::move(processors), memory};
            },
            "processors"_a, "memory"_a.none())
        .def("__enter__", [](OnNode& on) { on.scope.emplace(on.processors, on.memory); })
        .def(
            "__exit__", [](OnNode& on, nb::handle, nb::handle, nb::handle) { on.scope.reset(); }, "type"_a.none(),
            "value"_a.none(), "traceback"_a.none());

    nb::class_<DeviceHandle> device(m, "Device", "An open device.");
    device.def_prop_ro("name", [](DeviceHandle& d) { return d.device->name(); })
        .def(
            "facts", [](DeviceHandle& d) { return dict_of(d.device->facts()); },
            nb::sig("def facts(self) -> dict[str, bool | int | float | str]"))
        .def(
            "usage", [](DeviceHandle& d) { return dict_of(d.device->usage()); },
            nb::sig("def usage(self) -> dict[str, int]"),
            "Returns the bytes of device memory in use by all programs, from the vendor's management library.\n\n"
            "Empty if there is no such library.")
        .def(
            "reach",
            [](DeviceHandle& d, DeviceHandle& peer) {
                nb::gil_scoped_release release;
                d.device->reach(*peer.device);
            },
            "other"_a,
            "Gives kernels and copies of this device access to memory of the other device.\n\n"
            "Raises Unavailable with the driver's message.")
        .def(
            "why_unreachable",
            [](DeviceHandle& d, DeviceHandle& peer) { return d.device->why_unreachable(*peer.device); }, "other"_a,
            "Returns the reason why reach would raise, as far as the driver states it, or None. Has no side effects.")
        .def("capabilities", &capabilities_of, nb::sig("def capabilities(self) -> dict[str, bool | str]"),
             "Returns what the device can do, as its driver reports it: the fields of DeviceCapabilities.")
        .def("allocators", &allocators_of, nb::sig("def allocators(self) -> list[dict[str, object]]"))
        .def("clocks", &clocks_of, nb::sig("def clocks(self) -> dict[str, object] | None"))
        .def(
            "memory",
            [](DeviceHandle& d) {
                const DeviceMemory memory = d.device->memory();
                return std::make_pair(memory.total, memory.free);
            },
            "Returns the bytes of device memory: (total, free).")
        .def(
            "allocate",
            [](std::shared_ptr<DeviceHandle> d, const std::string& allocator, std::size_t bytes,
               const std::string& pages, bool ballast, bool host_only) {
                auto handle = std::make_unique<BufferHandle>();
                handle->buffer =
                    d->device->allocate(allocator_from(allocator), bytes, pages_from(pages), ballast, host_only);
                handle->owner = std::move(d);
                return handle;
            },
            "allocator"_a, "bytes"_a, "pages"_a = "policy", "ballast"_a = false, "host_only"_a = false,
            "Allocates memory and charges it to the guard. Raises GuardRefused, Unavailable or VendorError.\n\n"
            "ballast: it is held only to leave less of the device free. host_only: no kernel uses it.")
        .def(
            "map_file",
            [](std::shared_ptr<DeviceHandle> d, int descriptor, std::size_t bytes) {
                auto handle = std::make_unique<BufferHandle>();
                handle->buffer = d->device->map_file(descriptor, bytes);
                handle->owner = std::move(d);
                return handle;
            },
            "descriptor"_a, "bytes"_a,
            "Maps the first `bytes` of an open file read-only, charged to the guard like mmap memory.\n\n"
            "Raises GuardRefused or Unavailable.")
        .def(
            "compile",
            [](DeviceHandle& d, const std::string& name, const std::string& text,
               const std::vector<std::pair<std::string, std::string>>& defines) {
                const Binary binary = d.device->compile(source_of(name, text, defines));
                return std::make_tuple(binary.kind, nb::bytes(binary.code.data(), binary.code.size()), binary.assembly);
            },
            "name"_a, "text"_a, "defines"_a = std::vector<std::pair<std::string, std::string>>{},
            "Compiles a kernel file without the cache. Returns (kind, machine code, assembly).")
        .def(
            "prepare",
            [](std::shared_ptr<DeviceHandle> d, const std::string& name, const std::string& text,
               const std::string& entry) {
                std::shared_ptr<Kernel> kernel = d->device->kernel(source_of(name, text, {}), entry);
                return nb::cpp_function(
                    [d, kernel](BufferHandle& buffer, std::uint64_t n) {
                        const Argument list[] = {buffer.get(), n};
                        nb::gil_scoped_release release;
                        d->device->launch(d->lab.stream(), *kernel, d->lab.grid_for(n), list);
                        d->device->wait(d->lab.stream());
                    },
                    "buffer"_a, "n"_a);
            },
            "name"_a, "text"_a, "entry"_a,
            nb::sig("def prepare(self, name: str, text: str, entry: str) -> typing.Callable[[Buffer, int], None]"),
            "Compiles a kernel with the parameters (pointer, ulong).\n\n"
            "Returns a function that runs it on a buffer and n items, and waits for it.");
    bind_work(m, device, buffer);
    m.def(
        "open", [](const std::string& name) { return std::make_shared<DeviceHandle>(name); }, "name"_a,
        "Opens cpu, opencl:N, cuda:N or hip:N. Raises Unavailable with the reason.");
}

}  // namespace firsttouch
