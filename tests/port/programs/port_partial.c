/* The discrete form of port-partial: each iteration reads back one word of an array that the device updates. */
#include "cudart.h"

enum { WORDS = 1 << 17, ITERATIONS = 8 };

KERNEL(step_words, "_Z10step_wordsPmmm", sizeof(uint64_t*), sizeof(uint64_t), sizeof(uint64_t)) {
    for (uint64_t i = 0; i < VALUE(uint64_t, 1); ++i)
        POINTER(uint64_t, 0)[i] = 3 * (POINTER(uint64_t, 0)[i] + VALUE(uint64_t, 2)) + 1;
}

int main(void) {
    const size_t bytes = WORDS * sizeof(uint64_t);
    uint64_t *const host = host_memory(bytes), *const word = host_memory(sizeof(uint64_t)), *array;
    for (int i = 0; i < WORDS; ++i) host[i] = 1;
    CHECK(cudaMalloc((void**)&array, bytes));
    CHECK(cudaMemcpy(array, host, bytes, cudaMemcpyHostToDevice));
    const uint64_t words = WORDS;
    uint64_t before = 0, expected = 1;
    for (int k = 0; k < ITERATIONS; ++k) {
        LAUNCH(step_words, WORDS / 256, 256, NULL, &array, &words, &before);
        CHECK(cudaMemcpy(word, array + WORDS - 1, sizeof(uint64_t), cudaMemcpyDeviceToHost));
        expected = 3 * (expected + before) + 1;
        before = *word;
    }
    CHECK(cudaFree(array));
    return before == expected ? 0 : 1;
}
