// What is asked of the library, what it writes, and malloc's family.
//   FIRSTTOUCH_TRY         record, or a strategy to run with
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
#include <unistd.h>

#include <string_view>

#include "profile/tried/driver.hpp"
#include "profile/tried/memory.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

extern "C" {
void* __libc_malloc(std::size_t);
std::size_t malloc_usable_size(void*);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
}

namespace firsttouch::tried {
namespace {

int record = -1;

struct NamedStrategy {
    std::string_view name;
    Strategy strategy;
};
constexpr NamedStrategy strategies[] = {{"none", Strategy::none},
                                        {"managed", Strategy::managed},
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
            plan.arrays->insert({{host, host_ordinal}, host_bytes});
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

__attribute__((constructor)) void begin() {
    const Inside inside;
    const char* const asked = getenv("FIRSTTOUCH_TRY");
    const char* const folder = getenv("FIRSTTOUCH_TRY_FOLDER");
    if (asked == nullptr || folder == nullptr) return;
    char path[4096];
    snprintf(path, sizeof path, "%s/tried-%d", folder, static_cast<int>(getpid()));
    record = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND, 0644);
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
    plan.arrays = new std::map<Known, std::uint64_t>;
    if (is_set("FIRSTTOUCH_TRY_PLAN")) read_plan(getenv("FIRSTTOUCH_TRY_PLAN"));
}

// Bytes of the largest resident size of this program, as the kernel states them: proc(5), VmHWM. 0: unknown.
unsigned long long host_peak() {
    FILE* const file = fopen("/proc/self/status", "re");
    unsigned long long kibibytes = 0;
    char line[256];
    while (file != nullptr && fgets(line, sizeof line, file) != nullptr)
        if (sscanf(line, "VmHWM: %llu", &kibibytes) == 1) break;
    if (file != nullptr) fclose(file);
    return kibibytes << 10;
}

__attribute__((destructor)) void finish() {
    if (settings().mode != Mode::run) return;
    const Inside inside;
    using Number = unsigned long long;
    Number unmet = 0;
    for (const Pair& pair : *settings().pairs) unmet += !(pair.has_had_host && pair.has_had_device);
    const Counts& all = counts();
    dprintf(record,
            "S left_out=%llu left_out_bytes=%llu made=%llu made_bytes=%llu joined_bytes=%llu managed_peak=%llu "
            "device_peak=%llu page_locked=%llu refused_hints=%llu unmet=%llu host_peak=%llu\n",
            Number{all.left_out}, Number{all.left_out_bytes}, Number{all.made}, Number{all.made_bytes},
            Number{all.joined_bytes}, Number{all.managed_peak}, Number{all.device_peak}, Number{all.page_locked},
            Number{all.refused_hints}, settings().is_unified() ? unmet : 0, host_peak());
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
    const Inside inside;
    char sentence[512];
    va_list words;
    va_start(words, format);
    vsnprintf(sentence, sizeof sentence, format, words);
    va_end(words);
    if (record >= 0) dprintf(record, "X %s\n", sentence);
    dprintf(STDERR_FILENO, "firsttouch try: the run has left the plan: %s\n", sentence);
    _exit(left_the_plan);
}

}  // namespace firsttouch::tried

using namespace firsttouch::tried;

EXPORTED void* malloc(std::size_t bytes) {
    void* const array = allocate_array(bytes, 0, false);
    return array != nullptr ? array : __libc_malloc(bytes);
}
EXPORTED void* calloc(std::size_t count, std::size_t bytes) {
    std::size_t all = 0;
    void* const array = __builtin_mul_overflow(count, bytes, &all) ? nullptr : allocate_array(all, 0, true);
    return array != nullptr ? array : __libc_calloc(count, bytes);
}
EXPORTED void* memalign(std::size_t alignment, std::size_t bytes) {
    void* const array = alignment <= 4096 ? allocate_array(bytes, alignment, false) : nullptr;
    return array != nullptr ? array : __libc_memalign(alignment, bytes);
}
EXPORTED void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
EXPORTED int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
    const bool is_power = alignment != 0 && (alignment & (alignment - 1)) == 0;
    if (!is_power || alignment % sizeof(void*) != 0) return EINVAL;
    void* const array = memalign(alignment, bytes);
    if (array == nullptr) return ENOMEM;
    *out = array;
    return 0;
}
EXPORTED void free(void* address) {
    const auto base = reinterpret_cast<Address>(address);
    if (may_be_array(base) && is_watching() && release(base, Side::host) == Released::ours) return;
    __libc_free(address);
}
EXPORTED void* realloc(void* address, std::size_t bytes) {
    const auto base = reinterpret_cast<Address>(address);
    if (address == nullptr) return malloc(bytes);
    if (!is_watching()) return __libc_realloc(address, bytes);
    const auto array = may_be_array(base) ? find(base, Side::host) : std::nullopt;
    const bool is_known = array && array->base == base;
    if (!is_known && bytes < settings().least) return __libc_realloc(address, bytes);
    if (bytes == 0) return free(address), nullptr;
    return resize_array(address, is_known ? &*array : nullptr, bytes);
}
EXPORTED std::size_t malloc_usable_size(void* address) {
    const auto array = may_be_array(reinterpret_cast<Address>(address))
                           ? find(reinterpret_cast<Address>(address), Side::host)
                           : std::nullopt;
    if (array && array->is_ours) return array->bytes;
    const Inside inside;
    static const auto next = reinterpret_cast<std::size_t (*)(void*)>(next_dlsym(RTLD_NEXT, "malloc_usable_size"));
    return next(address);
}
