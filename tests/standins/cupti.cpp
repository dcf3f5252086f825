// A stand-in for CUPTI in tests. It has the functions that the core uses, and records no real events: every flush
// delivers the records of `script`, dated one millisecond ago, or at the last flush if that was later. It is built as a
// library for the tests in Python, and into the native tests. Environment variables inject failures:
//   STANDIN_CUPTI_FAILS     function=code, such as cuptiSubscribe=39
//   STANDIN_CUPTI_REFUSES   counter kinds that configuring refuses, such as 5678
//   STANDIN_CUPTI_VERSION   what cuptiGetVersion returns; 130000 by default
//   STANDIN_CUPTI_REPEAT    how often each flush delivers the script
//   STANDIN_CUPTI_DROPPED   added to what cuptiActivityGetNumDroppedRecords returns
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "events/cupti_api.hpp"

namespace {

using namespace firsttouch::cupti;

struct State {
    std::mutex mutex;
    bool subscribed = false, enabled = false;
    std::string kinds;
    RequestBuffer request = nullptr;
    CompleteBuffer complete = nullptr;
    std::uint64_t last = 0;
    std::size_t dropped = 0;
};
State state;

std::string setting(const char* name, const char* fallback = "") {
    const char* text = std::getenv(name);
    return text != nullptr ? text : fallback;
}

Result failure(const std::string& function) {
    const std::string injected = setting("STANDIN_CUPTI_FAILS");
    return injected.rfind(function + "=", 0) == 0 ? std::stoi(injected.substr(function.size() + 1)) : 0;
}

std::uint32_t version() { return static_cast<std::uint32_t>(std::stoul(setting("STANDIN_CUPTI_VERSION", "130000"))); }

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

// Delivers records in buffers that it requests, and completes each buffer when it is full.
void deliver(const std::vector<CounterRecord3>& records) {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, used = 0, most = 0;
    for (const CounterRecord3& record : records) {
        if (buffer != nullptr && used + record_bytes() > size)
            state.complete(nullptr, 0, std::exchange(buffer, nullptr), size, used);
        if (buffer == nullptr) state.request(&buffer, &size, &most), used = 0;
        if (buffer == nullptr) {
            const std::scoped_lock lock(state.mutex);
            ++state.dropped;
            continue;
        }
        std::memcpy(buffer + used, &record, record_bytes());
        used += record_bytes();
    }
    if (buffer != nullptr) state.complete(nullptr, 0, buffer, size, used);
}

}  // namespace

#define ENTRY extern "C" __attribute__((visibility("default"))) Result
#define MAY_FAIL                                                                                                       \
    if (const Result code = failure(__func__); code != 0) return code

ENTRY cuptiGetVersion(std::uint32_t* out) { return *out = version(), 0; }
ENTRY cuptiGetResultString(Result, const char** text) { return *text = "STANDIN_ERROR", 0; }
ENTRY cuptiSubscribe(Subscriber* out, Callback callback, void*) {
    MAY_FAIL;
    if (out == nullptr || callback == nullptr) return 1;
    if (state.subscribed) return another_subscriber;
    state.subscribed = true;
    *out = reinterpret_cast<Subscriber>(&state);
    return 0;
}
ENTRY cuptiUnsubscribe(Subscriber) { return state.subscribed = false, 0; }
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
    if (kind != unified_memory_counter) return 21;
    state.enabled = true, state.last = clock_now();
    return 0;
}
ENTRY cuptiActivityDisable(int) { return state.enabled = false, 0; }
ENTRY cuptiActivityFlushAll(std::uint32_t) {
    MAY_FAIL;
    if (state.request == nullptr) return 7;
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
    std::uint8_t* const next = *record == nullptr ? buffer : reinterpret_cast<std::uint8_t*>(*record) + record_bytes();
    if (next + record_bytes() > buffer + valid) return end_of_buffer;
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
    MAY_FAIL;
    return *out = clock_now(), 0;
}
#endif
