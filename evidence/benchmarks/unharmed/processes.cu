// Forks while threads use CUDA: children that end by exit and by _exit, one that executes a program, and grandchildren;
// a SIGSEGV handler of its own that the program relies on; memory of cudaMallocAsync, of pools and of cuMemMap.
#include <cuda.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        const int result = int(call);                                                                                  \
        if (result != 0) {                                                                                             \
            std::fprintf(stderr, "line %d: %d\n", __LINE__, result);                                                   \
            std::exit(3);                                                                                              \
        }                                                                                                              \
    } while (0)

__global__ void add(float* data, float value, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] += value;
}

constexpr int n = 1 << 18;
std::atomic<int> faults{0};

// A page that the program protected is made writable, as programs do that track what they write.
void on_fault(int, siginfo_t* info, void*) {
    const auto page = reinterpret_cast<std::uintptr_t>(info->si_addr) / 4096 * 4096;
    mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE);
    ++faults;
}

void work(int rounds, double* sum) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::vector<float> host(n);
    for (int round = 0; round < rounds; ++round) {
        float* data = nullptr;
        CHECK(cudaMallocAsync(&data, n * sizeof(float), stream));
        CHECK(cudaMemsetAsync(data, 0, n * sizeof(float), stream));
        add<<<64, 256, 0, stream>>>(data, float(round), n);
        CHECK(cudaMemcpyAsync(host.data(), data, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaFreeAsync(data, stream));
        *sum += host[n - 1];
    }
    CHECK(cudaStreamDestroy(stream));
}

// Pieces that are mapped one by one and unmapped by one call.
double mapped_in_pieces() {
    CUdevice device;
    CHECK(cuDeviceGet(&device, 0));
    CUmemAllocationProp of{};
    of.type = CU_MEM_ALLOCATION_TYPE_PINNED, of.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    constexpr std::size_t piece = 2 << 20;
    CUdeviceptr start = 0;
    CHECK(cuMemAddressReserve(&start, 4 * piece, 0, 0, 0));
    CUmemGenericAllocationHandle pieces[4];
    for (int i = 0; i < 4; ++i) {
        CHECK(cuMemCreate(&pieces[i], piece, &of, 0));
        CHECK(cuMemMap(start + i * piece, piece, 0, pieces[i], 0));
    }
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK(cuMemSetAccess(start, 4 * piece, &access, 1));
    CHECK(cuMemsetD32(start, 7, piece));
    unsigned last = 0;
    CHECK(cuMemcpyDtoH(&last, start + 4 * piece - sizeof last, sizeof last));
    CHECK(cuMemUnmap(start, 4 * piece));
    for (const auto handle : pieces) CHECK(cuMemRelease(handle));
    CHECK(cuMemAddressFree(start, 4 * piece));
    return last;
}

int main() {
    struct sigaction action {};
    action.sa_sigaction = on_fault, action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    CHECK(cudaFree(nullptr));
    double sums[4] = {};
    std::vector<std::thread> threads;
    for (double& sum : sums) threads.emplace_back(work, 300, &sum);
    int ended_well = 0;
    for (int i = 0; i < 40; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            void* data = nullptr;
            if (cudaMalloc(&data, 64) == cudaSuccess) _exit(9);  // CUDA does not work in a child
            if (i % 4 == 0) execlp("true", "true", nullptr);
            if (i % 4 == 1) std::exit(0);
            if (i % 4 == 2) {
                const pid_t grandchild = fork();
                if (grandchild == 0) std::exit(0);
                int status = 1;
                waitpid(grandchild, &status, 0);
                _exit(status);
            }
            _exit(0);
        }
        int status = 1;
        waitpid(child, &status, 0);
        ended_well += status == 0 ? 1 : 0;
        usleep(2000);
    }
    for (std::thread& thread : threads) thread.join();
    auto* const tracked =
        static_cast<char*>(mmap(nullptr, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(tracked, 1, 64 * 4096);
    void* device = nullptr;
    CHECK(cudaMalloc(&device, 64 * 4096));
    for (int round = 0; round < 3; ++round) {
        mprotect(tracked, 64 * 4096, PROT_READ);
        CHECK(cudaMemcpy(device, tracked, 64 * 4096, cudaMemcpyHostToDevice));
        for (int page = 0; page < 64; page += 2) tracked[page * 4096] += 1;
    }
    CHECK(cudaMemcpy(tracked, device, 64 * 4096, cudaMemcpyDeviceToHost));
    std::printf("%g %g %g %g children %d faults %d mapped %g copied %d\n", sums[0], sums[1], sums[2], sums[3],
                ended_well, faults.load(), mapped_in_pieces(), tracked[0]);
}
