// Builds, updates and launches CUDA graphs in several threads, and checks what they compute: graphs THREADS ROUNDS
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        const cudaError_t result = (call);                                                                             \
        if (result != cudaSuccess) {                                                                                   \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(result));                               \
            std::exit(3);                                                                                              \
        }                                                                                                              \
    } while (0)

__global__ void add(float* sum, const float* value, float factor, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum[i] += factor * value[i];
}
__global__ void scale(float* data, float factor, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] *= factor;
}

constexpr int n = 1 << 16, links = 8;
constexpr std::size_t bytes = n * sizeof(float);
std::atomic<long> launches{0};

// Copies in, a chain of kernels with a copy on the device in its middle, and copies out. Every second kernel may be in
// a graph of its own.
cudaGraph_t build(float* sum, float* value, float* spare, float* host, float factor, bool with_children) {
    cudaGraph_t graph;
    cudaGraphNode_t last, node;
    int count = n;
    void* arguments[] = {&sum, &value, &factor, &count};
    cudaKernelNodeParams kernel{};
    kernel.func = reinterpret_cast<void*>(add), kernel.gridDim = dim3(64), kernel.blockDim = dim3(256);
    kernel.kernelParams = arguments;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemcpyNode1D(&last, graph, nullptr, 0, sum, host, bytes, cudaMemcpyHostToDevice));
    for (int i = 0; i < links; ++i) {
        if (with_children && i % 2 != 0) {
            cudaGraph_t child;
            CHECK(cudaGraphCreate(&child, 0));
            CHECK(cudaGraphAddKernelNode(&node, child, nullptr, 0, &kernel));
            CHECK(cudaGraphAddChildGraphNode(&node, graph, &last, 1, child));
            CHECK(cudaGraphDestroy(child));
        } else {
            CHECK(cudaGraphAddKernelNode(&node, graph, &last, 1, &kernel));
        }
        last = node;
        if (i != links / 2) continue;
        CHECK(cudaGraphAddMemcpyNode1D(&node, graph, &last, 1, spare, sum, bytes, cudaMemcpyDeviceToDevice));
        last = node;
    }
    CHECK(cudaGraphAddMemcpyNode1D(&node, graph, &last, 1, host, sum, bytes, cudaMemcpyDeviceToHost));
    return graph;
}

void work(int thread, int rounds) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    float *sum, *value, *spare, *host;
    for (float** made : {&sum, &value, &spare}) CHECK(cudaMalloc(made, bytes));
    CHECK(cudaMallocHost(&host, bytes));
    const std::vector<float> ones(n, 1.f);
    CHECK(cudaMemcpy(value, ones.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaStreamSynchronize(cudaStreamLegacy));
    const auto launch = [&](cudaGraphExec_t executable) {
        CHECK(cudaGraphLaunch(executable, stream));
        ++launches;
    };
    for (int round = 0; round < rounds; ++round) {
        std::fill_n(host, n, 0.f);
        const float factor = 1.f + float(round % 3);
        cudaGraph_t graph = build(sum, value, spare, host, factor, round % 2 != 0);
        cudaGraphExec_t executable;
        CHECK(cudaGraphInstantiate(&executable, graph, 0));
        for (int i = 0; i < 5; ++i) launch(executable);
        cudaGraph_t other = build(sum, value, spare, host, factor + 1, round % 2 != 0);
        cudaGraphExecUpdateResultInfo info;
        CHECK(cudaGraphExecUpdate(executable, other, &info));
        for (int i = 0; i < 5; ++i) {
            launch(executable);
            if (i == 2) CHECK(cudaStreamSynchronize(stream));
        }
        cudaGraph_t captured;
        cudaGraphExec_t of_captured;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < links; ++i) scale<<<64, 256, 0, stream>>>(sum, 1.f, n);
        CHECK(cudaStreamEndCapture(stream, &captured));
        CHECK(cudaGraphInstantiate(&of_captured, captured, 0));
        cudaGraphNode_t nodes[links];
        std::size_t count = links;
        CHECK(cudaGraphGetNodes(captured, nodes, &count));
        for (int i = 0; i < 4; ++i) {
            float one = 1.f;
            int of = n;
            void* arguments[] = {&sum, &one, &of};
            cudaKernelNodeParams kernel{};
            kernel.func = reinterpret_cast<void*>(scale), kernel.gridDim = dim3(32 + i), kernel.blockDim = dim3(128);
            kernel.kernelParams = arguments;
            CHECK(cudaGraphExecKernelNodeSetParams(of_captured, nodes[i], &kernel));
            launch(of_captured);
        }
        CHECK(cudaStreamSynchronize(stream));
        const float expected = float(5 * links) * (2 * factor + 1);
        if (host[0] != expected || host[n - 1] != expected) {
            std::fprintf(stderr, "thread %d, round %d: %g, not %g\n", thread, round, host[0], expected);
            std::exit(4);
        }
        for (const cudaGraphExec_t each : {executable, of_captured}) CHECK(cudaGraphExecDestroy(each));
        for (const cudaGraph_t each : {graph, other, captured}) CHECK(cudaGraphDestroy(each));
    }
    for (float* const made : {sum, value, spare}) CHECK(cudaFree(made));
    CHECK(cudaFreeHost(host));
    CHECK(cudaStreamDestroy(stream));
}

int main(int, char** arguments) {
    CHECK(cudaFree(nullptr));
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (int i = 0; i < std::atoi(arguments[1]); ++i) threads.emplace_back(work, i, std::atoi(arguments[2]));
    for (std::thread& thread : threads) thread.join();
    const std::chrono::duration<double> loop = std::chrono::steady_clock::now() - start;
    std::printf("%ld, loop %.4f s\n", launches.load(), loop.count());
}
