/* The dialect in OpenCL C 1.2 and later. There are no generic pointers: every pointer of a helper is GLOBAL. */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
typedef double2 f64x2;
#define KERNEL __kernel void
#define HELPER static inline
#define GLOBAL __global
#define SHARED __local
#define HAS_SYMBOLS 0 /* OpenCL C 1.2 has constants only as variables of a whole file */
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define LOCAL_ID ((uint)get_local_id(0))
#define GROUP_ID ((ulong)get_group_id(0))
#define GROUP_SIZE ((uint)get_local_size(0))
#define GLOBAL_ID ((ulong)get_global_id(0))
#define GLOBAL_SIZE ((ulong)get_global_size(0))
#define FOR_EACH(i, n) for (ulong i = GLOBAL_ID; i < (n); i += GLOBAL_SIZE)
#define UNROLLED
#ifdef __clang__
/* PoCL: the compiler's atomics, which are visible to all agents that share host memory. */
#define ATOMIC_ADD_U64_DEVICE(p, v) __atomic_fetch_add((p), (ulong)(v), __ATOMIC_RELAXED)
#define EXCHANGE_U64_DEVICE(p, v) __atomic_exchange_n((p), (ulong)(v), __ATOMIC_RELAXED)
#define FENCE_SYSTEM() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define LOAD_ACQUIRE_SYSTEM(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE_RELEASE_SYSTEM(p, v) __atomic_store_n((p), (ulong)(v), __ATOMIC_RELEASE)
#else
/* OpenCL 1.2 has no ordering between devices: atomics and fences of global memory come closest. */
#define ATOMIC_ADD_U64_DEVICE(p, v) atom_add((volatile GLOBAL ulong*)(p), (ulong)(v))
#define EXCHANGE_U64_DEVICE(p, v) atom_xchg((volatile GLOBAL ulong*)(p), (ulong)(v))
#define FENCE_SYSTEM() mem_fence(CLK_GLOBAL_MEM_FENCE)
HELPER ulong load_acquire(GLOBAL const ulong* p) {
    const ulong v = atom_add((volatile GLOBAL ulong*)p, 0ul);
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    return v;
}
HELPER void store_release(GLOBAL ulong* p, ulong v) {
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    atom_xchg((volatile GLOBAL ulong*)p, v);
}
#define LOAD_ACQUIRE_SYSTEM(p) load_acquire(p)
#define STORE_RELEASE_SYSTEM(p, v) store_release((p), (v))
#endif
#define ATOMIC_ADD_U64_SYSTEM(p, v) ATOMIC_ADD_U64_DEVICE(p, v)
/* OpenCL has no native atomic add for doubles: repeat compare-and-swap until it succeeds. */
HELPER double atomic_add_f64(GLOBAL double* p, double v) {
    GLOBAL ulong* word = (GLOBAL ulong*)p;
    ulong seen = *(volatile GLOBAL ulong*)word;
    while (1) {
        ulong next = as_ulong(as_double(seen) + v);
        ulong found = atom_cmpxchg((volatile GLOBAL ulong*)word, seen, next);
        if (found == seen) return as_double(seen);
        seen = found;
    }
}
#define ATOMIC_ADD_F64_DEVICE(p, v) atomic_add_f64((p), (v))
#define ATOMIC_ADD_F64_SYSTEM(p, v) atomic_add_f64((p), (v))
#define LOAD_UNCACHED(p) (*(volatile GLOBAL const ulong*)(p))
#define LOAD_CACHED(p) LOAD_UNCACHED(p) /* the language has only one kind of load */
#define LOAD_BYPASS_L1(p) LOAD_UNCACHED(p)
#define STORE_CACHED(p, v) STORE_UNCACHED(p, v)
#define STORE_UNCACHED(p, v) (*(volatile GLOBAL ulong*)(p) = (v))
#define clock_ns() 0
#define clock_cycles() 0
#define HAS_CLOCK 0

/* For applications: vectors, 32-bit atomics (which return the old value), mathematical functions by type. FAST_
   variants may be off by a few units in the last place. */
typedef float2 f32x2;
typedef float4 f32x4;
#define F32X2(a, b) ((float2)((a), (b)))
#define F32X4(a, b, c, d) ((float4)((a), (b), (c), (d)))
/* GROUP_THREADS: threads per group, if the file defines it; GROUPS_TOGETHER: resident groups per core. */
#ifdef GROUP_THREADS
#define GROUP_KERNEL __kernel __attribute__((reqd_work_group_size(GROUP_THREADS, 1, 1))) void
#else
#define GROUP_KERNEL KERNEL
#endif
#define ATOMIC_OR_U32_DEVICE(p, v) atomic_or((volatile GLOBAL uint*)(p), (uint)(v))
#define ATOMIC_MIN_U32_DEVICE(p, v) atomic_min((volatile GLOBAL uint*)(p), (uint)(v))
#define SQRT_F32(x) sqrt((float)(x))
#define EXP_F32(x) exp((float)(x))
#define LOG_F32(x) log((float)(x))
#define ABS_F32(x) fabs((float)(x))
#define FAST_EXP_F32(x) native_exp((float)(x))
#define FAST_LOG_F32(x) native_log((float)(x))
#define FAST_RSQRT_F32(x) native_rsqrt((float)(x))
#define FAST_DIVIDE_F32(x, y) native_divide((float)(x), (float)(y))
#define SQRT_F64(x) sqrt((double)(x))
#define EXP_F64(x) exp((double)(x))
#define LOG_F64(x) log((double)(x))
#define SIN_F64(x) sin((double)(x))
#define COS_F64(x) cos((double)(x))
#define ABS_F64(x) fabs((double)(x))
#define RINT_F64(x) rint((double)(x))
#define F64_OF_BITS(x) as_double((ulong)(x))
#define BITS_OF_F64(x) as_ulong((double)(x))
