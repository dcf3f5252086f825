// What calls of HIP cost with the trace and without, over a runtime that does nothing.
//
//     reference_hip LIBRARY BATCHES
//
// LIBRARY: a libfirsttouch_inject.so, which gets the runtime's table of functions as a tool gets it. Prints for each
// case its name, and the nanoseconds of processor time of one call without and with the trace, the least of all
// batches, which alternate.
#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "profile/inject/front/hip/calls.hpp"

using namespace firsttouch::hip_front;

namespace {

#define PLACE(place, name, parameters, arguments) place_of_##name = place,
#define PLACE_OF_COMPILER(place, type, name, parameters, arguments) place_of_##name = place,
enum Place : unsigned {
    FIRSTTOUCH_HIP_CALLS(PLACE) FIRSTTOUCH_HIP_QUESTIONS(PLACE) FIRSTTOUCH_HIP_COMPILER_CALLS(PLACE_OF_COMPILER)
};
#define CALL(place, name, parameters, arguments) using name##_type = Error(*) parameters;
FIRSTTOUCH_HIP_CALLS(CALL)
#undef CALL

struct Table {
    std::size_t bytes = sizeof(Table);
    void* functions[512] = {};
    template <class Function>
    void set(unsigned place, Function* function) {
        functions[place] = reinterpret_cast<void*>(function);
    }
};

char memory[1 << 20];
Error allocate(void** at, Size) { return *at = memory, 0; }
Error free_memory(void*) { return 0; }
Error copy(void*, const void*, Size, int) { return 0; }
Error launch(const void*, Dim3, Dim3, void**, Size, Stream) { return 0; }
Error wait() { return 0; }
void** register_binary(const void*) {
    static void* module;
    return &module;
}
void register_function(void**, const void*, char*, const char*, unsigned, void*, void*, void*, void*, int*) {}

double processor_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e9 * double(now.tv_sec) + double(now.tv_nsec);
}

struct Case {
    const char* name;
    int calls;  // of a batch
    std::function<void(const Table&)> call;
};

double batch(const Case& of, const Table& table) {
    const double begin = processor_ns();
    for (int i = 0; i < of.calls; ++i) of.call(table);
    return (processor_ns() - begin) / of.calls;
}

template <class Function>
Function get(const Table& table, unsigned place) {
    return reinterpret_cast<Function>(table.functions[place]);
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) return 2;
    void* const file = dlopen(arguments[1], RTLD_NOW);
    const auto take =
        file == nullptr ? nullptr : reinterpret_cast<void (*)(const char*, void*)>(dlsym(file, "firsttouch_hip_table"));
    if (take == nullptr) return std::fprintf(stderr, "the library takes no table\n"), 1;
    Table plain, compiler;
    plain.set(place_of_hipMalloc, allocate);
    plain.set(place_of_hipFree, free_memory);
    plain.set(place_of_hipMemcpy, copy);
    plain.set(place_of_hipLaunchKernel, launch);
    plain.set(place_of_hipDeviceSynchronize, wait);
    compiler.set(place_of___hipRegisterFatBinary, register_binary);
    compiler.set(place_of___hipRegisterFunction, register_function);
    Table traced = plain;
    take("hip", &traced);
    take("hip_compiler", &compiler);
    if (traced.functions[place_of_hipMalloc] == plain.functions[place_of_hipMalloc])
        return std::fprintf(stderr, "the library records nothing\n"), 1;

    static const struct {
        unsigned magic = 0x48495046, version = 1;
        const void *image = memory, *unused = nullptr;
    } wrapper;
    static int kernel;
    void** const module = get<void** (*)(const void*)>(compiler, place_of___hipRegisterFatBinary)(&wrapper);
    char name[] = "_Z6kernelPfPKfS1_i";
    get<decltype(&register_function)>(compiler, place_of___hipRegisterFunction)(module, &kernel, name, name, 0, nullptr,
                                                                                nullptr, nullptr, nullptr, nullptr);
    void *a = nullptr, *b = nullptr, *c = nullptr;
    for (const Table* table : {&plain, &traced}) get<hipMalloc_type>(*table, place_of_hipMalloc)(&a, sizeof memory);
    b = static_cast<char*>(a) + 4096, c = static_cast<char*>(a) + 8192;
    int number = 1;
    void* given[] = {&a, &b, &c, &number};
    std::vector<char> host(1 << 20, 1);
    const auto copied = [&](const Table& table, Size bytes) {
        get<hipMemcpy_type>(table, place_of_hipMemcpy)(memory, host.data(), bytes, 1);
    };
    const Case cases[] = {
        {"launch with 4 arguments", 20'000,
         [&](const Table& table) {
             get<hipLaunchKernel_type>(table, place_of_hipLaunchKernel)(&kernel, {1, 1, 1}, {1, 1, 1}, given, 0,
                                                                        nullptr);
         }},
        {"copy of 4 KiB", 5'000, [&](const Table& table) { copied(table, 4096); }},
        {"copy of 1 MiB", 2'000, [&](const Table& table) { copied(table, 1 << 20); }},
        {"wait", 20'000,
         [](const Table& table) { get<hipDeviceSynchronize_type>(table, place_of_hipDeviceSynchronize)(); }},
        {"allocate and free", 5'000, [](const Table& table) {
             void* at = nullptr;
             get<hipMalloc_type>(table, place_of_hipMalloc)(&at, 4096);
             get<hipFree_type>(table, place_of_hipFree)(at);
         }}};
    for (const Case& of : cases) {
        double least[2] = {1e99, 1e99};
        for (int i = 0; i < std::atoi(arguments[2]); ++i) {
            least[0] = std::min(least[0], batch(of, plain));
            least[1] = std::min(least[1], batch(of, traced));
        }
        std::printf("%s\t%g\t%g\n", of.name, least[0], least[1]);
    }
}
