// Stands in for RCCL between processes of this host that use the stand-in for AMD's runtime. Messages pass through
// sockets, when the stream before them has ended; so the calls block, which RCCL's do not. STANDIN_RCCL_FLIP names a
// rank in whose received messages one byte is wrong. Two ranks on one device are refused, as RCCL does.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int success = 0, system_error = 2, invalid_usage = 5;

template <class... A>
int hip(const char* function, A... arguments) {
    static void* const library = dlopen(std::getenv("FIRSTTOUCH_LIB_HIP"), RTLD_NOW);
    return reinterpret_cast<int (*)(A...)>(dlsym(library, function))(arguments...);
}
constexpr int by_address = 4;  // hipMemcpyDefault

struct UniqueId {
    char bytes[128];
};

struct Comm {
    int rank = 0, ranks = 1, listener = -1;
    std::string name;
    std::map<int, int> to, from;         // connections by rank
    std::deque<std::vector<char>> mine;  // messages to itself
};

sockaddr_un address_of(const std::string& name, int rank) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s-%d", name.c_str(), rank);  // abstract
    return address;
}
int connection_to(Comm& comm, int rank) {
    if (comm.to.count(rank)) return comm.to[rank];
    const sockaddr_un address = address_of(comm.name, rank);
    for (;;) {
        const int made = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
            if (write(made, &comm.rank, sizeof comm.rank) != sizeof comm.rank) return -1;
            return comm.to[rank] = made;
        }
        close(made);
        usleep(1000);
    }
}
int connection_from(Comm& comm, int rank) {
    while (!comm.from.count(rank)) {
        const int made = accept(comm.listener, nullptr, nullptr);
        int other = -1;
        if (made < 0 || read(made, &other, sizeof other) != sizeof other) return -1;
        comm.from[other] = made;
    }
    return comm.from[rank];
}

}  // namespace

extern "C" {
int ncclGetUniqueId(UniqueId* id) {
    std::memset(id->bytes, 0, sizeof id->bytes);
    std::snprintf(id->bytes, sizeof id->bytes, "standin-%d-%ld", getpid(), random());
    return success;
}
int ncclCommInitRank(void** comm, int ranks, UniqueId id, int rank) {
    auto* made = new Comm{rank, ranks, socket(AF_UNIX, SOCK_STREAM, 0), id.bytes, {}, {}, {}};
    const sockaddr_un address = address_of(made->name, rank);
    if (bind(made->listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        listen(made->listener, 64) != 0)
        return system_error;
    int device = 0;
    hip("hipGetDevice", &device);
    for (int other = 0; other < ranks; ++other)  // all tell each other which device they use
        if (other != rank && write(connection_to(*made, other), &device, sizeof device) != sizeof device)
            return system_error;
    for (int other = 0; other < ranks; ++other) {
        int theirs = -1;
        if (other != rank &&
            (read(connection_from(*made, other), &theirs, sizeof theirs) != sizeof theirs || theirs == device))
            return invalid_usage;
    }
    *comm = made;
    return success;
}
int ncclCommDestroy(void* comm) {
    delete static_cast<Comm*>(comm);
    return success;
}
int ncclSend(const void* from, std::size_t bytes, int, int to, void* handle, void* stream) {
    auto& comm = *static_cast<Comm*>(handle);
    std::vector<char> message(bytes);
    if (hip("hipMemcpyAsync", static_cast<void*>(message.data()), from, bytes, by_address, stream) != 0 ||
        hip("hipStreamSynchronize", stream) != 0)
        return system_error;
    if (to == comm.rank) return comm.mine.push_back(std::move(message)), success;
    const int connection = connection_to(comm, to);
    for (std::size_t at = 0; at < bytes;) {
        const ssize_t sent = write(connection, message.data() + at, bytes - at);
        if (sent <= 0) return system_error;
        at += static_cast<std::size_t>(sent);
    }
    return success;
}
int ncclRecv(void* to, std::size_t bytes, int, int from, void* handle, void* stream) {
    auto& comm = *static_cast<Comm*>(handle);
    std::vector<char> message(bytes);
    if (from == comm.rank) {
        if (comm.mine.empty()) return invalid_usage;
        message = std::move(comm.mine.front());
        comm.mine.pop_front();
    } else {
        const int connection = connection_from(comm, from);
        for (std::size_t at = 0; at < bytes;) {
            const ssize_t got = read(connection, message.data() + at, bytes - at);
            if (got <= 0) return system_error;
            at += static_cast<std::size_t>(got);
        }
    }
    const char* const flip = std::getenv("STANDIN_RCCL_FLIP");
    const bool is_word = bytes == 8;  // of the conversation itself
    if (flip != nullptr && std::atoi(flip) == comm.rank && !is_word) message[bytes / 2] ^= 1;
    return hip("hipMemcpyAsync", to, static_cast<const void*>(message.data()), bytes, by_address, stream) != 0 ||
                   hip("hipStreamSynchronize", stream) != 0
               ? system_error
               : success;
}
int ncclGroupStart() { return success; }
int ncclGroupEnd() { return success; }
const char* ncclGetErrorString(int code) {
    return code == invalid_usage ? "invalid usage" : code == success ? "no error" : "unhandled system error";
}
}
