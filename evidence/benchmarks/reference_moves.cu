// A CUDA program with NVTX ranges that knows nothing of firsttouch: memory, copies and migrations of known sizes, for
// firsttouch profile --trace. Managed memory: 64 MiB go to the GPU and back, and 32 MiB that the GPU touched first come
// to the host; 160 MiB are copied in, 40 MiB out.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#define CHECK(call)                                                                                 \
    if (cudaError_t e = (call); e != cudaSuccess) {                                                 \
        std::printf("%s: %s\n", #call, cudaGetErrorString(e));                                      \
        return 1;                                                                                   \
    }

__global__ void add_one(unsigned char* data, size_t n) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) data[i] += 1;
}
__global__ void first_touch(unsigned char* data, size_t n) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) data[i] = 7;
}

constexpr size_t MiB = 1 << 20;

__attribute__((noinline)) unsigned char* allocate_managed(size_t n) {
    unsigned char* p = nullptr;
    if (cudaMallocManaged(&p, n) != cudaSuccess) std::abort();
    return p;
}
__attribute__((noinline)) unsigned char* allocate_device(size_t n) {
    unsigned char* p = nullptr;
    if (cudaMalloc(&p, n) != cudaSuccess) std::abort();
    return p;
}

int main(int count, char** arguments) {
    const char end = count > 1 ? arguments[1][0] : 'r';  // r return, _ _exit, a abort
    nvtxRangePushA("allocate");
    unsigned char* managed = allocate_managed(64 * MiB);
    unsigned char* from_gpu = allocate_managed(32 * MiB);
    unsigned char* device = allocate_device(48 * MiB);
    unsigned char* pinned = nullptr;
    CHECK(cudaMallocHost(&pinned, 16 * MiB));
    nvtxRangePop();

    nvtxRangePushA("to the GPU");
    std::memset(managed, 1, 64 * MiB);                   // CPU first touch: CPU faults
    add_one<<<1024, 256>>>(managed, 64 * MiB);           // 64 MiB h2d by fault and speculation
    CHECK(cudaDeviceSynchronize());
    nvtxRangePop();

    nvtxRangePushA("to the host");
    unsigned long long sum = 0;
    for (size_t i = 0; i < 64 * MiB; i += 4096) sum += managed[i];  // 64 MiB d2h
    nvtxRangePop();

    nvtxRangePushA("first touch on the GPU");
    first_touch<<<1024, 256>>>(from_gpu, 32 * MiB);      // no bytes move in, fault groups
    CHECK(cudaDeviceSynchronize());
    for (size_t i = 0; i < 32 * MiB; i += 4096) sum += from_gpu[i];  // 32 MiB d2h
    nvtxRangePop();

    nvtxRangePushA("copies");
    std::memset(pinned, 3, 16 * MiB);
    for (int i = 0; i < 10; ++i) CHECK(cudaMemcpy(device, pinned, 16 * MiB, cudaMemcpyHostToDevice));
    for (int i = 0; i < 5; ++i) CHECK(cudaMemcpy(pinned, device, 8 * MiB, cudaMemcpyDeviceToHost));
    CHECK(cudaMemset(device, 0, 48 * MiB));
    nvtxRangePop();

    CHECK(cudaFree(device));
    CHECK(cudaFree(managed));
    CHECK(cudaFree(from_gpu));
    CHECK(cudaFreeHost(pinned));
    std::printf("sum %llu\n", sum);
    std::fflush(stdout);
    if (end != 'r') usleep(1200000);
    if (end == '_') _exit(0);
    if (end == 'a') std::abort();
    return 0;
}
