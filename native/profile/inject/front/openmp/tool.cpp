// A tool of OpenMP's runtime (OMP_TOOL_LIBRARIES): tells the recorder what target constructs allocate, copy and launch.
//
// No event names the arguments of a target region: they are those of the call of libomptarget that runs it. Where that
// is not known, a region is taken to use all that is mapped to the device.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profile/inject/core/front.hpp"
#include "profile/inject/front/openmp/api.hpp"
#include "profile/inject/front/openmp/taken_calls.hpp"

namespace firsttouch::openmp_tool {
namespace {

using inject::Asked;
using inject::Direction;
using inject::FrontCall;
using inject::Handle;
using inject::Parameter;
using inject::RecordedCall;
using inject::Recorder;
using inject::WaitFor;

constexpr const char* region_name = "target_region";  // of which no call was seen
constexpr unsigned count_bits = 13;                   // of a handle
static_assert(inject::most_parameters < 1U << count_bits);

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

struct Mapped {
    std::size_t bytes = 0;
    bool is_associated = false;  // by the program, which allocated it
    int device = 0;
    std::uint64_t host = 0;  // 0: it is mapped from nowhere
};

// What a target region is called with. kernel: what tells it from others.
struct Region {
    const SourceIdentity* place;
    const void* kernel;
    const KernelArguments* arguments;

    // Its function and line; the same for all if the program was compiled without them.
    std::string name() const {
        const std::string_view text = place == nullptr || place->place == nullptr ? "" : place->place;
        std::vector<std::string_view> parts;  // "", file, function, line, ...
        for (std::size_t begin = 0; begin < text.size() && parts.size() < 4;) {
            const std::size_t end = std::min(text.find(';', begin), text.size());
            parts.push_back(text.substr(begin, end - begin));
            begin = end + 1;
        }
        if (parts.size() < 4 || parts[3] == "0") return "region";
        return std::string(parts[2]) + ":" + std::string(parts[3]);
    }
};

// Never freed: programs may use a device while they end.
struct Devices final : inject::Kernels {
    std::mutex mutex;
    std::string version;
    std::map<int, std::string> types;
    std::set<int> told;                      // devices
    std::map<std::uint64_t, Mapped> mapped;  // by address
    std::map<std::pair<int, std::uint64_t>, std::uint64_t> by_host;
    std::map<std::uint64_t, std::uint64_t> pointers;  // that the runtime wrote: where, and what they point to

    static Devices& instance() {
        static Devices& made = *new Devices;
        return made;
    }

    // handle: how many blocks a region uses, and which region it is.
    const char* name_of(Handle) const override { return region_name; }
    bool find_parameters(Handle handle, std::vector<Parameter>& parameters) const override {
        const std::uintptr_t count = reinterpret_cast<std::uintptr_t>(handle) & ((1U << count_bits) - 1);
        for (std::uintptr_t i = 0; i < count; ++i)
            parameters.push_back({.offset = static_cast<std::uint32_t>(8 * i), .bytes = 8});
        return true;
    }

