/* The dialect in HIP (hipRTC, or clang -x hip without headers). hipRTC's own header defines these types too, so they
   must be the same. */
typedef unsigned char uchar;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef double f64x2 __attribute__((ext_vector_type(2)));
#define KERNEL extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(1, 1024))) void
#define HELPER static __attribute__((device)) inline __attribute__((always_inline))
#define GLOBAL
#define SHARED __attribute__((shared))
#define SYMBOL __attribute__((device)) /* a variable of the whole file, which kernels can write */
#define HAS_SYMBOLS 1
#define BARRIER()                                              \
    do {                                                       \
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); \
        __builtin_amdgcn_s_barrier();                          \
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); \
    } while (0)
#define LOCAL_ID ((uint)__builtin_amdgcn_workitem_id_x())
#define GROUP_ID ((ulong)__builtin_amdgcn_workgroup_id_x())
#define GROUP_SIZE ((uint)__builtin_amdgcn_workgroup_size_x())
#define GLOBAL_ID (GROUP_ID * GROUP_SIZE + LOCAL_ID)
#define GLOBAL_SIZE ((ulong)__builtin_amdgcn_grid_size_x())
#define FOR_EACH(i, n) for (ulong i = GLOBAL_ID; i < (n); i += GLOBAL_SIZE)
#define UNROLLED _Pragma("unroll")
#define ATOMIC_ADD_U64_DEVICE(p, v) __hip_atomic_fetch_add((p), (ulong)(v), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define ATOMIC_ADD_U64_SYSTEM(p, v) __hip_atomic_fetch_add((p), (ulong)(v), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM)
#define ATOMIC_ADD_F64_DEVICE(p, v) \
    __hip_atomic_fetch_add((p), (double)(v), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define ATOMIC_ADD_F64_SYSTEM(p, v) \
    __hip_atomic_fetch_add((p), (double)(v), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM)
#define LOAD_UNCACHED(p) __hip_atomic_load((GLOBAL ulong*)(p), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM)
#define STORE_UNCACHED(p, v) __hip_atomic_store((p), (ulong)(v), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM)
/* A load and a store that the compiler cannot move or remove. They use the caches of all levels, unlike `volatile`
   ones. */
HELPER ulong load_cached(const ulong* p) {
    asm volatile("" ::: "memory");
    return *p;
}
HELPER void store_cached(ulong* p, ulong v) {
    *p = v;
    asm volatile("" ::: "memory");
}
#define LOAD_CACHED(p) load_cached(p)
/* Past the first-level cache, but not past the device's last. */
#define LOAD_BYPASS_L1(p) __hip_atomic_load((GLOBAL ulong*)(p), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define STORE_CACHED(p, v) store_cached((p), (v))
#define EXCHANGE_U64_DEVICE(p, v) \
    __hip_atomic_exchange((p), (ulong)(v), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define FENCE_SYSTEM() __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "")
#define LOAD_ACQUIRE_SYSTEM(p) __hip_atomic_load((GLOBAL ulong*)(p), __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM)
#define STORE_RELEASE_SYSTEM(p, v) \
    __hip_atomic_store((p), (ulong)(v), __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM)
/* The rate of the constant-rate counter, hipDeviceAttributeWallClockRate, is set by the HIP backend; it is 100 MHz on
   gfx90a and gfx942. */
#ifndef WALL_CLOCK_KHZ
#define WALL_CLOCK_KHZ 100000
#endif
#if __has_builtin(__builtin_readsteadycounter)
#define WALL_CLOCK() ((ulong)__builtin_readsteadycounter())
#else /* before LLVM 19 */
#define WALL_CLOCK() ((ulong)__builtin_amdgcn_s_memrealtime())
#endif
HELPER ulong clock_ns() {
    const ulong ticks = WALL_CLOCK();
    return ticks / WALL_CLOCK_KHZ * 1000000ul + ticks % WALL_CLOCK_KHZ * 1000000ul / WALL_CLOCK_KHZ;
}
HELPER ulong clock_cycles() { return (ulong)__builtin_readcyclecounter(); }
#define HAS_CLOCK 1

/* For applications: vectors, 32-bit atomics (which return the old value), mathematical functions by type. FAST_
   variants may be off by a few units in the last place. */
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
#define F32X2(a, b) (f32x2{(float)(a), (float)(b)})
#define F32X4(a, b, c, d) (f32x4{(float)(a), (float)(b), (float)(c), (float)(d)})
/* GROUP_THREADS: threads per group, if the file defines it; GROUPS_TOGETHER: resident groups per core. */
#ifdef GROUP_THREADS
#define GROUP_KERNEL \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(GROUP_THREADS, GROUP_THREADS))) void
#else
#define GROUP_KERNEL KERNEL
#endif
#define ATOMIC_OR_U32_DEVICE(p, v) __hip_atomic_fetch_or((p), (uint)(v), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define ATOMIC_MIN_U32_DEVICE(p, v) __hip_atomic_fetch_min((p), (uint)(v), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
/* Functions of the device libraries. On a linkage block these attributes would be ignored. */
#define OCML extern "C" __attribute__((device)) __attribute__((const))
OCML float __ocml_exp_f32(float);
OCML float __ocml_log_f32(float);
OCML double __ocml_exp_f64(double);
OCML double __ocml_log_f64(double);
OCML double __ocml_sin_f64(double);
OCML double __ocml_cos_f64(double);
OCML float __ocml_native_exp_f32(float);
OCML float __ocml_native_log_f32(float);
#define SQRT_F32(x) __builtin_sqrtf(x)
#define EXP_F32(x) __ocml_exp_f32(x)
#define LOG_F32(x) __ocml_log_f32(x)
#define ABS_F32(x) __builtin_fabsf(x)
#define FAST_EXP_F32(x) __ocml_native_exp_f32(x)
#define FAST_LOG_F32(x) __ocml_native_log_f32(x)
#define FAST_RSQRT_F32(x) __builtin_amdgcn_rsqf(x)
#define FAST_DIVIDE_F32(x, y) ((x) * __builtin_amdgcn_rcpf(y))
#define SQRT_F64(x) __builtin_sqrt(x)
#define EXP_F64(x) __ocml_exp_f64(x)
#define LOG_F64(x) __ocml_log_f64(x)
#define SIN_F64(x) __ocml_sin_f64(x)
#define COS_F64(x) __ocml_cos_f64(x)
#define ABS_F64(x) __builtin_fabs(x)
#define RINT_F64(x) __builtin_rint(x)
#define F64_OF_BITS(x) __builtin_bit_cast(double, (ulong)(x))
#define BITS_OF_F64(x) __builtin_bit_cast(ulong, (double)(x))
