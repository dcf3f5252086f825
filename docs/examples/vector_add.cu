// The GPU adds two vectors again and again, and the CPU looks at the sum.
// nvcc -g -O1 -o vector_add vector_add.cu
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

static const int count = 32 << 20, additions = 10;
static const size_t bytes = count * sizeof(float);

__global__ void add(float* __restrict__ sum, const float* __restrict__ more) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    sum[at] += more[at];
}

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        fprintf(stderr, "CUDA failed: %s\n", cudaGetErrorString(error));
        exit(1);
    }
}

int main() {
    float* sum = (float*)malloc(bytes);
    float* more = (float*)malloc(bytes);
    for (int i = 0; i < count; ++i) sum[i] = i % 100, more[i] = 1;

    float *device_sum, *device_more;
    check(cudaMalloc((void**)&device_sum, bytes));
    check(cudaMalloc((void**)&device_more, bytes));
    check(cudaMemcpy(device_sum, sum, bytes, cudaMemcpyHostToDevice));
    check(cudaMemcpy(device_more, more, bytes, cudaMemcpyHostToDevice));
    for (int i = 0; i < additions; ++i) add<<<count / 256, 256>>>(device_sum, device_more);
    check(cudaMemcpy(sum, device_sum, bytes, cudaMemcpyDeviceToHost));
    check(cudaFree(device_sum));
    check(cudaFree(device_more));

    double total = 0;
    for (int i = 0; i < count; ++i) total += sum[i];
    printf("%.1f\n", total);
    free(sum);
    free(more);
    return 0;
}
