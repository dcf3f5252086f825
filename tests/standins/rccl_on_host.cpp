// Stands in for RCCL between processes of this host, and devices of one process, that use the stand-in for AMD's
// runtime. Messages pass through sockets, when the stream before them has ended; so the calls block, which RCCL's do
// not. What a group has for several communicators is carried out at its end by a thread for each; outside a group,
// ranks of one thread wait for each other forever, as RCCL's may. In a collective operation each rank sends all that it
// has to all others. STANDIN_RCCL_FLIP names a rank in whose received messages one byte is wrong. Two ranks on one
// device are refused, as RCCL does.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
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

constexpr int type_float = 7;
std::size_t bytes_of(std::size_t count, int type) { return count * (type == type_float ? 4 : 1); }

int fetch(std::vector<char>& message, const void* from, void* stream) {
    return hip("hipMemcpyAsync", static_cast<void*>(message.data()), from, message.size(), by_address, stream) != 0 ||
           hip("hipStreamSynchronize", stream) != 0;
}
// Puts what a rank received into its memory, with a byte changed if it is that rank's turn and these are data, not what
// ranks tell each other.
int deliver(std::vector<char> message, void* to, void* comm, void* stream, bool are_data) {
    const char* const flip = std::getenv("STANDIN_RCCL_FLIP");
    if (flip != nullptr && std::atoi(flip) == static_cast<Comm*>(comm)->rank && are_data)
        message[message.size() / 2] ^= 1;
    return hip("hipMemcpyAsync", to, static_cast<const void*>(message.data()), message.size(), by_address, stream) !=
                       0 ||
                   hip("hipStreamSynchronize", stream) != 0
               ? system_error
               : success;
}

// A message that ncclSend or ncclRecv named.
struct Message {
    void* memory;
    std::size_t bytes;
    int other;
    bool sends;
    void *comm, *stream;
};

bool write_all(int connection, const std::vector<char>& message) {
    for (std::size_t at = 0; at < message.size();) {
        const ssize_t sent = write(connection, message.data() + at, message.size() - at);
        if (sent <= 0) return false;
        at += static_cast<std::size_t>(sent);
    }
    return true;
}
bool read_all(int connection, std::vector<char>& message) {
    for (std::size_t at = 0; at < message.size();) {
        const ssize_t got = read(connection, message.data() + at, message.size() - at);
        if (got <= 0) return false;
        at += static_cast<std::size_t>(got);
    }
    return true;
}

// Sends `messages[i]` to ranks[i] in a thread each, while `receive` runs.
template <class Receive>
bool while_sending(Comm& comm, const std::vector<int>& ranks, const std::vector<std::vector<char>>& messages,
                   Receive&& receive) {
    std::vector<std::thread> threads;
    std::map<int, std::vector<std::size_t>> by_rank;  // in order
    for (std::size_t i = 0; i < ranks.size(); ++i) by_rank[ranks[i]].push_back(i);
    std::atomic<bool> ok{true};
    for (const auto& [rank, which] : by_rank) {
        const int connection = connection_to(comm, rank);
        threads.emplace_back([&messages, &ok, connection, which = which] {
            for (const std::size_t i : which)
                if (!write_all(connection, messages[i])) ok = false;
        });
    }
    if (!receive()) ok = false;
    for (auto& thread : threads) thread.join();
    return ok;
}

int carry_out(const std::vector<Message>& group) {
    auto& comm = *static_cast<Comm*>(group.front().comm);
    std::vector<int> ranks;
    std::vector<std::vector<char>> messages;
    for (const Message& one : group) {
        if (!one.sends) continue;
        std::vector<char> message(one.bytes);
        if (fetch(message, one.memory, one.stream) != 0) return system_error;
        if (one.other == comm.rank) {
            comm.mine.push_back(std::move(message));
        } else {
            ranks.push_back(one.other);
            messages.push_back(std::move(message));
        }
    }
    const bool done = while_sending(comm, ranks, messages, [&] {
        for (const Message& one : group) {
            if (one.sends) continue;
            std::vector<char> message(one.bytes);
            if (one.other == comm.rank) {
                if (comm.mine.empty()) return false;
                message = std::move(comm.mine.front());
                comm.mine.pop_front();
            } else if (!read_all(connection_from(comm, one.other), message)) {
                return false;
            }
            if (deliver(std::move(message), one.memory, one.comm, one.stream, one.bytes != 8) != success) return false;
        }
        return true;
    });
    return done ? success : system_error;
}

