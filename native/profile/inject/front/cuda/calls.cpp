#include "profile/inject/front/cuda/calls.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "profile/inject/core/undisturbed.hpp"

namespace firsttouch::inject {
namespace {

constexpr int most_nested_graphs = 8;
constexpr std::size_t most_graph_steps = 1 << 16, most_captured_memory = 1 << 16;

constexpr bool is_per_thread(std::string_view function) {
    return function.ends_with("_ptsz") || function.ends_with("_ptds");
}

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

constexpr cupti::NoParameters none;

// Whether the driver waits for the device before it frees what this thread's call is about to free.
thread_local bool waits_to_free = false;

int result_of(const cupti::CallData& data) {
    return data.result == nullptr ? 0 : *static_cast<const int*>(data.result);
}

// Whether an error is the answer to a question, or that of a call after the driver has ended.
template <class Parameters>
constexpr bool is_answer(int result) {
    constexpr int ended = 4, not_found = 500, not_ready = 600, not_possible = 910;
    if (std::is_same_v<Parameters, cupti::Variable> && result == not_found) return true;
    if (std::is_same_v<Parameters, cupti::GraphUpdate> && result == not_possible) return true;
    return result == ended || result == not_ready;
}

// Bytes of a channel of an array; 0: a format that is not known.
std::uint64_t channel_bytes(int format) {
    switch (format) {
    case 0x01:
    case 0x08:
        return 1;
    case 0x02:
    case 0x09:
    case 0x10:
        return 2;
    case 0x03:
    case 0x0A:
    case 0x20:
        return 4;
    default:
        return 0;
    }
}

}  // namespace

const std::vector<std::uint32_t>& Calls::numbers() {
#define CALL(number, function, parameters) number,
    static const std::vector<std::uint32_t> all = {FIRSTTOUCH_DRIVER_CALLS(CALL) FIRSTTOUCH_NEWER_DRIVER_CALLS(CALL)};
#undef CALL
    return all;
}

namespace {

template <class Parameters>
constexpr GraphUse graph_use() {
    if (std::is_same_v<Parameters, cupti::GraphLaunch>) return GraphUse::launches;
    if (std::is_same_v<Parameters, cupti::NewGraph> || std::is_same_v<Parameters, cupti::GraphUpdate>)
        return GraphUse::makes_nodes;
    constexpr bool has_stream = requires(Parameters of) { of.stream; }
    || requires(Parameters of) { of.shape->stream; };
    return has_stream && !std::is_same_v<Parameters, cupti::Stream> ? GraphUse::makes_nodes_if_captured
                                                                    : GraphUse::none;
}

}  // namespace

GraphUse Calls::use_of_graphs(std::uint32_t id) const {
    const auto now = [this](GraphUse use) {
        if (use != GraphUse::makes_nodes_if_captured) return use;
        return recorder_.is_capturing() ? GraphUse::makes_nodes : GraphUse::none;
    };
    switch (id) {
#define CALL(number, function, parameters)                                                                             \
    case number:                                                                                                       \
        return now(graph_use<cupti::parameters>());
        FIRSTTOUCH_DRIVER_CALLS(CALL)
        FIRSTTOUCH_NEWER_DRIVER_CALLS(CALL)
#undef CALL
    default:
        return std::ranges::count(cupti::node_making_calls, id) == 0 ? GraphUse::none : GraphUse::makes_nodes;
    }
}

namespace {

// The call that this thread is in.
struct Entered {
    std::uint32_t correlation = 0;
    std::uint64_t time = 0;
};
thread_local Entered entered;

}  // namespace

Calls::Call Calls::call_of(std::uint32_t id, const cupti::CallData& data, std::string_view function) noexcept {
    const std::uint64_t began = entered.correlation == data.correlation ? entered.time : 0;
    return {{data.correlation, began, false}, id, function, data.symbol, is_per_thread(function)};
}

void Calls::entering(std::uint32_t id, const cupti::CallData& data) noexcept {
    const Within within;
    if (!within.is_first() || !home_.is_here()) return;
    entered = {data.correlation, monotonic_ns()};
    if (data.parameters == nullptr) return;
    try {
        switch (id) {
#define CALL(number, function, parameters_type)                                                                        \
    case number:                                                                                                       \
        return before(*static_cast<const cupti::parameters_type*>(data.parameters), call_of(id, data, #function));
            FIRSTTOUCH_DRIVER_CALLS(CALL)
            FIRSTTOUCH_NEWER_DRIVER_CALLS(CALL)
#undef CALL
        default:
            return;
        }
    } catch (...) {
        return;  // the call is recorded without what was before it
    }
}

void Calls::leaving(std::uint32_t id, const cupti::CallData& data) noexcept {
    const Within within;
    if (!within.is_first() || !home_.is_here()) return;
    const int result = result_of(data);
    const auto done = [&](const auto& parameters, const Call& call) {
        if (result == 0) return after(parameters, call);
        after_failure(parameters, result, call);
        if (!is_answer<std::remove_cvref_t<decltype(parameters)>>(result))
            recorder_.failed(call.function, result, call);
    };
    const void* const parameters = data.parameters;
    try {
        switch (id) {
#define CALL(number, function, parameters_type)                                                                        \
    case number:                                                                                                       \
        if (parameters == nullptr && !std::is_same_v<cupti::parameters_type, cupti::NoParameters>) return;             \
        return done(*static_cast<const cupti::parameters_type*>(parameters == nullptr ? &none : parameters),           \
                    call_of(id, data, #function));
            FIRSTTOUCH_DRIVER_CALLS(CALL)
            FIRSTTOUCH_NEWER_DRIVER_CALLS(CALL)
#undef CALL
        default:
            return;
        }
    } catch (...) {
        return;  // no memory
    }
}

// ------------------------------------------------------------------------------------------------------------ blocks

// The place of a call that allocates was written before it.
void Calls::begin(std::uint64_t address, const Block& block, Call call, std::string_view name) {
    call.has_place = std::ranges::count(cupti::allocating_calls, call.id) != 0;
    recorder_.begin_block(address, block, call, name);
}

// The driver waits for what may still use the memory, but not if it was allocated in the order of a stream, of which
// cuda.h says so.
void Calls::free_block(std::uint64_t address, const Call& call) {
    const std::optional<Block> ended = recorder_.end_block(address, call);
    waits_to_free = ended && !ended->is_ordered;
}
void Calls::freed(const Call& call) {
    if (std::exchange(waits_to_free, false) && recorder_.has_work()) recorder_.waited(WaitFor::free, call);
}

void Calls::before(const cupti::UnmappedMemory& range, const Call& call) {
    recorder_.end_blocks_in(range.address, range.bytes, call);
}

// What is captured frees nothing yet.
void Calls::before(const cupti::MemoryAtOn& at, const Call& call) {
    if (!is_captured(at.stream, call)) recorder_.end_block(at.address, call);
}
void Calls::before(const cupti::ReleasedHost& at, const Call& call) { free_block(address_of(at.address), call); }
void Calls::before(const cupti::ArrayAt& at, const Call& call) { recorder_.end_block(address_of(at.array), call); }

// Memory of a stream that is captured is a node of a graph: it is there when the graph is launched.
void Calls::begin_ordered(std::uint64_t address, std::uint64_t bytes, cupti::Handle stream, const Call& call) {
    const Block block{bytes, Memory::device, false, true};
    if (!is_captured(stream, call)) return begin(address, block, call);
    recorder_.expect(address, block);
    const std::scoped_lock lock(mutex_);
    if (captured_memory_.size() >= most_captured_memory) captured_memory_.clear();
    captured_memory_.insert_or_assign(address, call.correlation);
}

void Calls::after(const cupti::NewMemory& made, const Call& call) {
    begin(*made.address, {made.bytes, Memory::device}, call);
}
void Calls::after(const cupti::NewPitched& made, const Call& call) {
    begin(*made.address, {*made.pitch * made.height, Memory::device}, call);
}
void Calls::after(const cupti::NewManaged& made, const Call& call) {
    begin(*made.address, {made.bytes, Memory::managed}, call);
}
void Calls::after(const cupti::NewMemoryOn& made, const Call& call) {
    begin_ordered(*made.address, made.bytes, made.stream, call);
}
void Calls::after(const cupti::NewFromPoolOn& made, const Call& call) {
    begin_ordered(*made.address, made.bytes, made.stream, call);
}
void Calls::after(const cupti::NewHost& made, const Call& call) {
    begin(address_of(*made.address), {made.bytes, Memory::pinned}, call);
}
void Calls::after(const cupti::NewHostOfKind& made, const Call& call) {
    begin(address_of(*made.address), {made.bytes, Memory::pinned}, call);
}
void Calls::after(const cupti::RegisteredHost& made, const Call& call) {
    begin(address_of(made.address), {made.bytes, Memory::pinned, true}, call);
}
void Calls::after(const cupti::MappedMemory& made, const Call& call) {
    begin(made.address, {made.bytes, Memory::device}, call);
}
void Calls::after(const cupti::NewReserved& made, const Call&) { recorder_.reserve(*made.address, made.bytes); }
void Calls::before(const cupti::ReleasedReserved& at, const Call&) { recorder_.reserve(at.address, 0); }
void Calls::after(const cupti::Variable& made, const Call& call) {
    if (made.address == nullptr || made.bytes == nullptr) return;
    const bool is_managed = call.function.starts_with("cuLibraryGetManaged");
    begin(*made.address, {*made.bytes, is_managed ? Memory::managed_static : Memory::device_static}, call,
          made.name == nullptr || made.name[0] == '\0' ? "?" : made.name);
}
void Calls::after(const cupti::NewArray& made, const Call& call) {
    const cupti::ArrayDescription& of = *made.description;
    const std::uint64_t bytes = of.width * std::max<std::uint64_t>(of.height, 1) * channel_bytes(of.format);
    begin(address_of(*made.array), {bytes * of.channels, Memory::array}, call);
}
void Calls::after(const cupti::NewArray3D& made, const Call& call) {
    const cupti::ArrayDescription3D& of = *made.description;
    const std::uint64_t rows = std::max<std::uint64_t>(of.height, 1) * std::max<std::uint64_t>(of.depth, 1);
    begin(address_of(*made.array), {of.width * rows * channel_bytes(of.format) * of.channels, Memory::array}, call);
}

// ---------------------------------------------------------------------------------------------------------- launches

void Calls::after(const cupti::Launch& launch, const Call& call) {
    launched(launch.function, launch.parameters, launch.extra, launch.stream, 0, call);
}
void Calls::after(const cupti::LaunchTogether& launch, const Call& call) {
    launched(launch.function, launch.parameters, nullptr, launch.stream, cooperative, call);
}
void Calls::after(const cupti::LaunchOf& launch, const Call& call) {
    launched(launch.function, launch.parameters, launch.extra, launch.shape->stream, 0, call);
}

// A stream that waits for an event of one that is captured is captured too, as only the driver knows.
bool Calls::is_captured(cupti::Handle stream, const Call& call) {
    constexpr std::uint64_t most_default = 2;  // the handles up to this one are of default streams
    if (!recorder_.is_capturing()) return false;
    if (recorder_.is_captured(stream_key(stream, call))) return true;
    int status = 0;
    return address_of(stream) > most_default && driver_.is_capturing != nullptr &&
           driver_.is_capturing(stream, &status) == 0 && status != 0;
}

std::uint64_t Calls::stream_key(std::uint64_t key, const Call& call) const {
    constexpr std::uint64_t legacy = 1, per_thread = 2;  // as the driver numbers them
    if (key == 0) key = call.is_per_thread ? per_thread : legacy;
    return key == per_thread ? std::uint64_t(this_thread_id()) << 32 | key : key;
}
std::uint64_t Calls::stream_key(cupti::Handle stream, const Call& call) const {
    return stream_key(address_of(stream), call);
}
Asked Calls::on_stream(Asked asked, const Call& call) const {
    asked.stream = stream_key(asked.stream, call);
    return asked;
}

void Calls::launched(cupti::Handle function, void* const* parameters, void* const* extra, cupti::Handle stream,
                     std::uint8_t flags, const Call& call) {
    recorder_.launched(driver_, function, call.symbol, parameters, extra, stream_key(stream, call), flags, call);
}

// The nodes of a graph in the order in which they were added.
void Calls::add_nodes(cupti::Handle graph, GraphSteps& steps, int depth) {
    const DriverFunctions& functions = driver_;
    std::size_t count = 0;
    if (functions.graph_nodes == nullptr || functions.node_type == nullptr || depth > most_nested_graphs ||
        functions.graph_nodes(graph, nullptr, &count) != 0 || count > most_graph_steps)
        return;
    std::vector<cupti::Handle> nodes(count);
    if (count == 0 || functions.graph_nodes(graph, nodes.data(), &count) != 0) return;
    for (const cupti::Handle node : nodes) {
        int type = -1;
        if (functions.node_type(node, &type) != 0 || steps.size() >= most_graph_steps) continue;
        if (type == cupti::kernel_node && functions.kernel_node != nullptr) {
            cupti::NodeParameters kernel{};
            if (functions.kernel_node(node, &kernel) != 0) continue;
            const cupti::Handle function = kernel.function != nullptr ? kernel.function : kernel.kernel;
            steps.push_back(
                {.arguments = recorder_.number_arguments(functions, function, nullptr, kernel.parameters, kernel.extra),
                 .copies = {},
                 .fills = {}});
        } else if (type == cupti::copy_node && functions.copy_node != nullptr) {
            cupti::Copy3D copy{};
            if (functions.copy_node(node, &copy) != 0) continue;
            Asked of_node = asked_of(copy, true, nullptr);
            of_node.more.push_back(of_node.transfer);
            steps.push_back({.arguments = {}, .copies = std::move(of_node.more), .fills = {}});
        } else if (type == cupti::fill_node && functions.fill_node != nullptr) {
            cupti::FillNodeParameters fill{};
            if (functions.fill_node(node, &fill) != 0) continue;
            const bool is_one_row = fill.height <= 1 || fill.pitch == fill.width * fill.value_bytes;
            steps.push_back({.arguments = {},
                             .copies = {},
                             .fills = {{.target = fill.target,
                                        .bytes = fill.width * fill.value_bytes * (is_one_row ? fill.height : 1),
                                        .rows = is_one_row ? 1 : fill.height,
                                        .target_pitch = is_one_row ? 0 : fill.pitch}}});
        } else if (type == cupti::allocation_node && functions.allocation_node != nullptr) {
            cupti::AllocationNodeParameters made{};
            if (functions.allocation_node(node, &made) != 0) continue;
            const Block block{made.bytes, Memory::device, false, true};
            recorder_.expect(made.address, block);
            const std::scoped_lock lock(mutex_);
            const auto call = captured_memory_.find(made.address);
            steps.push_back({.begins = made.address,
                             .block = block,
                             .allocated_by = call == captured_memory_.end() ? 0 : call->second});
        } else if (type == cupti::free_node && functions.free_node != nullptr) {
            cupti::Address freed = 0;
            if (functions.free_node(node, &freed) == 0) steps.push_back({.ends = freed});
        } else if (cupti::Handle child = nullptr; type == cupti::graph_node && functions.child_graph != nullptr) {
            if (functions.child_graph(node, &child) == 0) add_nodes(child, steps, depth + 1);
        }
    }
}

void Calls::keep_graph(cupti::Handle executable, cupti::Handle graph) {
    GraphSteps steps;
    add_nodes(graph, steps, 0);
    const std::scoped_lock lock(mutex_);
    graphs_.insert_or_assign(executable, std::make_shared<const GraphSteps>(std::move(steps)));
}
void Calls::after(const cupti::NewGraph& graph, const Call&) { keep_graph(*graph.executable, graph.graph); }
void Calls::after(const cupti::GraphUpdate& update, const Call&) { keep_graph(update.executable, update.graph); }

void Calls::after(const cupti::GraphChange&, const Call&) {
    {
        const std::scoped_lock lock(mutex_);
        if (is_change_told_) return;
        is_change_told_ = true;
    }
    notice(
        Layer::trace,
        "a node of a CUDA graph was changed after the graph was made: what its launches name is what it named first");
}
void Calls::after(const cupti::GraphEnd& end, const Call&) {
    const std::scoped_lock lock(mutex_);
    graphs_.erase(end.executable);
}

void Calls::after(const cupti::GraphLaunch& launch, const Call& call) {
    std::shared_ptr<const GraphSteps> steps;  // null: not known
    {
        const std::scoped_lock lock(mutex_);
        if (const auto known = graphs_.find(launch.executable); known != graphs_.end()) steps = known->second;
    }
    recorder_.launched_graph(steps.get(), stream_key(launch.stream, call), call);
}

// ------------------------------------------------------------------------------------------------------------- waits

// Another stream may get the handle of one that is destroyed.
void Calls::before(const cupti::Stream& stream, const Call& call) {
    if (call.function.starts_with("cuStreamDestroy")) recorder_.end_capture(stream_key(stream.stream, call));
}

void Calls::after(const cupti::Stream& stream, const Call& call) {
    if (call.function.starts_with("cuStreamBeginCapture")) {
        recorder_.begin_capture(stream_key(stream.stream, call));
    } else if (call.function.starts_with("cuStreamEndCapture")) {
        recorder_.end_capture(stream_key(stream.stream, call));
    } else if (call.function.starts_with("cuStreamSynchronize") ||
               (call.function.starts_with("cuStreamQuery") && recorder_.has_work())) {
        recorder_.waited(WaitFor::stream, call, stream_key(stream.stream, call));
    }
}

// A capture that became invalid ends without a graph. One goes on only if the wrong thread tried to end it.
void Calls::after_failure(const cupti::Stream& stream, int result, const Call& call) {
    constexpr int wrong_thread = 908;  // CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
    if (call.function.starts_with("cuStreamEndCapture") && result != wrong_thread)
        recorder_.end_capture(stream_key(stream.stream, call));
}

// Programs ask again and again: the answer counts once.
void Calls::after(const cupti::Event&, const Call& call) {
    if (!call.function.starts_with("cuEventQuery") || recorder_.has_work()) recorder_.waited(WaitFor::event, call);
}

void Calls::after(const cupti::FreeMemory& memory, const Call&) {
    recorder_.asked_for_free_memory(memory.free == nullptr ? 0 : *memory.free,
                                    memory.total == nullptr ? 0 : *memory.total);
}

// ------------------------------------------------------------------------------------- fills, prefetches and advice

namespace {

// Bytes of a value of a fill, whose function is called such as cuMemsetD32 or cuMemsetD2D32.
std::uint64_t value_bytes(std::string_view function) {
    function.remove_prefix(std::string_view("cuMemset").size());
    if (function.starts_with("D2D")) function.remove_prefix(2);
    return function.starts_with("D32") ? 4 : function.starts_with("D16") ? 2 : 1;
}

}  // namespace

void Calls::after(const cupti::Fill& of, const Call& call) {
    recorder_.filled(of.target, of.count * value_bytes(call.function), 1, 0, stream_key(nullptr, call), call);
}
void Calls::after(const cupti::FillOn& of, const Call& call) {
    recorder_.filled(of.target, of.count * value_bytes(call.function), 1, 0, stream_key(of.stream, call), call);
}
void Calls::after(const cupti::FillRows& of, const Call& call) {
    recorder_.filled(of.target, of.width * value_bytes(call.function), of.height, of.pitch, stream_key(nullptr, call),
                     call);
}
void Calls::after(const cupti::FillRowsOn& of, const Call& call) {
    recorder_.filled(of.target, of.width * value_bytes(call.function), of.height, of.pitch, stream_key(of.stream, call),
                     call);
}

void Calls::after(const cupti::PrefetchOn& of, const Call& call) {
    recorder_.ordered(Order::prefetch, {.target = of.address, .bytes = of.bytes, .rows = 1, .device = of.device},
                      stream_key(of.stream, call), call);
}
void Calls::after(const cupti::PrefetchToOn& of, const Call& call) {
    recorder_.ordered(
        Order::prefetch,
        {.target = of.address, .bytes = of.bytes, .rows = 1, .device = of.place.type == 1 ? of.place.id : -1},
        stream_key(of.stream, call), call);
}
void Calls::after(const cupti::Advice& of, const Call& call) {
    recorder_.ordered(Order::advice,
                      {.target = of.address,
                       .bytes = of.bytes,
                       .rows = 1,
                       .device = of.device,
                       .advice = static_cast<std::uint16_t>(of.advice)},
                      0, call);
}
void Calls::after(const cupti::AdviceTo& of, const Call& call) {
    recorder_.ordered(Order::advice,
                      {.target = of.address,
                       .bytes = of.bytes,
                       .rows = 1,
                       .device = of.place.type == 1 ? of.place.id : -1,
                       .advice = static_cast<std::uint16_t>(of.advice)},
                      0, call);
}

}  // namespace firsttouch::inject
