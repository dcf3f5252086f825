// The OpenCL Device: buffers and shared virtual memory of OpenCL 1.2 to 3.0, through a driver's dispatch table.
#include <map>
#include <mutex>

#include "device/backends.hpp"
#include "device/host/memory.hpp"
#include "device/limits.hpp"
#include "device/opencl/api.hpp"
#include "device/prelude.hpp"
#include "host/clock.hpp"

namespace firsttouch {
namespace opencl {
namespace {

constexpr const Object* no_events = nullptr;

struct ClEvent : Event {
    explicit ClEvent(Object event) : handle(event) {}
    ~ClEvent() override { DispatchTable(handle).call<Int>(release_event, handle); }
    Object handle;
};

struct ClStream : Stream {
    explicit ClStream(Object queue) : handle(queue) {}
    ~ClStream() override { DispatchTable(handle).call<Int>(release_queue, handle); }
    Object handle;
};

struct ClProgram {
    explicit ClProgram(Object program) : handle(program) {}
    ~ClProgram() {
        if (handle != nullptr) DispatchTable(handle).call<Int>(release_program, handle);
    }
    ClProgram(const ClProgram&) = delete;
    ClProgram& operator=(const ClProgram&) = delete;
    Object handle;
};

struct ClKernel : Kernel {
    ~ClKernel() override {
        if (handle != nullptr) DispatchTable(handle).call<Int>(release_kernel, handle);
    }
    std::shared_ptr<ClProgram> program;
    Object handle = nullptr;
};

// One context for all available devices of a platform, so that each can use the memory of the others. It is destroyed
// when the last of them is closed.
struct ClContext {
    explicit ClContext(Object platform) {
        for (const FoundDevice& candidate : find_devices())
            if (candidate.platform == platform && number_info<UInt>(candidate.device, info_available) != 0)
                devices.push_back(candidate.device);
        for (Object device : devices)
            pocl_processors[device] = set_pocl_processor(device, text_info(device, info_version));
        Int code = 0;
        handle = DispatchTable(platform).call<Object>(create_context, static_cast<const void*>(nullptr),
                                                      static_cast<UInt>(devices.size()),
                                                      static_cast<const Object*>(devices.data()),
                                                      static_cast<void*>(nullptr), static_cast<void*>(nullptr), &code);
        check(code, "clCreateContext");
    }
    ~ClContext() {
        if (handle != nullptr) DispatchTable(handle).call<Int>(release_context, handle);
    }
    ClContext(const ClContext&) = delete;
    ClContext& operator=(const ClContext&) = delete;

    static std::shared_ptr<ClContext> of(Object platform) {
        static std::mutex mutex;
        static std::map<Object, std::weak_ptr<ClContext>> open;
        const std::lock_guard lock(mutex);
        auto context = open[platform].lock();
        if (context == nullptr) open[platform] = context = std::make_shared<ClContext>(platform);
        return context;
    }

    std::vector<Object> devices;
    std::map<Object, std::string> pocl_processors;  // the names that set_pocl_processor set, by device
    Object handle = nullptr;
};

// A user event for which all work queued later waits.
class UserGate : public Gate {
  public:
    UserGate(const DispatchTable& table, Object context, Object queue) : table_(table) {
        Int code = 0;
        event_ = table_.call<Object>(create_user_event, context, &code);
        check(code, "clCreateUserEvent");
        const Object list[] = {event_};
        check(table_.call<Int>(enqueue_barrier, queue, UInt{1}, static_cast<const Object*>(list),
                               static_cast<Object*>(nullptr)),
              "clEnqueueBarrierWithWaitList");
        table_.call<Int>(flush, queue);
    }
    ~UserGate() override {
        open();
        table_.call<Int>(release_event, event_);
    }
    void open() override {
        if (!opened_) table_.call<Int>(set_user_event, event_, Int{0});
        opened_ = true;
    }

  private:
    DispatchTable table_;
    Object event_ = nullptr;
    bool opened_ = false;
};

class OpenclDevice : public Device {
  public:
    explicit OpenclDevice(int index)
        : Device("opencl:" + std::to_string(index)), found_(find_devices().at(static_cast<std::size_t>(index))),
          device_(found_.device), table_(device_), shared_context_(ClContext::of(found_.platform)),
          context_(shared_context_->handle) {
        internal_stream_ = std::make_unique<ClStream>(queue());
        on_host_processor_ = (number_info<ULong>(device_, info_type) & device_type_cpu) != 0;
        shares_host_ = on_host_processor_ || number_info<UInt>(device_, info_unified) != 0;
        state_allocators();
    }

