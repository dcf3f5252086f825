// The bindings that applications use: kernel launches on GPU and CPU, copies, prefetches, events. Work is queued on the
// lab's stream unless another stream is given.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <atomic>

#include "bindings/bindings.hpp"
#include "bindings/handle.hpp"
#include "device/kernel_timer.hpp"
#include "host/kernels.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace firsttouch {
namespace {

using Values = nb::typed<nb::list, nb::object>;

struct StreamHandle {
    std::shared_ptr<DeviceHandle> owner;
    std::unique_ptr<Stream> stream;
};

struct EventHandle {
    std::shared_ptr<DeviceHandle> owner;
    std::unique_ptr<Event> event;
};

struct TimerHandle {
    explicit TimerHandle(std::shared_ptr<DeviceHandle> device)
        : owner(std::move(device)), timer(*owner->device, owner->lab.stream()) {}
    std::shared_ptr<DeviceHandle> owner;
    KernelTimer timer;
};

struct KernelHandle {
    std::shared_ptr<DeviceHandle> owner;
    std::unique_ptr<Kernel> kernel;
    std::string codes;  // type codes of the parameters: p for a pointer, otherwise a code of scalar_of
};

Stream& stream_of(DeviceHandle& device, StreamHandle* stream) {
    return stream == nullptr ? device.lab.stream() : *stream->stream;
}

template <class T>
T number_of(const char* type, nb::handle value) {
    T number{};
    if (!nb::try_cast<T>(value, number))
        throw std::invalid_argument(std::string(nb::repr(value).c_str()) + " is not a value of type " + type);
    return number;
}

// A scalar converted to its parameter's type. Codes: i, I: 32-bit integers, l, L: 64-bit integers (capitals: unsigned),
// B: unsigned byte, f, d: floating point.
Argument scalar_of(char code, nb::handle value) {
    switch (code) {
    case 'i':
        return number_of<std::int32_t>("int", value);
    case 'I':
        return number_of<std::uint32_t>("uint", value);
    case 'l':
        return number_of<std::int64_t>("long", value);
    case 'L':
        return number_of<std::uint64_t>("ulong", value);
    case 'B':
        return number_of<std::uint8_t>("uchar", value);
    case 'f':
        return static_cast<float>(number_of<double>("float", value));
    case 'd':
        return number_of<double>("double", value);
    default:
        throw std::invalid_argument(std::string("'") + code + "' is not a type code");
    }
}

void require_same_device(const DeviceHandle& device, const KernelHandle& kernel) {
    if (kernel.owner->device->name() != device.device->name())
        throw std::invalid_argument("the kernel was compiled for " + kernel.owner->device->name() + ", not for " +
                                    device.device->name());
}

std::size_t checked_count(const std::string& codes, const Values& values) {
    if (values.size() != codes.size())
        throw std::invalid_argument("the kernel takes " + std::to_string(codes.size()) + " arguments, not " +
                                    std::to_string(values.size()));
    return codes.size();
}

std::vector<Argument> arguments_of(const KernelHandle& kernel, const Values& values) {
    std::vector<Argument> arguments;
    const std::size_t count = checked_count(kernel.codes, values);
    arguments.reserve(count);
    for (std::size_t i = 0; i < count; ++i)
        if (kernel.codes[i] == 'p')
            arguments.emplace_back(nb::cast<BufferHandle&>(values[i]).get());
        else
            arguments.push_back(scalar_of(kernel.codes[i], values[i]));
    return arguments;
}

// Launches that are prepared once and replayed in order without Python. For applications with thousands of small
// launches.
class LaunchList {
  public:
    explicit LaunchList(std::shared_ptr<DeviceHandle> device) : device_(std::move(device)) {}

    void add(nb::object kernel, std::uint32_t blocks, std::uint32_t threads, const Values& values) {
        auto& handle = nb::cast<KernelHandle&>(kernel);
        require_same_device(*device_, handle);
        const auto arguments = arguments_of(handle, values);
        steps_.push_back({handle.kernel.get(), {blocks, threads}, arguments_.size(), arguments.size()});
        arguments_.insert(arguments_.end(), arguments.begin(), arguments.end());
        if (kernels_.size() == 0 || !kernels_[kernels_.size() - 1].is(kernel)) kernels_.append(kernel);
        for (nb::handle value : values)
            if (nb::isinstance<BufferHandle>(value)) buffers_.add(value);
    }
    std::size_t size() const { return steps_.size(); }
    void replay(std::size_t first, std::size_t count, TimerHandle* timer) {
        if (first > steps_.size() || count > steps_.size() - first)
            throw std::out_of_range("the list has " + std::to_string(steps_.size()) + " launches");
        Stream& stream = device_->lab.stream();
        if (timer != nullptr) timer->timer.begin();
        for (std::size_t i = first; i < first + count; ++i)
            device_->device->launch(stream, *steps_[i].kernel, steps_[i].grid,
                                    std::span(arguments_).subspan(steps_[i].from, steps_[i].count));
        if (timer != nullptr) timer->timer.end();
    }

