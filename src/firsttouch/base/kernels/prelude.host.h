/* The dialect in C++ for the host. Each thread of a launch runs a contiguous share of the iterations of FOR_EACH.
   Included inside a namespace, after <atomic>, <cmath> and host/kernels.hpp. */
typedef unsigned char uchar;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef double f64x2 __attribute__((vector_size(16), aligned(16)));
#ifndef HOST_CLONES /* versions of a kernel for several instruction sets */
#define HOST_CLONES
#endif
#define KERNEL HOST_CLONES static void
#define HELPER static inline
#define GLOBAL
#define SYMBOL static /* a variable of the whole file, which kernels can write */
#define HAS_SYMBOLS 1
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
/* Not moved or removed by the compiler, and cached at all levels. Relaxed atomics, so that threads may race on a
   word. */
#define LOAD_CACHED(p) std::atomic_ref<ulong>(*(ulong*)(p)).load(std::memory_order_relaxed)
#define LOAD_BYPASS_L1(p) LOAD_CACHED(p)
#define STORE_CACHED(p, v) std::atomic_ref<ulong>(*(p)).store((v), std::memory_order_relaxed)
#define EXCHANGE_U64_DEVICE(p, v) std::atomic_ref<ulong>(*(p)).exchange((v), std::memory_order_relaxed)
#define FENCE_SYSTEM() std::atomic_thread_fence(std::memory_order_seq_cst)
#define LOAD_ACQUIRE_SYSTEM(p) std::atomic_ref<ulong>(*(ulong*)(p)).load(std::memory_order_acquire)
#define STORE_RELEASE_SYSTEM(p, v) std::atomic_ref<ulong>(*(p)).store((v), std::memory_order_release)
#define clock_ns() 0ul
#define HAS_CLOCK 0

/* For applications: vectors, 32-bit atomics (which return the old value), mathematical functions by type. */
struct f32x2 {
    float x, y;
};
struct f32x4 {
    float x, y, z, w;
};
#define F32X2(a, b) (f32x2{(float)(a), (float)(b)})
#define F32X4(a, b, c, d) (f32x4{(float)(a), (float)(b), (float)(c), (float)(d)})
/* Group kernels are compiled here but never run. */
#define GROUP_KERNEL static inline void
#define SHARED
#define BARRIER() ((void)0)
#define LOCAL_ID 0u
#define GROUP_ID 0ul
#define GROUP_SIZE 1u
#define GLOBAL_ID 0ul
#define GLOBAL_SIZE 1ul
#define ATOMIC_OR_U32_DEVICE(p, v) std::atomic_ref<uint>(*(p)).fetch_or((uint)(v), std::memory_order_relaxed)
HELPER uint atomic_min_u32(uint* p, uint v) {
    uint seen = std::atomic_ref<uint>(*p).load(std::memory_order_relaxed);
    while (v < seen && !std::atomic_ref<uint>(*p).compare_exchange_weak(seen, v, std::memory_order_relaxed)) {
    }
    return seen;
}
#define ATOMIC_MIN_U32_DEVICE(p, v) atomic_min_u32((p), (uint)(v))
#define SQRT_F32(x) std::sqrt((float)(x))
#define EXP_F32(x) std::exp((float)(x))
#define LOG_F32(x) std::log((float)(x))
#define ABS_F32(x) std::fabs((float)(x))
#define FAST_EXP_F32(x) EXP_F32(x)
#define FAST_LOG_F32(x) LOG_F32(x)
#define FAST_RSQRT_F32(x) (1.0f / SQRT_F32(x))
#define FAST_DIVIDE_F32(x, y) ((float)(x) / (float)(y))
#define SQRT_F64(x) std::sqrt((double)(x))
#define EXP_F64(x) std::exp((double)(x))
#define LOG_F64(x) std::log((double)(x))
#define SIN_F64(x) std::sin((double)(x))
#define COS_F64(x) std::cos((double)(x))
#define ABS_F64(x) std::fabs((double)(x))
#define RINT_F64(x) std::rint((double)(x))
#define F64_OF_BITS(x) std::bit_cast<double>((ulong)(x))
#define BITS_OF_F64(x) std::bit_cast<ulong>((double)(x))
