/* The prelude for hip_on_host.cpp. It is the host's prelude except for launches: groups run one after another, and so do
   the items of a group; in a kernel with groups the items switch at each barrier. With STANDIN_BACKWARD=1 the order is
   reversed. SHARED memory is filled with 0xA5 when a group begins. A barrier that only some items of a group reach aborts
   the process. */
#include "includes.standin.h"
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

/* One item of a group: a fiber, which runs one item after another, and the barrier at which it waits. Fibers switch by
   GCC's longjmp, because swapcontext makes a system call for each, and unseen by the address sanitizer, which would clean its
   record of the whole stack for each. */
struct StandinItem {
    std::vector<char> stack = std::vector<char>(1 << 16);
    ucontext_t context;
    void* place[5];
    int barrier;
    bool begun = false;
};
enum { standin_ended = -1 };
static thread_local struct {
    std::deque<StandinItem> items;
    void* place[5];
    void (*run)(void*);
    void* kernel;
} standin_launcher;

/* Switches from an item to the launcher, until the launcher resumes the item. */
__attribute__((noinline, no_sanitize("address"))) static void standin_wait(int barrier) {
    StandinItem& mine = standin_launcher.items[standin_place.local];
    mine.barrier = barrier;
    if (__builtin_setjmp(mine.place) == 0) __builtin_longjmp(standin_launcher.place, 1);
}
__attribute__((noinline, no_sanitize("address"))) static void standin_resume(StandinItem& item) {
    if (__builtin_setjmp(standin_launcher.place) != 0) return;
    if (item.begun) __builtin_longjmp(item.place, 1);
    item.begun = true;
    setcontext(&item.context);
}
static void standin_begin() {
    for (;;) {
        standin_launcher.run(standin_launcher.kernel);
        standin_wait(standin_ended);
    }
}

/* Runs all items of a group in turn, from one barrier to the next. */
static void standin_run_group(uint threads, bool backward) {
    auto& items = standin_launcher.items;
    while (items.size() < threads) {
        StandinItem& item = items.emplace_back();
        getcontext(&item.context);
        item.context.uc_stack.ss_sp = item.stack.data();
        item.context.uc_stack.ss_size = item.stack.size();
        makecontext(&item.context, standin_begin, 0);
    }
    do {
        for (uint k = 0; k < threads; ++k) {
            standin_place.local = backward ? threads - 1 - k : k;
            standin_resume(items[standin_place.local]);
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
    standin_launcher.run = [](void* item) { (*static_cast<decltype(run_item)*>(item))(); };
    standin_launcher.kernel = &run_item;
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
