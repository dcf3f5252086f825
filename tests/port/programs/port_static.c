/* The discrete form of port-static: the coefficients of a filter are copied to a symbol of the device. */
#include "cudart.h"

enum { WORDS = 1 << 16, TAPS = 5 };

SYMBOL(coefficients, TAPS * sizeof(uint64_t))

KERNEL(filter, "_Z6filterPKmPmm", sizeof(uint64_t*), sizeof(uint64_t*), sizeof(uint64_t)) {
    uint64_t* taps;
    CHECK(cudaGetSymbolAddress((void**)&taps, coefficients));
    const uint64_t count = VALUE(uint64_t, 2);
    for (uint64_t i = 0; i < count; ++i) {
        uint64_t sum = 0;
        for (uint64_t k = 0; k < TAPS; ++k) sum += taps[k] * POINTER(const uint64_t, 0)[(i + k) % count];
        POINTER(uint64_t, 1)[i] = sum;
    }
}

int main(void) {
    const size_t bytes = WORDS * sizeof(uint64_t);
    uint64_t *const host = host_memory(bytes), *const out = host_memory(bytes);
    uint64_t *const taps = host_memory(TAPS * sizeof(uint64_t)), *in, *filtered, words = WORDS, sum = 0;
    for (uint64_t i = 0; i < WORDS; ++i) host[i] = i, sum += 25 * i;
    for (uint64_t k = 0; k < TAPS; ++k) taps[k] = 2 * k + 1;
    CHECK(cudaMalloc((void**)&in, bytes));
    CHECK(cudaMalloc((void**)&filtered, bytes));
    CHECK(cudaMemcpyToSymbol(coefficients, taps, TAPS * sizeof(uint64_t), 0, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(in, host, bytes, cudaMemcpyHostToDevice));
    LAUNCH(filter, WORDS / 256, 256, NULL, &in, &filtered, &words);
    CHECK(cudaMemcpy(out, filtered, bytes, cudaMemcpyDeviceToHost));
    for (int i = 0; i < WORDS; ++i) sum -= out[i];
    CHECK(cudaFree(in));
    CHECK(cudaFree(filtered));
    return sum != 0;
}
