#include <nanobind/nanobind.h>
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
#include "device/library.hpp"
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
    throw std::invalid_argument("'" + name + "' is no page size; choose policy, base or huge");
}

namespace {

const char* access_name(Access access) {
    return access == Access::direct ? "direct" : access == Access::mapped ? "mapped" : "none";
}

nb::dict named(const Facts& facts) {
    nb::dict out;
    for (const auto& [key, value] : facts) std::visit([&](const auto& v) { out[key.c_str()] = nb::cast(v); }, value);
    return out;
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
        const auto stated = [](const std::optional<bool>& fact) { return fact ? nb::cast(*fact) : nb::none(); };
        row["on_demand"] = stated(entry.on_demand);
        row["concurrent"] = stated(entry.concurrent);
        row["shared_atomics"] = stated(entry.shared_atomics);
        row["disjoint"] = stated(entry.concurrent == true ? entry.concurrent : entry.disjoint);
        out.append(row);
    }
    return out;
}

const char* time_class_name(TimeClass time_class) {
    return time_class == TimeClass::host ? "host" : time_class == TimeClass::host_kernels ? "host-kernels" : "gpu";
}

nb::dict capabilities_of(DeviceHandle& handle) {
    const Capabilities can = handle.device->capabilities();
    nb::dict out;
    out["runs_kernels"] = can.runs_kernels;
    out["on_host_processor"] = can.on_host_processor;
    out["shares_host_memory"] = can.shares_host_memory;
    out["gpu_hierarchy"] = can.gpu_hierarchy;
    out["page_migration"] = can.page_migration;
    out["memory_guidance"] = can.memory_guidance;
    out["memory_events"] = can.memory_events;
    out["coherent_during_kernel"] = can.coherent_during_kernel;
    out["host_native_atomics"] = can.host_native_atomics;
    out["uncached_loads"] = can.uncached_loads;
    out["device_scope_atomics"] = can.device_scope_atomics;
    out["device_clock"] = can.device_clock;
    out["tells_free_memory"] = can.tells_free_memory;
    out["time_class"] = time_class_name(can.time_class);
    out["machine_code"] = can.machine_code;
    return out;
}

nb::object clocks_of(DeviceHandle& handle) {
    const Clocks clocks = handle.device->clocks();
    if (clocks.core_mhz < 0 && clocks.temperature_c < 0) return nb::none();
    const auto given = [](double value) -> nb::object { return value < 0 ? nb::none() : nb::cast(value); };
    nb::dict out;
    out["core_mhz"] = given(clocks.core_mhz);
    out["memory_mhz"] = given(clocks.memory_mhz);
    out["temperature_c"] = given(clocks.temperature_c);
    out["power_w"] = given(clocks.power_w);
    out["throttle"] = clocks.throttle;
    return out;
}

Source source_of(const std::string& name, const std::string& text,
                 const std::vector<std::pair<std::string, std::string>>& defines) {
    return {name, text, defines};
}

}  // namespace

