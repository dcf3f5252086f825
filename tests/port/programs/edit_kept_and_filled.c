/* A result comes back into the array from which a table was copied in, which the device still needs: the table's copy
   has to stay. A buffer is cleared before its data come: as one with the host array, that would clear these. */
#include "cudart.h"

enum { WORDS = 1 << 15 };

KERNEL(add_one, "_Z7add_onePKmPmm", sizeof(uint64_t*), sizeof(uint64_t*), sizeof(uint64_t)) {
    for (uint64_t i = 0; i < VALUE(uint64_t, 2); ++i) POINTER(uint64_t, 1)[i] = POINTER(const uint64_t, 0)[i] + 1;
}

KERNEL(count_others, "_Z12count_othersPKmS0_Pmm", sizeof(uint64_t*), sizeof(uint64_t*), sizeof(uint64_t*),
       sizeof(uint64_t)) {
    for (uint64_t i = 0; i < VALUE(uint64_t, 3); ++i)
        POINTER(uint64_t, 2)[0] += POINTER(const uint64_t, 1)[i] != i * POINTER(const uint64_t, 0)[i];
}

int main(void) {
    const size_t bytes = WORDS * sizeof(uint64_t);
    uint64_t *const input = host_memory(bytes), *const table = host_memory(bytes);
    uint64_t* const number = host_memory(sizeof(uint64_t));
    uint64_t *in, *squares, *out, *others, words = WORDS;
    for (uint64_t i = 0; i < WORDS; ++i) input[i] = i, table[i] = i * i;
    CHECK(cudaMalloc((void**)&in, bytes));
    CHECK(cudaMalloc((void**)&squares, bytes));
    CHECK(cudaMalloc((void**)&out, bytes));
    CHECK(cudaMalloc((void**)&others, sizeof(uint64_t)));
    CHECK(cudaMemset(in, 0, bytes));
    CHECK(cudaMemset(others, 0, sizeof(uint64_t)));
    CHECK(cudaMemcpy(in, input, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(squares, table, bytes, cudaMemcpyHostToDevice));
    LAUNCH(add_one, WORDS / 256, 256, NULL, &in, &out, &words);
    CHECK(cudaMemcpy(table, out, bytes, cudaMemcpyDeviceToHost));
    int wrong = table[0] != 1 || table[WORDS - 1] != WORDS;
    LAUNCH(count_others, 1, 1, NULL, &in, &squares, &others, &words);
    CHECK(cudaMemcpy(number, others, sizeof(uint64_t), cudaMemcpyDeviceToHost));
    wrong += number[0] != 0;
    CHECK(cudaFree(in));
    CHECK(cudaFree(squares));
    CHECK(cudaFree(out));
    CHECK(cudaFree(others));
    return wrong;
}
