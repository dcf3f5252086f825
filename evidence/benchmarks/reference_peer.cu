// Hand-written copies between GPUs, for comparison with p2p-copy: medians of copies queued back to back, timed by events.
//
//     nvcc -O2 evidence/benchmarks/reference_peer.cu -lcuda -o reference_peer && ./reference_peer 1048576 268435456
//
// Of each ordered pair of GPUs, or of the only GPU with itself, prints "FROM TO BYTES GB/s" of cuMemcpyPeerAsync, with
// access of FROM to TO. With the word "access" before the sizes, prints "A B BYTES ACCESS WHAT GB/s" of each pair: ACCESS
// is "one-way" (A has access to B's memory) or "both"; WHAT is "out" (A copies to B), "in" (A copies from B), "both-by-one"
// (A queues a copy each way) or "both-by-each" (each queues the copy of its memory), by copy engine, or the same with
// "kernel-" in front. Both ways count the bytes of both.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static void check(int result, const char* what) {
    if (result != 0) std::exit((std::fprintf(stderr, "%s failed: %d\n", what, result), 1));
}

static void use(int device, CUcontext* context) {
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaFree(nullptr), "cudaFree");
    check(cuCtxGetCurrent(context), "cuCtxGetCurrent");
}

static CUdeviceptr memory_of(int device, std::size_t bytes) {
    void* memory;
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaMalloc(&memory, bytes), "cudaMalloc");
    check(cudaMemset(memory, device + 1, bytes), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return reinterpret_cast<CUdeviceptr>(memory);
}

static int copies_of(std::size_t bytes) {
    return static_cast<int>(std::min<std::size_t>(64, std::max<std::size_t>(4, (1u << 28) / bytes)));
}

static double median_rate(int from, int to, std::size_t bytes) {
    CUcontext theirs, own;
    use(to, &theirs);
    use(from, &own);
    if (from != to) cudaDeviceEnablePeerAccess(to, 0);  // refused where there is no access: then the driver stages it
    cudaGetLastError();
    const CUdeviceptr target = memory_of(to, bytes), source = memory_of(from, bytes);
    cudaStream_t stream;
    cudaEvent_t start, end;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaEventCreate(&start), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
    const int copies = copies_of(bytes);
    std::vector<double> rates;
    for (int sample = 0; sample < 25; ++sample) {
        check(cudaEventRecord(start, stream), "cudaEventRecord");
        for (int i = 0; i < copies; ++i)
            check(cuMemcpyPeerAsync(target, theirs, source, own, bytes, stream), "cuMemcpyPeerAsync");
        check(cudaEventRecord(end, stream), "cudaEventRecord");
        check(cudaEventSynchronize(end), "cudaEventSynchronize");
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, start, end), "cudaEventElapsedTime");
        if (sample >= 5) rates.push_back(static_cast<double>(bytes) * copies / milliseconds * 1e-6);
    }
    std::nth_element(rates.begin(), rates.begin() + 10, rates.end());
    cudaFree(reinterpret_cast<void*>(source));
    cudaFree(reinterpret_cast<void*>(target));
    return rates[10];
}

__global__ void copy_vectors(uint4* target, const uint4* source, std::size_t vectors) {
    const std::size_t threads = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < vectors; i += threads)
        target[i] = source[i];
}

// A copy that a device queues on a stream of its own.
struct Copy {
    int device;
    char *target, *source;
    cudaStream_t stream;
    cudaEvent_t end;
};

static std::atomic<bool> all_queued;

static void queue(const Copy& copy, std::size_t bytes, bool by_kernel) {
    check(cudaSetDevice(copy.device), "cudaSetDevice");
    if (by_kernel)
        copy_vectors<<<1056, 512, 0, copy.stream>>>(reinterpret_cast<uint4*>(copy.target),
                                                    reinterpret_cast<const uint4*>(copy.source), bytes / 16);
    else
        check(cudaMemcpyAsync(copy.target, copy.source, bytes, cudaMemcpyDefault, copy.stream), "cudaMemcpyAsync");
}

