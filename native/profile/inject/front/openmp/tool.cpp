// A tool of OpenMP's runtime (OMP_TOOL_LIBRARIES): tells the recorder what target constructs allocate, copy and launch.
//
// No event names the arguments of a target region, so that it is taken to use all that is mapped to the device.
#include <dlfcn.h>
#include <link.h>

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

constexpr const char* region_name = "target_region";  // the interface does not tell the name of its kernel

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

struct Mapped {
    std::size_t bytes = 0;
    bool is_associated = false;  // by the program, which allocated it
};

// Never freed: programs may use a device while they end.
struct Devices final : inject::Kernels {
    std::mutex mutex;
    std::string version;
    std::map<int, std::string> types;
    std::set<int> told;                      // devices
    std::map<std::uint64_t, Mapped> mapped;  // by address

    static Devices& instance() {
        static Devices& made = *new Devices;
        return made;
    }

    // handle: how many blocks are mapped.
    const char* name_of(Handle) const override { return region_name; }
    bool find_parameters(Handle handle, std::vector<Parameter>& parameters) const override {
        for (std::uintptr_t i = 0; i < reinterpret_cast<std::uintptr_t>(handle); ++i)
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
    }
    // Whether it was mapped, and so.
    bool end(std::uint64_t address, bool is_associated) {
        const std::scoped_lock lock(mutex);
        const auto known = mapped.find(address);
        if (known == mapped.end() || known->second.is_associated != is_associated) return false;
        mapped.erase(known);
        return true;
    }
    bool is_mapped(std::uint64_t address) {
        const std::scoped_lock lock(mutex);
        const auto after = mapped.upper_bound(address);
        if (after == mapped.begin()) return false;
        const auto& [begin, block] = *std::prev(after);
        return address - begin < block.bytes;
    }
    std::vector<std::uint64_t> all_mapped() {
        const std::scoped_lock lock(mutex);
        std::vector<std::uint64_t> addresses;
        for (const auto& [address, block] : mapped) addresses.push_back(address);
        return addresses;
    }
};

// The construct and the operation in it that a thread is in. What a runtime calls meanwhile, such as CUDA, is not the
// program's. back: copies to the host, which have ended when the construct has, or when it begins to free memory.
struct OfThread {
    int depth = 0;
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

void begin_block(Recorder& recorder, const RecordedCall& of, std::uint64_t address, std::size_t bytes,
                 bool is_associated) {
    if (address == 0 || bytes == 0) return;
    Devices::instance().begin(address, {bytes, is_associated});
    recorder.begin_block(address, {.bytes = bytes, .memory = inject::Memory::device}, of);
}

// Whether the runtime writes where memory was mapped to, in place of a pointer to the host that is mapped too.
bool is_attached_pointer(const Asked& asked) {
    std::uint64_t value = 0;
    if (!of_thread.construct || asked.transfer.direction != Direction::to_device ||
        asked.transfer.bytes != sizeof value || asked.transfer.source == 0)
        return false;
    std::memcpy(&value, reinterpret_cast<const void*>(asked.transfer.source), sizeof value);
    return Devices::instance().is_mapped(value);
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
        if (!begins) begin_block(recorder, of, address_of(target), bytes, false);
        return;
    case data_delete:
        if (!begins) return;
        of_thread.has_freed = true;
        if (!of_thread.back.empty()) of_thread.end_work(recorder, of, true);
        if (devices.end(address_of(source), false)) recorder.end_block(address_of(source), of);
        return;
    case data_associate:
        if (!begins && !devices.is_mapped(address_of(target)))
            begin_block(recorder, of, address_of(target), bytes, true);
        return;
    case data_disassociate:
        if (begins && devices.end(address_of(source), true)) recorder.end_block(address_of(source), of);
        return;
    case data_to_device:
    case data_from_device:
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
            std::vector<std::uint64_t> mapped = devices.all_mapped();
            std::vector<void*> parameters;
            for (std::uint64_t& address : mapped) parameters.push_back(&address);
            const bool is_known = mapped.size() <= inject::most_parameters;
            recorder.launched(devices, reinterpret_cast<Handle>(parameters.size()), region_name,
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