  private:
    struct QueuedLaunch {
        Kernel* kernel;
        Grid grid;
        std::size_t from, count;
    };
    std::shared_ptr<DeviceHandle> device_;
    std::vector<QueuedLaunch> steps_;
    std::vector<Argument> arguments_;
    nb::list kernels_;  // keeps the kernels and buffers of the launches alive
    nb::set buffers_;
};

// Runs a host kernel on pinned threads. Arguments for pointers are addresses.
double launch_on_host(const std::string& name, const std::string& codes, int threads, const Values& values) {
    const HostKernel kernel = find_host_kernel(name);
    if (kernel == nullptr) throw Unavailable("there is no host version of kernel " + name);
    const std::size_t count = checked_count(codes, values);
    std::vector<Argument> arguments;
    std::vector<void*> pointers(count);
    arguments.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        arguments.push_back(scalar_of(codes[i] == 'p' ? 'L' : codes[i], values[i]));
        pointers[i] = arguments.back().bytes;
    }
    nb::gil_scoped_release release;
    Team team(threads > 0 ? threads : usable_processors());
    return run_on(team, kernel, pointers.data());
}

}  // namespace

void bind_work(nb::module_& m, nb::class_<DeviceHandle>& device, nb::class_<BufferHandle>& buffer) {
    using Shared = std::shared_ptr<DeviceHandle>;
    nb::class_<StreamHandle>(m, "Stream", "A queue of a device. Its work runs in order.");
    nb::class_<KernelHandle>(m, "Kernel", "A kernel compiled for one device.");
    nb::class_<EventHandle>(m, "Event", "A position in a stream, reached when the work queued before it has completed.")
        .def(
            "seconds_until",
            [](EventHandle& from, EventHandle& to) { return from.owner->device->elapsed(*from.event, *to.event); },
            "later"_a, "Returns the seconds between two events on the device's clock. Waits for the later one.");
    nb::class_<TimerHandle>(m, "KernelTimer",
                            "Adds up the time of kernels, by a pair of events around each launch that is given it.")
        .def(nb::init<Shared>(), "device"_a)
        .def(
            "begin", [](TimerHandle& t) { t.timer.begin(); }, "Records the event before work that is queued next.")
        .def(
            "end", [](TimerHandle& t) { t.timer.end(); }, "Records the event after the work queued since begin().")
        .def(
            "take",
            [](TimerHandle& t) {
                nb::gil_scoped_release release;
                const auto [seconds, pairs] = t.timer.take();
                return std::make_pair(seconds, pairs);
            },
            "Waits, and returns the seconds on the device's clock and the number of pairs since the last call.");
    nb::class_<LaunchList>(m, "LaunchList",
                           "Kernel launches that are prepared once and replayed in order without Python.")
        .def(nb::init<Shared>(), "device"_a)
        .def("add", &LaunchList::add, "kernel"_a, "blocks"_a, "threads"_a, "arguments"_a)
        .def("__len__", &LaunchList::size)
        .def("replay", &LaunchList::replay, "first"_a, "count"_a, "timer"_a.none() = nb::none());
    m.def("launch_on_host", &launch_on_host, "kernel"_a, "codes"_a, "threads"_a, "arguments"_a,
          "Runs the host kernel 'application/entry' on pinned threads and returns the seconds it took.\n\n"
          "threads: 0 is one for each usable processor. Arguments for pointers are addresses.");
    m.def(
        "has_host_kernel", [](const std::string& name) { return find_host_kernel(name) != nullptr; }, "name"_a,
        "True if there is a host version of 'application/entry'.");
    // Threads of host kernels have ended by then, which flushes theirs.
    m.def(
        "flush_stores", [] { std::atomic_thread_fence(std::memory_order_seq_cst); },
        "Flushes the calling thread's stores from its processor's write-combining buffers, by a full fence.");

    buffer
        .def(
            "map",
            [](BufferHandle& b) { return reinterpret_cast<std::uintptr_t>(b.owner->device->map(b.get().block())); },
            "Maps the buffer for the CPU and returns its address. unmap must follow.")
        .def(
            "unmap",
            [](BufferHandle& b, std::uintptr_t address) {
                nb::gil_scoped_release release;
                b.owner->device->unmap(b.get().block(), reinterpret_cast<void*>(address));
            },
            "address"_a)
        .def_prop_ro(
            "device_address", [](BufferHandle& b) { return static_cast<std::uint64_t>(b.get().block().address); },
            "The address in kernels, or 0 if the device has no addresses.");
    device
        .def(
            "kernel",
            [](Shared d, const std::string& name, const std::string& text, const std::string& entry,
               const std::string& codes, const Defines& defines) {
                auto handle = std::make_unique<KernelHandle>();
                handle->kernel = d->device->kernel({name, text, defines}, entry);
                handle->owner = std::move(d);
                handle->codes = codes;
                return handle;
            },
            "name"_a, "text"_a, "entry"_a, "codes"_a, "defines"_a = Defines{},
            "Compiles a kernel. codes: the type of each parameter as one letter: p (pointer), i, I, l, L, B, f, d.")
        .def(
            "launch",
            [](DeviceHandle& d, KernelHandle& kernel, std::uint32_t blocks, std::uint32_t threads, const Values& values,
               TimerHandle* timer) {
                require_same_device(d, kernel);
                const auto arguments = arguments_of(kernel, values);
                if (timer != nullptr) timer->timer.begin();
                d.device->launch(d.lab.stream(), *kernel.kernel, {blocks, threads}, arguments);
                if (timer != nullptr) timer->timer.end();
            },
            "kernel"_a, "blocks"_a, "threads"_a, "arguments"_a, "timer"_a.none() = nb::none(),
            "Queues a kernel on the default stream. timer: adds up its time.")
        .def(
            "grid",
            [](DeviceHandle& d, std::uint64_t n) {
                const Grid grid = d.lab.grid_for(n);
                return std::make_pair(grid.blocks, grid.threads);
            },
            "n"_a, "Returns (blocks, threads) for n items, about one per thread.")
        .def("stream",
             [](Shared d) {
                 auto handle = std::make_unique<StreamHandle>();
                 handle->stream = d->device->stream();
                 handle->owner = std::move(d);
                 return handle;
             })
        .def(
            "copy",
            [](DeviceHandle& d, BufferHandle& target, std::size_t to, BufferHandle& source, std::size_t from,
               std::size_t bytes) {
                nb::gil_scoped_release release;
                d.device->copy(d.lab.stream(), target.get(), to, source.get(), from, bytes);
            },
            "target"_a, "target_offset"_a, "source"_a, "source_offset"_a, "bytes"_a)
        .def(
            "prefetch",
            [](DeviceHandle& d, BufferHandle& buffer, std::size_t offset, std::size_t bytes, const std::string& agent,
               StreamHandle* stream) {
                d.device->prefetch(stream_of(d, stream), buffer.get(), offset, bytes, agent_from(agent));
            },
            "buffer"_a, "offset"_a, "bytes"_a, "agent"_a, "stream"_a.none() = nb::none())
        .def(
            "advise",
            [](DeviceHandle& d, BufferHandle& buffer, const std::string& advice) {
                static const std::pair<const char*, Advice> names[] = {{"read-mostly", Advice::read_mostly},
                                                                       {"preferred-gpu", Advice::preferred_gpu},
                                                                       {"preferred-cpu", Advice::preferred_cpu},
                                                                       {"accessed-by-gpu", Advice::accessed_by_gpu},
                                                                       {"accessed-by-cpu", Advice::accessed_by_cpu}};
                for (const auto& [name, value] : names)
                    if (advice == name) return d.device->advise(buffer.get(), value);
                throw std::invalid_argument("'" + advice + "' is not memory advice");
            },
            "buffer"_a, "advice"_a)
        .def(
            "wait",
            [](DeviceHandle& d) {
                nb::gil_scoped_release release;
                d.device->wait(d.lab.stream());
            },
            "Waits until all work in the default stream has completed.")
        .def(
            "record",
            [](Shared d, StreamHandle* stream) {
                auto handle = std::make_unique<EventHandle>();
                handle->event = d->device->record(stream_of(*d, stream));
                handle->owner = std::move(d);
                return handle;
            },
            "stream"_a.none() = nb::none())
        .def(
            "join", [](DeviceHandle& d, EventHandle& event) { d.device->join(d.lab.stream(), *event.event); },
            "event"_a, "Makes work that is queued on the default stream afterwards wait for the event.");
}

}  // namespace firsttouch
