/* The discrete form of port-hidden: records are appended to a vector, whose memory then goes to the device. */
#include <vector>

extern "C" {
#include "cudart.h"
}

struct Record {
    uint64_t x, y;
};

KERNEL(distances, "_Z9distancesPK6RecordmmmPm", sizeof(Record*), sizeof(uint64_t), sizeof(uint64_t), sizeof(uint64_t),
       sizeof(uint64_t*)) {
    for (uint64_t i = 0; i < VALUE(uint64_t, 1); ++i) {
        const Record& record = POINTER(const Record, 0)[i];
        const uint64_t dx = record.x - VALUE(uint64_t, 2), dy = record.y - VALUE(uint64_t, 3);
        POINTER(uint64_t, 4)[i] = dx * dx + dy * dy;
    }
}

int main() {
    uint64_t count = 100000, x = 5000, y = 5001;
    std::vector<Record> records;
    for (uint64_t i = 0; i < count; ++i) records.push_back({i, i + 1});
    const size_t bytes = count * sizeof(Record), half = count * sizeof(uint64_t);
    uint64_t* const out = static_cast<uint64_t*>(host_memory(half));
    Record* on_device;
    uint64_t* found;
    CHECK(cudaMalloc((void**)&on_device, bytes));
    CHECK(cudaMalloc((void**)&found, half));
    CHECK(cudaMemcpy(on_device, records.data(), bytes, cudaMemcpyHostToDevice));
    LAUNCH(distances, 391, 256, nullptr, &on_device, &count, &x, &y, &found);
    CHECK(cudaMemcpy(out, found, half, cudaMemcpyDeviceToHost));
    uint64_t nearest = 0;
    for (uint64_t i = 0; i < count; ++i)
        if (out[i] < out[nearest]) nearest = i;
    CHECK(cudaFree(on_device));
    CHECK(cudaFree(found));
    return nearest == 5000 ? 0 : 1;
}
