#include "profile/inject/front/cuda/exact.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "events/fetching.hpp"
#include "profile/inject/front/cuda/cubin.hpp"
#include "profile/inject/core/undisturbed.hpp"

namespace firsttouch::inject {
namespace {

constexpr std::uint64_t granule = 1ull << granule_shift;
constexpr std::size_t most_runs = 8192;           // in a record
constexpr std::size_t room_of_tables = 32 << 20;  // bytes of a context

struct Patch {
    int instruction;
    const char* function;
    bool is_needed;
};
constexpr Patch patches[] = {
    {sanitizer::global_access, "granules_access", true},
    {sanitizer::copy_async, "granules_copy_async", false},
    {sanitizer::bulk_copy_in, "granules_bulk_in", false},
    {sanitizer::bulk_copy_out, "granules_bulk_out", false},
    {sanitizer::bulk_reduction, "granules_bulk_reduction", false},
    {sanitizer::tensor_load, "granules_tensor", false},
    {sanitizer::tensor_store, "granules_tensor", false},
};

template <class Data>
const Data& as(const void* data) {
    return *static_cast<const Data*>(data);
}

// Of the launches of a kernel with one grid: the first ones, and then ever fewer, so that a change is seen.
bool is_chosen(std::uint32_t number) { return number <= 16 || std::has_single_bit(number); }

// What a copy waits for that this thread's last call made: at the thread's next callback, it has ended.
thread_local Exact::Ended last_copy;
// How many launches there were at this thread's last callback: another thread may have launched more while it waited.
thread_local std::uint32_t launches_before = 0;
// The first launch of the graph that this thread is launching; 0: none yet.
thread_local std::uint32_t first_in_graph = 0;
// What this library asks for itself is not looked at.
thread_local bool is_inside = false;

std::uint64_t words_of(std::uint64_t bytes) { return (bytes + 32 * granule - 1) / (32 * granule); }

}  // namespace

Exact::Exact(const sanitizer::Functions& api, Journal& journal, std::string patch)
    : api_(api), journal_(journal), patch_(std::move(patch)), texts_(journal) {}

std::unique_ptr<Exact> Exact::start(const sanitizer::Functions& api, Journal& journal, std::string patch) {
    std::unique_ptr<Exact> exact(new Exact(api, journal, std::move(patch)));
    const auto check = [&](sanitizer::Result result, const char* call) {
        if (result == 0) return;
        const char* text = nullptr;
        if (api.get_result_string(result, &text) != 0 || text == nullptr) text = "an unknown error";
        throw Unavailable(std::string(call) + ": " + text);
    };
    check(api.subscribe(&exact->subscriber_, &on_callback, exact.get()), "sanitizerSubscribe");
    for (const int domain : {sanitizer::resources, sanitizer::synchronisations, sanitizer::launches, sanitizer::copies,
                             sanitizer::fills, sanitizer::graphs})
        check(api.enable_domain(1, exact->subscriber_, domain), "sanitizerEnableDomain");
    return exact;
}

// In a forked process, which cannot use CUDA, the mutex may be locked for ever.
void Exact::on_callback(void* user, int domain, std::uint32_t id, const void* data) noexcept {
    Exact& exact = *static_cast<Exact*>(user);
    if (is_inside || data == nullptr || !exact.home_.is_here()) return;
    const Undisturbed undisturbed;
    is_inside = true;
    try {
        if (domain == sanitizer::resources && id == sanitizer::module_loaded)
            exact.patch(as<sanitizer::ModuleData>(data));
        ToDo to_do;
        {
            const std::scoped_lock lock(exact.mutex_);
            if (last_copy.launches != 0) exact.take_ended(std::exchange(last_copy, {}), to_do.fetch);
            exact.called_back(domain, id, data, to_do);
            launches_before = exact.launches_;
        }
        if (to_do.set) exact.set(*to_do.set);
        exact.fetch(to_do.fetch);
    } catch (...) {  // no memory
    }
    is_inside = false;
}

void Exact::called_back(int domain, std::uint32_t id, const void* data, ToDo& to_do) {
    using namespace sanitizer;
    if (domain == resources) {
        resource(id, data);
    } else if (domain == launches && id == launch_begins) {
        launch(as<LaunchData>(data), false, to_do);
    } else if (domain == copies && id == copy_begins) {
        const auto& begun = as<CopyData>(data);
        copy(begun);
        if (begun.direction == device_to_host && begun.asynchronous == 0)
            last_copy = {begun.source_context, begun.source_handle, launches_};
    } else if (domain == fills && id == fill_begins) {
        fill(as<FillData>(data));
    } else if (domain == synchronisations && id == stream_synchronised) {
        const auto& waited = as<SynchronisationData>(data);
        take_ended({waited.context, waited.handle, launches_before}, to_do.fetch);
    } else if (domain == synchronisations && id == context_synchronised) {
        take_ended({as<SynchronisationData>(data).context, nullptr, launches_before}, to_do.fetch);
    } else if (domain == graphs && id == graph_begins) {
        first_in_graph = 0;
    } else if (domain == graphs && id == node_begins) {
        const auto& node = as<NodeData>(data);
        if (node.type == kernel_node) launch(node.launch, true, to_do);
        if (node.type == copy_node) copy(node.copy);
        if (node.type == fill_node) fill(node.fill);
    }
}

void Exact::resource(std::uint32_t id, const void* data) {
    using namespace sanitizer;
    switch (id) {
    case context_ends:
        return end_context(as<ContextData>(data).context);
    case stream_ends:
        for (Looked& each : looked_)
            if (each.stream == as<StreamData>(data).handle) each.stream = nullptr, each.has_stream = false;
        return;
    case memory_allocated:
    case host_memory_allocated:
    case allocated_in_stream:
        return begin_block(as<MemoryData>(data));
    case memory_freed:
    case host_memory_freed:
    case freed_in_stream:
        return end_block(as<MemoryData>(data));
    default:
        return;
    }
}

void Exact::fail(sanitizer::Result result, const char* call) {
    if (failed_.exchange(true)) return;
    const char* text = nullptr;
    if (api_.get_result_string(result, &text) != 0 || text == nullptr) text = "an unknown error";
    std::array<char, 200> reason{};
    std::snprintf(reason.data(), reason.size(), "%s: %s", call, text);
    notice(Layer::trace, "what kernels use is not known from here on: ", reason.data());
}

void Exact::patch(const sanitizer::ModuleData& module) {
    if (failed_ || !prepare(module.context)) return;
    for (const Patch& each : patches) {
        const sanitizer::Result result = api_.patch_instructions(each.instruction, module.module, each.function);
        if (result != 0 && each.is_needed) return fail(result, "sanitizerPatchInstructions");
    }
    if (module.cubin != nullptr) {
        auto names = functions_with_tensor_copies({module.cubin, module.cubin_bytes});
        const std::scoped_lock lock(mutex_);
        for (std::string& name : names) by_tensor_maps_.insert(std::move(name));
    }
    if (const sanitizer::Result result = api_.patch_module(module.module); result != 0)
        fail(result, "sanitizerPatchModule");
}

// The patch, and memory for tables, before the first kernel of a context: the driver may let an allocation wait for
// kernels, and those, where they are collective, for the launch that would allocate.
bool Exact::prepare(sanitizer::Context context) {
    const std::scoped_lock once(preparing_);
    {
        const std::scoped_lock lock(mutex_);
        if (tables_.contains(context)) return true;
    }
    if (const auto result = api_.add_patches(patch_.c_str(), context); result != 0)
        return fail(result, "sanitizerAddPatchesFromFile"), false;
    void* memory = nullptr;
    if (const auto result = api_.allocate(context, &memory, room_of_tables); result != 0)
        return fail(result, "sanitizerAlloc"), false;
    const std::scoped_lock lock(mutex_);
    tables_.emplace(context, Tables{.spare = {}, .rest = static_cast<std::uint8_t*>(memory), .bytes = room_of_tables});
    return true;
}

// The memory of tables ends with their context.
void Exact::end_context(sanitizer::Context context) {
    const auto of_context = [&](const Looked& each) { return each.context == context; };
    if (std::erase_if(looked_, of_context) != 0) say_not_waited_for();
    tables_.erase(context);
}

void Exact::say_not_waited_for() {
    if (std::exchange(has_said_so_, true)) return;
    notice(Layer::trace,
           "what some launches use is not known: the program did not wait for them before their stream, their context "
           "or itself ended");
}

void Exact::step(Did what, std::uint64_t address, std::uint64_t bytes, std::uint32_t flags) {
    const StepRecord record{
        .address = address, .bytes = bytes, .flags = flags, .what = static_cast<std::uint8_t>(what), .unused = {}};
    journal_.append(Kind::step, {Journal::bytes_of(record)});
}

void Exact::begin_block(const sanitizer::MemoryData& memory) {
    if ((memory.flags & sanitizer::of_peer) != 0 || memory.bytes == 0) return;
    blocks_.insert_or_assign(memory.address, Block{memory.bytes, memory.flags});
    step(Did::begin_block, memory.address, memory.bytes, memory.flags);
}

void Exact::end_block(const sanitizer::MemoryData& memory) {
    const auto found = blocks_.find(memory.address);
    if (found == blocks_.end()) return;
    step(Did::end_block, memory.address, found->second.bytes, found->second.flags);
    blocks_.erase(found);
}

void Exact::copy(const sanitizer::CopyData& copy) {
    const std::uint64_t rows = std::max<std::uint64_t>(copy.height, 1) * std::max<std::uint64_t>(copy.depth, 1);
    const std::uint64_t bytes = copy.bytes != 0 ? copy.bytes : copy.width * rows;
    if (copy.direction == sanitizer::host_to_device) return step(Did::copy_in, copy.target, bytes);
    if (copy.direction == sanitizer::device_to_device) return step(Did::copy_within, copy.target, bytes);
    if (copy.direction == sanitizer::device_to_host) step(Did::copy_out, copy.target, bytes);
}

void Exact::take_ended(const Ended& ended, std::vector<Looked>& into) {
    take(
        [&](const Looked& each) {
            return each.context == ended.context && (ended.stream == nullptr || each.stream == ended.stream) &&
                   each.launch <= ended.launches;
        },
        into);
}

void Exact::fill(const sanitizer::FillData& fill) {
    step(Did::fill, fill.address,
         fill.width * std::max<std::uint64_t>(fill.height, 1) * std::max<std::uint32_t>(fill.element_bytes, 1));
}

void Exact::launch(const sanitizer::LaunchData& launch, bool of_graph, ToDo& to_do) {
    const char* const name = launch.name == nullptr ? "" : launch.name;
    const Size grid{launch.grid[0], launch.grid[1], launch.grid[2]};
    const Size block{launch.block[0], launch.block[1], launch.block[2]};
    ++launches_;
    const bool by_tensor_map = by_tensor_maps_.contains(name);
    if (!failed_ && !by_tensor_map && tables_.contains(launch.context)) {
        const bool is_next = is_chosen(++seen_[{name, grid, block}]);
        if (of_graph) {
            look_in_graph(launch, is_next, to_do);
        } else if (is_next) {
            look(launch, launch.handle, to_do);
        }
    }
    const GridRecord record{.launch = launches_,
                            .name = texts_.number(name),
                            .grid_x = launch.grid[0],
                            .grid_y = launch.grid[1],
                            .grid_z = launch.grid[2],
                            .block_x = launch.block[0],
                            .block_y = launch.block[1],
                            .block_z = launch.block[2],
                            .looked = to_do.set && to_do.set->looked.table != nullptr,
                            .of_graph = of_graph,
                            .tensor = by_tensor_map,
                            .unused = {}};
    journal_.append(Kind::grid, {Journal::bytes_of(record)});
}

// The first kernel of a graph has a table, until a second one comes. What was set for an earlier launch of the graph is
// taken back: without, a kernel has what was set last, or nothing that is known.
void Exact::look_in_graph(const sanitizer::LaunchData& launch, bool is_chosen, ToDo& to_do) {
    const bool is_first = first_in_graph == 0;
    if (is_first) first_in_graph = launches_;
    for (Looked& each : looked_) each.is_mixed |= !is_first && each.launch == first_in_graph;
    if (is_first && is_chosen) look(launch, launch.graph_handle, to_do);
    if (!to_do.set) to_do.set = {{}, launch.launch, launch.function, launch.graph_handle};
}

// Memory is used again and not freed, since the driver would wait for all kernels then.
bool Exact::find_table(sanitizer::Context context, std::size_t bytes, Looked& looked) {
    Tables& tables = tables_[context];
    if (const auto spare = tables.spare.lower_bound(bytes); spare != tables.spare.end()) {
        looked.room = spare->first, looked.table = spare->second;
        tables.spare.erase(spare);
        return true;
    }
    looked.room = std::bit_ceil(bytes);
    if (looked.room > tables.bytes) return false;
    looked.table = tables.rest;
    tables.rest += looked.room, tables.bytes -= looked.room;
    return true;
}

// Makes a table: its head, the blocks, the bits of reads, those of writes.
void Exact::look(const sanitizer::LaunchData& launch, sanitizer::StreamHandle stream, ToDo& to_do) {
    std::vector<GranuleBlock> blocks;
    std::uint64_t words = 0;
    for (const auto& [address, block] : blocks_) {
        blocks.push_back({address, address + block.bytes, words * 32});
        words += words_of(block.bytes);
    }
    const std::size_t bits_at = sizeof(GranuleTable) + blocks.size() * sizeof(GranuleBlock);
    Looked looked{.launch = launches_,
                  .context = launch.context,
                  .stream = stream,
                  .content = std::vector<std::uint8_t>(bits_at + 2 * words * sizeof(std::uint32_t)),
                  .count = blocks.size(),
                  .words = words};
    std::vector<std::uint8_t>& content = looked.content;
    if (!find_table(launch.context, content.size(), looked)) return;
    auto* const on_device = static_cast<std::uint8_t*>(looked.table);
    auto* const bits = reinterpret_cast<unsigned int*>(on_device + bits_at);
    const GranuleTable head{
        .outside = 0,
        .opaque = 0,
        .read = bits,
        .written = bits + words,
        .count = blocks.size(),
        .blocks = reinterpret_cast<const GranuleBlock*>(on_device + sizeof(GranuleTable)),
    };
    std::memcpy(content.data(), &head, sizeof head);
    if (!blocks.empty()) std::memcpy(content.data() + sizeof head, blocks.data(), blocks.size() * sizeof(GranuleBlock));
    to_do.set = {std::move(looked), launch.launch, launch.function, stream};
}

// Gives a launch its table, which is copied in the order of the stream, or none.
void Exact::set(ToSet& what) {
    Looked& looked = what.looked;
    if (looked.table != nullptr) {
        const auto result = api_.copy_in(looked.table, looked.content.data(), looked.content.size(), what.stream);
        if (result != 0) return fail(result, "sanitizerMemcpyHostToDeviceAsync");
    }
    const auto result = api_.set_launch_data(what.launch, what.function, what.stream, looked.table);
    if (looked.table == nullptr) return;
    if (result != 0) return fail(result, "sanitizerSetLaunchCallbackData");
    const std::scoped_lock lock(mutex_);
    looked_.push_back(std::move(looked));
}

template <class Condition>
void Exact::take(Condition condition, std::vector<Looked>& into) {
    const auto rest =
        std::stable_partition(looked_.begin(), looked_.end(), [&](auto& each) { return !condition(each); });
    into.insert(into.end(), std::make_move_iterator(rest), std::make_move_iterator(looked_.end()));
    looked_.erase(rest, looked_.end());
}

// Of kernels that have ended.
void Exact::fetch(std::vector<Looked>& looked) noexcept {
    try {
        for (Looked& each : looked) {
            if (const auto result = api_.copy_out(each.content.data(), each.table, each.content.size(), each.stream);
                result != 0)
                return fail(result, "sanitizerMemcpyDeviceToHost");
            if (!each.is_mixed) write(each);
            const std::scoped_lock lock(mutex_);
            if (const auto tables = tables_.find(each.context); tables != tables_.end())
                tables->second.spare.emplace(each.room, each.table);
        }
    } catch (...) {  // no memory
    }
}

// Kernels that the program has not waited for may wait for this thread, so that another waits for them, and not for
// long.
void Exact::wait_and_fetch(std::vector<Looked> looked) noexcept {
    struct Work {
        Exact& exact;
        std::vector<Looked> looked;
    };
    auto* const work = new (std::nothrow) Work{*this, std::move(looked)};
    if (work == nullptr) return;
    const auto run = [](void* user) -> void* {
        const std::unique_ptr<Work> work(static_cast<Work*>(user));
        is_inside = true;
        for (const Looked& each : work->looked)
            if (const auto result = work->exact.api_.synchronise(each.stream); result != 0)
                return work->exact.fail(result, "sanitizerStreamSynchronize"), nullptr;
        work->exact.fetch(work->looked);
        return nullptr;
    };
    pthread_t thread;
    if (!start_thread(thread, run, work)) return delete work;
    if (join_within(thread, patience_ms)) return;
    pthread_detach(thread);
    const std::scoped_lock lock(mutex_);
    say_not_waited_for();
}

void Exact::write(const Looked& looked) {
    GranuleTable head;
    std::memcpy(&head, looked.content.data(), sizeof head);
    std::vector<GranuleBlock> blocks(looked.count);
    std::vector<std::uint32_t> bits(2 * looked.words);
    const std::uint8_t* const behind = looked.content.data() + sizeof head;
    if (looked.count > 0) std::memcpy(blocks.data(), behind, looked.count * sizeof(GranuleBlock));
    if (looked.words > 0)
        std::memcpy(bits.data(), behind + looked.count * sizeof(GranuleBlock), bits.size() * sizeof(std::uint32_t));
    for (const GranuleBlock& block : blocks) {
        write_runs(looked, block, bits.data() + block.first / 32, false);
        write_runs(looked, block, bits.data() + looked.words + block.first / 32, true);
    }
    const FetchedRecord record{.outside = head.outside, .opaque = head.opaque, .launch = looked.launch, .unused = {}};
    journal_.append(Kind::fetched, {Journal::bytes_of(record)});
}

void Exact::write_runs(const Looked& looked, const GranuleBlock& block, const std::uint32_t* bits, bool is_written) {
    const std::uint64_t granules = words_of(block.end - block.begin) * 32;
    std::vector<GranuleRun> runs;
    const auto flush = [&] {
        if (runs.empty()) return;
        const UsedRecord record{.address = block.begin,
                                .bytes = block.end - block.begin,
                                .launch = looked.launch,
                                .runs = static_cast<std::uint32_t>(runs.size()),
                                .written = is_written,
                                .unused = {}};
        journal_.append(Kind::used, {Journal::bytes_of(record),
                                     {reinterpret_cast<const char*>(runs.data()), runs.size() * sizeof(GranuleRun)}});
        runs.clear();
    };
    for (std::uint32_t at = 0; at < granules; ++at) {
        if ((bits[at / 32] >> (at % 32) & 1) == 0) continue;
        if (!runs.empty() && runs.back().first + runs.back().count == at) {
            ++runs.back().count;
        } else {
            if (runs.size() == most_runs) flush();
            runs.push_back({at, 1});
        }
    }
    flush();
}

void Exact::finish() noexcept {
    if (!home_.is_here()) return;
    try {
        std::vector<Looked> rest;
        {
            const std::scoped_lock lock(mutex_);
            take([](const Looked& each) { return each.has_stream; }, rest);
            if (!looked_.empty()) say_not_waited_for();
        }
        if (!rest.empty()) wait_and_fetch(std::move(rest));
        failed_ = true;
    } catch (...) {
    }
}

namespace {

// Never freed: the Sanitizer may call back for as long as the process runs.
Exact* running = nullptr;

void show_sanitizer() {
    const char* const named = secure_getenv("FIRSTTOUCH_PROFILE_SANITIZER");
    std::vector<std::string> paths;
    std::string_view rest = named == nullptr ? "" : named;
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find(':'), rest.size());
        if (end > 0) paths.emplace_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (!paths.empty()) set_library_paths("sanitizer", std::move(paths));
}

}  // namespace

void start_exact(const char* patch) noexcept {
    const Undisturbed undisturbed;
    try {
        show_sanitizer();
        running = Exact::start(sanitizer::Api::instance(), *journal(), patch).release();
        at_exit([] { running->finish(); });
    } catch (const std::exception& reason) {
        notice(Layer::trace, "what kernels use is not seen: ", reason.what());
    } catch (...) {
        notice(Layer::trace, "what kernels use is not seen: unknown error");
    }
}

}  // namespace firsttouch::inject