// The sources of all ranks; none if that fails.
std::vector<std::vector<char>> sources_of_all(const void* from, std::size_t bytes, void* handle, void* stream) {
    auto& comm = *static_cast<Comm*>(handle);
    std::vector<std::vector<char>> all(static_cast<std::size_t>(comm.ranks), std::vector<char>(bytes));
    auto& mine = all[static_cast<std::size_t>(comm.rank)];
    if (fetch(mine, from, stream) != 0) return {};
    std::vector<int> others;
    for (int rank = 0; rank < comm.ranks; ++rank)
        if (rank != comm.rank) others.push_back(rank);
    const std::vector<std::vector<char>> messages(others.size(), mine);
    const bool done = while_sending(comm, others, messages, [&] {
        for (const int rank : others)
            if (!read_all(connection_from(comm, rank), all[static_cast<std::size_t>(rank)])) return false;
        return true;
    });
    return done ? all : std::vector<std::vector<char>>{};
}

// What a call of a group asks of one communicator: one of several messages, or other work. `device` was current then.
struct Call {
    void* of;  // the communicator, or where it will be
    int device;
    std::vector<Message> message;
    std::function<int()> work;
};
thread_local int depth = 0;
thread_local std::vector<Call> open_group;

// Carries out the calls of one communicator in their order, adjacent messages at once.
int carry_out(const std::vector<Call>& calls) {
    hip("hipSetDevice", calls.front().device);
    std::vector<Message> messages;
    for (std::size_t i = 0; i < calls.size(); ++i) {
        messages.insert(messages.end(), calls[i].message.begin(), calls[i].message.end());
        const bool last = i + 1 == calls.size() || calls[i + 1].work;
        if (!messages.empty() && last)
            if (const int result = carry_out(messages); result != success) return result;
        if (last) messages.clear();
        if (calls[i].work)
            if (const int result = calls[i].work(); result != success) return result;
    }
    return success;
}
int end_group() {
    std::map<void*, std::vector<Call>> by_comm;
    for (Call& call : open_group) by_comm[call.of].push_back(std::move(call));
    open_group.clear();
    if (by_comm.size() == 1) {
        int before = 0;
        hip("hipGetDevice", &before);
        const int result = carry_out(by_comm.begin()->second);
        hip("hipSetDevice", before);
        return result;
    }
    std::atomic<int> worst{success};
    std::vector<std::thread> threads;
    for (const auto& [comm, calls] : by_comm)
        threads.emplace_back([&worst, &calls = calls] {
            if (const int result = carry_out(calls); result != success) worst = result;
        });
    for (auto& thread : threads) thread.join();
    return worst;
}
int add(void* comm, std::vector<Message> message, std::function<int()> work) {
    int device = 0;
    hip("hipGetDevice", &device);
    open_group.push_back({comm, device, std::move(message), std::move(work)});
    return depth > 0 ? success : end_group();
}

std::vector<char> sum_of(const std::vector<std::vector<char>>& all, std::size_t first, std::size_t bytes, int type) {
    std::vector<char> total(bytes);
    for (const auto& one : all) {
        if (type == type_float)
            for (std::size_t i = 0; i < bytes / 4; ++i)
                reinterpret_cast<float*>(total.data())[i] += reinterpret_cast<const float*>(one.data() + first)[i];
        else
            for (std::size_t i = 0; i < bytes; ++i) total[i] = static_cast<char>(total[i] + one[first + i]);
    }
    return total;
}

int open_comm(void** comm, int ranks, const UniqueId& id, int rank) {
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

}  // namespace

