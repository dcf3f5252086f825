// Programs that evidence/benchmarks/profiling.py runs with and without a profiler. Each prints the seconds of its own work.
//     hold: touches 4 GiB of base pages, then writes to every page 30 times, with a mapping made and unmade in between
//     touch: 5 times 1 GiB of first touches of base pages
#include <sys/mman.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t GiB = std::size_t(1) << 30, page = 4096;

char* map(std::size_t bytes) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) std::abort();
    madvise(at, bytes, MADV_NOHUGEPAGE);
    return static_cast<char*>(at);
}

void touch(char* at, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += page) at[i] += 1;
}

void hold() {
    char* const held = map(4 * GiB);
    touch(held, 4 * GiB);
    for (int pass = 0; pass < 30; ++pass) {
        touch(held, 4 * GiB);
        char* const more = map(64 * page);
        touch(more, 64 * page);
        munmap(more, 64 * page);
    }
}

void touch_first() {
    for (int pass = 0; pass < 5; ++pass) {
        char* const at = map(GiB);
        touch(at, GiB);
        munmap(at, GiB);
    }
}

}  // namespace

int main(int count, char** arguments) {
    const auto started = Clock::now();
    const char* const what = count > 1 ? arguments[1] : "";
    if (std::strcmp(what, "hold") == 0)
        hold();
    else if (std::strcmp(what, "touch") == 0)
        touch_first();
    else
        return 2;
    std::printf("%.9f\n", std::chrono::duration<double>(Clock::now() - started).count());
}
