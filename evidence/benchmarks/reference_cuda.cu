// Minimal hand-written reference loops in CUDA C++: a triad, pinned copies and a pointer chase.
// Prints "quantity value unit" lines. Build: nvcc -O3 -arch=sm_90 reference_cuda.cu
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#define CHECK(call)                                                                    \
    do {                                                                               \
        const cudaError_t error = (call);                                              \
        if (error != cudaSuccess) {                                                    \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));        \
            std::exit(1);                                                              \
        }                                                                              \
    } while (0)

__global__ void fill(double* p, double v, std::size_t n) {
    for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += std::size_t{gridDim.x} * blockDim.x)
        p[i] = v;
}

__global__ void triad(double2* a, const double2* b, const double2* c, double s, std::size_t n) {
    const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
    if (i < n) a[i] = make_double2(b[i].x + s * c[i].x, b[i].y + s * c[i].y);
}

__global__ void chase(std::uint64_t* start, std::uint64_t warm, std::uint64_t hops, std::uint64_t* result) {
    std::uint64_t p = *start;
    for (std::uint64_t i = 0; i < warm; ++i) p = *reinterpret_cast<std::uint64_t*>(p);
    std::uint64_t before, after;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(before)::"memory");
#pragma unroll 32
    for (std::uint64_t i = 0; i < hops; ++i) p = *reinterpret_cast<std::uint64_t*>(p);
    *start = p;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(after)::"memory");
    *result = after - before;
}

static float timed(cudaEvent_t from, cudaEvent_t to) {
    float ms = 0;
    CHECK(cudaEventSynchronize(to));
    CHECK(cudaEventElapsedTime(&ms, from, to));
    return ms * 1e-3f;
}

int main(int argc, char** argv) {
    cudaEvent_t from, to;
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    const std::size_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : std::size_t{2} << 30;
    double *a, *b, *c;
    for (double** p : {&a, &b, &c}) CHECK(cudaMalloc(p, bytes));
    const std::size_t n = bytes / 8;
    fill<<<1024, 256>>>(b, 2.0, n);
    fill<<<1024, 256>>>(c, 5.0, n);
    double best = 0;
    for (int repeat = 0; repeat < 30; ++repeat) {
        CHECK(cudaEventRecord(from));
        triad<<<static_cast<unsigned>((n / 2 + 1023) / 1024), 1024>>>(
            reinterpret_cast<double2*>(a), reinterpret_cast<double2*>(b), reinterpret_cast<double2*>(c), 3.0, n / 2);
        CHECK(cudaEventRecord(to));
        best = std::max(best, 3.0 * bytes / timed(from, to) * 1e-9);
    }
    double last = 0;
    CHECK(cudaMemcpy(&last, a + n - 1, 8, cudaMemcpyDeviceToHost));
    if (last != 17.0) return 1;
    std::printf("triad %.1f GB/s\n", best);

    void* pinned;
    const std::size_t copied = std::size_t{1} << 30;
    CHECK(cudaHostAlloc(&pinned, copied, 0));
    std::fill_n(static_cast<std::uint64_t*>(pinned), copied / 8, 0xBAADF00DBAADF00Dull);
    for (const bool down : {true, false}) {
        std::vector<double> rates;
        for (int repeat = 0; repeat < 12; ++repeat) {
            CHECK(cudaEventRecord(from));
            CHECK(cudaMemcpyAsync(down ? static_cast<void*>(a) : pinned, down ? pinned : static_cast<void*>(a), copied,
                                  cudaMemcpyDefault));
            CHECK(cudaEventRecord(to));
            rates.push_back(copied / timed(from, to) * 1e-9);
        }
        std::sort(rates.begin(), rates.end());
        std::printf("%s %.3f GB/s\n", down ? "h2d" : "d2h", rates[rates.size() / 2]);
    }

    std::uint64_t* state;
    CHECK(cudaMalloc(&state, 16));
    for (const std::size_t size : {std::size_t{16} << 10, std::size_t{128} << 10, std::size_t{4} << 20,
                                   std::size_t{40} << 20, std::size_t{256} << 20}) {
        const std::size_t nodes = size / 128;
        std::vector<std::uint32_t> order(nodes);
        std::iota(order.begin(), order.end(), 0u);
        std::mt19937_64 random(7);
        std::shuffle(order.begin(), order.end(), random);
        std::vector<std::uint64_t> image(size / 8);
        const auto base = reinterpret_cast<std::uint64_t>(a);
        for (std::size_t i = 0; i < nodes; ++i) image[order[i] * 16ull] = base + order[(i + 1) % nodes] * 128ull;
        CHECK(cudaMemcpy(a, image.data(), size, cudaMemcpyHostToDevice));
        const std::uint64_t start = base + order[0] * 128ull;
        CHECK(cudaMemcpy(state, &start, 8, cudaMemcpyHostToDevice));
        std::uint64_t least = ~0ull;
        for (int repeat = 0; repeat < 5; ++repeat) {
            chase<<<1, 1>>>(state, std::min<std::size_t>(nodes, 500'000), 200'000, state + 1);
            std::uint64_t ns = 0;
            CHECK(cudaMemcpy(&ns, state + 1, 8, cudaMemcpyDeviceToHost));
            least = std::min(least, ns);
        }
        std::printf("chase_%zu %.3f ns\n", size, least / 200'000.0);
    }
}
