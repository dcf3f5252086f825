// Hand-written reference loops in CUDA C++ for sharing between agents: atomic updates of random elements, and passes of
// a kernel over managed memory that the CPU initialised. Prints "quantity value unit" lines.
// Build: nvcc -O3 -arch=sm_90 reference_sharing.cu
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                    \
    do {                                                                               \
        const cudaError_t error = (call);                                              \
        if (error != cudaSuccess) {                                                    \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));        \
            std::exit(1);                                                              \
        }                                                                              \
    } while (0)

using Word = unsigned long long;

__global__ void histogram(Word* data, std::uint32_t mask, int updates) {
    std::uint32_t x = 123456789u ^ ((blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + 1u);
    for (int i = 0; i < updates; ++i) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        atomicAdd(data + (x & mask), Word{1});
    }
}

__global__ void increment(Word* p, std::size_t n) {
    for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += std::size_t{gridDim.x} * blockDim.x)
        ++p[i];
}

static double timed(cudaEvent_t from, cudaEvent_t to) {
    float ms = 0;
    CHECK(cudaEventSynchronize(to));
    CHECK(cudaEventElapsedTime(&ms, from, to));
    return ms;
}

static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

int main(int argc, char** argv) {
    const std::size_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : std::size_t{256} << 20;
    const int threads = argc > 2 ? std::atoi(argv[2]) : 16384;
    cudaEvent_t from, to;
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));

    for (const std::uint32_t elements : {1u, 1u << 10, 1u << 20}) {
        Word* data;
        CHECK(cudaMalloc(&data, elements * sizeof(Word)));
        CHECK(cudaMemset(data, 0, elements * sizeof(Word)));
        const int updates = elements == 1 ? 2000 : 20000;
        std::vector<double> rates;
        for (int repeat = 0; repeat < 7; ++repeat) {
            CHECK(cudaEventRecord(from));
            histogram<<<threads / 64, 64>>>(data, elements - 1, updates);
            CHECK(cudaEventRecord(to));
            rates.push_back(double(threads) * updates / timed(from, to) * 1e-3);
        }
        std::printf("atomics_%u %.1f M/s\n", elements, median(rates));
        CHECK(cudaFree(data));
    }

    for (const bool prefetch : {false, true}) {
        std::vector<double> firsts, later, moves;
        for (int repeat = 0; repeat < 5; ++repeat) {
            Word* data;
            const std::size_t n = bytes / sizeof(Word);
            CHECK(cudaMallocManaged(&data, bytes));
            for (std::size_t i = 0; i < n; ++i) data[i] = i;
            if (prefetch) {
                CHECK(cudaEventRecord(from));
#if CUDART_VERSION >= 13000
                CHECK(cudaMemPrefetchAsync(data, bytes, cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0, 0));
#else
                CHECK(cudaMemPrefetchAsync(data, bytes, 0, 0));
#endif
                CHECK(cudaEventRecord(to));
                moves.push_back(timed(from, to));
            }
            for (int iteration = 0; iteration < 12; ++iteration) {
                CHECK(cudaEventRecord(from));
                increment<<<2048, 256>>>(data, n);
                CHECK(cudaEventRecord(to));
                (iteration == 0 ? firsts : later).push_back(timed(from, to));
            }
            for (std::size_t i = 0; i < n; i += 4097)
                if (data[i] != i + 12) return 1;
            CHECK(cudaFree(data));
        }
        const char* how = prefetch ? "prefetched" : "on_demand";
        std::printf("%s_first %.4f ms\n%s_later %.4f ms\n", how, median(firsts), how, median(later));
        if (prefetch) std::printf("prefetch %.4f ms\n", median(moves));
    }
}
