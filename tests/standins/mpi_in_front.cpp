// Stands in front of an MPI, which it calls for everything. STANDIN_MPI is the path of that library. It says that it
// takes addresses of AMD's memory, which the stand-in for AMD's runtime makes true. The rank STANDIN_MPI_FLIP gets
// every message of STANDIN_MPI_LEAST bytes or more with one byte changed.
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

using Handle = std::uint64_t;

void* real(const char* function) {
    static void* const library = dlopen(std::getenv("STANDIN_MPI"), RTLD_NOW);
    return dlsym(library, function);
}
template <class... A>
int call(const char* function, A... arguments) {
    return reinterpret_cast<int (*)(A...)>(real(function))(arguments...);
}

struct Pending {
    void* memory;
    int bytes;
};
std::vector<Pending> pending;

// Changes the last byte.
void alter(void* memory, int bytes, Handle comm) {
    static const char *const flip = std::getenv("STANDIN_MPI_FLIP"), *const least = std::getenv("STANDIN_MPI_LEAST");
    int rank = 0;
    call("MPI_Comm_rank", comm, &rank);
    if (flip == nullptr || rank != std::atoi(flip) || bytes < (least == nullptr ? 1 : std::atoi(least))) return;
    static_cast<unsigned char*>(memory)[bytes - 1] ^= 0x40;
}
Handle world = 0;
void alter_pending() {
    for (const Pending& one : pending) alter(one.memory, one.bytes, world);
    pending.clear();
}

}  // namespace

extern "C" {
int MPI_Comm_rank(Handle comm, int* rank) { return call("MPI_Comm_rank", comm, rank); }
int MPI_Comm_size(Handle comm, int* size) { return call("MPI_Comm_size", comm, size); }
int MPI_Send(const void* from, int count, Handle type, int to, int tag, Handle comm) {
    return call("MPI_Send", from, count, type, to, tag, comm);
}
int MPI_Recv(void* to, int count, Handle type, int from, int tag, Handle comm, void* status) {
    const int result = call("MPI_Recv", to, count, type, from, tag, comm, status);
    if (tag == 1) alter(to, count, comm);
    return result;
}
int MPI_Isend(const void* from, int count, Handle type, int to, int tag, Handle comm, void* request) {
    return call("MPI_Isend", from, count, type, to, tag, comm, request);
}
int MPI_Irecv(void* to, int count, Handle type, int from, int tag, Handle comm, void* request) {
    world = comm;
    pending.push_back({to, count});
    return call("MPI_Irecv", to, count, type, from, tag, comm, request);
}
int MPI_Wait(void* request, void* status) {
    const int result = call("MPI_Wait", request, status);
    if (!pending.empty()) {
        alter(pending.front().memory, pending.front().bytes, world);
        pending.erase(pending.begin());
    }
    return result;
}
int MPI_Get_count(const void* status, Handle type, int* count) { return call("MPI_Get_count", status, type, count); }
int MPI_Waitall(int count, void* requests, void* statuses) {
    const int result = call("MPI_Waitall", count, requests, statuses);
    alter_pending();
    return result;
}
// Of a collective operation, a byte of what the rank receives.
int MPI_Allreduce(const void* from, void* to, int count, Handle type, Handle op, Handle comm) {
    const int result = call("MPI_Allreduce", from, to, count, type, op, comm);
    return alter(to, 4 * count, comm), result;
}
int MPI_Reduce_scatter_block(const void* from, void* to, int count, Handle type, Handle op, Handle comm) {
    const int result = call("MPI_Reduce_scatter_block", from, to, count, type, op, comm);
    return alter(to, 4 * count, comm), result;
}
int MPI_Allgather(const void* from, int sent, Handle type, void* to, int count, Handle types, Handle comm) {
    const int result = call("MPI_Allgather", from, sent, type, to, count, types, comm);
    return alter(to, 4 * count, comm), result;
}
int MPI_Bcast(void* memory, int count, Handle type, int root, Handle comm) {
    const int result = call("MPI_Bcast", memory, count, type, root, comm);
    int rank = 0;
    call("MPI_Comm_rank", comm, &rank);
    if (rank != root) alter(memory, 4 * count, comm);
    return result;
}
int MPI_Reduce(const void* from, void* to, int count, Handle type, Handle op, int root, Handle comm) {
    const int result = call("MPI_Reduce", from, to, count, type, op, root, comm);
    return alter(to, 4 * count, comm), result;
}
int MPI_Alltoall(const void* from, int sent, Handle type, void* to, int count, Handle types, Handle comm) {
    const int result = call("MPI_Alltoall", from, sent, type, to, count, types, comm);
    return alter(to, 4 * count, comm), result;
}
int MPI_Barrier(Handle comm) { return call("MPI_Barrier", comm); }
int MPI_Error_string(int code, char* text, int* length) { return call("MPI_Error_string", code, text, length); }
int MPIX_Query_rocm_support() { return 1; }
}
