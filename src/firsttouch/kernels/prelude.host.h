/* The dialect in C++ for the host: a launch gives every thread a contiguous share of what FOR_EACH walks.
   Included inside a namespace, after <atomic> and host/kernels.hpp. */
typedef unsigned char uchar;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef double f64x2 __attribute__((vector_size(16), aligned(16)));
#define KERNEL static void
#define HELPER static inline
#define GLOBAL
#define HOST_FIRST(n) ((ulong)(n) * firsttouch::host_place.member / firsttouch::host_place.members)
#define HOST_LAST(n) ((ulong)(n) * (firsttouch::host_place.member + 1) / firsttouch::host_place.members)
#define FOR_EACH(i, n) for (ulong i = HOST_FIRST(n), i##_end = HOST_LAST(n); i < i##_end; ++i)
#define UNROLLED
#define ATOMIC_ADD_U64_DEVICE(p, v) std::atomic_ref<ulong>(*(p)).fetch_add((v), std::memory_order_relaxed)
#define ATOMIC_ADD_U64_SYSTEM(p, v) ATOMIC_ADD_U64_DEVICE(p, v)
HELPER double atomic_add_f64(double* p, double v) {
    std::atomic_ref<double> target(*p);
    double seen = target.load(std::memory_order_relaxed);
    while (!target.compare_exchange_weak(seen, seen + v, std::memory_order_relaxed)) {
    }
    return seen;
}
#define ATOMIC_ADD_F64_DEVICE(p, v) atomic_add_f64((p), (v))
#define ATOMIC_ADD_F64_SYSTEM(p, v) atomic_add_f64((p), (v))
#define LOAD_UNCACHED(p) (*(volatile const ulong*)(p))
#define STORE_UNCACHED(p, v) (*(volatile ulong*)(p) = (v))
/* Done where they stand, through every cache; relaxed, so that threads may race on a word. */
#define LOAD_CACHED(p) std::atomic_ref<ulong>(*(ulong*)(p)).load(std::memory_order_relaxed)
#define STORE_CACHED(p, v) std::atomic_ref<ulong>(*(p)).store((v), std::memory_order_relaxed)
#define EXCHANGE_U64_DEVICE(p, v) std::atomic_ref<ulong>(*(p)).exchange((v), std::memory_order_relaxed)
#define FENCE_SYSTEM() std::atomic_thread_fence(std::memory_order_seq_cst)
#define LOAD_ACQUIRE_SYSTEM(p) std::atomic_ref<ulong>(*(ulong*)(p)).load(std::memory_order_acquire)
#define STORE_RELEASE_SYSTEM(p, v) std::atomic_ref<ulong>(*(p)).store((v), std::memory_order_release)
#define clock_ns() 0ul
#define HAS_CLOCK 0
