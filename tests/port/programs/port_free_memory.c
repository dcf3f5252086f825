/* The discrete form of port-free-memory: a batch takes what the device has free beside a block that is kept. */
#include "cudart.h"

enum { KEPT = 1 << 20, LARGEST = 1 << 18 };

KERNEL(add_number, "_Z10add_numberPmmm", sizeof(uint64_t*), sizeof(uint64_t), sizeof(uint64_t)) {
    for (uint64_t i = 0; i < VALUE(uint64_t, 1); ++i) POINTER(uint64_t, 0)[i] += VALUE(uint64_t, 2);
}

static size_t batch_bytes(void) {
    size_t free, total;
    CHECK(cudaMemGetInfo(&free, &total));
    return free / 2 < LARGEST ? free / 2 / 4096 * 4096 : LARGEST;
}

int main(void) {
    uint64_t *const host = host_memory(KEPT), *kept, *batch;
    for (size_t i = 0; i < KEPT / sizeof *host; ++i) host[i] = 3;
    CHECK(cudaMalloc((void**)&kept, KEPT));
    CHECK(cudaMemcpy(kept, host, KEPT, cudaMemcpyHostToDevice));
    const size_t bytes = batch_bytes();
    uint64_t *const out = host_memory(bytes), words = bytes / sizeof *out, added = 4;
    CHECK(cudaMalloc((void**)&batch, bytes));
    CHECK(cudaMemcpy(batch, kept, bytes, cudaMemcpyDeviceToDevice));
    LAUNCH(add_number, words / 256, 256, NULL, &batch, &words, &added);
    CHECK(cudaMemcpy(out, batch, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(kept));
    CHECK(cudaFree(batch));
    return out[0] == 7 && out[words - 1] == 7 ? 0 : 1;
}
