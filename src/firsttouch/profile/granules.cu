// The patch that `--exact` puts before each access of a kernel to global memory: it sets one bit for each 64 KiB of a
// block that is read, and one for each that is written. The functions have the types that the Sanitizer API asks for
// (sanitizer_patching.h). A launch that is not looked at has no table.
#include "granules.h"

typedef unsigned long long u64;
enum { reading = 1, writing = 2, prefetching = 8 };

static __device__ __forceinline__ void set(unsigned int* bits, u64 bit) {
    const unsigned int mask = 1u << (bit % 32);
    if ((((volatile unsigned int*)bits)[bit / 32] & mask) == 0) atomicOr(&bits[bit / 32], mask);
}

static __device__ __forceinline__ int use(void* data, u64 address, u64 bytes, unsigned int how) {
    GranuleTable* const table = (GranuleTable*)data;
    if (table == 0 || bytes == 0 || (how & prefetching) != 0 || !__isGlobal((const void*)address)) return 0;
    u64 low = 0, high = table->count;  // the block is the last that begins at or before the address
    while (low < high) {
        const u64 middle = (low + high) / 2;
        if (table->blocks[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const GranuleBlock* const block = table->blocks + low - 1;
    if (low == 0 || address + bytes > block->end) atomicAdd(&table->outside, 1ull);
    if (low == 0 || address >= block->end) return 0;
    const u64 end = address + bytes < block->end ? address + bytes : block->end;
    const u64 last = block->first + ((end - 1 - block->begin) >> granule_shift);
    for (u64 bit = block->first + ((address - block->begin) >> granule_shift); bit <= last; ++bit) {
        if ((how & reading) != 0) set(table->read, bit);
        if ((how & writing) != 0) set(table->written, bit);
    }
    return 0;
}

#define PATCH extern "C" __device__ __noinline__ int
PATCH granules_access(void* data, u64, u64 address, unsigned int bytes, unsigned int how, const void*) {
    return use(data, address, bytes, how);
}
PATCH granules_copy_async(void* data, u64, u64 source, unsigned int, unsigned int bytes) {
    return use(data, source, bytes, reading);
}
PATCH granules_bulk_in(void* data, u64, u64 source, unsigned int, unsigned int, unsigned int sizes, unsigned int) {
    return use(data, source, 16ull * (sizes & 0xFFFF), reading);
}
PATCH granules_bulk_out(void* data, u64, u64 target, unsigned int, unsigned int sizes) {
    return use(data, target, 16ull * (sizes & 0xFFFF), writing);
}
PATCH granules_bulk_reduction(void* data, u64, u64 target, unsigned int, unsigned int sizes) {
    return use(data, target, 16ull * (sizes & 0xFFFF), reading | writing);
}
PATCH granules_tensor(void* data, u64) {
    if (data != 0) atomicAdd(&((GranuleTable*)data)->opaque, 1ull);
    return 0;
}
