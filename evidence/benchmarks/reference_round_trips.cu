// A CUDA program that knows nothing of firsttouch: managed memory goes to the GPU by faults and back, several times.
//   reference_round_trips MIB TIMES PAUSE_MS    prints the milliseconds of a kernel and of the host's loop, on average
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

__global__ void add_one(unsigned char* data, size_t n) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) data[i] += 1;
}

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int count, char** words) {
    if (count != 4) return 2;
    const size_t size = std::strtoull(words[1], nullptr, 10) << 20;
    const int times = std::atoi(words[2]), pause = std::atoi(words[3]);
    unsigned char* data = nullptr;
    if (cudaMallocManaged(&data, size) != cudaSuccess) return 1;
    std::memset(data, 1, size);
    double kernel = 0, host = 0;
    for (int i = 0; i < times; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(pause));
        const double begin = now();
        add_one<<<1024, 256>>>(data, size);
        if (cudaDeviceSynchronize() != cudaSuccess) return 1;
        const double middle = now();
        for (size_t j = 0; j < size; j += 4096)
            if (data[j] != (unsigned char)(i + 2)) return 1;
        kernel += middle - begin, host += now() - middle;
    }
    std::printf("%.1f %.1f\n", 1e3 * kernel / times, 1e3 * host / times);
    return cudaFree(data) != cudaSuccess;
}
