// A stand-in for CUPTI in tests. It has the functions that the core uses, and records no real events: every flush by
// the thread that subscribed delivers the records of `script`, dated one millisecond ago, or at its last flush if that
// was later. It is built as a library for the tests in Python, and into the native tests. A program may also play the
// driver, by the functions at the end: what it does through them is called back and recorded as CUPTI does. What is
// called when the library has ended crashes. Environment variables inject failures:
//   STANDIN_CUPTI_FAILS     function=code, such as cuptiSubscribe=39
//   STANDIN_CUPTI_REFUSES   counter kinds that configuring refuses, such as 5678
//   STANDIN_CUPTI_VERSION   what cuptiGetVersion returns; 130202 by default
//   STANDIN_CUPTI_REPEAT    how often each flush delivers the script
//   STANDIN_CUPTI_ROOM      how many unified-memory events that a program plays are kept until the next flush; further
//                           ones are dropped without being counted
//   STANDIN_CUPTI_DROPPED   added to what cuptiActivityGetNumDroppedRecords returns
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "events/cupti_api.hpp"

namespace {

using namespace firsttouch::cupti;

using Bytes = std::vector<std::uint8_t>;  // a record

struct State {
    std::mutex mutex;
    bool subscribed = false, enabled = false;
    std::thread::id subscriber;
    Callback callback = nullptr;
    void* user = nullptr;
    std::set<std::pair<int, std::uint32_t>> called_back;  // domain and id
    std::set<int> activities;
    std::vector<Bytes> done;  // what a program did and was not delivered yet
    std::size_t done_bytes = 0, done_events = 0;
    std::uint32_t correlation = 0;
    std::string kinds;
    RequestBuffer request = nullptr;
    CompleteBuffer complete = nullptr;
    std::uint64_t last = 0;
    std::size_t dropped = 0;
    bool may_lose_times = false;  // its version does, and it records both kinds of copies
    bool is_unmapped = false;     // what the next new graph writes its times to
    std::atomic<bool> has_ended{false};
};
State& state = *new State;
__attribute__((destructor)) void end_library() { state.has_ended = true; }
void crash_after_end() {
    if (state.has_ended) raise(SIGSEGV);
}

std::string setting(const char* name, const char* fallback = "") {
    const char* text = std::getenv(name);
    return text != nullptr ? text : fallback;
}

Result failure(const std::string& function) {
    const std::string injected = setting("STANDIN_CUPTI_FAILS");
    return injected.rfind(function + "=", 0) == 0 ? std::stoi(injected.substr(function.size() + 1)) : 0;
}

std::uint32_t version() { return static_cast<std::uint32_t>(std::stoul(setting("STANDIN_CUPTI_VERSION", "130202"))); }

std::uint64_t clock_now() {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return std::uint64_t(now.tv_sec) * 1'000'000'000 + std::uint64_t(now.tv_nsec);
}

struct ScriptedRecord {
    int kind;
    std::uint64_t value, address;
    std::uint32_t source, target, flags;
};
const ScriptedRecord script[] = {
    {bytes_h2d, 2 << 20, 0x200000, cpu_id, 0, 2},
    {bytes_h2d, 64 << 10, 0x400000, cpu_id, 0, 1},
    {bytes_d2h, 4096, 0x200000, 0, cpu_id, 4},
    {cpu_page_fault, reinterpret_cast<std::uint64_t>(&std::strtoul), 0x201000, 77, 77, 2},
    {gpu_page_fault, 7, 0x202000, 0, 77, 1},
    {thrashing, 64 << 10, 0x210000, 0b11, 77, 1},
    {throttling, 99, 0x211000, 0, 77, 0},
    {remote_map, 4096, 0x212000, 0, cpu_id, 3},
    {bytes_d2d, 8192, 0x600000, 0, 1, 5},
};

std::size_t record_bytes() {
    return version() >= version_with_processors ? sizeof(CounterRecord3) : sizeof(CounterRecord);
}

CounterRecord3 record_of(const ScriptedRecord& scripted, std::uint64_t from, std::uint64_t to) {
    const std::uint64_t start = std::max(from, to - 1'000'000);
    CounterRecord3 record{};
    record.prefix = {.kind = unified_memory_counter,
                     .counter_kind = scripted.kind,
                     .value = scripted.value,
                     .start = start,
                     .end = start + (to - start) / 2,
                     .address = scripted.address,
                     .source = scripted.source,
                     .target = scripted.target,
                     .stream = 99,
                     .process = 1,
                     .flags = scripted.flags,
                     .pad = 0xFFFF};
    if (scripted.kind == thrashing) record.processors[0] = 0b11, record.processors[1] = 1;
    return record;
}

// The sizes of CUDA 13.0. What the core does not declare stays zero.
std::size_t bytes_of_kind(int kind) {
    if (kind == unified_memory_counter) return record_bytes();
    if (kind == concurrent_kernels) return 216;
    if (kind == copies || kind == copies_between_devices) return 96;
    if (kind == fills) return 88;
    return kind == memory_operations ? 128 : 0;
}

struct View {
    const void* data;
    std::size_t size;
};
View view_of(const CounterRecord3& record) { return {&record, record_bytes()}; }
View view_of(const Bytes& record) { return {record.data(), record.size()}; }

// Delivers records in buffers that it requests, and completes each buffer when it is full.
template <class Record>
void deliver_all(const std::vector<Record>& records) {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, used = 0, most = 0;
    for (const Record& record : records) {
        const View view = view_of(record);
        if (buffer != nullptr && used + view.size > size)
            state.complete(nullptr, 0, std::exchange(buffer, nullptr), size, used);
        if (buffer == nullptr) state.request(&buffer, &size, &most), used = 0;
        if (buffer == nullptr) {
            const std::scoped_lock lock(state.mutex);
            ++state.dropped;
            continue;
        }
        std::memcpy(buffer + used, view.data, view.size);
        used += view.size;
    }
    if (buffer != nullptr) state.complete(nullptr, 0, buffer, size, used);
}
void deliver(const std::vector<CounterRecord3>& records) { deliver_all(records); }

void deliver_done() {
    std::vector<Bytes> records;
    {
        const std::scoped_lock lock(state.mutex);
        records.swap(state.done);
        state.done_bytes = state.done_events = 0;
    }
    deliver_all(records);
}

// As CUPTI of CUDA 12.9, 13.0 and 13.1 does it in a flush of copies.
void lose_times_of_graphs() {
    const std::scoped_lock lock(state.mutex);
    if (!state.may_lose_times) return;
    for (const Bytes& record : state.done) {
        int kind = 0;
        std::memcpy(&kind, record.data(), sizeof kind);
        state.is_unmapped |= kind == copies;
    }
}

std::size_t room() { return std::stoul(setting("STANDIN_CUPTI_ROOM", "1000000000")); }

// Keeps a record until the next flush, or until there are as many as a buffer holds.
template <class Record>
void add_done(const Record& record) {
    bool is_full = false;
    {
        const std::scoped_lock lock(state.mutex);
        if (!state.activities.contains(record.kind)) return;
        if (record.kind == unified_memory_counter && state.done_events++ >= room()) return;
        Bytes bytes(bytes_of_kind(record.kind));
        std::memcpy(bytes.data(), &record, std::min(bytes.size(), sizeof record));
        state.done.push_back(std::move(bytes));
        state.done_bytes += state.done.back().size();
        is_full = state.done_bytes > 1 << 20;
    }
    if (is_full) deliver_done();
}

// What a thread is within: the number of its innermost call, 0 outside, and the kernel that its next call launches.
thread_local std::uint32_t within = 0;
thread_local const char* launched = nullptr;

// Calls back at the enter and the exit of a function of the driver. Returns the number of the call.
template <class Work>
std::uint32_t call(std::uint32_t id, const char* name, Work&& work, const void* parameters = nullptr,
                   void* result = nullptr) {
    static int context = 0;
    std::uint64_t kept_until_exit = 0;
    CallData data{.site = entering,
                  .function = name,
                  .parameters = parameters,
                  .result = result,
                  .symbol = std::exchange(launched, nullptr),
                  .context = &context,
                  .context_id = 1,
                  .data = &kept_until_exit};
    bool is_called_back = false;
    {
        const std::scoped_lock lock(state.mutex);
        data.correlation = ++state.correlation;
        is_called_back = state.callback != nullptr && state.called_back.contains({driver_calls, id});
    }
    if (is_called_back) state.callback(state.user, driver_calls, id, &data);
    const std::uint32_t outer = std::exchange(within, data.correlation);
    work(data.correlation);
    within = outer;
    data.site = leaving;
    if (is_called_back) state.callback(state.user, driver_calls, id, &data);
    return data.correlation;
}

}  // namespace

