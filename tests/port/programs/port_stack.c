/* The discrete form of port-stack: a kernel raises a flag of the device, which is copied into a local variable. */
#include "cudart.h"

KERNEL(raise_flag, "_Z10raise_flagPmm", sizeof(uint64_t*), sizeof(uint64_t)) {
    *POINTER(uint64_t, 0) = VALUE(uint64_t, 1);
}

static uint64_t raised(uint64_t* on_device, uint64_t number) {
    uint64_t flag = 0;
    LAUNCH(raise_flag, 1, 1, NULL, &on_device, &number);
    CHECK(cudaMemcpy(&flag, on_device, sizeof flag, cudaMemcpyDeviceToHost));
    return flag;
}

int main(void) {
    uint64_t* flag;
    CHECK(cudaMalloc((void**)&flag, sizeof *flag));
    int wrong = 0;
    for (uint64_t number = 42; number < 44; ++number) wrong += raised(flag, number) != number;
    CHECK(cudaFree(flag));
    return wrong;
}