// The median GB/s of one or two copies at once, which begin when all are queued.
static double rate_of(std::vector<Copy>& copies, std::size_t bytes, bool by_kernel) {
    cudaEvent_t start, end;
    check(cudaSetDevice(copies[0].device), "cudaSetDevice");
    check(cudaEventCreate(&start), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
    for (Copy& copy : copies) {
        check(cudaSetDevice(copy.device), "cudaSetDevice");
        check(cudaStreamCreateWithFlags(&copy.stream, cudaStreamNonBlocking), "cudaStreamCreate");
        check(cudaEventCreateWithFlags(&copy.end, cudaEventDisableTiming), "cudaEventCreate");
        queue(copy, bytes, by_kernel);  // a kernel that were loaded behind the host function would wait for it
        check(cudaStreamSynchronize(copy.stream), "cudaStreamSynchronize");
    }
    const cudaStream_t first = copies[0].stream;
    std::vector<double> rates;
    for (int sample = 0; sample < 25; ++sample) {
        all_queued = false;
        check(cudaSetDevice(copies[0].device), "cudaSetDevice");
        const auto wait = [](void*) { while (!all_queued) {} };
        check(cudaLaunchHostFunc(first, wait, nullptr), "cudaLaunchHostFunc");
        check(cudaEventRecord(start, first), "cudaEventRecord");
        for (Copy& copy : copies) check(cudaStreamWaitEvent(copy.stream, start, 0), "cudaStreamWaitEvent");
        for (int i = 0; i < copies_of(bytes); ++i)
            for (const Copy& copy : copies) queue(copy, bytes, by_kernel);
        for (Copy& copy : copies) {
            check(cudaSetDevice(copy.device), "cudaSetDevice");
            check(cudaEventRecord(copy.end, copy.stream), "cudaEventRecord");
            check(cudaStreamWaitEvent(first, copy.end, 0), "cudaStreamWaitEvent");
        }
        check(cudaSetDevice(copies[0].device), "cudaSetDevice");
        check(cudaEventRecord(end, first), "cudaEventRecord");
        all_queued = true;
        check(cudaEventSynchronize(end), "cudaEventSynchronize");
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, start, end), "cudaEventElapsedTime");
        const double moved = static_cast<double>(bytes) * copies_of(bytes) * static_cast<double>(copies.size());
        if (sample >= 5) rates.push_back(moved / milliseconds * 1e-6);
    }
    check(cudaGetLastError(), "a kernel");
    for (const Copy& copy : copies) cudaStreamDestroy(copy.stream);
    std::nth_element(rates.begin(), rates.begin() + 10, rates.end());
    return rates[10];
}

static void enable(int device, int peer) {
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaDeviceEnablePeerAccess(peer, 0), "cudaDeviceEnablePeerAccess");
}

static void disable(int device, int peer) {
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaDeviceDisablePeerAccess(peer), "cudaDeviceDisablePeerAccess");
}

static void print_ways(int a, int b, std::size_t bytes, bool both) {
    const auto memory = [&](int device) { return reinterpret_cast<char*>(memory_of(device, bytes)); };
    char *const of_a[] = {memory(a), memory(a)}, *const of_b[] = {memory(b), memory(b)};
    for (const bool by_kernel : {false, true}) {
        const auto print = [&](const char* what, std::vector<Copy> copies) {
            const std::string name = std::string(by_kernel ? "kernel-" : "") + what;
            std::printf("%d %d %zu %s %s %.3f\n", a, b, bytes, both ? "both" : "one-way", name.c_str(),
                        rate_of(copies, bytes, by_kernel));
        };
        print("out", {{a, of_b[0], of_a[0]}});
        print("in", {{a, of_a[1], of_b[1]}});
        print("both-by-one", {{a, of_b[0], of_a[0]}, {a, of_a[1], of_b[1]}});
        if (both) print("both-by-each", {{a, of_b[0], of_a[0]}, {b, of_a[1], of_b[1]}});
    }
    for (char* each : {of_a[0], of_a[1], of_b[0], of_b[1]}) cudaFree(each);
}

int main(int count, char** arguments) {
    int devices = 0;
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    check(cuInit(0), "cuInit");
    const bool access = count > 1 && std::strcmp(arguments[1], "access") == 0;
    for (int from = 0; from < devices; ++from)
        for (int to = 0; to < devices; ++to) {
            if (access && from >= to) continue;
            if (access) enable(from, to);
            for (int i = access ? 2 : 1; i < count && (from != to || devices == 1); ++i) {
                const std::size_t bytes = std::strtoull(arguments[i], nullptr, 10);
                if (!access) {
                    std::printf("%d %d %zu %.3f\n", from, to, bytes, median_rate(from, to, bytes));
                    continue;
                }
                print_ways(from, to, bytes, false);
                enable(to, from);
                print_ways(from, to, bytes, true);
                disable(to, from);
            }
        }
}
