// A small program for fixed_time.py: one block, one copy each way and one kernel.
#include <cstdio>
#include <vector>

__global__ void add_one(int* data, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] += 1;
}

int main() {
    constexpr int n = 1 << 16;
    std::vector<int> host(n, 1);
    int* device = nullptr;
    if (cudaMalloc(&device, n * sizeof(int)) != cudaSuccess) return 1;
    cudaMemcpy(device, host.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    add_one<<<n / 256, 256>>>(device, n);
    cudaMemcpy(host.data(), device, n * sizeof(int), cudaMemcpyDeviceToHost);
    cudaFree(device);
    std::printf("%d\n", host[n - 1]);
}