extern "C" {
int ncclGetUniqueId(UniqueId* id) {
    std::memset(id->bytes, 0, sizeof id->bytes);
    std::snprintf(id->bytes, sizeof id->bytes, "standin-%d-%ld", getpid(), random());
    return success;
}
int ncclCommInitRank(void** comm, int ranks, UniqueId id, int rank) {
    return add(comm, {}, [=] { return open_comm(comm, ranks, id, rank); });
}
int ncclCommDestroy(void* comm) {
    delete static_cast<Comm*>(comm);
    return success;
}
int ncclSend(const void* from, std::size_t count, int type, int to, void* handle, void* stream) {
    return add(handle, {{const_cast<void*>(from), bytes_of(count, type), to, true, handle, stream}}, {});
}
int ncclRecv(void* to, std::size_t count, int type, int from, void* handle, void* stream) {
    return add(handle, {{to, bytes_of(count, type), from, false, handle, stream}}, {});
}
int ncclGroupStart() { return ++depth, success; }
int ncclGroupEnd() { return --depth > 0 || open_group.empty() ? success : end_group(); }

int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int, void* comm, void* stream) {
    return add(comm, {}, [=] {
        const auto all = sources_of_all(from, bytes_of(count, type), comm, stream);
        return all.empty() ? system_error
                           : deliver(sum_of(all, 0, bytes_of(count, type), type), to, comm, stream, type == type_float);
    });
}
int ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int, void* comm, void* stream) {
    return add(comm, {}, [=] {
        const auto ranks = static_cast<std::size_t>(static_cast<Comm*>(comm)->ranks), bytes = bytes_of(count, type);
        const auto own = static_cast<std::size_t>(static_cast<Comm*>(comm)->rank) * bytes;
        const auto all = sources_of_all(from, ranks * bytes, comm, stream);
        return all.empty() ? system_error
                           : deliver(sum_of(all, own, bytes, type), to, comm, stream, type == type_float);
    });
}
int ncclAllGather(const void* from, void* to, std::size_t count, int type, void* comm, void* stream) {
    return add(comm, {}, [=] {
        const auto all = sources_of_all(from, bytes_of(count, type), comm, stream);
        std::vector<char> joined;
        for (const auto& one : all) joined.insert(joined.end(), one.begin(), one.end());
        return all.empty() ? system_error : deliver(joined, to, comm, stream, type == type_float);
    });
}
int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, void* comm, void* stream) {
    return add(comm, {}, [=] {
        const auto all = sources_of_all(from, bytes_of(count, type), comm, stream);
        return all.empty() ? system_error
                           : deliver(all[static_cast<std::size_t>(root)], to, comm, stream, type == type_float);
    });
}
int ncclReduce(const void* from, void* to, std::size_t count, int type, int, int root, void* comm, void* stream) {
    return add(comm, {}, [=] {
        const auto all = sources_of_all(from, bytes_of(count, type), comm, stream);
        if (all.empty()) return system_error;
        if (static_cast<Comm*>(comm)->rank != root) return success;
        return deliver(sum_of(all, 0, bytes_of(count, type), type), to, comm, stream, type == type_float);
    });
}
int ncclAllToAll(const void* from, void* to, std::size_t count, int type, void* comm, void* stream) {
    return add(comm, {}, [=] {
        const auto ranks = static_cast<std::size_t>(static_cast<Comm*>(comm)->ranks), bytes = bytes_of(count, type);
        const auto own = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(static_cast<Comm*>(comm)->rank) * bytes);
        const auto all = sources_of_all(from, ranks * bytes, comm, stream);
        std::vector<char> joined;
        for (const auto& one : all)
            joined.insert(joined.end(), one.begin() + own, one.begin() + own + static_cast<std::ptrdiff_t>(bytes));
        return all.empty() ? system_error : deliver(joined, to, comm, stream, type == type_float);
    });
}
const char* ncclGetErrorString(int code) {
    return code == invalid_usage ? "invalid usage" : code == success ? "no error" : "unhandled system error";
}
}
