/* One array of the host goes to one buffer and comes back from another: that copy has to stay. */
#include "cudart.h"

enum { WORDS = 1 << 15, ROUNDS = 3 };

KERNEL(add_next, "_Z8add_nextPKmPmm", sizeof(uint64_t*), sizeof(uint64_t*), sizeof(uint64_t)) {
    for (uint64_t i = 0; i < VALUE(uint64_t, 2); ++i)
        POINTER(uint64_t, 1)
        [i] = POINTER(const uint64_t, 0)[i] + POINTER(const uint64_t, 0)[(i + 1) % VALUE(uint64_t, 2)];
}

int main(void) {
    const size_t bytes = WORDS * sizeof(uint64_t);
    uint64_t *const host = host_memory(bytes), *in, *out, words = WORDS;
    for (int i = 0; i < WORDS; ++i) host[i] = 1;
    CHECK(cudaMalloc((void**)&in, bytes));
    CHECK(cudaMalloc((void**)&out, bytes));
    for (int k = 0; k < ROUNDS; ++k) {
        CHECK(cudaMemcpy(in, host, bytes, cudaMemcpyHostToDevice));
        LAUNCH(add_next, WORDS / 256, 256, NULL, &in, &out, &words);
        CHECK(cudaMemcpy(host, out, bytes, cudaMemcpyDeviceToHost));
    }
    const int is_right = host[0] == 1 << ROUNDS && host[WORDS - 1] == 1 << ROUNDS;
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
    return is_right ? 0 : 1;
}