    Facts facts() override;
    // OpenCL C 1.2 has no clock, no loads that bypass a cache and no atomic scopes. No query reports free memory.
    Capabilities capabilities() override {
        const bool atomics = (number_info<ULong>(device_, info_svm) & svm_atomics) != 0;
        return {.on_host_processor = on_host_processor_,
                .shares_host_memory = shares_host_,
                .gpu_hierarchy = !on_host_processor_,
                .coherent_during_kernel = atomics,
                .host_native_atomics = atomics,
                .time_class = on_host_processor_ ? TimeClass::host_kernels : TimeClass::gpu,
                .machine_code = "opencl"};
    }
    const std::vector<AllocatorInfo>& allocators() override { return allocators_; }
    DeviceMemory memory() override {
        const auto total = static_cast<std::size_t>(number_info<ULong>(device_, info_memory_bytes));
        if (!shares_host_) return {total, total};  // OpenCL does not report free memory
        return {total, std::min(total, host_available())};
    }
    Block obtain(Allocator allocator, std::size_t bytes, Pages pages) override;
    void release(Block& block) noexcept override;
    void* map(const Block& block) override;
    void unmap(const Block& block, void* address) override;

    std::unique_ptr<Kernel> kernel(const Source& source, const std::string& entry) override;
    Binary compile(const Source& source) override;
    std::unique_ptr<Stream> stream() override { return std::make_unique<ClStream>(queue()); }
    // Devices of one platform share a context, and any of them may use its buffers and shared virtual memory. The
    // driver migrates a buffer to the device that uses it (OpenCL 3.0, 5.5.4).
    std::optional<std::string> why_unreachable(Device& device) override {
        const auto* peer = dynamic_cast<OpenclDevice*>(&device);
        return peer != nullptr && peer->context_ == context_ ? std::nullopt : Device::why_unreachable(device);
    }
    void prefetch(Stream&, const Buffer&, std::size_t, std::size_t, Agent) override {
        throw Unavailable("OpenCL does not support prefetching to an agent");
    }
    void advise(const Buffer&, Advice) override { throw Unavailable("OpenCL does not support memory advice"); }
    void wait(Stream& stream) override { check(table_.call<Int>(finish, handle(stream)), "clFinish"); }
    std::unique_ptr<Event> record(Stream& stream) override {
        Object event = nullptr;
        check(table_.call<Int>(enqueue_marker, handle(stream), UInt{0}, no_events, &event),
              "clEnqueueMarkerWithWaitList");
        table_.call<Int>(flush, handle(stream));
        return std::make_unique<ClEvent>(event);
    }
    using Device::record;
    double elapsed(Event& from, Event& to) override { return end_time(to) - end_time(from); }
    void join(Stream& stream, Event& event) override {
        const Object list[] = {static_cast<ClEvent&>(event).handle};
        check(table_.call<Int>(enqueue_barrier, handle(stream), UInt{1}, static_cast<const Object*>(list),
                               static_cast<Object*>(nullptr)),
              "clEnqueueBarrierWithWaitList");
    }
    std::unique_ptr<Gate> hold(Stream& stream) override {
        return std::make_unique<UserGate>(table_, context_, handle(stream));
    }

  protected:
    void queue_launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments) override;
    void queue_copy(Stream& stream, const Buffer& target, std::size_t target_offset, const Buffer& source,
                    std::size_t source_offset, std::size_t bytes) override;

  private:
    static Object handle(Stream& stream) { return static_cast<ClStream&>(stream).handle; }
    static bool is_svm(Allocator allocator) {
        return allocator == Allocator::svm_coarse || allocator == Allocator::svm_fine ||
               allocator == Allocator::svm_atomic;
    }
    static bool is_memory_object(const Block& block) { return block.handle != nullptr; }
    Object queue() {
        Int code = 0;
        Object queue = table_.call<Object>(create_queue, context_, device_, queue_profiling, &code);
        check(code, "clCreateCommandQueue");
        return queue;
    }
    double end_time(Event& event) {
        Object raw = static_cast<ClEvent&>(event).handle;
        check(table_.call<Int>(wait_events, UInt{1}, static_cast<const Object*>(&raw)), "clWaitForEvents");
        ULong time = 0;
        check(table_.call<Int>(get_profiling, raw, profiling_end, sizeof(time), static_cast<void*>(&time),
                               static_cast<std::size_t*>(nullptr)),
              "clGetEventProfilingInfo");
        return static_cast<double>(time) * 1e-9;
    }
    void state_allocators();
    std::shared_ptr<ClProgram> program(const Source& source);