#define ENTRY extern "C" __attribute__((visibility("default"))) Result
#define MAY_FAIL                                                                                                       \
    if (const Result code = failure(__func__); code != 0) return code

ENTRY cuptiGetVersion(std::uint32_t* out) { return *out = version(), 0; }
ENTRY cuptiGetResultString(Result, const char** text) { return *text = "STANDIN_ERROR", 0; }
ENTRY cuptiSubscribe(Subscriber* out, Callback callback, void* user) {
    MAY_FAIL;
    if (out == nullptr || callback == nullptr) return 1;
    if (state.subscribed) return another_subscriber;
    state.subscribed = true;
    state.subscriber = std::this_thread::get_id();
    state.callback = callback, state.user = user;
    *out = reinterpret_cast<Subscriber>(&state);
    return 0;
}
ENTRY cuptiUnsubscribe(Subscriber) {
    const std::scoped_lock lock(state.mutex);
    state.callback = nullptr;
    state.called_back.clear();
    return state.subscribed = false, 0;
}
ENTRY cuptiEnableCallback(std::uint32_t enable, Subscriber, int domain, std::uint32_t id) {
    MAY_FAIL;
    const std::scoped_lock lock(state.mutex);
    if (enable == 0)
        state.called_back.erase({domain, id});
    else
        state.called_back.emplace(domain, id);
    return 0;
}
ENTRY cuptiActivityRegisterCallbacks(RequestBuffer request, CompleteBuffer complete) {
    MAY_FAIL;
    state.request = request, state.complete = complete;
    return 0;
}
ENTRY cuptiActivityConfigureUnifiedMemoryCounter(CounterConfig* configs, std::uint32_t count) {
    MAY_FAIL;
    std::string kinds;
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::string kind = std::to_string(configs[i].kind);
        if (configs[i].enable == 0 || setting("STANDIN_CUPTI_REFUSES").find(kind) != std::string::npos) return 1;
        kinds += kind;
    }
    state.kinds = kinds;
    return 0;
}
ENTRY cuptiActivityEnable(int kind) {
    MAY_FAIL;
    if (bytes_of_kind(kind) == 0) return 21;
    const std::scoped_lock lock(state.mutex);
    state.activities.insert(kind);
    const bool is_such = (version() >= 27 && version() <= 28) || (version() >= 130'000 && version() < 130'200);
    state.may_lose_times =
        is_such && state.activities.contains(copies) && state.activities.contains(copies_between_devices);
    if (kind == unified_memory_counter) state.enabled = true, state.last = clock_now();
    return 0;
}
ENTRY cuptiActivityDisable(int kind) {
    const std::scoped_lock lock(state.mutex);
    state.activities.erase(kind);
    state.may_lose_times = state.is_unmapped = false;
    if (kind == unified_memory_counter) state.enabled = false;
    return 0;
}
ENTRY cuptiActivityFlushAll(std::uint32_t) {
    crash_after_end();
    if (state.request == nullptr) return 7;
    lose_times_of_graphs();
    deliver_done();
    if (state.subscriber != std::this_thread::get_id()) return 0;  // tests change variables meanwhile
    MAY_FAIL;
    const std::uint64_t from = std::exchange(state.last, clock_now());
    std::vector<CounterRecord3> records;
    for (int i = std::stoi(setting("STANDIN_CUPTI_REPEAT", "1")); state.enabled && i > 0; --i)
        for (const ScriptedRecord& scripted : script)
            if (state.kinds.find(std::to_string(scripted.kind)) != std::string::npos)
                records.push_back(record_of(scripted, from, state.last));
    deliver(records);
    return 0;
}
ENTRY cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, Record** record) {
    std::uint8_t* next = buffer;
    if (*record != nullptr) next = reinterpret_cast<std::uint8_t*>(*record) + bytes_of_kind((*record)->kind);
    if (next + sizeof(Record) > buffer + valid) return end_of_buffer;
    *record = reinterpret_cast<Record*>(next);
    return 0;
}
ENTRY cuptiActivityGetNumDroppedRecords(void*, std::uint32_t, std::size_t* out) {
    MAY_FAIL;
    const std::scoped_lock lock(state.mutex);
    *out = std::exchange(state.dropped, 0) + std::stoul(setting("STANDIN_CUPTI_DROPPED", "0"));
    return 0;
}
#ifndef STANDIN_CUPTI_IS_OLD
ENTRY cuptiGetTimestamp(std::uint64_t* out) {
    crash_after_end();
    MAY_FAIL;
    return *out = clock_now(), 0;
}
#endif

