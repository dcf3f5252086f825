// A bare memcpy loop in one thread. Prints "copy_BYTES value GB/s" lines, the median of the loops of each size given.
// Build: c++ -O2 reference_copy.cpp
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static double copy(std::size_t bytes) {
    const auto pages = [&] {
        void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(memory, bytes, MADV_NOHUGEPAGE);
        return static_cast<char*>(memory);
    };
    char *source = pages(), *target = pages();
    std::memset(source, 1, bytes);
    std::memset(target, 2, bytes);
    std::vector<double> rates;
    for (const double end = now() + 0.5; now() < end || rates.size() < 5;) {
        const double start = now();
        std::memcpy(target, source, bytes);
        rates.push_back(static_cast<double>(bytes) / (now() - start) * 1e-9);
        if (target[bytes - 1] != 1) std::exit(1);
    }
    munmap(source, bytes), munmap(target, bytes);
    std::nth_element(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2), rates.end());
    return rates[rates.size() / 2];
}

int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        const auto bytes = static_cast<std::size_t>(std::atoll(argv[i]));
        std::printf("copy_%zu %.6f GB/s\n", bytes, copy(bytes));
    }
}
