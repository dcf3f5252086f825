// Heat spreads on a plate, of which the CPU heats one edge before each frame and looks at the middle after it.
// hipcc -g -O1 -o heat_hip heat_hip.cpp
#include <hip/hip_runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { side = 1024, frames = 12, steps = 10 };
static const size_t bytes = side * side * sizeof(float);

__global__ void spread(const float* __restrict__ now, float* __restrict__ next) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, at = y * side + x;
    const bool edge = x == 0 || y == 0 || x == side - 1 || y == side - 1;
    next[at] = edge ? now[at] : 0.25f * (now[at - 1] + now[at + 1] + now[at - side] + now[at + side]);
}

static void check(hipError_t error) {
    if (error != hipSuccess) {
        fprintf(stderr, "HIP failed: %s\n", hipGetErrorString(error));
        exit(1);
    }
}

int main() {
    float* plate = (float*)calloc(1, bytes);
    float *now, *next;
    check(hipMalloc((void**)&now, bytes));
    check(hipMalloc((void**)&next, bytes));
    const dim3 groups(side / 32, side / 8), group(32, 8);
    for (int frame = 0; frame < frames; ++frame) {
        for (int x = 0; x < side; ++x) plate[x] = 100.0f * (frame + 1);
        check(hipMemcpy(now, plate, bytes, hipMemcpyHostToDevice));
        for (int step = 0; step < steps; ++step)
            spread<<<groups, group>>>(step % 2 ? next : now, step % 2 ? now : next);
        check(hipMemcpy(plate, now, bytes, hipMemcpyDeviceToHost));
        printf("frame %d: %.4f\n", frame, plate[20 * side + side / 2]);
    }
    check(hipFree(now));
    check(hipFree(next));
    free(plate);
    return 0;
}
