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
    if (tag == 1 && count > 0 && static_cast<unsigned char>(bytes[0]) == 0xee) return 15;
    const std::lock_guard lock(mutex);
    mail[{my_rank, to, tag}].emplace_back(bytes, bytes + count);
    arrived.notify_all();
    return 0;
}
// A status begins with the bytes that arrived.
int receive(void* to, int count, int from, int tag, void* status) {
    std::unique_lock lock(mutex);
    auto& queue = mail[{from, my_rank, tag}];
    arrived.wait(lock, [&] { return !queue.empty(); });
    const int bytes = static_cast<int>(queue.front().size());
    if (bytes > count) return 15;
    if (bytes > 0) std::memcpy(to, queue.front().data(), queue.front().size());
    std::memcpy(status, &bytes, sizeof bytes);
    queue.pop_front();
    return 0;
}
int wait(std::uint64_t request, void* status) {
    if (request == 0) return 0;  // a send
    const auto [to, count, from, tag] = receives[request - 1];
    return receive(to, count, from, tag, status);
}

}  // namespace

extern "C" {
void standin_rank(int rank) { my_rank = rank; }
int MPI_Comm_rank(Handle, int* rank) { return *rank = my_rank, 0; }
int MPI_Comm_size(Handle, int* size) { return *size = 2, 0; }
int MPI_Send(const void* from, int count, Handle, int to, int tag, Handle) { return send(from, count, to, tag); }
int MPI_Recv(void* to, int count, Handle, int from, int tag, Handle, void* status) {
    std::memset(status, 0, 32);
    return receive(to, count, from, tag, status);
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
    return wait(number, status);
}
int MPI_Get_count(const void* status, Handle, int* count) { return std::memcpy(count, status, sizeof *count), 0; }
int MPI_Waitall(int count, void* requests, void* statuses) {
    for (int i = 0; i < count; ++i) {
        std::uint64_t number = 0;
        std::memcpy(&number, static_cast<char*>(requests) + 8 * i, 8);
        if (const int result = wait(number, statuses)) return result;
    }
    return 0;
}
// Collective operations of the two ranks: each sends all that it has to the other, with a tag of its own.
constexpr int collective_tag = 3;
std::vector<float> of_other(const void* mine, int count) {
    std::vector<float> theirs(static_cast<std::size_t>(count));
    send(mine, 4 * count, 1 - my_rank, collective_tag);
    char status[32];
    receive(theirs.data(), 4 * count, 1 - my_rank, collective_tag, status);
    return theirs;
}
void add(const void* mine, const std::vector<float>& theirs, std::size_t first, void* to, int count) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
        static_cast<float*>(to)[i] = static_cast<const float*>(mine)[first + i] + theirs[first + i];
}
int MPI_Allreduce(const void* from, void* to, int count, Handle, Handle, Handle) {
    return add(from, of_other(from, count), 0, to, count), 0;
}
int MPI_Reduce_scatter_block(const void* from, void* to, int count, Handle, Handle, Handle) {
    return add(from, of_other(from, 2 * count), static_cast<std::size_t>(my_rank * count), to, count), 0;
}
int MPI_Reduce(const void* from, void* to, int count, Handle, Handle, int root, Handle) {
    const auto theirs = of_other(from, count);
    if (my_rank == root) add(from, theirs, 0, to, count);
    return 0;
}
int MPI_Allgather(const void* from, int count, Handle, void* to, int, Handle, Handle) {
    const auto theirs = of_other(from, count);
    std::memcpy(static_cast<float*>(to) + my_rank * count, from, 4 * static_cast<std::size_t>(count));
    std::memcpy(static_cast<float*>(to) + (1 - my_rank) * count, theirs.data(), 4 * theirs.size());
    return 0;
}
int MPI_Alltoall(const void* from, int count, Handle, void* to, int, Handle, Handle) {
    const auto theirs = of_other(from, 2 * count);
    const std::size_t bytes = 4 * static_cast<std::size_t>(count);
    std::memcpy(static_cast<float*>(to) + my_rank * count, static_cast<const float*>(from) + my_rank * count, bytes);
    std::memcpy(static_cast<float*>(to) + (1 - my_rank) * count, theirs.data() + my_rank * count, bytes);
    return 0;
}
int MPI_Bcast(void* memory, int count, Handle, int root, Handle) {
    if (my_rank == root) return send(memory, 4 * count, 1 - my_rank, collective_tag);
    char status[32];
    return receive(memory, 4 * count, root, collective_tag, status);
}
int MPI_Barrier(Handle) {
    const float nothing = 0;
    return of_other(&nothing, 1), 0;
}
int MPI_Error_string(int code, char* text, int* length) {
    *length = std::snprintf(text, 64, "error %d", code);
    return 0;
}
}
