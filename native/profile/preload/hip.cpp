// Preloaded into every process of a program that is traced, for the sake of those that use HIP. It is small, needs only
// the C library, changes nothing until the first call of HIP, and then opens the recorder that lies beside it. If that
// is not there, or nothing is to be recorded, the program calls its runtime as it would.
#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <string.h>

#include "profile/inject/front/hip/calls.hpp"

namespace firsttouch::hip_front {
namespace {

enum Function : unsigned {
#define CALL(place, name, parameters, arguments) of_##name,
    FIRSTTOUCH_HIP_CALLS(CALL)
#undef CALL
#define CALL(place, type, name, parameters, arguments) of_##name,
        FIRSTTOUCH_HIP_COMPILER_CALLS(CALL)
#undef CALL
            functions
};

constexpr const char* names[functions] = {
#define CALL(place, name, parameters, arguments) #name,
    FIRSTTOUCH_HIP_CALLS(CALL)
#undef CALL
#define CALL(place, type, name, parameters, arguments) #name,
        FIRSTTOUCH_HIP_COMPILER_CALLS(CALL)
#undef CALL
};

void* exported[functions];  // by the runtime
void* called[functions];

using Take = void (*)(void* (*find)(const char*), void* const* exported, void** called);
using TakeTable = void (*)(const char* name, void* table);
Take take = nullptr;
TakeTable take_table = nullptr;

// The lock of all above. The runtime may hand its tables over while a thread holds it.
bool lock = false;
__attribute__((tls_model("initial-exec"))) __thread bool has_lock = false;  // without the loader's help

class Locked {
  public:
    Locked() : is_outer_(!has_lock) {
        while (is_outer_ && __atomic_test_and_set(&lock, __ATOMIC_ACQUIRE)) sched_yield();
        has_lock = true;
    }
    ~Locked() {
        if (!is_outer_) return;
        has_lock = false;
        __atomic_clear(&lock, __ATOMIC_RELEASE);
    }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

  private:
    const bool is_outer_;
};

// The library of a runtime that was opened for some libraries alone, as packages of Python do.
void* local_runtime() {
    char path[4096] = "";
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* found) {
            const char* const slash = strrchr(info->dlpi_name, '/');
            const char* const name = slash == nullptr ? info->dlpi_name : slash + 1;
            if (strncmp(name, "libamdhip64.so", 14) != 0 || strlen(info->dlpi_name) >= sizeof path) return 0;
            strcpy(static_cast<char*>(found), info->dlpi_name);
            return 1;
        },
        path);
    return path[0] == '\0' ? nullptr : dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
}

void* find(const char* name) {
    if (void* const next = dlsym(RTLD_NEXT, name); next != nullptr) return next;
    void* const runtime = local_runtime();
    if (runtime == nullptr) return nullptr;
    void* const function = dlsym(runtime, name);
    dlclose(runtime);
    return function;
}

void open_recorder() {
    static bool is_tried = false;
    if (is_tried) return;
    is_tried = true;
    void* const recorder = dlopen("$ORIGIN/libfirsttouch_inject.so", RTLD_LAZY | RTLD_LOCAL);
    if (recorder == nullptr) return;
    take = reinterpret_cast<Take>(dlsym(recorder, "firsttouch_hip_functions"));
    take_table = reinterpret_cast<TakeTable>(dlsym(recorder, "firsttouch_hip_table"));
}

void choose_called() {
    if (take != nullptr) return take(&find, exported, called);
    for (unsigned i = 0; i < functions; ++i) __atomic_store_n(&called[i], exported[i], __ATOMIC_RELEASE);
}

// What to call for a function; null if no runtime has it.
void* function_of(unsigned i) {
    if (void* const known = __atomic_load_n(&called[i], __ATOMIC_ACQUIRE); known != nullptr) return known;
    const Locked locked;
    if (called[i] != nullptr) return called[i];
    open_recorder();
    bool is_found = false;
    for (unsigned k = 0; k < functions; ++k)
        if (exported[k] == nullptr) is_found |= (exported[k] = find(names[k])) != nullptr;
    if (is_found) choose_called();
    return called[i];
}

}  // namespace
}  // namespace firsttouch::hip_front

#define EXPORTED extern "C" __attribute__((visibility("default")))

using namespace firsttouch::hip_front;

#define CALL(place, name, parameters, arguments)                                                                       \
    EXPORTED Error name parameters {                                                                                   \
        void* const function = function_of(of_##name);                                                                 \
        return function == nullptr ? no_device : reinterpret_cast<Error(*) parameters>(function) arguments;            \
    }
FIRSTTOUCH_HIP_CALLS(CALL)
#undef CALL
#define CALL(place, type, name, parameters, arguments)                                                                 \
    EXPORTED type name parameters {                                                                                    \
        void* const function = function_of(of_##name);                                                                 \
        using Result = type;                                                                                           \
        return function == nullptr ? Result() : reinterpret_cast<Result(*) parameters>(function) arguments;            \
    }
FIRSTTOUCH_HIP_COMPILER_CALLS(CALL)
#undef CALL

// rocprofiler-register, to which a runtime hands its tables, looks for the second where it finds the first.
EXPORTED void* rocprofiler_configure(std::uint32_t, const char*, std::uint32_t, void*) { return nullptr; }

EXPORTED int rocprofiler_set_api_table(const char* name, std::uint64_t version, std::uint64_t instance, void** tables,
                                       std::uint64_t count) {
    {
        const Locked locked;
        open_recorder();
        if (take_table != nullptr && count > 0) {
            take_table(name, tables[0]);
            choose_called();
        }
    }
    using Next = int (*)(const char*, std::uint64_t, std::uint64_t, void**, std::uint64_t);
    const auto next = reinterpret_cast<Next>(dlsym(RTLD_NEXT, "rocprofiler_set_api_table"));
    return next == nullptr ? 0 : next(name, version, instance, tables, count);
}
