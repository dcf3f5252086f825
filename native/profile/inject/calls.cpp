#include "profile/inject/calls.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "profile/inject/undisturbed.hpp"

namespace firsttouch::inject {
namespace {

enum Flag : std::uint8_t { captured = 1, while_captured = 2, cooperative = 4, launched_by_graph = 8 };
enum Waiting : std::uint8_t { for_stream = 0, for_event = 1, for_free = 4 };
constexpr int most_nested_graphs = 8;
constexpr std::size_t most_graph_steps = 1 << 16, most_streams = 1 << 16, most_captured_memory = 1 << 16;

constexpr bool is_per_thread(std::string_view function) {
    return function.ends_with("_ptsz") || function.ends_with("_ptds");
}

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

constexpr cupti::NoParameters none;

// Calls that this library makes itself are not recorded: the driver might call back while it holds the lock.
class Within {
  public:
    Within() noexcept : is_first_(!std::exchange(is_within_, true)) {}
    ~Within() { is_within_ = !is_first_; }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;
    bool is_first() const { return is_first_; }

  private:
    static thread_local bool is_within_;
    const bool is_first_;
};
thread_local bool Within::is_within_ = false;

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
        return is_capturing_.load(std::memory_order_relaxed) ? GraphUse::makes_nodes : GraphUse::none;
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

std::uint64_t Calls::began(const Call& call) noexcept {
    return entered.correlation == call.correlation ? entered.time : 0;
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
        return before(*static_cast<const cupti::parameters_type*>(data.parameters),                                    \
                      {id, data.correlation, #function, data.symbol, is_per_thread(#function)});
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
        if (!is_answer<std::remove_cvref_t<decltype(parameters)>>(result)) failed(result, call);
    };
    const void* const parameters = data.parameters;
    try {
        switch (id) {
#define CALL(number, function, parameters_type)                                                                        \
    case number:                                                                                                       \
        if (parameters == nullptr && !std::is_same_v<cupti::parameters_type, cupti::NoParameters>) return;             \
        return done(*static_cast<const cupti::parameters_type*>(parameters == nullptr ? &none : parameters),           \
                    {id, data.correlation, #function, data.symbol, is_per_thread(#function)});
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

void Calls::failed(int result, const Call& call) {
    const FailureRecord record{.time = monotonic_ns(),
                               .function = texts_.number(call.function),
                               .error = result,
                               .correlation = call.correlation,
                               .site = places_.of_this_call().number};
    journal_.append(Kind::failure, {Journal::bytes_of(record)});
}

// ------------------------------------------------------------------------------------------------------------ blocks

void Calls::begin_block(std::uint64_t address, const Block& block, const Call& call, std::string_view name) {
    if (address == 0) return;
    {
        const std::scoped_lock lock(mutex_);
        if (!name.empty())
            if (const Block* const known = blocks_.find(address); known != nullptr && known->bytes == block.bytes)
                return;  // a variable that was looked up before
        blocks_.add(address, block);
    }
    if (std::ranges::count(cupti::allocating_calls, call.id) == 0) write_place(call.correlation);  // others have one
    const BlockRecord record{.time = monotonic_ns(),
                             .address = address,
                             .bytes = block.bytes,
                             .correlation = call.correlation,
                             .name = texts_.number(name),
                             .begins = 1,
                             .memory = static_cast<std::uint8_t>(block.memory),
                             .registered = static_cast<std::uint8_t>(block.is_registered ? 1 : 0),
                             .unused = {}};
    journal_.append(Kind::block, {Journal::bytes_of(record)});
}

void Calls::write_place(std::uint32_t correlation) {
    const CallRecord record{.time = monotonic_ns(), .correlation = correlation, .site = places_.of_this_call().number};
    journal_.append(Kind::call, {Journal::bytes_of(record)});
}

// Before the driver frees it, since another thread may be given the same address right after.
std::optional<Block> Calls::end_block(std::uint64_t address, const Call& call) {
    if (watch_ != nullptr) watch_->frees(monotonic_ns());
    Block block;
    {
        const std::scoped_lock lock(mutex_);
        const Block* const known = blocks_.find(address);
        if (known == nullptr) return std::nullopt;
        block = *known;
        if (!blocks_.remove(address)) return std::nullopt;
    }
    write_place(call.correlation);
    const BlockRecord record{.time = monotonic_ns(),
                             .address = address,
                             .bytes = 0,
                             .correlation = call.correlation,
                             .name = 0,
                             .begins = 0,
                             .memory = static_cast<std::uint8_t>(block.memory),
                             .registered = static_cast<std::uint8_t>(block.is_registered ? 1 : 0),
                             .unused = {}};
    journal_.append(Kind::block, {Journal::bytes_of(record)});
    return block;
}

// The driver waits for what may still use the memory, but not if it was allocated in the order of a stream, of which
// cuda.h says so.
void Calls::free_block(std::uint64_t address, const Call& call) {
    const std::optional<Block> ended = end_block(address, call);
    waits_to_free = ended && !ended->is_ordered;
}
void Calls::freed(const Call& call) {
    if (std::exchange(waits_to_free, false) && has_work_) waited(for_free, call);
}

// All mappings of the range, which a program may have made one by one.
void Calls::before(const cupti::UnmappedMemory& range, const Call& call) {
    std::vector<std::uint64_t> mapped;
    {
        const std::scoped_lock lock(mutex_);
        mapped = blocks_.beginning_in(range.address, range.bytes);
    }
    for (const std::uint64_t address : mapped) end_block(address, call);
}

// What is captured frees nothing yet.
void Calls::before(const cupti::MemoryAtOn& at, const Call& call) {
    if (!is_captured(at.stream, call)) end_block(at.address, call);
}
void Calls::before(const cupti::ReleasedHost& at, const Call& call) { free_block(address_of(at.address), call); }
void Calls::before(const cupti::ArrayAt& at, const Call& call) { end_block(address_of(at.array), call); }

// Memory of a stream that is captured is a node of a graph: it is there when the graph is launched.
void Calls::begin_ordered(std::uint64_t address, std::uint64_t bytes, cupti::Handle stream, const Call& call) {
    const Block block{bytes, Memory::device, false, true};
    if (!is_captured(stream, call)) return begin_block(address, block, call);
    const std::scoped_lock lock(mutex_);
    if (captured_memory_.size() >= most_captured_memory) captured_memory_.clear();
    captured_memory_.insert_or_assign(address, call.correlation);
    blocks_.expect(address, block);
}

void Calls::after(const cupti::NewMemory& made, const Call& call) {
    begin_block(*made.address, {made.bytes, Memory::device}, call);
}
void Calls::after(const cupti::NewPitched& made, const Call& call) {
    begin_block(*made.address, {*made.pitch * made.height, Memory::device}, call);
}
void Calls::after(const cupti::NewManaged& made, const Call& call) {
    begin_block(*made.address, {made.bytes, Memory::managed}, call);
}
void Calls::after(const cupti::NewMemoryOn& made, const Call& call) {
    begin_ordered(*made.address, made.bytes, made.stream, call);
}
void Calls::after(const cupti::NewFromPoolOn& made, const Call& call) {
    begin_ordered(*made.address, made.bytes, made.stream, call);
}
void Calls::after(const cupti::NewHost& made, const Call& call) {
    begin_block(address_of(*made.address), {made.bytes, Memory::pinned}, call);
}
void Calls::after(const cupti::NewHostOfKind& made, const Call& call) {
    begin_block(address_of(*made.address), {made.bytes, Memory::pinned}, call);
}
void Calls::after(const cupti::RegisteredHost& made, const Call& call) {
    begin_block(address_of(made.address), {made.bytes, Memory::pinned, true}, call);
}
void Calls::after(const cupti::MappedMemory& made, const Call& call) {
    begin_block(made.address, {made.bytes, Memory::device}, call);
}
void Calls::write_reserved(std::uint64_t address, std::uint64_t bytes) {
    const ReservedRecord record{.time = monotonic_ns(), .address = address, .bytes = bytes};
    journal_.append(Kind::reserved, {Journal::bytes_of(record)});
}
void Calls::after(const cupti::NewReserved& made, const Call&) { write_reserved(*made.address, made.bytes); }
void Calls::before(const cupti::ReleasedReserved& at, const Call&) { write_reserved(at.address, 0); }
void Calls::after(const cupti::Variable& made, const Call& call) {
    if (made.address == nullptr || made.bytes == nullptr) return;
    const bool is_managed = call.function.starts_with("cuLibraryGetManaged");
    begin_block(*made.address, {*made.bytes, is_managed ? Memory::managed_static : Memory::device_static}, call,
                made.name == nullptr || made.name[0] == '\0' ? "?" : made.name);
}
void Calls::after(const cupti::NewArray& made, const Call& call) {
    const cupti::ArrayDescription& of = *made.description;
    const std::uint64_t bytes = of.width * std::max<std::uint64_t>(of.height, 1) * channel_bytes(of.format);
    begin_block(address_of(*made.array), {bytes * of.channels, Memory::array}, call);
}
void Calls::after(const cupti::NewArray3D& made, const Call& call) {
    const cupti::ArrayDescription3D& of = *made.description;
    const std::uint64_t rows = std::max<std::uint64_t>(of.height, 1) * std::max<std::uint64_t>(of.depth, 1);
    begin_block(address_of(*made.array), {of.width * rows * channel_bytes(of.format) * of.channels, Memory::array},
                call);
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

std::uint64_t Calls::stream_key(cupti::Handle stream, const Call& call) const {
    constexpr std::uint64_t legacy = 1, per_thread = 2;  // as the driver numbers them
    std::uint64_t key = address_of(stream);
    if (key == 0) key = call.is_per_thread ? per_thread : legacy;
    return key == per_thread ? std::uint64_t(this_thread_id()) << 32 | key : key;
}

// A stream that waits for an event of one that is captured is captured too, as only the driver knows.
bool Calls::is_captured(cupti::Handle stream, const Call& call) {
    constexpr std::uint64_t most_default = 2;  // the handles up to this one are of default streams
    {
        const std::scoped_lock lock(mutex_);
        if (capturing_.empty()) return false;
        if (capturing_.contains(stream_key(stream, call))) return true;
    }
    int status = 0;
    return address_of(stream) > most_default && driver_.is_capturing != nullptr &&
           driver_.is_capturing(stream, &status) == 0 && status != 0;
}

std::pair<std::uint16_t, std::uint8_t> Calls::about_stream(cupti::Handle stream, const Call& call) {
    const std::uint64_t key = stream_key(stream, call);
    const auto next = static_cast<std::uint16_t>(streams_.size() + 1);
    const std::uint16_t number =
        streams_.size() + 1 < most_streams ? streams_.try_emplace(key, next).first->second : std::uint16_t(0);
    const unsigned flags = capturing_.empty() ? 0 : while_captured | (capturing_.contains(key) ? captured : 0);
    return {number, static_cast<std::uint8_t>(flags)};
}

void Calls::launched(cupti::Handle function, void* const* parameters, void* const* extra, cupti::Handle stream,
                     std::uint8_t flags, const Call& call) {
    LaunchRecord record{
        .time = monotonic_ns(), .correlation = call.correlation, .site = places_.of_this_call().number, .unused = {}};
    {
        const std::scoped_lock lock(mutex_);
        record.arguments = arguments_.number(driver_, function, call.symbol, parameters, extra);
        const auto [number, of_stream] = about_stream(stream, call);
        record.stream = number;
        record.flags = flags | of_stream;
    }
    has_work_ = true;
    journal_.append(Kind::launch, {Journal::bytes_of(record)});
    if (watch_ != nullptr && (record.flags & captured) == 0) watch_->launched(record.time);
}

// The nodes of a graph in the order in which they were added.
void Calls::add_nodes(cupti::Handle graph, std::vector<GraphStep>& steps, int depth) {
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
                {type, arguments_.number(functions, function, nullptr, kernel.parameters, kernel.extra), {}});
        } else if (type == cupti::copy_node && functions.copy_node != nullptr) {
            cupti::Copy3D copy{};
            if (functions.copy_node(node, &copy) != 0) continue;
            Asked of_node = asked_of(copy, true, nullptr);
            of_node.more.push_back(of_node.transfer);
            steps.push_back({type, 0, std::move(of_node.more)});
        } else if (type == cupti::fill_node && functions.fill_node != nullptr) {
            cupti::FillNodeParameters fill{};
            if (functions.fill_node(node, &fill) != 0) continue;
            const bool is_one_row = fill.height <= 1 || fill.pitch == fill.width * fill.value_bytes;
            steps.push_back({type,
                             0,
                             {{.target = fill.target,
                               .bytes = fill.width * fill.value_bytes * (is_one_row ? fill.height : 1),
                               .rows = is_one_row ? 1 : fill.height,
                               .target_pitch = is_one_row ? 0 : fill.pitch}}});
        } else if (type == cupti::allocation_node && functions.allocation_node != nullptr) {
            cupti::AllocationNodeParameters made{};
            if (functions.allocation_node(node, &made) != 0) continue;
            blocks_.expect(made.address, {made.bytes, Memory::device});
            const auto call = captured_memory_.find(made.address);
            steps.push_back({type,
                             0,
                             {{.target = made.address, .bytes = made.bytes}},
                             call == captured_memory_.end() ? 0 : call->second});
        } else if (type == cupti::free_node && functions.free_node != nullptr) {
            cupti::Address freed = 0;
            if (functions.free_node(node, &freed) == 0) steps.push_back({type, 0, {{.target = freed}}});
        } else if (cupti::Handle child = nullptr; type == cupti::graph_node && functions.child_graph != nullptr) {
            if (functions.child_graph(node, &child) == 0) add_nodes(child, steps, depth + 1);
        }
    }
}

void Calls::keep_graph(cupti::Handle executable, cupti::Handle graph) {
    const std::scoped_lock lock(mutex_);
    std::vector<GraphStep> steps;
    add_nodes(graph, steps, 0);
    graphs_.insert_or_assign(executable, std::make_shared<const std::vector<GraphStep>>(std::move(steps)));
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
    const CallPlace place = places_.of_this_call();
    std::shared_ptr<const std::vector<GraphStep>> steps;
    std::pair<std::uint16_t, std::uint8_t> stream;
    {
        const std::scoped_lock lock(mutex_);
        stream = about_stream(launch.stream, call);
        if (const auto known = graphs_.find(launch.executable); known != graphs_.end()) steps = known->second;
    }
    if ((stream.second & captured) != 0) return;  // it becomes a part of another graph
    has_work_ = true;
    if (steps == nullptr) return write_step({}, stream, place, call);  // of what is not known
    for (const GraphStep& step : *steps) write_step(step, stream, place, call);
}

// Memory that a graph allocates has the place of the call that was captured.
void Calls::write_memory(const GraphStep& step, const Call& call) {
    const Transfer& memory = step.moves.front();
    if (step.type == cupti::free_node) return void(end_block(memory.target, call));
    constexpr std::uint32_t allocating = 598;  // cuMemAllocAsync
    const Block block{memory.bytes, Memory::device, false, true};
    begin_block(memory.target, block, step.allocated_by == 0 ? call : Call{allocating, step.allocated_by});
}

void Calls::write_step(const GraphStep& step, std::pair<std::uint16_t, std::uint8_t> stream, CallPlace place,
                       const Call& call) {
    if (step.type == cupti::allocation_node || step.type == cupti::free_node) return write_memory(step, call);
    const bool is_launch = step.type == cupti::kernel_node;
    stream.second |= is_launch ? std::uint8_t(launched_by_graph) : moved_by_graph;
    for (const Transfer& move : step.moves)
        if (step.type == cupti::fill_node)
            write_fill(move, stream, place, call);
        else
            after_copy(move, stream.first, stream.second, place, call);
    if (!is_launch) return;
    const LaunchRecord record{.time = monotonic_ns(),
                              .correlation = call.correlation,
                              .arguments = step.arguments,
                              .site = place.number,
                              .stream = stream.first,
                              .flags = stream.second,
                              .unused = {}};
    if (watch_ != nullptr) watch_->launched(record.time);
    journal_.append(Kind::launch, {Journal::bytes_of(record)});
}

// ------------------------------------------------------------------------------------------------------------- waits

void Calls::begin_capture(cupti::Handle stream, const Call& call) {
    const std::scoped_lock lock(mutex_);
    capturing_.insert(stream_key(stream, call));
    is_capturing_ = true;
}
void Calls::end_capture(cupti::Handle stream, const Call& call) {
    const std::scoped_lock lock(mutex_);
    capturing_.erase(stream_key(stream, call));
    is_capturing_ = !capturing_.empty();
}

// Another stream may get the handle of one that is destroyed.
void Calls::before(const cupti::Stream& stream, const Call& call) {
    if (call.function.starts_with("cuStreamDestroy")) end_capture(stream.stream, call);
}

void Calls::after(const cupti::Stream& stream, const Call& call) {
    if (call.function.starts_with("cuStreamBeginCapture")) {
        begin_capture(stream.stream, call);
    } else if (call.function.starts_with("cuStreamEndCapture")) {
        end_capture(stream.stream, call);
    } else if (call.function.starts_with("cuStreamSynchronize") ||
               (call.function.starts_with("cuStreamQuery") && has_work_)) {
        waited(for_stream, call);
    }
}

// A capture that became invalid ends without a graph. One goes on only if the wrong thread tried to end it.
void Calls::after_failure(const cupti::Stream& stream, int result, const Call& call) {
    constexpr int wrong_thread = 908;  // CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
    if (call.function.starts_with("cuStreamEndCapture") && result != wrong_thread) end_capture(stream.stream, call);
}

// Programs ask again and again: the answer counts once.
void Calls::after(const cupti::Event&, const Call& call) {
    if (!call.function.starts_with("cuEventQuery") || has_work_) waited(for_event, call);
}

void Calls::waited(std::uint8_t what, const Call& call) {
    has_work_ = false;
    const CallPlace place = places_.of_this_call();
    const WaitRecord record{.time = monotonic_ns(),
                            .stack = place.stack,
                            .thread = this_thread_id(),
                            .correlation = call.correlation,
                            .site = place.number,
                            .what = what,
                            .unused = {},
                            .began = began(call)};
    if (watch_ != nullptr) watch_->waited(record.time);  // before, so that its records come before the wait
    journal_.append(Kind::wait, {Journal::bytes_of(record)});
}

void Calls::after(const cupti::FreeMemory& memory, const Call&) {
    const QueryRecord record{.time = monotonic_ns(),
                             .free = memory.free == nullptr ? 0 : *memory.free,
                             .total = memory.total == nullptr ? 0 : *memory.total,
                             .site = places_.of_this_call().number,
                             .unused = {}};
    journal_.append(Kind::query, {Journal::bytes_of(record)});
}

}  // namespace firsttouch::inject
