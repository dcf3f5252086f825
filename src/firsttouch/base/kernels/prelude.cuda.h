/* The dialect in CUDA C++ (NVRTC). */
typedef unsigned char uchar;
typedef unsigned int uint;
typedef unsigned long long ulong;
typedef double2 f64x2;
#define KERNEL extern "C" __global__ void
#define HELPER static __device__ __forceinline__
#define GLOBAL
#define SHARED __shared__
#define SYMBOL __device__ /* a variable of the whole file, which kernels can write */
#define HAS_SYMBOLS 1
#define BARRIER() __syncthreads()
#define LOCAL_ID ((uint)threadIdx.x)
#define GROUP_ID ((ulong)blockIdx.x)
#define GROUP_SIZE ((uint)blockDim.x)
#define GLOBAL_ID (GROUP_ID * GROUP_SIZE + LOCAL_ID)
#define GLOBAL_SIZE ((ulong)gridDim.x * GROUP_SIZE)
#define FOR_EACH(i, n) for (ulong i = GLOBAL_ID; i < (n); i += GLOBAL_SIZE)
#define UNROLLED _Pragma("unroll")
#define ATOMIC_ADD_U64_DEVICE(p, v) atomicAdd((p), (ulong)(v))
#define ATOMIC_ADD_U64_SYSTEM(p, v) atomicAdd_system((p), (ulong)(v))
#define ATOMIC_ADD_F64_DEVICE(p, v) atomicAdd((p), (double)(v))
#define ATOMIC_ADD_F64_SYSTEM(p, v) atomicAdd_system((p), (double)(v))
#define LOAD_UNCACHED(p) (*(volatile GLOBAL const ulong*)(p))
#define STORE_UNCACHED(p, v) (*(volatile GLOBAL ulong*)(p) = (v))
/* A load and a store that the compiler cannot move or remove and that use the caches of all levels. */
HELPER ulong load_cached(const ulong* p) {
    ulong v;
    asm volatile("ld.ca.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
/* The same, but past the first-level cache. */
HELPER ulong load_bypass_l1(const ulong* p) {
    ulong v;
    asm volatile("ld.cg.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
HELPER void store_cached(ulong* p, ulong v) { asm volatile("st.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory"); }
#define LOAD_CACHED(p) load_cached(p)
#define LOAD_BYPASS_L1(p) load_bypass_l1(p)
#define STORE_CACHED(p, v) store_cached((p), (v))
#define EXCHANGE_U64_DEVICE(p, v) atomicExch((p), (ulong)(v))
HELPER void fence_system() {
#if __CUDA_ARCH__ >= 700
    asm volatile("fence.sc.sys;" ::: "memory");
#else
    __threadfence_system();
#endif
}
#define FENCE_SYSTEM() fence_system()
HELPER ulong load_acquire(const ulong* p) {
    ulong v;
#if __CUDA_ARCH__ >= 700
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
#else
    v = LOAD_UNCACHED(p);
    fence_system();
#endif
    return v;
}
HELPER void store_release(ulong* p, ulong v) {
#if __CUDA_ARCH__ >= 700
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
#else
    fence_system();
    *(volatile ulong*)p = v;
#endif
}
#define LOAD_ACQUIRE_SYSTEM(p) load_acquire(p)
#define STORE_RELEASE_SYSTEM(p, v) store_release((p), (v))
HELPER ulong clock_ns() {
    ulong t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
}
HELPER ulong clock_cycles() {
    ulong t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    return t;
}
#define HAS_CLOCK 1

/* For applications: vectors, 32-bit atomics (which return the old value), mathematical functions by type. FAST_
   variants may be off by a few units in the last place. */
typedef float2 f32x2;
typedef float4 f32x4;
#define F32X2(a, b) make_float2((a), (b))
#define F32X4(a, b, c, d) make_float4((a), (b), (c), (d))
/* GROUP_THREADS: threads per group, if the file defines it; GROUPS_TOGETHER: resident groups per multiprocessor, which
   bounds the registers per thread. */
#ifdef GROUP_THREADS
#define GROUP_KERNEL extern "C" __global__ void __launch_bounds__(GROUP_THREADS, GROUPS_TOGETHER)
#else
#define GROUP_KERNEL KERNEL
#endif
#define ATOMIC_OR_U32_DEVICE(p, v) atomicOr((p), (uint)(v))
#define ATOMIC_MIN_U32_DEVICE(p, v) atomicMin((p), (uint)(v))
#define SQRT_F32(x) sqrtf(x)
#define EXP_F32(x) expf(x)
#define LOG_F32(x) logf(x)
#define ABS_F32(x) fabsf(x)
#define FAST_EXP_F32(x) __expf(x)
#define FAST_LOG_F32(x) __logf(x)
#define FAST_RSQRT_F32(x) rsqrtf(x)
#define FAST_DIVIDE_F32(x, y) __fdividef((x), (y))
#define SQRT_F64(x) sqrt(x)
#define EXP_F64(x) exp(x)
#define LOG_F64(x) log(x)
#define SIN_F64(x) sin(x)
#define COS_F64(x) cos(x)
#define ABS_F64(x) fabs(x)
#define RINT_F64(x) rint(x)
#define F64_OF_BITS(x) __longlong_as_double((long long)(x))
#define BITS_OF_F64(x) ((ulong)__double_as_longlong(x))
