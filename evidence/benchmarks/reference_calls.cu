// A program that does nothing but launch and copy:   reference_calls LAUNCHES COPIES BYTES
// Prints the microseconds of a launch with 8 arguments, of one with the wait for all, and of a blocking copy, which go
// to the device and back in turn.
#include <cstdio>
#include <cstdlib>
#include <ctime>

#define CHECK(call)                                                    \
    do {                                                               \
        const cudaError_t code = call;                                 \
        if (code != cudaSuccess) {                                     \
            std::printf("%s: %s\n", #call, cudaGetErrorString(code));  \
            std::exit(1);                                              \
        }                                                              \
    } while (0)

__global__ void eight(float* a, float* b, float* c, float* d, float* e, float* f, int g, double h) {
    if (g < 0) *a = *b + *c + *d + *e + *f + h;
}

static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int, char** arguments) {
    const int launches = std::atoi(arguments[1]), copies = std::atoi(arguments[2]), bytes = std::atoi(arguments[3]);
    constexpr int largest = 1 << 20;
    float* d[6];
    for (float*& block : d) CHECK(cudaMalloc(&block, largest));
    char* const host = static_cast<char*>(std::malloc(largest));
    for (int i = 0; i < largest; ++i) host[i] = static_cast<char>(i * 7);
    for (int i = 0; i < 100; ++i) eight<<<1, 1>>>(d[0], d[1], d[2], d[3], d[4], d[5], i, 1.0);
    CHECK(cudaDeviceSynchronize());
    const double begin = now();
    for (int i = 0; i < launches; ++i) eight<<<1, 1>>>(d[0], d[1], d[2], d[3], d[4], d[5], 3, 1.0);
    const double launched = now();
    CHECK(cudaDeviceSynchronize());
    const double done = now();
    for (int i = 0; i < copies; ++i)
        if (i % 2 == 0)
            CHECK(cudaMemcpy(d[0], host, bytes, cudaMemcpyHostToDevice));
        else
            CHECK(cudaMemcpy(host, d[0], bytes, cudaMemcpyDeviceToHost));
    const double copied = now();
    const double us = 1e6, of_launches = launches > 0 ? launches : 1, of_copies = copies > 0 ? copies : 1;
    std::printf("%.4f %.4f %.4f\n", (launched - begin) / of_launches * us, (done - begin) / of_launches * us,
                (copied - done) / of_copies * us);
}
