// A program that evidence/benchmarks/profiling.py runs with and without --trace: 100,000 copies of 64 KiB from page-locked memory
// to a GPU. It prints the seconds of the copies.
#include <chrono>
#include <cstdio>

int main() {
    constexpr size_t bytes = 64 << 10;
    void *host = nullptr, *device = nullptr;
    if (cudaMallocHost(&host, bytes) != cudaSuccess || cudaMalloc(&device, bytes) != cudaSuccess) return 1;
    const auto copy = [&](int n) {
        for (int i = 0; i < n; ++i) cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice);
        return cudaDeviceSynchronize();
    };
    if (copy(1000) != cudaSuccess) return 1;
    const auto started = std::chrono::steady_clock::now();
    if (copy(100000) != cudaSuccess) return 1;
    std::printf("%.9f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count());
}