    void tell(Recorder& recorder, int device) {
        std::string type;
        {
            const std::scoped_lock lock(mutex);
            if (!told.insert(device).second) return;
            type = types[device];
        }
        recorder.runs_on("OpenMP", version, "", type);
    }
    void begin(std::uint64_t address, const Mapped& block) {
        const std::scoped_lock lock(mutex);
        mapped.insert_or_assign(address, block);
        if (block.host != 0) by_host.insert_or_assign({block.device, block.host}, address);
    }
    // Whether it was mapped, and so.
    bool end(std::uint64_t address, bool is_associated) {
        const std::scoped_lock lock(mutex);
        const auto known = mapped.find(address);
        if (known == mapped.end() || known->second.is_associated != is_associated) return false;
        const std::pair of_host{known->second.device, known->second.host};
        if (const auto by = by_host.find(of_host); by != by_host.end() && by->second == address) by_host.erase(by);
        pointers.erase(pointers.lower_bound(address), pointers.lower_bound(address + known->second.bytes));
        mapped.erase(known);
        return true;
    }
    bool is_mapped(std::uint64_t address) {
        const std::scoped_lock lock(mutex);
        return block_with(address) != 0;
    }
    void points(std::uint64_t pointer, std::uint64_t to) {
        const std::scoped_lock lock(mutex);
        pointers[pointer] = to;
    }
    // The blocks that a region uses: those of its arguments, those that are mapped for it, and those to which the
    // runtime wrote pointers into these, or into variables of the device.
    std::vector<std::uint64_t> used_by(const KernelArguments& arguments, int device,
                                       const std::vector<std::uint64_t>& mapped_for_it) {
        const std::scoped_lock lock(mutex);
        std::set<std::uint64_t> used, idle;
        for (std::uint32_t i = 0; i < arguments.count; ++i) {
            const std::uint64_t type = arguments.types[i];
            if (const std::uint64_t block = block_of(address_of(arguments.begins[i]), device); block != 0)
                ((type & (map_parameter | map_member | map_pointer_and_object)) != 0 ? used : idle).insert(block);
        }
        for (const std::uint64_t block : mapped_for_it)
            if (!idle.contains(block)) used.insert(block);
        for (bool is_more = true; is_more;) {
            is_more = false;
            for (const auto& [pointer, to] : pointers)
                if (const std::uint64_t in = block_with(pointer), block = block_with(to);
                    block != 0 && (in == 0 || used.contains(in)))
                    is_more |= used.insert(block).second;
        }
        return {used.begin(), used.end()};
    }
    std::vector<std::uint64_t> all_mapped() {
        const std::scoped_lock lock(mutex);
        std::vector<std::uint64_t> addresses;
        for (const auto& [address, block] : mapped) addresses.push_back(address);
        return addresses;
    }

  private:
    // Its begin; 0: none.
    std::uint64_t block_with(std::uint64_t address) const {
        const auto after = mapped.upper_bound(address);
        if (after == mapped.begin()) return 0;
        const auto& [begin, block] = *std::prev(after);
        return address - begin < block.bytes ? begin : 0;
    }
    // Of an address of the host or of the device.
    std::uint64_t block_of(std::uint64_t address, int device) const {
        const auto after = by_host.upper_bound({device, address});
        if (after != by_host.begin()) {
            const auto& [of, block] = *std::prev(after);
            const auto known = mapped.find(block);
            if (of.first == device && known != mapped.end() && address - of.second < known->second.bytes) return block;
        }
        return block_with(address);
    }
};

// The construct and the operation in it that a thread is in. What a runtime calls meanwhile, such as CUDA, is not the
// program's. back: copies to the host, which have ended when the construct has, or when it begins to free memory.
struct OfThread {
    int depth = 0, device = 0;
    const Region* region = nullptr;                                       // that the program has called; null: unknown
    std::vector<std::uint64_t> mapped;                                    // for the construct
    bool has_launched = false, has_allocated = false, has_freed = false;  // the construct
    std::optional<FrontCall> construct, operation;
    std::vector<std::pair<Asked, RecordedCall>> back;

