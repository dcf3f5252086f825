// The Comm interface: what ranks can do with each other. A rank is a process of a group that was started together, or
// with NCCL and RCCL one of several devices of this process; each has a Comm. One table per library implements it:
// mpi.cpp that of MPI, xccl.cpp that of NCCL and RCCL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace firsttouch {

class Device;

// Operations of all ranks on f32 numbers in blocks of equal length. The root is rank 0.
enum class Collective : std::uint8_t {
    all_reduce,      // source, target: a block; every target gets the sum of all sources
    reduce_scatter,  // source: a block for each rank, target: a block; rank i gets the sum of all sources' block i
    all_gather,      // source: a block, target: a block of each rank; every target gets all sources
    broadcast,       // source, target: a block; every target but the root's gets the root's source
    reduce,          // source, target: a block; the root's target gets the sum of all sources
    all_to_all,      // source, target: a block for or of each rank; rank i gets all sources' block i
};

// A message to another rank, or from it.
struct Message {
    int peer;
    void* address;
    std::size_t bytes;
};

class Comm {
  public:
    virtual ~Comm() = default;

    int rank() const { return rank_; }
    int size() const { return size_; }
    virtual const std::string& library() const = 0;  // its path

    // Messages of `bytes` between two ranks; the n-th that one sends to the other is the n-th that the other receives.
    // send and receive return when the memory may be used again. The others queue a message and return its number,
    // which counts from 0 since the last finish_all; finish waits for that message, finish_all for all. The library
    // must reach the memory by this address. All throw VendorError with the library's message.
    virtual void send(const void* from, std::size_t bytes, int to) = 0;
    virtual void receive(void* to, std::size_t bytes, int from) = 0;
    virtual int start_send(const void* from, std::size_t bytes, int to) = 0;
    virtual int start_receive(void* to, std::size_t bytes, int from) = 0;
    // Queues messages of a rank to itself, one after the other.
    virtual void start_to_itself(void* to, const void* from, std::size_t bytes, int messages) = 0;
    virtual void finish(int message) = 0;
    virtual void finish_all() = 0;
    // finish, of a message that was received, which may have fewer bytes than there was memory for. Returns how many.
    // Throws Unavailable if the library doesn't know.
    virtual std::size_t finish_receive(int message);
    // Sends and receives messages with other ranks at once, and returns when all have ended.
    virtual void exchange(const std::vector<Message>& outgoing, const std::vector<Message>& incoming);

    // Starts an operation of all ranks with `count` numbers in a block; finish_all waits for all that were started.
    // MPI's have ended when this returns.
    virtual void start(Collective operation, const void* from, void* to, std::size_t count) = 0;
    // Calls `work`, in which this thread starts one operation of several ranks that it has: they begin together.
    virtual void together(const std::function<void()>& work) { work(); }
    // Returns when all ranks have called it.
    virtual void meet() = 0;

    // A word between two ranks, apart from the messages above.
    virtual void tell(int to, std::uint64_t word) = 0;
    virtual std::uint64_t hear(int from) = 0;
    // The sum, modulo 2^64, and the largest of the numbers with which all ranks call it, by words.
    std::uint64_t total(std::uint64_t own);
    double largest(double own);
    // Tells each of `others`, which all name this rank in turn, a word, and returns theirs in the same order. None may
    // be named twice.
    std::vector<std::uint64_t> swap_words(const std::vector<int>& others, const std::vector<std::uint64_t>& words);

  protected:
    int rank_ = 0, size_ = 1;
};

// What mpi4py tells of the MPI that it has initialised: the path of the library, the handles of the communicator of all
// ranks, of the types byte and float and of the operation sum, and the bytes of a request. A handle is a pointer or a
// number of four bytes, depending on the implementation; both are passed in one register.
struct MpiHandles {
    std::string library;
    std::uint64_t world = 0, byte = 0, real = 0, sum = 0;
    std::size_t request_bytes = 8;
};
// Throws Unavailable if the library lacks a function, VendorError if a call fails.
std::unique_ptr<Comm> open_mpi(const MpiHandles& handles);

// NCCL on NVIDIA's devices, RCCL on AMD's. Rank 0 makes the id, 128 bytes, and all ranks open with it at once. The
// device must outlive the Comm. Throw Unavailable with the reason if there is no such library, VendorError if a call
// fails.
std::string new_xccl_id(Device& device);
std::unique_ptr<Comm> open_xccl(Device& device, int rank, int ranks, const std::string& id);
// The same with all ranks in this process, one for each device, in their order.
std::vector<std::unique_ptr<Comm>> open_xccl_of(std::span<Device* const> devices);

}  // namespace firsttouch
