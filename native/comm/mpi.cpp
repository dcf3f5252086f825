// MPI as a table of functions. Constants of an implementation's header, such as MPI_STATUS_IGNORE, are not needed: a
// status is written to memory that is large enough for any.
#include <limits>
#include <vector>

#include "comm/comm.hpp"
#include "device/device.hpp"
#include "device/library.hpp"

namespace firsttouch {
namespace {

using Handle = std::uint64_t;

constexpr int message_tag = 1, word_tag = 2;
constexpr std::size_t status_bytes = 64;  // 24 in Open MPI, 20 in MPICH, 32 in the standard's binary interface

struct MpiTable {
    Library library;

    explicit MpiTable(const std::string& path) : library("mpi", {path}) {}

    template <class Function, class... A>
    void call(Function* function, A... arguments) const {
        const int result = function(arguments...);
        if (result == 0) return;
        char text[8192] = "";  // MPI_MAX_ERROR_STRING is at most 8192
        int length = 0;
        error_string(result, text, &length);
        throw VendorError(library.name_of(function) + ": " + text);
    }

    ApiCall<Handle, int*> comm_rank = library.function("MPI_Comm_rank");
    ApiCall<Handle, int*> comm_size = library.function("MPI_Comm_size");
    ApiCall<const void*, int, Handle, int, int, Handle> send = library.function("MPI_Send");
    ApiCall<void*, int, Handle, int, int, Handle, void*> receive = library.function("MPI_Recv");
    ApiCall<const void*, int, Handle, int, int, Handle, void*> start_send = library.function("MPI_Isend");
    ApiCall<void*, int, Handle, int, int, Handle, void*> start_receive = library.function("MPI_Irecv");
    ApiCall<void*, void*> wait = library.function("MPI_Wait");
    ApiCall<int, void*, void*> wait_all = library.function("MPI_Waitall");
    ApiCall<const void*, Handle, int*> get_count = library.function("MPI_Get_count");
    ApiCall<const void*, void*, int, Handle, Handle, Handle> all_reduce = library.function("MPI_Allreduce");
    ApiCall<const void*, void*, int, Handle, Handle, Handle> reduce_scatter =
        library.function("MPI_Reduce_scatter_block");
    ApiCall<const void*, int, Handle, void*, int, Handle, Handle> all_gather = library.function("MPI_Allgather");
    ApiCall<void*, int, Handle, int, Handle> broadcast = library.function("MPI_Bcast");
    ApiCall<const void*, void*, int, Handle, Handle, int, Handle> reduce = library.function("MPI_Reduce");
    ApiCall<const void*, int, Handle, void*, int, Handle, Handle> all_to_all = library.function("MPI_Alltoall");
    ApiCall<Handle> barrier = library.function("MPI_Barrier");
    ApiCall<int, char*, int*> error_string = library.function("MPI_Error_string");
};

class Mpi : public Comm {
  public:
    explicit Mpi(const MpiHandles& handles) : mpi_(handles.library), handles_(handles) {
        mpi_.call(mpi_.comm_rank, handles.world, &rank_);
        mpi_.call(mpi_.comm_size, handles.world, &size_);
    }
    const std::string& library() const override { return mpi_.library.path(); }

    void send(const void* from, std::size_t bytes, int to) override {
        mpi_.call(mpi_.send, from, count(bytes), handles_.byte, to, message_tag, handles_.world);
    }
    void receive(void* to, std::size_t bytes, int from) override {
        Status status;
        mpi_.call(mpi_.receive, to, count(bytes), handles_.byte, from, message_tag, handles_.world, status.memory);
    }
    int start_send(const void* from, std::size_t bytes, int to) override {
        mpi_.call(mpi_.start_send, from, count(bytes), handles_.byte, to, message_tag, handles_.world, new_request());
        return started_ - 1;
    }
    int start_receive(void* to, std::size_t bytes, int from) override {
        mpi_.call(mpi_.start_receive, to, count(bytes), handles_.byte, from, message_tag, handles_.world,
                  new_request());
        return started_ - 1;
    }
    void start_to_itself(void* to, const void* from, std::size_t bytes, int messages) override {
        for (int i = 0; i < messages; ++i) {
            start_receive(to, bytes, rank_);
            start_send(from, bytes, rank_);
        }
    }
    void finish(int message) override {
        Status status;
        mpi_.call(mpi_.wait, request(message), status.memory);
    }
    std::size_t finish_receive(int message) override {
        Status status;
        mpi_.call(mpi_.wait, request(message), status.memory);
        int bytes = 0;
        mpi_.call(mpi_.get_count, static_cast<const void*>(status.memory), handles_.byte, &bytes);
        return static_cast<std::size_t>(bytes);
    }
    void finish_all() override {
        statuses_.resize(static_cast<std::size_t>(started_) * status_bytes);
        mpi_.call(mpi_.wait_all, started_, static_cast<void*>(requests_.data()), static_cast<void*>(statuses_.data()));
        started_ = 0;
    }

    void start(Collective operation, const void* from, void* to, std::size_t numbers) override {
        const int n = count(numbers);
        const Handle real = handles_.real, sum = handles_.sum, world = handles_.world;
        switch (operation) {
        case Collective::all_reduce:
            return mpi_.call(mpi_.all_reduce, from, to, n, real, sum, world);
        case Collective::reduce_scatter:
            return mpi_.call(mpi_.reduce_scatter, from, to, n, real, sum, world);
        case Collective::all_gather:
            return mpi_.call(mpi_.all_gather, from, n, real, to, n, real, world);
        case Collective::broadcast:
            return mpi_.call(mpi_.broadcast, rank_ == 0 ? const_cast<void*>(from) : to, n, real, 0, world);
        case Collective::reduce:
            return mpi_.call(mpi_.reduce, from, to, n, real, sum, 0, world);
        case Collective::all_to_all:
            return mpi_.call(mpi_.all_to_all, from, n, real, to, n, real, world);
        }
    }
    void meet() override { mpi_.call(mpi_.barrier, handles_.world); }

    void tell(int to, std::uint64_t word) override {
        mpi_.call(mpi_.send, static_cast<const void*>(&word), 8, handles_.byte, to, word_tag, handles_.world);
    }
    std::uint64_t hear(int from) override {
        std::uint64_t word = 0;
        Status status;
        mpi_.call(mpi_.receive, static_cast<void*>(&word), 8, handles_.byte, from, word_tag, handles_.world,
                  status.memory);
        return word;
    }

  private:
    struct Status {
        alignas(8) unsigned char bytes[status_bytes];
        void* memory = bytes;
    };
    static int count(std::size_t bytes) {
        if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max()))
            throw Unavailable("a message of MPI holds less than 2 GiB");
        return static_cast<int>(bytes);
    }
    void* request(int message) { return requests_.data() + static_cast<std::size_t>(message) * handles_.request_bytes; }
    // Memory for the request of a further message. Requests may be moved while they are pending.
    void* new_request() {
        requests_.resize(static_cast<std::size_t>(++started_) * handles_.request_bytes);
        return request(started_ - 1);
    }

    MpiTable mpi_;
    MpiHandles handles_;
    std::vector<unsigned char> requests_, statuses_;  // of the messages that were started
    int started_ = 0;
};

}  // namespace

std::unique_ptr<Comm> open_mpi(const MpiHandles& handles) { return std::make_unique<Mpi>(handles); }

}  // namespace firsttouch