    // LLVM does not tell of nowait. A construct that has it does not free what it needs no more: a later task does.
    bool waits(int kind) const {
        const bool is_to_free = kind == target_region ? has_allocated : kind == target_exit_data && !back.empty();
        return kind < target_nowait && (has_freed || !is_to_free);
    }
    void begin_operation() {
        if (construct)
            operation.emplace(*construct, inject::monotonic_ns());
        else
            operation.emplace();
    }
    // The runtime has waited for all that the construct asked for, unless it is one that does not wait.
    void end_work(Recorder& recorder, const RecordedCall& of, bool waits) {
        if (waits && has_launched) recorder.waited(WaitFor::context, of);
        has_launched = false;
        for (auto& [asked, call] : back) {
            asked.transfer.is_async = !waits;
            recorder.after_copies(asked, call);
        }
        back.clear();
    }
};
thread_local OfThread of_thread;

void begin_block(Recorder& recorder, const RecordedCall& of, std::uint64_t address, const Mapped& block) {
    if (address == 0 || block.bytes == 0) return;
    Devices::instance().begin(address, block);
    if (of_thread.construct) of_thread.mapped.push_back(address);
    recorder.begin_block(address, {.bytes = block.bytes, .memory = inject::Memory::device}, of);
}

// Whether the runtime writes where memory was mapped to, in place of a pointer to the host that is mapped too.
bool is_attached_pointer(const Asked& asked) {
    std::uint64_t value = 0;
    if (!of_thread.construct || asked.transfer.direction != Direction::to_device ||
        asked.transfer.bytes != sizeof value || asked.transfer.source == 0)
        return false;
    std::memcpy(&value, reinterpret_cast<const void*>(asked.transfer.source), sizeof value);
    if (!Devices::instance().is_mapped(value)) return false;
    Devices::instance().points(asked.transfer.target, value);
    return true;
}

void copy(Recorder& recorder, const RecordedCall& of, const Asked& asked, bool begins) {
    if (is_attached_pointer(asked)) return;
    if (begins) return recorder.before_copies(asked, of);
    if (asked.transfer.direction == Direction::to_host && of_thread.construct)
        of_thread.back.emplace_back(asked, of);
    else
        recorder.after_copies(asked, of);
}

void operate(Recorder& recorder, const RecordedCall& of, bool begins, int what, void* source, int source_device,
             void* target, int target_device, std::size_t bytes) {
    Devices& devices = Devices::instance();
    const bool is_of_source = what == data_from_device || what == data_delete || what == data_disassociate;
    if (begins) devices.tell(recorder, is_of_source ? source_device : target_device);
    Asked asked{.transfer = {.target = address_of(target),
                             .source = address_of(source),
                             .bytes = bytes,
                             .direction = what == data_to_device ? Direction::to_device : Direction::to_host,
                             .waits_if_pageable = false}};
    switch (what) {
    case data_alloc:
        of_thread.has_allocated = true;
        if (!begins)
            begin_block(recorder, of, address_of(target),
                        {.bytes = bytes, .device = target_device, .host = address_of(source)});
        return;
    case data_delete:
        if (!begins) return;
        of_thread.has_freed = true;
        if (!of_thread.back.empty()) of_thread.end_work(recorder, of, true);
        if (devices.end(address_of(source), false)) recorder.end_block(address_of(source), of);
        return;
    case data_associate:
        if (!begins && !devices.is_mapped(address_of(target)))
            begin_block(recorder, of, address_of(target),
                        {.bytes = bytes, .is_associated = true, .device = target_device, .host = address_of(source)});
        return;
    case data_disassociate:
        if (begins && devices.end(address_of(source), true)) recorder.end_block(address_of(source), of);
        return;
    case data_to_device:
    case data_from_device:
        if (devices.is_mapped(asked.transfer.source) && devices.is_mapped(asked.transfer.target))
            asked.transfer.direction = Direction::within_devices;
        return copy(recorder, of, asked, begins);
    default:
        return;
    }
}

void on_data_op(int endpoint, void*, void*, std::uint64_t*, int what, void* source, int source_device, void* target,
                int target_device, std::size_t bytes, const void*) {
    if (what > data_asynchronous) what -= data_asynchronous;
    for (const int side : {scope_begin, scope_end}) {
        if ((endpoint & side) == 0) continue;
        if (side == scope_begin) of_thread.begin_operation();
        if (!of_thread.operation) continue;
        of_thread.operation->tell([&](Recorder& recorder, const RecordedCall& of) {
            operate(recorder, of, side == scope_begin, what, source, source_device, target, target_device, bytes);
        });
        if (side == scope_end) of_thread.operation.reset();
    }
}

void on_submit(int endpoint, void*, std::uint64_t*, unsigned) {
    if ((endpoint & scope_begin) != 0) {
        of_thread.begin_operation();
        of_thread.has_launched = true;
        of_thread.operation->tell([](Recorder& recorder, const RecordedCall& of) {
            Devices& devices = Devices::instance();
            const Region* const region = of_thread.region;
            std::vector<std::uint64_t> used =
                region == nullptr ? devices.all_mapped()
                                  : devices.used_by(*region->arguments, of_thread.device, of_thread.mapped);
            std::vector<void*> parameters;
            for (std::uint64_t& address : used) parameters.push_back(&address);
            const bool is_known = used.size() <= inject::most_parameters;
            const std::uint64_t kernel = region == nullptr ? 0 : address_of(region->kernel) << count_bits;
            recorder.launched(devices, reinterpret_cast<Handle>(kernel | parameters.size()),
                              region == nullptr ? region_name : region->name().c_str(),
                              is_known ? parameters.data() : nullptr, nullptr, 0, 0, of);
        });
    }
    if ((endpoint & scope_end) != 0) of_thread.operation.reset();
}

// A thread that waits within a construct may begin another one, of a task.
void on_target(int construct, int endpoint, int device, void*, void*, void*, const void*) {
    OfThread& mine = of_thread;
    if ((endpoint & scope_begin) != 0 && mine.depth++ == 0) {
        mine.has_launched = mine.has_allocated = mine.has_freed = false;
        mine.device = device;
        mine.mapped.clear();
        mine.construct.emplace();
        mine.construct->tell(
            [&](Recorder& recorder, const RecordedCall&) { Devices::instance().tell(recorder, device); });
    }
    if ((endpoint & scope_end) == 0 || --mine.depth > 0) return;
    mine.depth = 0;
    if (mine.construct)
        mine.construct->tell(
            [&](Recorder& recorder, const RecordedCall& of) { mine.end_work(recorder, of, mine.waits(construct)); });
    mine.construct.reset();
}

void on_device(int device, const char* type, void*, Lookup, const char*) {
    const inject::Undisturbed undisturbed;
    try {
        Devices& devices = Devices::instance();
        const std::scoped_lock lock(devices.mutex);
        devices.types[device] = type == nullptr ? "" : type;
    } catch (...) {
        return;  // no memory
    }
}

// What takes the place of functions of libomptarget in the program.

// While it exists, this thread has called the region.
class WithinRegion {
  public:
    explicit WithinRegion(const Region& region)
        : region_(region), before_(std::exchange(of_thread.region, is_known(region.arguments) ? &region_ : nullptr)) {}
    ~WithinRegion() { of_thread.region = before_; }
    WithinRegion(const WithinRegion&) = delete;
    WithinRegion& operator=(const WithinRegion&) = delete;

