// Heat spreads on a plate, of which the CPU heats one edge before each frame and looks at the middle after it.
// This is heat_hip.cpp after the changes that `firsttouch advise` lists: CPU and GPU use one array of managed memory.
// hipcc -g -O1 -o heat_hip_managed heat_hip_managed.cpp
#include <hip/hip_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    float *plate, *next;
    check(hipMallocManaged((void**)&plate, bytes));
    memset(plate, 0, bytes);
    check(hipMalloc((void**)&next, bytes));
    const dim3 groups(side / 32, side / 8), group(32, 8);
    for (int frame = 0; frame < frames; ++frame) {
        for (int x = 0; x < side; ++x) plate[x] = 100.0f * (frame + 1);
        for (int step = 0; step < steps; ++step)
            spread<<<groups, group>>>(step % 2 ? next : plate, step % 2 ? plate : next);
        check(hipDeviceSynchronize());
        printf("frame %d: %.4f\n", frame, plate[20 * side + side / 2]);
    }
    check(hipFree(plate));
    check(hipFree(next));
    return 0;
}
