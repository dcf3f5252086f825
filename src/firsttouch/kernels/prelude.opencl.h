/* The dialect in OpenCL C 1.2 and later. No generic pointers: every helper's pointer is GLOBAL. */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
typedef double2 f64x2;
#define KERNEL __kernel void
#define HELPER static inline
#define GLOBAL __global
#define SHARED __local
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define LOCAL_ID ((uint)get_local_id(0))
#define GROUP_ID ((ulong)get_group_id(0))
#define GROUP_SIZE ((uint)get_local_size(0))
#define GLOBAL_ID ((ulong)get_global_id(0))
#define GLOBAL_SIZE ((ulong)get_global_size(0))
#define FOR_EACH(i, n) for (ulong i = GLOBAL_ID; i < (n); i += GLOBAL_SIZE)
#define UNROLLED
#ifdef __clang__
/* PoCL: the compiler's own atomics; they are sequentially sized and reach every agent of the host's memory. */
#define ATOMIC_ADD_U64_DEVICE(p, v) __atomic_fetch_add((p), (ulong)(v), __ATOMIC_RELAXED)
#else
#define ATOMIC_ADD_U64_DEVICE(p, v) atom_add((volatile GLOBAL ulong*)(p), (ulong)(v))
#endif
#define ATOMIC_ADD_U64_SYSTEM(p, v) ATOMIC_ADD_U64_DEVICE(p, v)
/* OpenCL has no native add of doubles: compare and swap until it holds. */
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
#define clock_ns() 0
#define clock_cycles() 0
#define HAS_CLOCK 0