  private:
    static bool is_known(const KernelArguments* arguments) {
        return arguments != nullptr && arguments->version >= first_version && arguments->version <= last_version;
    }
    const Region region_;
    const Region* const before_;
};

namespace real {
TargetKernel* kernel = nullptr;
TargetKernelNowait* kernel_nowait = nullptr;
TargetMemset* memset = nullptr;
TargetMemcpy* memcpy = nullptr;
}  // namespace real

int target_kernel(SourceIdentity* place, std::int64_t device, std::int32_t teams, std::int32_t threads, void* kernel,
                  KernelArguments* arguments) {
    const WithinRegion within({place, kernel, arguments});
    return real::kernel(place, device, teams, threads, kernel, arguments);
}
int target_kernel_nowait(SourceIdentity* place, std::int64_t device, std::int32_t teams, std::int32_t threads,
                         void* kernel, KernelArguments* arguments, std::int32_t count, void* needed,
                         std::int32_t more_count, void* more_needed) {
    const WithinRegion within({place, kernel, arguments});
    return real::kernel_nowait(place, device, teams, threads, kernel, arguments, count, needed, more_count,
                               more_needed);
}

// Both may be made of copies by the host, which are not the program's.
void* target_memset(void* target, int value, std::size_t bytes, int device) {
    const FrontCall front;
    void* const filled = real::memset(target, value, bytes, device);
    if (filled != nullptr && Devices::instance().is_mapped(address_of(target)))
        front.tell([&](Recorder& recorder, const RecordedCall& of) {
            recorder.filled(address_of(target), bytes, 1, 0, 0, of);
            recorder.waited(WaitFor::context, of);
        });
    return filled;
}
int target_memcpy(void* target, const void* source, std::size_t bytes, std::size_t target_offset,
                  std::size_t source_offset, int target_device, int source_device) {
    Devices& devices = Devices::instance();
    const auto copied = [&] {
        return real::memcpy(target, source, bytes, target_offset, source_offset, target_device, source_device);
    };
    if (!devices.is_mapped(address_of(target)) || !devices.is_mapped(address_of(source))) return copied();
    const Asked asked{.transfer = {.target = address_of(target) + target_offset,
                                   .source = address_of(source) + source_offset,
                                   .bytes = bytes,
                                   .direction = Direction::within_devices}};
    const FrontCall front;
    front.tell([&](Recorder& recorder, const RecordedCall& of) { recorder.before_copies(asked, of); });
    const int status = copied();
    if (status == 0)
        front.tell([&](Recorder& recorder, const RecordedCall& of) {
            recorder.after_copies(asked, of);
            recorder.waited(WaitFor::context, of);
        });
    return status;
}

void take_calls_of_runtime() {
    const auto taken = [](const char* name, auto* mine, auto*& real) -> TakenCall {
        return {name, reinterpret_cast<void*>(mine), reinterpret_cast<void**>(&real)};
    };
    static const TakenCall calls[] = {
        taken("__tgt_target_kernel", &target_kernel, real::kernel),
        taken("__tgt_target_kernel_nowait", &target_kernel_nowait, real::kernel_nowait),
        taken("omp_target_memset", &target_memset, real::memset),
        taken("omp_target_memcpy", &target_memcpy, real::memcpy),
    };
    take_calls("libomptarget.so", calls);
}

template <class Signature>
bool set(SetCallback set_callback, Callback callback, Signature* function) {
    return set_callback(callback, reinterpret_cast<Function>(function)) >= set_sometimes;
}

// LLVM's libomptarget tells of nothing unless it finds the runtime as libomp.so, by which name it opens it again.
bool is_found(std::string_view version) {
    if (!version.starts_with("LLVM")) return true;
    void* const runtime = dlopen("libomp.so", RTLD_LAZY | RTLD_NOLOAD);
    if (runtime != nullptr) dlclose(runtime);
    return runtime != nullptr;
}

std::string_view runtime_file(Lookup lookup) {
    Dl_info info{};
    return dladdr(reinterpret_cast<void*>(lookup), &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

int initialize(Lookup lookup, int, void*) {
    const auto set_callback = reinterpret_cast<SetCallback>(lookup("ompt_set_callback"));
    if (set_callback == nullptr) return 0;
    set<OnDevice>(set_callback, device_initialize, on_device);
    const bool is_told = set<OnTarget>(set_callback, target_emi, on_target) &&
                         set<OnDataOp>(set_callback, target_data_op_emi, on_data_op) &&
                         set<OnSubmit>(set_callback, target_submit_emi, on_submit);
    constexpr auto trace = inject::Layer::trace;
    const std::string& version = Devices::instance().version;
    if (is_told) take_calls_of_runtime();
    if (!is_told)
        inject::notice(trace, "target constructs are not traced: this runtime does not tell of them: ", version);
    else if (!is_found(version))
        inject::notice(trace,
                       "target constructs are not traced: libomptarget finds no libomp.so; add the folder of this "
                       "file to LD_LIBRARY_PATH: ",
                       runtime_file(lookup));
    return is_told ? 1 : 0;
}
void finalize(void*) {}

// Whether the program can use a device at all: it is linked with LLVM's libomptarget, as AMD's and Intel's are too, or
// with NVIDIA's runtime.
bool may_offload() {
    const auto is_runtime = [](dl_phdr_info* info, std::size_t, void*) {
        std::string_view name = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        name.remove_prefix(name.rfind('/') + 1);
        return name.starts_with("libomptarget") || name.starts_with("libnvomp") ? 1 : 0;
    };
    return dl_iterate_phdr(is_runtime, nullptr) != 0;
}

}  // namespace
}  // namespace firsttouch::openmp_tool

// OpenMP's runtime calls this when it starts, in every program that uses OpenMP. Null: it needs no tool.
extern "C" __attribute__((visibility("default"))) firsttouch::openmp_tool::StartToolResult*
ompt_start_tool(unsigned, const char* version) {
    using namespace firsttouch;
    using namespace openmp_tool;
    if (!may_offload() || inject::Recording::of_this_process() == nullptr) return nullptr;
    static StartToolResult result{&initialize, &finalize, 0};
    try {
        Devices::instance().version = version == nullptr ? "" : version;
    } catch (...) {
        return nullptr;  // no memory
    }
    return &result;
}
