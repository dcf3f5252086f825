#include "profile/inject/core/recorder.hpp"

namespace firsttouch::inject {
namespace {

enum Flag : std::uint8_t { captured = 1, while_captured = 2 };
constexpr std::size_t most_streams = 1 << 16;

BlockRecord record_of(std::uint64_t address, const Block& block, const RecordedCall& call, bool begins) {
    return {.time = monotonic_ns(),
            .address = address,
            .bytes = begins ? block.bytes : 0,
            .correlation = call.correlation,
            .name = 0,
            .begins = static_cast<std::uint8_t>(begins ? 1 : 0),
            .memory = static_cast<std::uint8_t>(block.memory),
            .registered = static_cast<std::uint8_t>(block.is_registered ? 1 : 0),
            .sharing = block.sharing,
            .access = block.access,
            .unused = {},
            .host = block.host};
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------ blocks

void Recorder::write_place(std::uint32_t correlation) {
    const CallRecord record{.time = monotonic_ns(), .correlation = correlation, .site = place().number};
    journal_.append(Kind::call, {Journal::bytes_of(record)});
}

void Recorder::begin_block(std::uint64_t address, const Block& block, const RecordedCall& call, std::string_view name) {
    if (address == 0) return;
    {
        const std::scoped_lock lock(mutex_);
        if (!name.empty())
            if (const Block* const known = blocks_.find(address); known != nullptr && known->bytes == block.bytes)
                return;  // a variable that was looked up before
        blocks_.add(address, block);
    }
    if (!call.has_place) write_place(call.correlation);
    BlockRecord record = record_of(address, block, call, true);
    record.name = texts_.number(name);
    journal_.append(Kind::block, {Journal::bytes_of(record)});
}

std::optional<Block> Recorder::end_block(std::uint64_t address, const RecordedCall& call) {
    if (watch_ != nullptr) {
        std::uint64_t bytes = 0;
        {
            const std::scoped_lock lock(mutex_);
            if (const Block* const known = blocks_.find(address); known != nullptr) bytes = known->bytes;
        }
        watch_->frees({monotonic_ns(), place().number}, {address, address + bytes});
    }
    Block block;
    {
        const std::scoped_lock lock(mutex_);
        const Block* const known = blocks_.find(address);
        if (known == nullptr) return std::nullopt;
        block = *known;
        if (!blocks_.remove(address)) return std::nullopt;
    }
    write_place(call.correlation);
    const BlockRecord record = record_of(address, block, call, false);
    journal_.append(Kind::block, {Journal::bytes_of(record)});
    return block;
}

void Recorder::end_blocks_in(std::uint64_t address, std::uint64_t bytes, const RecordedCall& call) {
    std::vector<std::uint64_t> mapped;
    {
        const std::scoped_lock lock(mutex_);
        mapped = blocks_.beginning_in(address, bytes);
    }
    for (const std::uint64_t at : mapped) end_block(at, call);
}

void Recorder::expect(std::uint64_t address, const Block& block) {
    const std::scoped_lock lock(mutex_);
    blocks_.expect(address, block);
}

void Recorder::reserve(std::uint64_t address, std::uint64_t bytes) {
    const ReservedRecord record{.time = monotonic_ns(), .address = address, .bytes = bytes};
    journal_.append(Kind::reserved, {Journal::bytes_of(record)});
}

void Recorder::runs_on(std::string_view api, std::string_view version, std::string_view device,
                       std::string_view architecture) {
    const RuntimeRecord record{.time = monotonic_ns(),
                               .api = texts_.number(api),
                               .version = texts_.number(version),
                               .device = texts_.number(device),
                               .architecture = texts_.number(architecture)};
    journal_.append(Kind::runtime, {Journal::bytes_of(record)});
}

// ---------------------------------------------------------------------------------------------------------- launches

OfStream Recorder::about_stream(std::uint64_t stream) {
    const auto next = static_cast<std::uint16_t>(streams_.size() + 1);
    const std::uint16_t number =
        streams_.size() + 1 < most_streams ? streams_.try_emplace(stream, next).first->second : std::uint16_t(0);
    const unsigned flags = capturing_.empty() ? 0 : while_captured | (capturing_.contains(stream) ? captured : 0);
    return {number, static_cast<std::uint8_t>(flags)};
}

std::uint32_t Recorder::number_arguments(const Kernels& kernels, Handle kernel, const char* symbol,
                                         void* const* parameters, void* const* extra) {
    const std::scoped_lock lock(mutex_);
    return arguments_.number(kernels, kernel, symbol, parameters, extra);
}

void Recorder::changes_device() {
    if (watch_ != nullptr) watch_->launches({monotonic_ns(), place().number});
}

void Recorder::launched(const Kernels& kernels, Handle kernel, const char* symbol, void* const* parameters,
                        void* const* extra, std::uint64_t stream, std::uint8_t flags, const RecordedCall& call) {
    // A launch returns at once, so that the time when it began will do: a clock is a tenth of what a launch costs.
    LaunchRecord record{.time = call.began != 0 ? call.began : monotonic_ns(),
                        .correlation = call.correlation,
                        .site = place().number,
                        .unused = {}};
    {
        const std::scoped_lock lock(mutex_);
        record.arguments = arguments_.number(kernels, kernel, symbol, parameters, extra);
        const auto [number, of_stream] = about_stream(stream);
        record.stream = number;
        record.flags = flags | of_stream;
    }
    has_work_ = true;
    journal_.append(Kind::launch, {Journal::bytes_of(record)});
    if (watch_ != nullptr && (record.flags & captured) == 0)
        watch_->launched({record.time, record.site, record.stream});
}

void Recorder::launched_graph(const std::vector<GraphStep>* steps, std::uint64_t stream, const RecordedCall& call) {
    const CallPlace place = this->place();
    OfStream of_stream;
    {
        const std::scoped_lock lock(mutex_);
        of_stream = about_stream(stream);
    }
    if ((of_stream.second & captured) != 0) return;  // it becomes a part of another graph
    has_work_ = true;
    if (steps == nullptr) return write_step({.arguments = 0}, of_stream, place, call);
    for (const GraphStep& step : *steps) write_step(step, of_stream, place, call);
}

void Recorder::write_step(const GraphStep& step, OfStream stream, CallPlace place, const RecordedCall& call) {
    const auto with = [&](std::uint8_t flag) { return OfStream(stream.first, stream.second | flag); };
    for (const Transfer& copy : step.copies) after_copy(copy, with(moved_by_graph), place, call);
    for (const Transfer& fill : step.fills) write_fill(fill, with(moved_by_graph), place, call);
    if (step.ends != 0) end_block(step.ends, call);
    if (step.begins != 0)
        begin_block(step.begins, step.block,
                    step.allocated_by == 0 ? call : RecordedCall{step.allocated_by, call.began, true});
    if (!step.arguments) return;
    const auto [number, flags] = with(launched_by_graph);
    const LaunchRecord record{.time = monotonic_ns(),
                              .correlation = call.correlation,
                              .arguments = *step.arguments,
                              .site = place.number,
                              .stream = number,
                              .flags = flags,
                              .unused = {}};
    if (watch_ != nullptr) watch_->launched({record.time, record.site, record.stream});
    journal_.append(Kind::launch, {Journal::bytes_of(record)});
}

// ------------------------------------------------------------------------------------------------------------- waits

void Recorder::begin_capture(std::uint64_t stream) {
    const std::scoped_lock lock(mutex_);
    capturing_.insert(stream);
    is_capturing_ = true;
}
void Recorder::end_capture(std::uint64_t stream) {
    const std::scoped_lock lock(mutex_);
    capturing_.erase(stream);
    is_capturing_ = !capturing_.empty();
}

bool Recorder::is_captured(std::uint64_t stream) {
    const std::scoped_lock lock(mutex_);
    return capturing_.contains(stream);
}

void Recorder::waited(WaitFor what, const RecordedCall& call, std::uint64_t stream) {
    has_work_ = false;
    const CallPlace place = this->place();
    const WaitRecord record{.time = monotonic_ns(),
                            .stack = place.stack,
                            .thread = this_thread_id(),
                            .correlation = call.correlation,
                            .site = place.number,
                            .what = static_cast<std::uint8_t>(what),
                            .unused = {},
                            .began = call.began};
    const auto awaited = [&] {
        if (what == WaitFor::context || what == WaitFor::free) return Moment::all;
        if (stream == 0) return Moment::unknown;
        const std::scoped_lock lock(mutex_);
        return std::uint32_t(about_stream(stream).first);
    };
    if (watch_ != nullptr)
        watch_->waited({record.time, record.site, awaited()});  // before, so that its records come before the wait
    journal_.append(Kind::wait, {Journal::bytes_of(record)});
}

void Recorder::viewed(std::uint64_t address, std::uint64_t host, std::uint64_t bytes, std::uint8_t use, bool begins,
                      bool waits) {
    const ViewRecord record{.time = monotonic_ns(),
                            .address = address,
                            .bytes = bytes,
                            .site = place().number,
                            .begins = static_cast<std::uint8_t>(begins ? 1 : 0),
                            .use = use,
                            .waits = static_cast<std::uint8_t>(waits ? 1 : 0),
                            .unused = {},
                            .host = host};
    journal_.append(Kind::view, {Journal::bytes_of(record)});
}

void Recorder::failed(std::string_view function, std::int32_t error, const RecordedCall& call) {
    const FailureRecord record{.time = monotonic_ns(),
                               .function = texts_.number(function),
                               .error = error,
                               .correlation = call.correlation,
                               .site = place().number};
    journal_.append(Kind::failure, {Journal::bytes_of(record)});
}

void Recorder::asked_for_free_memory(std::uint64_t free, std::uint64_t total) {
    const QueryRecord record{
        .time = monotonic_ns(), .free = free, .total = total, .site = place().number, .unused = {}};
    journal_.append(Kind::query, {Journal::bytes_of(record)});
}

}  // namespace firsttouch::inject
