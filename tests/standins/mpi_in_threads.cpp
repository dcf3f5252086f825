// MPI for native tests: two ranks that are threads of one process. A thread says which rank it is with standin_rank.
// Requests have eight bytes. A message whose first byte is 0xee fails.
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

namespace {

using Handle = std::uint64_t;
using Route = std::tuple<int, int, int>;  // from, to, tag

thread_local int my_rank = 0;
thread_local std::vector<std::tuple<void*, int, int, int>> receives;  // memory, bytes, from, tag
std::mutex mutex;
std::condition_variable arrived;
std::map<Route, std::deque<std::vector<char>>> mail;

int send(const void* from, int count, int to, int tag) {
    const char* bytes = static_cast<const char*>(from);
    if (tag == 1 && static_cast<unsigned char>(bytes[0]) == 0xee) return 15;
    const std::lock_guard lock(mutex);
    mail[{my_rank, to, tag}].emplace_back(bytes, bytes + count);
    arrived.notify_all();
    return 0;
}
int receive(void* to, int count, int from, int tag) {
    std::unique_lock lock(mutex);
    auto& queue = mail[{from, my_rank, tag}];
    arrived.wait(lock, [&] { return !queue.empty(); });
    std::memcpy(to, queue.front().data(), static_cast<std::size_t>(count));
    queue.pop_front();
    return 0;
}
int wait(std::uint64_t request) {
    if (request == 0) return 0;  // a send
    const auto [to, count, from, tag] = receives[request - 1];
    return receive(to, count, from, tag);
}

}  // namespace

extern "C" {
void standin_rank(int rank) { my_rank = rank; }
int MPI_Comm_rank(Handle, int* rank) { return *rank = my_rank, 0; }
int MPI_Comm_size(Handle, int* size) { return *size = 2, 0; }
int MPI_Send(const void* from, int count, Handle, int to, int tag, Handle) { return send(from, count, to, tag); }
int MPI_Recv(void* to, int count, Handle, int from, int tag, Handle, void* status) {
    std::memset(status, 0, 32);
    return receive(to, count, from, tag);
}
int MPI_Isend(const void* from, int count, Handle, int to, int tag, Handle, void* request) {
    std::memset(request, 0, 8);
    return send(from, count, to, tag);
}
int MPI_Irecv(void* to, int count, Handle, int from, int tag, Handle, void* request) {
    receives.emplace_back(to, count, from, tag);
    const std::uint64_t number = receives.size();
    std::memcpy(request, &number, 8);
    return 0;
}
int MPI_Wait(void* request, void* status) {
    std::uint64_t number = 0;
    std::memcpy(&number, request, 8);
    std::memset(request, 0, 8);
    std::memset(status, 0, 32);
    return wait(number);
}
int MPI_Waitall(int count, void* requests, void*) {
    for (int i = 0; i < count; ++i) {
        std::uint64_t number = 0;
        std::memcpy(&number, static_cast<char*>(requests) + 8 * i, 8);
        if (const int result = wait(number)) return result;
    }
    return 0;
}
int MPI_Error_string(int code, char* text, int* length) {
    *length = std::snprintf(text, 64, "error %d", code);
    return 0;
}
}