void bind_device(nb::module_& m) {
    // Most specific last: nanobind asks the translators in reverse order of their registration.
    nb::exception<Unavailable>(m, "Unavailable", PyExc_RuntimeError);
    nb::exception<VendorError>(m, "VendorError", PyExc_RuntimeError);
    nb::exception<GuardRefused>(m, "GuardRefused", PyExc_MemoryError);

    m.def("set_library_paths", &set_library_paths, "name"_a, "candidates"_a,
          "Paths or sonames to try, in order, when the vendor library `name` is first needed.");
    m.def("count_devices", &count_devices, "kind"_a,
          "How many devices of a kind (cpu, opencl, cuda, hip) there are. Raises Unavailable with the reason.");
    m.def(
        "device_kinds",
        [] {
            std::vector<std::string> kinds;
            for (const auto& backend : backends()) kinds.push_back(backend.kind);
            return kinds;
        },
        "The kinds of device that the core can open.");
    m.def("throttle_reasons", &cuda::throttle_reasons, "mask"_a,
          "The reasons in a mask of NVML's clock events, in words; idleness is none, an unknown one is its number.");
    m.def("clock_cost", &clock_cost, "Seconds that one reading of the host's clock takes.");
    m.def("usable_processors", &usable_processors, "Processors that this process may run on.");
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
        nb::sig("def guard_limits() -> dict[str, int | None]"), "Bytes that the guard allows at most, by limit.");
    m.def("oversubscription_allowed", &Guard::oversubscription_allowed,
          "Whether the user lets managed memory exceed what a device has free.");
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
        "Bytes alive in this process that were allocated through a device, by limit: host, device, managed.");
    m.def("host_available", &host_available, "root"_a = "", "Bytes the host can give, under another root for tests.");
    m.def("kernel_file", &kernel_file, "name"_a, "Text of an embedded file of src/firsttouch/kernels.");
    m.def(
        "host_kernel_code",
        [](const std::string& name) {
            const HostKernel kernel = find_host_kernel(name);
            if (kernel == nullptr) throw Unavailable("the core holds no host version of kernel " + name);
            return nb::bytes(reinterpret_cast<const char*>(kernel), 512);
        },
        "name"_a, "The machine code of a kernel in the core: 512 bytes from its entry.");
    m.def(
        "nvrtc_compile",
        [](const std::string& text, const std::string& name, const std::string& architecture) {
            const cuda::Compiled compiled = cuda::nvrtc_compile(text, name, architecture);
            return std::make_tuple(nb::bytes(compiled.cubin.data(), compiled.cubin.size()), compiled.ptx, compiled.log);
        },
        "text"_a, "name"_a, "architecture"_a, "Compiles CUDA C++ without a GPU: (cubin, PTX, log).");
    m.def(
        "hiprtc_compile",
        [](const std::string& text, const std::string& name, const std::string& architecture) {
            const hip::Compiled compiled = hip::hiprtc_compile(text, name, architecture);
            return std::make_tuple(nb::bytes(compiled.code.data(), compiled.code.size()), compiled.log);
        },
        "text"_a, "name"_a, "architecture"_a, "Compiles HIP C++ without a GPU: (code object, log).");
    m.def(
        "translation_unit",
        [](const std::string& name, const std::string& language,
           const std::vector<std::pair<std::string, std::string>>& defines, const std::string& text) {
            const Source source = text.empty() ? kernel_source(name, defines) : source_of(name, text, defines);
            return translation_unit(source, language);
        },
        "name"_a, "language"_a, "defines"_a = std::vector<std::pair<std::string, std::string>>{}, "text"_a = "",
        "The whole text of a kernel file, an embedded one without `text`, in a language: cuda, hip or opencl.");

    nb::class_<BufferHandle> buffer(m, "Buffer",
                                    "Memory of a device, charged to the guard; freed at the end of its with block.");
    buffer.def_prop_ro("size", [](BufferHandle& b) { return b.get().size(); })
        .def_prop_ro("allocator", [](BufferHandle& b) { return to_string(b.get().allocator()); })
        .def_prop_ro(
            "device", [](BufferHandle& b) { return b.owner->device->name(); }, "Name of the device that allocated it.")
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
            "seed"_a, "agent"_a)
        .def(
            "check",
            [](BufferHandle& b, std::uint64_t seed, const std::string& agent) {
                return b.owner->lab.check(b.get(), seed, agent_from(agent));
            },
            "seed"_a, "agent"_a, "Words that differ from the seed's pattern.")
        .def(
            "read",
            [](BufferHandle& b, std::size_t offset, std::size_t count) {
                if (count > b.get().size() || offset > b.get().size() - count)
                    throw std::out_of_range("read beyond the buffer");
                std::string bytes(count, '\0');
                b.owner->lab.read(b.get(), offset, bytes.data(), count);
                return nb::bytes(bytes.data(), bytes.size());
            },
            "offset"_a, "count"_a)
        .def(
            "write",
            [](BufferHandle& b, std::size_t offset, nb::bytes bytes) {
                if (bytes.size() > b.get().size() || offset > b.get().size() - bytes.size())
                    throw std::out_of_range("write beyond the buffer");
                b.owner->lab.write(b.get(), offset, bytes.c_str(), bytes.size());
            },
            "offset"_a, "bytes"_a)
        .def(
            "residency",
            [](BufferHandle& b) {
                const HostView view(b.get());
                const Residency where = residency(view.data(), b.get().size());
                return std::make_pair(where.numa_node < 0 ? std::nullopt : std::optional<int>(where.numa_node),
                                      where.page_bytes == 0 ? std::nullopt
                                                            : std::optional<std::size_t>(where.page_bytes));
            },
            "NUMA node and page size in bytes of the host's pages, each None where unknown.")
        .def_prop_ro(
            "address", [](BufferHandle& b) { return reinterpret_cast<std::uintptr_t>(b.get().block().host); },
            "The CPU's address, 0 where there is none outside a mapping.");

    nb::class_<DeviceHandle> device(m, "Device", "A device and its measuring loops.");
    device.def_prop_ro("name", [](DeviceHandle& d) { return d.device->name(); })
        .def(
            "facts", [](DeviceHandle& d) { return named(d.device->facts()); },
            nb::sig("def facts(self) -> dict[str, bool | int | float | str]"))
        .def(
            "usage", [](DeviceHandle& d) { return named(d.device->usage()); },
            nb::sig("def usage(self) -> dict[str, int]"),
            "Bytes of device memory in use by all programs, by the vendor's management library; empty without one.")
        .def(
            "reach",
            [](DeviceHandle& d, DeviceHandle& other) {
                nb::gil_scoped_release release;
                d.device->reach(*other.device);
            },
            "other"_a,
            "Lets kernels and copies of this device use memory of the other one; raises Unavailable with the driver's "
            "words.")
        .def(
            "why_unreachable",
            [](DeviceHandle& d, DeviceHandle& other) { return d.device->why_unreachable(*other.device); }, "other"_a,
            "Why reach would raise, as the driver states it; None where it would not. Opens nothing.")
        .def("capabilities", &capabilities_of, nb::sig("def capabilities(self) -> dict[str, bool | str]"),
             "What the device can do, as its driver states it: the fields of DeviceCapabilities.")
        .def("allocators", &allocators_of, nb::sig("def allocators(self) -> list[dict[str, object]]"))
        .def("clocks", &clocks_of, nb::sig("def clocks(self) -> dict[str, object] | None"))
        .def(
            "memory",
            [](DeviceHandle& d) {
                const DeviceMemory memory = d.device->memory();
                return std::make_pair(memory.total, memory.free);
            },
            "Bytes of device memory: (total, free).")
        .def(
            "allocate",
            [](std::shared_ptr<DeviceHandle> d, const std::string& allocator, std::size_t bytes,
               const std::string& pages) {
                auto handle = std::make_unique<BufferHandle>();
                handle->buffer = d->device->allocate(allocator_from(allocator), bytes, pages_from(pages));
                handle->owner = std::move(d);
                return handle;
            },
            "allocator"_a, "bytes"_a, "pages"_a = "policy",
            "Allocates memory, charged to the guard. Raises GuardRefused, Unavailable or VendorError.")
        .def(
            "map_file",
            [](std::shared_ptr<DeviceHandle> d, int descriptor, std::size_t bytes) {
                auto handle = std::make_unique<BufferHandle>();
                handle->buffer = d->device->map_file(descriptor, bytes);
                handle->owner = std::move(d);
                return handle;
            },
            "descriptor"_a, "bytes"_a,
            "Maps the first bytes of an open file for reading, charged as mmap is. Raises GuardRefused or Unavailable.")
        .def(
            "compile",
            [](DeviceHandle& d, const std::string& name, const std::string& text,
               const std::vector<std::pair<std::string, std::string>>& defines) {
                const Binary binary = d.device->compile(source_of(name, text, defines));
                return std::make_tuple(binary.kind, nb::bytes(binary.code.data(), binary.code.size()), binary.assembly);
            },
            "name"_a, "text"_a, "defines"_a = std::vector<std::pair<std::string, std::string>>{},
            "Compiles a kernel file without the cache: (kind, machine code, assembly).")
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
            "Compiles a kernel with parameters (pointer, ulong); the result runs it over n items and waits.");
    bind_work(m, device, buffer);
    m.def(
        "open", [](const std::string& name) { return std::make_shared<DeviceHandle>(name); }, "name"_a,
        "Opens cpu, opencl:N, cuda:N or hip:N. Raises Unavailable with the reason.");
}

}  // namespace firsttouch
