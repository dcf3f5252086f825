/* The discrete form of port-concurrent: the CPU prepares frame k + 1 on the host while the device sums frame k. */
#include "cudart.h"

enum { FRAMES = 6, WORDS = 1 << 17 };

KERNEL(sum_words, "_Z9sum_wordsPKmmPmm", sizeof(uint64_t*), sizeof(uint64_t), sizeof(uint64_t*), sizeof(uint64_t)) {
    for (uint64_t i = 0; i < VALUE(uint64_t, 1); ++i)
        POINTER(uint64_t, 2)[VALUE(uint64_t, 3)] += POINTER(const uint64_t, 0)[i];
}

static void prepare(uint64_t* frame, uint64_t number) {
    for (int i = 0; i < WORDS; ++i) frame[i] = number + 1;
}

int main(void) {
    const size_t bytes = WORDS * sizeof(uint64_t);
    uint64_t *const host = host_memory(bytes), *const results = host_memory(FRAMES * sizeof(uint64_t));
    uint64_t *frame, *sums;
    CHECK(cudaMalloc((void**)&frame, bytes));
    CHECK(cudaMalloc((void**)&sums, FRAMES * sizeof(uint64_t)));
    CHECK(cudaMemset(sums, 0, FRAMES * sizeof(uint64_t)));
    const uint64_t words = WORDS;
    prepare(host, 0);
    for (uint64_t k = 0; k < FRAMES; ++k) {
        CHECK(cudaMemcpy(frame, host, bytes, cudaMemcpyHostToDevice));
        LAUNCH(sum_words, WORDS / 256, 256, NULL, &frame, &words, &sums, &k);
        prepare(host, k + 1);
    }
    CHECK(cudaMemcpy(results, sums, FRAMES * sizeof(uint64_t), cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (uint64_t k = 0; k < FRAMES; ++k) wrong += results[k] != words * (k + 1);
    CHECK(cudaFree(frame));
    CHECK(cudaFree(sums));
    return wrong;
}
