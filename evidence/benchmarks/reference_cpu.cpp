// Minimal hand-written reference loops for the CPU: a triad and a pointer chase.
// Prints "quantity value unit" lines. Build: c++ -O3 -march=native -fopenmp reference_cpu.cpp
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>
#include <sys/mman.h>

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static double triad(std::size_t n) {
    auto array = [&] { return static_cast<double*>(std::aligned_alloc(4096, n * 8)); };
    double *a = array(), *b = array(), *c = array();
#pragma omp parallel for schedule(static)
    for (std::size_t i = 0; i < n; ++i) a[i] = 0, b[i] = static_cast<double>(i % 1000), c[i] = 1;
    double best = 1e30;
    for (int repeat = 0; repeat < 20; ++repeat) {
        const double start = now();
#pragma omp parallel for schedule(static)
        for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + 3.0 * c[i];
        best = std::min(best, now() - start);
    }
    for (std::size_t i = 0; i < n; i += 997)
        if (a[i] != b[i] + 3.0) std::exit(1);
    std::free(a), std::free(b), std::free(c);
    return 24.0 * static_cast<double>(n) / best * 1e-9;
}

static double chase(std::size_t bytes) {
    const std::size_t nodes = bytes / 64;
    auto* memory = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    std::vector<std::uint32_t> order(nodes);
    std::iota(order.begin(), order.end(), 0u);
    std::mt19937_64 random(7);
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i = 0; i < nodes; ++i)
        *reinterpret_cast<void**>(memory + std::size_t{order[i]} * 64) =
            memory + std::size_t{order[(i + 1) % nodes]} * 64;
    void** p = reinterpret_cast<void**>(memory);
    for (std::size_t i = 0; i < std::min<std::size_t>(nodes, 2'000'000); ++i) p = static_cast<void**>(*p);
    const std::size_t hops = 2'000'000;
    double best = 1e30;
    for (int repeat = 0; repeat < 5; ++repeat) {
        const double start = now();
        for (std::size_t i = 0; i < hops; i += 16)
#pragma GCC unroll 16
            for (int u = 0; u < 16; ++u) p = *reinterpret_cast<void** volatile*>(p);
        best = std::min(best, (now() - start) / static_cast<double>(hops));
    }
    if (p == nullptr) std::exit(1);
    munmap(memory, bytes);
    return best * 1e9;
}

int main(int argc, char** argv) {
    if (argc > 1 && std::strtoull(argv[1], nullptr, 10) > 0)
        std::printf("triad %.3f GB/s\n", triad(std::strtoull(argv[1], nullptr, 10) / 8));
    for (int i = 2; i < argc; ++i) {
        const std::size_t bytes = std::strtoull(argv[i], nullptr, 10);
        std::printf("chase_%zu %.3f ns\n", bytes, chase(bytes));
    }
}
