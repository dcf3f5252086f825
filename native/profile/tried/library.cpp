// What is asked of the library, what it writes, and malloc's family.
//   FIRSTTOUCH_TRY         record, a strategy to run with, or none: then nothing is changed, nor looked at
//   FIRSTTOUCH_TRY_FOLDER  where each process writes its record and its counts
//   FIRSTTOUCH_TRY_PLAN    the plan of a run
//   FIRSTTOUCH_TRY_CHECK   1: a run notes the bytes of copies too
//   FIRSTTOUCH_TRY_MOST    bytes of managed memory; by default what the device has free
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string_view>

#include "profile/tried/allocator.hpp"
#include "profile/tried/driver.hpp"
#include "profile/tried/memory.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace firsttouch::tried {
namespace {

int record = -1;
pid_t owner = 0;  // the process that the record is of

struct NamedStrategy {
    std::string_view name;
    Strategy strategy;
};
constexpr NamedStrategy strategies[] = {{"managed", Strategy::managed},
                                        {"managed+advise", Strategy::advise},
                                        {"managed+prefetch", Strategy::prefetch},
                                        {"pinned", Strategy::pinned},
                                        {"explicit+pinned", Strategy::page_locked},
                                        {"system", Strategy::system},
                                        {"managed-device", Strategy::managed_device}};

bool is_set(const char* name) {
    const char* const text = getenv(name);
    return text != nullptr && *text != '\0';
}

void add_pair(const Pair& pair) {
    Settings& plan = settings();
    plan.hosts->insert({pair.host, plan.pairs->size()});
    plan.devices->insert({pair.device, plan.pairs->size()});
    plan.pairs->push_back(pair);
    plan.sizes->insert({pair.host_bytes, pair.device_bytes});
}

void read_plan(const char* path) {
    Settings& plan = settings();
    FILE* const file = fopen(path, "re");
    if (file == nullptr) leave("the plan %s cannot be read", path);
    using Number = unsigned long long;
    char line[256];
    while (fgets(line, sizeof line, file) != nullptr) {
        Number host = 0, device = 0, host_bytes = 0, device_bytes = 0;
        unsigned host_ordinal = 0, device_ordinal = 0;
        int in = 0, back = 0;
        if (sscanf(line, "pair %llx %u %llu %llx %u %llu %d %d", &host, &host_ordinal, &host_bytes, &device,
                   &device_ordinal, &device_bytes, &in, &back) == 8)
            add_pair({.host = {host, host_ordinal},
                      .device = {device, device_ordinal},
                      .host_bytes = host_bytes,
                      .device_bytes = device_bytes,
                      .is_copied_in = in != 0,
                      .is_copied_back = back != 0});
        else if (sscanf(line, "copy %d %llx %u %llx %u", &back, &host, &host_ordinal, &device, &device_ordinal) == 5)
            plan.foreseen->insert({{host, host_ordinal}, {device, device_ordinal}, back != 0});
        else if (sscanf(line, "array %llx %u %llu", &host, &host_ordinal, &host_bytes) == 3)
            plan.arrays->insert({{host, host_ordinal}, host_bytes}), plan.sizes->insert(host_bytes);
        else if (sscanf(line, "block %llu", &device_bytes) == 1)
            plan.sizes->insert(device_bytes);
        else if (sscanf(line, "within %llx %u %llx %u", &host, &host_ordinal, &device, &device_ordinal) == 4)
            plan.within->emplace(Known{host, host_ordinal}, Known{device, device_ordinal});
        else if (sscanf(line, "fill %llx %u", &device, &device_ordinal) == 2)
            plan.filled->insert({device, device_ordinal});
        else if (sscanf(line, "query %d %llx", &back, &host) == 2)
            plan.queried->insert({host, back != 0 ? Side::device : Side::host});
        else if (strcmp(line, "by size\n") == 0)
            plan.is_by_size = true;
        else if (strcmp(line, "hip\n") == 0)
            plan.is_hip = true;
        else if (sscanf(line, "device %d", &plan.device) != 1)
            leave("the plan %s has a line that is none of a plan", path);
    }
    fclose(file);
}

void before_fork() {
    if (inside == 0 && has_array_of_ours())
        leave("the program forks while arrays are memory of the driver, which a child cannot use");
}
void in_child() {
    settings().mode = Mode::off;
    record = -1;
}

void finish();

__attribute__((constructor)) void begin() {
    const Inside inside;
    const char* const asked = getenv("FIRSTTOUCH_TRY");
    const char* const folder = getenv("FIRSTTOUCH_TRY_FOLDER");
    if (asked == nullptr || folder == nullptr) return;
    char path[4096];
    snprintf(path, sizeof path, "%s/tried-%d", folder, static_cast<int>(getpid()));
    record = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND, 0644);
    owner = getpid();
    at_quick_exit(finish);
    if (strcmp(asked, "none") == 0) return;
    settings().checks = is_set("FIRSTTOUCH_TRY_CHECK");
    settings().has_shadow = is_set("FIRSTTOUCH_SHADOW");
    if (is_set("FIRSTTOUCH_TRY_MOST")) settings().most_managed = strtoull(getenv("FIRSTTOUCH_TRY_MOST"), nullptr, 10);
    pthread_atfork(before_fork, nullptr, in_child);
    if (strcmp(asked, "record") == 0) {
        settings().mode = Mode::record;
        return;
    }
    for (const auto& [name, strategy] : strategies)
        if (name == asked) settings().strategy = strategy, settings().mode = Mode::run;
    if (settings().mode != Mode::run) leave("FIRSTTOUCH_TRY=%s is no strategy", asked);
    Settings& plan = settings();
    plan.hosts = new std::map<Known, std::size_t>, plan.devices = new std::map<Known, std::size_t>;
    plan.pairs = new std::vector<Pair>, plan.foreseen = new std::set<Foreseen>,
    plan.arrays = new std::map<Known, std::uint64_t>, plan.sizes = new std::set<std::uint64_t>,
    plan.within = new std::set<std::pair<Known, Known>>, plan.filled = new std::set<Known>,
    plan.queried = new std::map<std::uint64_t, Side>;
    if (is_set("FIRSTTOUCH_TRY_PLAN")) read_plan(getenv("FIRSTTOUCH_TRY_PLAN"));
}

