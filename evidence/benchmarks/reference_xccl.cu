// A hand-written loop of NCCL messages of one rank to itself, for comparison with p2p-message --set peer=self.
//
//     nvcc -O2 evidence/benchmarks/reference_xccl.cu -lnccl -o reference_xccl && ./reference_xccl 8 65536 1048576
//
// Prints for each size the median microseconds of one message from the call until it is there, and the median GB/s of
// windows that are queued back to back: of 64 messages, or of 256 MiB, but of 20 messages at least.
#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(int result, const char* what) {
    if (result != 0) std::exit((std::fprintf(stderr, "%s failed: %d\n", what, result), 1));
}

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int count, char** arguments) {
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t stream;
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    check(ncclCommInitRank(&comm, 1, id, 0), "ncclCommInitRank");
    for (int i = 1; i < count; ++i) {
        const std::size_t bytes = std::strtoull(arguments[i], nullptr, 10);
        const int window = static_cast<int>(
            std::min<std::size_t>(64, std::max<std::size_t>(20, (std::size_t{1} << 28) / bytes)));
        char *source, *target;
        check(cudaMalloc(&source, bytes), "cudaMalloc");
        check(cudaMalloc(&target, bytes), "cudaMalloc");
        const auto send = [&](int messages) {
            const double start = now();
            for (int m = 0; m < messages; ++m) {
                ncclGroupStart();
                ncclSend(source, bytes, ncclChar, 0, comm, stream);
                ncclRecv(target, bytes, ncclChar, 0, comm, stream);
                check(ncclGroupEnd(), "ncclGroupEnd");
            }
            check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
            return now() - start;
        };
        const auto median = [&](int messages) {
            std::vector<double> times;
            for (int warm = 0; warm < 5; ++warm) send(messages);
            for (int sample = 0; sample < 100; ++sample) times.push_back(send(messages));
            std::nth_element(times.begin(), times.begin() + 50, times.end());
            return times[50];
        };
        const double alone = median(1), queued = median(window);
        std::printf("%zu %.3f %.4f\n", bytes, alone * 1e6, static_cast<double>(bytes) * window / queued * 1e-9);
        cudaFree(source);
        cudaFree(target);
    }
    ncclCommDestroy(comm);
}