// What a program does that plays the driver. Records are dated now and last a microsecond.
#define PLAYED extern "C" __attribute__((visibility("default"))) void

// A call of the driver with its parameters, a structure as cupti's generated_cuda_meta.h declares it. body does it and
// returns the driver's result; what it records by the functions below has the number of this call. Returns the result.
extern "C" __attribute__((visibility("default"))) int
standin_call(std::uint32_t id, const char* function, const void* parameters, int (*body)(void*), void* user) {
    int result = 0;
    call(
        id, function, [&](std::uint32_t) { result = body == nullptr ? 0 : body(user); }, parameters, &result);
    return result;
}
// The next call of this thread launches this kernel, by its mangled name.
PLAYED standin_launches(const char* kernel) { launched = kernel; }
// The number of the call that this thread is within.
extern "C" __attribute__((visibility("default"))) std::uint32_t standin_correlation() { return within; }

PLAYED standin_init() {
    call(call_init, "cuInit", [](std::uint32_t) {});
}
// A graph that copies between two kernels is launched for the first time. Returns the driver's result.
extern "C" __attribute__((visibility("default"))) int standin_launch_new_graph() {
    int result = 0;
    call(
        514, "cuGraphLaunch",
        [&](std::uint32_t) {
            const std::scoped_lock lock(state.mutex);
            result = state.is_unmapped ? 719 : 0;
        },
        nullptr, &result);
    return result;
}
// A context ends. What was not delivered before is lost.
PLAYED standin_end_context() {
    bool is_called_back = false;
    {
        const std::scoped_lock lock(state.mutex);
        is_called_back = state.callback != nullptr && state.called_back.contains({resources, context_ends});
    }
    if (is_called_back) state.callback(state.user, resources, context_ends, nullptr);
    const std::scoped_lock lock(state.mutex);
    state.done.clear();
    state.done_bytes = 0;
}
// id: of the driver's function; memory: the kind, as CUPTI numbers them.
PLAYED standin_allocate(std::uint32_t id, int memory, std::uint64_t address, std::uint64_t bytes) {
    call(id, "allocate", [&](std::uint32_t correlation) {
        MemoryRecord record{};
        record.kind = memory_operations, record.operation = 1, record.memory = memory;
        record.correlation = correlation;
        record.address = address, record.bytes = bytes, record.timestamp = clock_now();
        add_done(record);
    });
}
PLAYED standin_free(int memory, std::uint64_t address, std::uint64_t bytes) {
    MemoryRecord record{};
    record.kind = memory_operations, record.operation = 2, record.memory = memory, record.correlation = within;
    record.address = address, record.bytes = bytes, record.timestamp = clock_now();
    add_done(record);
}
PLAYED standin_copy(std::uint8_t direction, std::uint64_t bytes) {
    CopyRecord record{};
    record.kind = copies, record.direction = direction, record.source = 1, record.target = 3;
    record.correlation = within;
    record.bytes = bytes, record.start = clock_now(), record.end = record.start + 1000;
    add_done(record);
}
PLAYED standin_copy_between(std::uint32_t source, std::uint32_t target, std::uint64_t bytes) {
    PeerCopyRecord record{};
    record.kind = copies_between_devices, record.direction = 10, record.source = record.target = 3;
    record.correlation = within;
    record.source_device = source, record.target_device = target;
    record.bytes = bytes, record.start = clock_now(), record.end = record.start + 1000;
    add_done(record);
}
PLAYED standin_fill(std::uint64_t bytes) {
    FillRecord record{};
    record.kind = fills, record.memory = 3;
    record.correlation = within;
    record.bytes = bytes, record.start = clock_now(), record.end = record.start + 1000;
    add_done(record);
}
PLAYED standin_kernel(const char* name, int is_complete) {
    KernelRecord record{};
    record.kind = concurrent_kernels, record.name = name, record.stream = 7;
    record.correlation = within;
    record.start = clock_now(), record.end = is_complete != 0 ? record.start + 1000 : 0;
    add_done(record);
}
PLAYED standin_move(int counter, std::uint64_t address, std::uint64_t value, std::uint32_t flags) {
    const std::uint64_t time = clock_now();
    CounterRecord3 record = record_of({counter, value, address, 0, 0, flags}, time, time);
    record.prefix.end = time + 1000;
    add_done(record.prefix);
}

