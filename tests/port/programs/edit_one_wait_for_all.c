/* The last copy that blocks is the wait for an earlier one that does not, too; and the input is written anew each time.
 */
#include "cudart.h"

enum { WORDS = 1 << 15, ROUNDS = 3 };

KERNEL(scale_words, "_Z11scale_wordsPKmPmm", sizeof(uint64_t*), sizeof(uint64_t*), sizeof(uint64_t)) {
    for (uint64_t i = 0; i < VALUE(uint64_t, 2); ++i) POINTER(uint64_t, 1)[i] = 2 * POINTER(const uint64_t, 0)[i];
}
KERNEL(count_words, "_Z11count_wordsPKmPmm", sizeof(uint64_t*), sizeof(uint64_t*), sizeof(uint64_t)) {
    for (uint64_t i = 0; i < VALUE(uint64_t, 2); ++i) POINTER(uint64_t, 1)[0] += POINTER(const uint64_t, 0)[i];
}

int main(void) {
    const size_t bytes = WORDS * sizeof(uint64_t);
    uint64_t *const host = host_memory(bytes), *const total = host_memory(64);
    uint64_t *in, *scaled, *sums, words = WORDS, wrong = 0;
    CHECK(cudaMalloc((void**)&in, bytes));
    CHECK(cudaMalloc((void**)&scaled, bytes));
    CHECK(cudaMalloc((void**)&sums, 64));
    total[0] = 0;
    CHECK(cudaMemcpy(sums, total, 64, cudaMemcpyHostToDevice));
    for (uint64_t k = 0; k < ROUNDS; ++k) {
        for (int i = 0; i < WORDS; ++i) host[i] = k + 1;
        CHECK(cudaMemcpy(in, host, bytes, cudaMemcpyHostToDevice));
        LAUNCH(scale_words, WORDS / 256, 256, NULL, &in, &scaled, &words);
        LAUNCH(count_words, WORDS / 256, 256, NULL, &scaled, &sums, &words);
        CHECK(cudaMemcpy(total, sums, 64, cudaMemcpyDeviceToHost));
        wrong += total[0] != WORDS * (k + 1) * (k + 2);
    }
    CHECK(cudaFree(in));
    CHECK(cudaFree(scaled));
    CHECK(cudaFree(sums));
    return (int)wrong;
}