    FoundDevice found_;
    Object device_;
    DispatchTable table_;
    std::shared_ptr<ClContext> shared_context_;  // destroyed after everything that was created in it
    Object context_;
    bool on_host_processor_ = false;
    bool shares_host_ = false;
    std::unique_ptr<ClStream> internal_stream_;
    std::vector<AllocatorInfo> allocators_;
    std::map<std::string, std::shared_ptr<ClProgram>> programs_;
};

Facts OpenclDevice::facts() {
    Facts facts = {
        {"title", text_info(device_, info_name)},
        {"vendor", text_info(device_, info_vendor)},
        {"driver", text_info(device_, info_driver)},
        {"version", text_info(device_, info_version)},
        {"c_version", text_info(device_, info_c_version)},
        {"library", found_.library},
        {"memory_bytes", static_cast<std::int64_t>(number_info<ULong>(device_, info_memory_bytes))},
        {"largest_allocation_bytes", static_cast<std::int64_t>(number_info<ULong>(device_, info_max_allocation))},
        {"multiprocessors", std::int64_t{number_info<UInt>(device_, info_compute_units)}},
        {"largest_group", static_cast<std::int64_t>(number_info<std::size_t>(device_, info_group_size))},
        {"clock_mhz", std::int64_t{number_info<UInt>(device_, info_clock)}},
        {"line_bytes", std::int64_t{number_info<UInt>(device_, info_cache_line)}},
        {"cache_bytes", static_cast<std::int64_t>(number_info<ULong>(device_, info_cache_bytes))},
        {"shares_host_memory", shares_host_}};
    const auto svm = number_info<ULong>(device_, info_svm);
    facts.emplace_back("svm_coarse", (svm & svm_coarse) != 0);
    facts.emplace_back("svm_fine", (svm & svm_fine) != 0);
    facts.emplace_back("svm_fine_system", (svm & svm_fine_system) != 0);
    facts.emplace_back("svm_atomics", (svm & svm_atomics) != 0);
    if (const std::string& named = shared_context_->pocl_processors[device_]; !named.empty())
        facts.emplace_back("processor_named_for_pocl", named);
    return facts;
}

void OpenclDevice::state_allocators() {
    const auto svm = number_info<ULong>(device_, info_svm);
    allocators_ = host_allocators();
    for (auto& entry : allocators_) {
        entry.gpu = (svm & svm_fine_system) != 0 ? Access::direct : Access::none;
        if (entry.gpu == Access::none) {
            entry.gpu_reason = "the driver does not support fine-grained system SVM";
        } else {
            entry.concurrent = entry.shared_atomics = (svm & svm_atomics) != 0;
            entry.disjoint = true;
        }
    }
    const auto add = [&](Allocator allocator, Access cpu, bool available, const char* reason) {
        AllocatorInfo entry{.allocator = allocator, .available = available, .cpu = cpu, .gpu = Access::direct};
        if (!available) entry.reason = reason;
        entry.device_memory = allocator != Allocator::registered;
        entry.host_memory = shares_host_ || allocator == Allocator::registered || allocator == Allocator::pinned;
        // OpenCL 3.0, 3.3.3: mapped memory belongs to either host or device at a time. Without SVM atomics, they see
        // each other's stores at synchronisation points only. In fine-grained memory, they may still store to locations
        // that do not overlap ("Host-side and Device-side Commands").
        entry.concurrent = allocator == Allocator::svm_atomic;
        entry.disjoint = cpu == Access::direct;
        entry.shared_atomics = allocator == Allocator::svm_atomic;
        allocators_.push_back(std::move(entry));
    };
    add(Allocator::device, Access::mapped, true, "");
    add(Allocator::pinned, Access::mapped, true, "");
    add(Allocator::registered, Access::mapped, true, "");
    add(Allocator::svm_coarse, Access::mapped, (svm & svm_coarse) != 0,
        "the driver does not support coarse-grained SVM");
    add(Allocator::svm_fine, Access::direct, (svm & svm_fine) != 0,
        "the driver does not support fine-grained buffer SVM");
    add(Allocator::svm_atomic, Access::direct, (svm & svm_fine) != 0 && (svm & svm_atomics) != 0,
        "the driver does not support SVM atomics");
}

Block OpenclDevice::obtain(Allocator allocator, std::size_t bytes, Pages pages) {
    if (is_host_allocator(allocator)) {
        Block block = obtain_host(allocator, bytes, pages);
        if (info(allocator).gpu == Access::direct) block.address = reinterpret_cast<std::uint64_t>(block.host);
        return block;
    }
    Block block{.allocator = allocator, .bytes = bytes};
    if (is_svm(allocator)) {
        const ULong flags = memory_read_write | (allocator == Allocator::svm_coarse ? 0 : memory_svm_fine) |
                            (allocator == Allocator::svm_atomic ? memory_svm_atomics : 0);
        block.host = table_.call<void*>(svm_alloc, context_, flags, bytes, bytes < base_page ? UInt{0} : UInt{128});
        if (block.host == nullptr) throw VendorError("clSVMAlloc of " + std::to_string(bytes) + " bytes returned NULL");
        block.address = reinterpret_cast<std::uint64_t>(block.host);
        return block;
    }
    ULong flags = memory_read_write;
    if (allocator == Allocator::pinned) flags |= memory_alloc_host;
    if (allocator == Allocator::registered) {
        Block plain = obtain_host(Allocator::malloc, bytes, pages);
        block.base = plain.base;
        block.host = plain.host;
        flags |= memory_use_host;
    }
    Int code = 0;
    block.handle = table_.call<Object>(create_buffer, context_, flags, bytes, block.host, &code);
    if (code != 0 && block.base != nullptr) {
        Block plain{.allocator = Allocator::malloc, .base = block.base};
        release_host(plain);
    }
    check(code, "clCreateBuffer");
    // In a context with several devices, a buffer is not on any of them before its first use.
    if (shared_context_->devices.size() > 1) {
        const Object list[] = {block.handle};
        table_.call<Int>(enqueue_migrate, internal_stream_->handle, UInt{1}, static_cast<const Object*>(list),
                         migrate_without_content, UInt{0}, no_events, static_cast<Object*>(nullptr));
        table_.call<Int>(finish, internal_stream_->handle);
    }
    return block;
}

void OpenclDevice::release(Block& block) noexcept {
    if (is_memory_object(block)) {
        table_.call<Int>(release_memory, block.handle);
        block.allocator = Allocator::malloc;  // the memory under a registered buffer
        if (block.base != nullptr) release_host(block);
    } else if (is_svm(block.allocator)) {
        table_.call<void>(svm_free, context_, block.host);
    } else {
        release_host(block);
    }
    block = {};
}

void* OpenclDevice::map(const Block& block) {
    if (is_memory_object(block)) {
        Int code = 0;
        void* address =
            table_.call<void*>(enqueue_map, internal_stream_->handle, block.handle, UInt{1}, map_read_write,
                               std::size_t{0}, block.bytes, UInt{0}, no_events, static_cast<Object*>(nullptr), &code);
        check(code, "clEnqueueMapBuffer");
        return address;
    }
    if (block.allocator == Allocator::svm_coarse)
        check(table_.call<Int>(enqueue_svm_map, internal_stream_->handle, UInt{1}, map_read_write, block.host,
                               block.bytes, UInt{0}, no_events, static_cast<Object*>(nullptr)),
              "clEnqueueSVMMap");
    return block.host;
}

void OpenclDevice::unmap(const Block& block, void* address) {
    if (is_memory_object(block))
        table_.call<Int>(enqueue_unmap, internal_stream_->handle, block.handle, address, UInt{0}, no_events,
                         static_cast<Object*>(nullptr));
    else if (block.allocator == Allocator::svm_coarse)
        table_.call<Int>(enqueue_svm_unmap, internal_stream_->handle, block.host, UInt{0}, no_events,
                         static_cast<Object*>(nullptr));
    else
        return;
    table_.call<Int>(finish, internal_stream_->handle);
}

std::shared_ptr<ClProgram> OpenclDevice::program(const Source& source) {
    const std::string text = translation_unit(source, "opencl");
    auto& known = programs_[text];
    if (known != nullptr) return known;
    const char* texts[] = {text.c_str()};
    const std::size_t lengths[] = {text.size()};
    Int code = 0;
    auto program = std::make_shared<ClProgram>(table_.call<Object>(create_program, context_, UInt{1},
                                                                   static_cast<const char**>(texts),
                                                                   static_cast<const std::size_t*>(lengths), &code));
    check(code, "clCreateProgramWithSource");
    code = table_.call<Int>(build_program, program->handle, UInt{1}, static_cast<const Object*>(&device_),
                            "-cl-std=CL1.2", static_cast<void*>(nullptr), static_cast<void*>(nullptr));
    if (code != 0) {
        std::string log(16384, '\0');
        table_.call<Int>(get_build_info, program->handle, device_, build_log, log.size() - 1,
                         static_cast<void*>(log.data()), static_cast<std::size_t*>(nullptr));
        throw VendorError("clBuildProgram of " + source.name + ": " + error_name(code) + "\n" + log.c_str());
    }
    return known = program;
}

Binary OpenclDevice::compile(const Source& source) {
    const auto built = program(source);
    std::size_t size = 0;
    check(table_.call<Int>(get_program_info, built->handle, program_binary_sizes, sizeof(size),
                           static_cast<void*>(&size), static_cast<std::size_t*>(nullptr)),
          "clGetProgramInfo");
    std::string code(size, '\0');
    char* places[] = {code.data()};
    check(table_.call<Int>(get_program_info, built->handle, program_binaries, sizeof(places),
                           static_cast<void*>(places), static_cast<std::size_t*>(nullptr)),
          "clGetProgramInfo");
    return {"opencl", std::move(code), "", ""};
}

std::unique_ptr<Kernel> OpenclDevice::kernel(const Source& source, const std::string& entry) {
    auto kernel = std::make_unique<ClKernel>();
    kernel->program = program(source);
    Int code = 0;
    kernel->handle = table_.call<Object>(create_kernel, kernel->program->handle, entry.c_str(), &code);
    check(code, "clCreateKernel");
    return kernel;
}

void OpenclDevice::queue_launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments) {
    Object compiled = static_cast<ClKernel&>(kernel).handle;
    for (UInt i = 0; i < arguments.size(); ++i) {
        const Argument& argument = arguments[i];
        if (argument.buffer == nullptr) {
            check(table_.call<Int>(set_argument, compiled, i, argument.size, static_cast<const void*>(argument.bytes)),
                  "clSetKernelArg");
        } else if (is_memory_object(argument.buffer->block())) {
            check(table_.call<Int>(set_argument, compiled, i, sizeof(Object),
                                   static_cast<const void*>(&argument.buffer->block().handle)),
                  "clSetKernelArg");
        } else {
            require_address(*argument.buffer, kernel_user);
            check(table_.call<Int>(set_argument_svm, compiled, i,
                                   static_cast<const void*>(argument.buffer->block().host)),
                  "clSetKernelArgSVMPointer");
        }
    }
    const std::size_t local[] = {grid.threads};
    const std::size_t global[] = {std::size_t{grid.blocks} * grid.threads};
    check(table_.call<Int>(enqueue_kernel, handle(stream), compiled, UInt{1}, static_cast<const std::size_t*>(nullptr),
                           static_cast<const std::size_t*>(global), static_cast<const std::size_t*>(local), UInt{0},
                           no_events, static_cast<Object*>(nullptr)),
          "clEnqueueNDRangeKernel");
    table_.call<Int>(flush, handle(stream));
}

void OpenclDevice::queue_copy(Stream& stream, const Buffer& target, std::size_t target_offset, const Buffer& source,
                              std::size_t source_offset, std::size_t bytes) {
    const Block &to = target.block(), &from = source.block();
    Object* none = nullptr;
    char* to_host = static_cast<char*>(to.host) + target_offset;
    const char* from_host = static_cast<const char*>(from.host) + source_offset;
    Int code = 0;
    if (is_memory_object(to) && is_memory_object(from))
        code = table_.call<Int>(enqueue_copy, handle(stream), from.handle, to.handle, source_offset, target_offset,
                                bytes, UInt{0}, no_events, none);
    else if (is_memory_object(to))
        code = table_.call<Int>(enqueue_write, handle(stream), to.handle, UInt{0}, target_offset, bytes,
                                static_cast<const void*>(from_host), UInt{0}, no_events, none);
    else if (is_memory_object(from))
        code = table_.call<Int>(enqueue_read, handle(stream), from.handle, UInt{0}, source_offset, bytes,
                                static_cast<void*>(to_host), UInt{0}, no_events, none);
    else
        code = table_.call<Int>(enqueue_svm_copy, handle(stream), UInt{0}, static_cast<void*>(to_host),
                                static_cast<const void*>(from_host), bytes, UInt{0}, no_events, none);
    check(code, "enqueuing a copy");
    table_.call<Int>(flush, handle(stream));
}

}  // namespace
}  // namespace opencl

int count_opencl() { return static_cast<int>(opencl::find_devices().size()); }

std::unique_ptr<Device> open_opencl(int index) { return std::make_unique<opencl::OpenclDevice>(index); }

}  // namespace firsttouch
