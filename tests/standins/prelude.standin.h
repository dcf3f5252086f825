/* The dialect for hip_on_host.cpp: one item after another. In a program with a barrier (STANDIN_GROUPS is defined then)
   the items of a group are threads, and one group comes after another. */
#include <time.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <thread>
#include <utility>
#include <vector>
typedef unsigned char uchar;
typedef unsigned int uint;
typedef unsigned long ulong;
struct alignas(16) f64x2 {
    double x, y;
};
static thread_local struct {
    uint local, group_size;
    ulong group, groups;
    std::barrier<>* barrier;
} standin_place;
#define KERNEL static void
#define HELPER static inline
#define GLOBAL
#define LOCAL_ID (standin_place.local)
#define GROUP_ID (standin_place.group)
#define GROUP_SIZE (standin_place.group_size)
#define GLOBAL_ID (GROUP_ID * GROUP_SIZE + LOCAL_ID)
#define GLOBAL_SIZE (standin_place.groups * GROUP_SIZE)
#define FOR_EACH(i, n) for (ulong i = GLOBAL_ID; i < (n); i += GLOBAL_SIZE)
#define UNROLLED
#define SHARED static
#define BARRIER() standin_place.barrier->arrive_and_wait()
template <class T>
static T atomic_add(T* p, T v) {
    std::atomic_ref<T> target(*p);
    T seen = target.load(std::memory_order_relaxed);
    while (!target.compare_exchange_weak(seen, seen + v, std::memory_order_relaxed)) {
    }
    return seen;
}
#define ATOMIC_ADD_U64_DEVICE(p, v) atomic_add<ulong>((p), (v))
#define ATOMIC_ADD_U64_SYSTEM(p, v) atomic_add<ulong>((p), (v))
#define ATOMIC_ADD_F64_DEVICE(p, v) atomic_add<double>((p), (v))
#define ATOMIC_ADD_F64_SYSTEM(p, v) atomic_add<double>((p), (v))
#define LOAD_UNCACHED(p) (*(volatile const ulong*)(p))
#define STORE_UNCACHED(p, v) (*(volatile ulong*)(p) = (v))
#define LOAD_CACHED(p) std::atomic_ref<ulong>(*(ulong*)(p)).load(std::memory_order_relaxed)
#define STORE_CACHED(p, v) std::atomic_ref<ulong>(*(p)).store((v), std::memory_order_relaxed)
#define EXCHANGE_U64_DEVICE(p, v) std::atomic_ref<ulong>(*(p)).exchange((v), std::memory_order_relaxed)
#define FENCE_SYSTEM() std::atomic_thread_fence(std::memory_order_seq_cst)
#define LOAD_ACQUIRE_SYSTEM(p) std::atomic_ref<ulong>(*(ulong*)(p)).load(std::memory_order_acquire)
#define STORE_RELEASE_SYSTEM(p, v) std::atomic_ref<ulong>(*(p)).store((v), std::memory_order_release)
HELPER ulong clock_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (ulong)now.tv_sec * 1000000000ul + (ulong)now.tv_nsec;
}
HELPER ulong clock_cycles() { return clock_ns(); }
#define HAS_CLOCK 1

template <class... P, std::size_t... I>
static void standin_run(void (*kernel)(P...), void** arguments, uint groups, uint threads, std::index_sequence<I...>) {
#ifdef STANDIN_GROUPS
    for (uint group = 0; group < groups; ++group) {
        std::barrier<> barrier(threads);
        std::vector<std::thread> items;
        for (uint local = 0; local < threads; ++local)
            items.emplace_back([&, local] {
                standin_place = {local, threads, group, groups, &barrier};
                kernel(*static_cast<P*>(arguments[I])...);
                barrier.arrive_and_drop();
            });
        for (auto& item : items) item.join();
    }
#else
    standin_place.groups = groups;
    standin_place.group_size = threads;
    for (standin_place.group = 0; standin_place.group < groups; ++standin_place.group)
        for (standin_place.local = 0; standin_place.local < threads; ++standin_place.local)
            kernel(*static_cast<P*>(arguments[I])...);
#endif
}
template <class... P>
static constexpr unsigned standin_arity(void (*)(P...)) {
    return sizeof...(P);
}
/* What hip_on_host.cpp looks for; it adds one of these at the end of a program for every kernel. */
#define STANDIN_ENTRY(name)                                                                              \
    extern "C" unsigned arguments_of_##name() { return standin_arity(name); }                            \
    extern "C" void launch_##name(void** arguments, uint groups, uint threads) {                         \
        standin_run(name, arguments, groups, threads, std::make_index_sequence<standin_arity(name)>()); \
    }