// Bytes of the largest resident size of this program, as the kernel states them: proc(5), VmHWM. 0: unknown.
unsigned long long host_peak() {
    char text[4096] = "";
    const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    const std::string_view status(text, length > 0 ? static_cast<std::size_t>(length) : 0);
    constexpr std::string_view name = "VmHWM:";
    const std::size_t place = status.find(name);
    return place == status.npos ? 0 : strtoull(text + place + name.size(), nullptr, 10) << 10;
}

// kind: of the line of the record.
[[noreturn]] void end_run(char kind, const char* what, const char* format, va_list words) {
    const Inside inside;
    char sentence[512];
    vsnprintf(sentence, sizeof sentence, format, words);
    if (record >= 0) dprintf(record, "%c %s\n", kind, sentence);
    record = -1;
    dprintf(STDERR_FILENO, "firsttouch try: %s: %s\n", what, sentence);
    _exit(no_result);
}

// At the end of the process, however it ends by itself, also in a handler of signals: memory is not allocated.
__attribute__((destructor)) void finish() {
    if (record < 0 || settings().mode == Mode::record || getpid() != owner) return;
    const Inside inside;
    using Number = unsigned long long;
    Number unmet = 0;
    if (settings().is_unified())
        for (const Pair& pair : *settings().pairs) unmet += !(pair.has_had_host && pair.has_had_device);
    const Counts& all = counts();
    dprintf(record,
            "S left_out=%llu left_out_bytes=%llu made=%llu made_bytes=%llu joined_bytes=%llu managed_peak=%llu "
            "device_peak=%llu page_locked=%llu refused_hints=%llu unmet=%llu host_peak=%llu\n",
            Number{all.left_out}, Number{all.left_out_bytes}, Number{all.made}, Number{all.made_bytes},
            Number{all.joined_bytes}, Number{all.managed_peak}, Number{all.device_peak}, Number{all.page_locked},
            Number{all.refused_hints}, unmet, host_peak());
    record = -1;
}

}  // namespace