// What a call of standin_call did, with the details that the functions above leave out.
PLAYED standin_memory(int operation, int memory, std::uint64_t address, std::uint64_t bytes, const char* name,
                      int device) {
    MemoryRecord record{};
    record.kind = memory_operations, record.operation = operation, record.memory = memory;
    record.correlation = within, record.name = name, record.device = static_cast<std::uint32_t>(device);
    record.address = address, record.bytes = bytes, record.timestamp = clock_now();
    add_done(record);
}
PLAYED standin_copied(int direction, int source, int target, std::uint64_t bytes, std::uint32_t stream) {
    CopyRecord record{};
    record.kind = copies, record.direction = static_cast<std::uint8_t>(direction);
    record.source = static_cast<std::uint8_t>(source), record.target = static_cast<std::uint8_t>(target);
    record.bytes = bytes, record.stream = stream, record.correlation = within;
    record.start = clock_now(), record.end = record.start + 1000;
    add_done(record);
}
PLAYED standin_ran(const char* name, const std::uint32_t* grid, const std::uint32_t* block, std::uint32_t stream) {
    KernelRecord record{};
    record.kind = concurrent_kernels, record.name = name, record.stream = stream, record.correlation = within;
    std::copy_n(grid, 3, record.grid), std::copy_n(block, 3, record.block);
    record.start = clock_now(), record.end = record.start + 1000;
    add_done(record);
}
