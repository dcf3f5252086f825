// Hand-written copies by cuMemcpyPeerAsync, for comparison with p2p-copy. Of each ordered pair of GPUs, or of the only GPU
// with itself, prints "FROM TO BYTES value" lines: the median GB/s of copies queued back to back, timed by events.
//
//     nvcc -O2 benchmarks/reference_peer.cu -lcuda -o reference_peer && ./reference_peer 1048576 268435456
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
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
    const int copies = static_cast<int>(std::min<std::size_t>(64, std::max<std::size_t>(4, (1u << 28) / bytes)));
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

int main(int count, char** arguments) {
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    check(cuInit(0), "cuInit");
    for (int from = 0; from < devices; ++from)
        for (int to = 0; to < devices; ++to)
            for (int i = 1; i < count && (from != to || devices == 1); ++i) {
                const std::size_t bytes = std::strtoull(arguments[i], nullptr, 10);
                std::printf("%d %d %zu %.3f\n", from, to, bytes, median_rate(from, to, bytes));
            }
}