constinit Forever<Settings> kept_settings;
constinit Forever<Counts> kept_counts;

void note(const char* format, ...) {
    if (record < 0 || !settings().notes()) return;
    const int error = errno;
    va_list words;
    va_start(words, format);
    vdprintf(record, format, words);
    va_end(words);
    errno = error;
}

void leave(const char* format, ...) {
    va_list words;
    va_start(words, format);
    end_run('X', "the run has left the plan", format, words);
}

void give_up(const char* format, ...) {
    va_list words;
    va_start(words, format);
    end_run('U', "the strategy is not possible here", format, words);
}

}  // namespace firsttouch::tried

using namespace firsttouch::tried;

namespace {

// Whether an allocation is to be noted, or memory is to be had from the plan.
bool is_array(std::size_t bytes) { return bytes >= settings().least && is_watching(); }

// Whether memory that the program frees was this library's, which has it back now.
__attribute__((noinline)) bool has_taken_back(void* address) {
    const int error = errno;
    const bool is_ours = release(reinterpret_cast<Address>(address), Side::host) == Released::ours;
    errno = error;
    return is_ours;
}

}  // namespace

EXPORTED void _exit(int status) {
    finish();
    for (;;) syscall(SYS_exit_group, status);
}
EXPORTED void _Exit(int status) { _exit(status); }

EXPORTED void* malloc(std::size_t bytes) {
    void* const array = is_array(bytes) ? allocate_array(bytes, 0, false) : nullptr;
    return array != nullptr ? array : next_allocator.malloc(bytes);
}
EXPORTED void* calloc(std::size_t count, std::size_t bytes) {
    std::size_t all = 0;
    const bool is_too_large = __builtin_mul_overflow(count, bytes, &all);
    void* const array = !is_too_large && is_array(all) ? allocate_array(all, 0, true) : nullptr;
    return array != nullptr ? array : next_allocator.calloc(count, bytes);
}
namespace {
void* allocate_aligned(std::size_t alignment, std::size_t bytes) {
    constexpr std::size_t page = 4096;
    const bool is_power = alignment != 0 && (alignment & (alignment - 1)) == 0;
    return is_power && alignment <= page && is_array(bytes) ? allocate_array(bytes, alignment, false) : nullptr;
}
}  // namespace
EXPORTED void* memalign(std::size_t alignment, std::size_t bytes) {
    void* const array = allocate_aligned(alignment, bytes);
    return array != nullptr ? array : next_allocator.memalign(alignment, bytes);
}
EXPORTED void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
    void* const array = allocate_aligned(alignment, bytes);
    return array != nullptr ? array : next_allocator.aligned_alloc(alignment, bytes);
}
EXPORTED int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
    void* const array = alignment % sizeof(void*) == 0 ? allocate_aligned(alignment, bytes) : nullptr;
    return array != nullptr ? (*out = array, 0) : next_allocator.posix_memalign(out, alignment, bytes);
}
EXPORTED void free(void* address) {
    if (may_be_array(reinterpret_cast<Address>(address)) && has_taken_back(address)) return;
    next_allocator.free(address);
}
EXPORTED void* realloc(void* address, std::size_t bytes) {
    const auto base = reinterpret_cast<Address>(address);
    if (address == nullptr) return malloc(bytes);
    if (!is_watching()) return next_allocator.realloc(address, bytes);
    const auto array = may_be_array(base) ? find(base, Side::host) : std::nullopt;
    const bool is_known = array && array->base == base;
    if (!is_known && bytes < settings().least) return next_allocator.realloc(address, bytes);
    if (bytes == 0) return free(address), nullptr;
    return resize_array(address, is_known ? &*array : nullptr, bytes);
}
EXPORTED std::size_t malloc_usable_size(void* address) {
    const auto base = reinterpret_cast<Address>(address);
    const auto array = may_be_array(base) ? find(base, Side::host) : std::nullopt;
    return array && array->is_ours ? array->bytes : next_allocator.malloc_usable_size(address);
}
