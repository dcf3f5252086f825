/* The prelude for hip_on_host.cpp. It is the host's prelude except for launches: groups run one after another, and so do
   the items of a group; in a kernel with groups the items switch at each barrier. With STANDIN_BACKWARD=1 the order is
   reversed. SHARED memory is filled with 0xA5 when a group begins. A barrier that only some items of a group reach aborts
   the process. */
#include <time.h>
#include <ucontext.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>
#define f64x2 host_f64x2 /* the host's is a vector of GCC, which has no .x and .y */
#include "prelude.host.h"
#undef f64x2
struct alignas(16) f64x2 {
    double x, y;
};
static thread_local struct {
    uint local, group_size;
    ulong group, groups;
} standin_place;
#undef LOCAL_ID
#undef GROUP_ID
#undef GROUP_SIZE
#undef GLOBAL_ID
#undef GLOBAL_SIZE
#undef FOR_EACH
#undef SHARED
#undef BARRIER
#undef clock_ns
#undef HAS_CLOCK
#define LOCAL_ID (standin_place.local)
#define GROUP_ID (standin_place.group)
#define GROUP_SIZE (standin_place.group_size)
#define GLOBAL_ID (GROUP_ID * GROUP_SIZE + LOCAL_ID)
#define GLOBAL_SIZE (standin_place.groups * GROUP_SIZE)
#define FOR_EACH(i, n) for (ulong i = GLOBAL_ID; i < (n); i += GLOBAL_SIZE)
#define SHARED static __attribute__((section("standin_shared")))
#define BARRIER() standin_wait(__COUNTER__)
HELPER ulong clock_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (ulong)now.tv_sec * 1000000000ul + (ulong)now.tv_nsec;
}
HELPER ulong clock_cycles() { return clock_ns(); }
#define HAS_CLOCK 1

SHARED char standin_padding[1] __attribute__((used)); /* so that the section exists */
extern "C" char __start_standin_shared[] __attribute__((visibility("hidden")));
extern "C" char __stop_standin_shared[] __attribute__((visibility("hidden")));
__attribute__((no_sanitize("address"))) static void standin_fill_shared() {
    for (volatile char* byte = __start_standin_shared; byte < __stop_standin_shared; ++byte) *byte = (char)0xA5;
}

/* One item of a group: its context, and the barrier at which it waits. */
struct StandinItem {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(1 << 16);
    int barrier;
};
enum { standin_ended = -1 };
static thread_local struct {
    std::vector<StandinItem> items;
    ucontext_t launcher;
    void (*run)(void*);
    void* kernel;
} standin_group;

__attribute__((noinline)) static void standin_wait(int barrier) {
    StandinItem& mine = standin_group.items[standin_place.local];
    mine.barrier = barrier;
    swapcontext(&mine.context, &standin_group.launcher);
}
static void standin_begin() {
    standin_group.run(standin_group.kernel);
    standin_group.items[standin_place.local].barrier = standin_ended;
}

/* Runs all items of a group in turn, from one barrier to the next. */
static void standin_run_group(uint threads, bool backward) {
    auto& items = standin_group.items;
    if (items.size() < threads) items.resize(threads);
    for (uint i = 0; i < threads; ++i) {
        getcontext(&items[i].context);
        items[i].context.uc_stack.ss_sp = items[i].stack.data();
        items[i].context.uc_stack.ss_size = items[i].stack.size();
        items[i].context.uc_link = &standin_group.launcher;
        makecontext(&items[i].context, standin_begin, 0);
    }
    do {
        for (uint k = 0; k < threads; ++k) {
            standin_place.local = backward ? threads - 1 - k : k;
            swapcontext(&standin_group.launcher, &items[standin_place.local].context);
        }
        for (uint i = 0; i < threads; ++i)
            if (items[i].barrier != items[0].barrier) {
                std::fputs("a barrier is reached by some items of a group only\n", stderr);
                std::abort();
            }
    } while (items[0].barrier != standin_ended);
}

template <class... P, std::size_t... I>
static void standin_run(void (*kernel)(P...), bool in_groups, void** arguments, uint groups, uint threads,
                        std::index_sequence<I...>) {
    auto run_item = [&] { kernel(*static_cast<P*>(arguments[I])...); };
    const char* setting = std::getenv("STANDIN_BACKWARD");
    const bool backward = setting != nullptr && *setting == '1';
    standin_place = {0, threads, 0, groups};
    standin_group.run = [](void* item) { (*static_cast<decltype(run_item)*>(item))(); };
    standin_group.kernel = &run_item;
    for (ulong g = 0; g < groups; ++g) {
        standin_place.group = backward ? groups - 1 - g : g;
        if (in_groups) {
            standin_fill_shared();
            standin_run_group(threads, backward);
            continue;
        }
        for (uint k = 0; k < threads; ++k) {
            standin_place.local = backward ? threads - 1 - k : k;
            run_item();
        }
    }
}
template <class... P>
static constexpr unsigned standin_arity(void (*)(P...)) {
    return sizeof...(P);
}
/* The functions that hip_on_host.cpp looks up. It appends one such line to a program for every kernel. */
#define STANDIN_ENTRY(name, in_groups)                                                                                 \
    extern "C" unsigned arguments_of_##name() { return standin_arity(name); }                                          \
    extern "C" void launch_##name(void** arguments, uint groups, uint threads) {                                       \
        standin_run(name, in_groups, arguments, groups, threads, std::make_index_sequence<standin_arity(name)>());     \
    }
