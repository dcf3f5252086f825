/* The dialect for hip_on_host.cpp: that of the host, but for launches. Items come one after another; those of a kernel
   that works in groups are threads, and one group comes after another. */
#include <time.h>

#include <atomic>
#include <barrier>
#include <cmath>
#include <memory>
#include <thread>
#include <utility>
#include <vector>
#define f64x2 host_f64x2 /* a vector of GCC, which has no .x and .y */
#include "prelude.host.h"
#undef f64x2
struct alignas(16) f64x2 {
    double x, y;
};
static thread_local struct {
    uint local, group_size;
    ulong group, groups;
    std::barrier<>* barrier;
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
#define SHARED static
#define BARRIER() standin_place.barrier->arrive_and_wait()
HELPER ulong clock_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (ulong)now.tv_sec * 1000000000ul + (ulong)now.tv_nsec;
}
HELPER ulong clock_cycles() { return clock_ns(); }
#define HAS_CLOCK 1

template <class... P, std::size_t... I>
static void standin_run(void (*kernel)(P...), bool in_groups, void** arguments, uint groups, uint threads,
                        std::index_sequence<I...>) {
    standin_place = {0, threads, 0, groups, nullptr};
    for (ulong& group = standin_place.group; group < groups; ++group) {
        if (!in_groups) {
            for (uint& local = standin_place.local = 0; local < threads; ++local)
                kernel(*static_cast<P*>(arguments[I])...);
            continue;
        }
        std::barrier<> barrier(threads);
        std::vector<std::thread> items;
        for (uint local = 0; local < threads; ++local)
            items.emplace_back([&, local, group = group] {
                standin_place = {local, threads, group, groups, &barrier};
                kernel(*static_cast<P*>(arguments[I])...);
                barrier.arrive_and_drop();
            });
        for (auto& item : items) item.join();
    }
}
template <class... P>
static constexpr unsigned standin_arity(void (*)(P...)) {
    return sizeof...(P);
}
/* What hip_on_host.cpp looks for; it adds one of these at the end of a program for every kernel. */
#define STANDIN_ENTRY(name, in_groups)                                                                                 \
    extern "C" unsigned arguments_of_##name() { return standin_arity(name); }                                          \
    extern "C" void launch_##name(void** arguments, uint groups, uint threads) {                                       \
        standin_run(name, in_groups, arguments, groups, threads, std::make_index_sequence<standin_arity(name)>());     \
    }
