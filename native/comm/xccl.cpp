// NCCL and RCCL, which have the same interface, as one table. Work is queued on a stream of its own.
#include <cstring>
#include <stdexcept>

#include "comm/comm.hpp"
#include "device/cuda/api.hpp"
#include "device/gpu.hpp"
#include "device/hip/api.hpp"
#include "device/library.hpp"

namespace firsttouch {
namespace {

struct UniqueId {
    char bytes[128];
};
constexpr int type_char = 0, type_float = 7, sum = 0;  // ncclChar, ncclFloat, ncclSum

struct XcclTable {
    Library library;

    XcclTable(const std::string& name, const std::vector<std::string>& sonames) : library(name, sonames) {
        if (all_to_all == nullptr) all_to_all = library.optional_function("ncclAllToAll");  // RCCL's own
    }

    template <class Function, class... A>
    void call(Function* function, A... arguments) const {
        const int result = function(arguments...);
        if (result == 0) return;
        std::string text = library.name_of(function) + ": " + error_string(result);
        const char* const detail = last_error == nullptr ? nullptr : last_error(nullptr);
        if (detail != nullptr && *detail != 0) text += std::string(" (") + detail + ")";
        throw VendorError(text);
    }

    // What a thread starts on several devices, one after the other, would wait for itself outside a group.
    template <class Work>
    void in_group(Work&& work) const {
        call(group_start);
        Undo left_open{[&] { group_end(); }};
        work();
        left_open.armed = false;
        call(group_end);
    }

    ApiCall<UniqueId*> unique_id = library.function("ncclGetUniqueId");
    ApiCall<void**, int, UniqueId, int> init = library.function("ncclCommInitRank");
    ApiCall<void*> destroy = library.function("ncclCommDestroy");
    ApiCall<const void*, std::size_t, int, int, void*, void*> send = library.function("ncclSend");
    ApiCall<void*, std::size_t, int, int, void*, void*> receive = library.function("ncclRecv");
    ApiCall<const void*, void*, std::size_t, int, int, void*, void*> all_reduce = library.function("ncclAllReduce");
    ApiCall<const void*, void*, std::size_t, int, int, void*, void*> reduce_scatter =
        library.function("ncclReduceScatter");
    ApiCall<const void*, void*, std::size_t, int, void*, void*> all_gather = library.function("ncclAllGather");
    ApiCall<const void*, void*, std::size_t, int, int, void*, void*> broadcast = library.function("ncclBroadcast");
    ApiCall<const void*, void*, std::size_t, int, int, int, void*, void*> reduce = library.function("ncclReduce");
    ApiCall<const void*, void*, std::size_t, int, void*, void*> all_to_all =
        library.optional_function("ncclAlltoAll");  // since NCCL 2.28
    ApiCall<> group_start = library.function("ncclGroupStart");
    ApiCall<> group_end = library.function("ncclGroupEnd");
    const char* (*error_string)(int) = library.function("ncclGetErrorString");
    const char* (*last_error)(void*) = library.optional_function("ncclGetLastError");  // since NCCL 2.13
};

const XcclTable& nccl() {
    static const XcclTable table("nccl", {"libnccl.so.2"});
    return table;
}
const XcclTable& rccl() {
    static const XcclTable table("rccl", {"librccl.so.1"});
    return table;
}

template <class Api>
class Xccl : public Comm {
  public:
    // In a group, the communicator is there when the group ends.
    Xccl(GpuDevice<Api>& device, const XcclTable& table, int rank, int ranks, const UniqueId& id)
        : device_(device), xccl_(table) {
        rank_ = rank;
        size_ = ranks;
        const auto scope = device_.make_current();
        stream_ = device_.stream();
        words_ = device_.allocate(Allocator::pinned, 2 * sizeof(std::uint64_t));
        xccl_.call(xccl_.init, &comm_, ranks, id, rank);
    }
    ~Xccl() override {
        if (comm_ != nullptr) device_.while_current([&] { xccl_.destroy(comm_); });
    }
    const std::string& library() const override { return xccl_.library.path(); }

    void send(const void* from, std::size_t bytes, int to) override {
        start_send(from, bytes, to);
        finish_all();
    }
    void receive(void* to, std::size_t bytes, int from) override {
        start_receive(to, bytes, from);
        finish_all();
    }
    int start_send(const void* from, std::size_t bytes, int to) override {
        const auto scope = device_.make_current();
        xccl_.call(xccl_.send, from, bytes, type_char, to, comm_, stream());
        return started_++;
    }
    int start_receive(void* to, std::size_t bytes, int from) override {
        const auto scope = device_.make_current();
        xccl_.call(xccl_.receive, to, bytes, type_char, from, comm_, stream());
        return started_++;
    }
    // A message takes no more than the four calls: small ones are as fast as the processor queues them.
    void start_to_itself(void* to, const void* from, std::size_t bytes, int messages) override {
        const auto scope = device_.make_current();
        void* const on = stream();
        for (int i = 0; i < messages; ++i) {
            xccl_.call(xccl_.group_start);
            xccl_.call(xccl_.send, from, bytes, type_char, rank_, comm_, on);
            xccl_.call(xccl_.receive, to, bytes, type_char, rank_, comm_, on);
            xccl_.call(xccl_.group_end);
        }
    }
    void finish(int) override { finish_all(); }  // work of one stream ends in order
    void finish_all() override {
        device_.wait(*stream_);
        started_ = 0;
    }

    void exchange(const std::vector<Message>& outgoing, const std::vector<Message>& incoming) override {
        const auto scope = device_.make_current();
        xccl_.in_group([&] {  // alone, a send would wait for a receive that is queued behind it
            for (const auto& [peer, address, bytes] : incoming) start_receive(address, bytes, peer);
            for (const auto& [peer, address, bytes] : outgoing) start_send(address, bytes, peer);
        });
        finish_all();
    }

    void start(Collective operation, const void* from, void* to, std::size_t n) override {
        const auto scope = device_.make_current();
        switch (operation) {
        case Collective::all_reduce:
            return xccl_.call(xccl_.all_reduce, from, to, n, type_float, sum, comm_, stream());
        case Collective::reduce_scatter:
            return xccl_.call(xccl_.reduce_scatter, from, to, n, type_float, sum, comm_, stream());
        case Collective::all_gather:
            return xccl_.call(xccl_.all_gather, from, to, n, type_float, comm_, stream());
        case Collective::broadcast:
            return xccl_.call(xccl_.broadcast, from, to, n, type_float, 0, comm_, stream());
        case Collective::reduce:
            return xccl_.call(xccl_.reduce, from, to, n, type_float, sum, 0, comm_, stream());
        case Collective::all_to_all:
            break;
        }
        if (xccl_.all_to_all != nullptr) return xccl_.call(xccl_.all_to_all, from, to, n, type_float, comm_, stream());
        xccl_.call(xccl_.group_start);
        for (int peer = 0; peer < size_; ++peer) {
            const std::size_t offset = static_cast<std::size_t>(peer) * n;
            xccl_.call(xccl_.send, static_cast<const float*>(from) + offset, n, type_float, peer, comm_, stream());
            xccl_.call(xccl_.receive, static_cast<float*>(to) + offset, n, type_float, peer, comm_, stream());
        }
        xccl_.call(xccl_.group_end);
    }
    void together(const std::function<void()>& work) override { xccl_.in_group(work); }
    void meet() override {
        const auto scope = device_.make_current();
        xccl_.call(xccl_.all_reduce, address(0), address(1), std::size_t{1}, type_char, sum, comm_, stream());
        finish_all();
    }

    void tell(int to, std::uint64_t word) override {
        const HostView words(*words_);
        words.as<std::uint64_t>()[0] = word;
        send(address(0), sizeof word, to);
    }
    std::uint64_t hear(int from) override {
        receive(address(1), sizeof(std::uint64_t), from);
        const HostView words(*words_);
        return words.as<std::uint64_t>()[1];
    }

  private:
    void* stream() { return static_cast<GpuStream<Api>&>(*stream_).handle; }
    void* address(std::size_t word) {
        const auto base = device_.require_address(*words_, Device::kernel_user);
        return reinterpret_cast<void*>(base + word * sizeof(std::uint64_t));
    }

    GpuDevice<Api>& device_;
    const XcclTable& xccl_;
    std::unique_ptr<Stream> stream_;
    std::unique_ptr<Buffer> words_;
    void* comm_ = nullptr;
    int started_ = 0;
};

// Calls work(gpu, table) for a device of a vendor that has such a library.
template <class Work>
auto with_library(Device& device, Work&& work) {
    if (auto* gpu = dynamic_cast<GpuDevice<cuda::Driver>*>(&device)) return work(*gpu, nccl());
    if (auto* gpu = dynamic_cast<GpuDevice<hip::Runtime>*>(&device)) return work(*gpu, rccl());
    throw Unavailable("neither NCCL nor RCCL carries messages of " + device.name());
}

UniqueId new_id(Device& device) {
    UniqueId id{};
    with_library(device, [&](auto& gpu, const XcclTable& table) {
        const auto scope = gpu.make_current();
        table.call(table.unique_id, &id);
    });
    return id;
}

std::unique_ptr<Comm> open_rank(Device& device, int rank, int ranks, const UniqueId& id) {
    return with_library(device, [&]<class Api>(GpuDevice<Api>& gpu, const XcclTable& table) -> std::unique_ptr<Comm> {
        return std::make_unique<Xccl<Api>>(gpu, table, rank, ranks, id);
    });
}

}  // namespace

std::string new_xccl_id(Device& device) {
    const UniqueId id = new_id(device);
    return {id.bytes, sizeof id.bytes};
}

std::unique_ptr<Comm> open_xccl(Device& device, int rank, int ranks, const std::string& id) {
    UniqueId bytes{};
    if (id.size() != sizeof bytes.bytes) throw std::invalid_argument("an id has 128 bytes");
    std::memcpy(bytes.bytes, id.data(), sizeof bytes.bytes);
    return open_rank(device, rank, ranks, bytes);
}

std::vector<std::unique_ptr<Comm>> open_xccl_of(std::span<Device* const> devices) {
    if (devices.empty()) throw std::invalid_argument("at least one device is needed");
    std::vector<std::unique_ptr<Comm>> ranks;
    const UniqueId id = new_id(*devices[0]);
    with_library(*devices[0], [&](auto&, const XcclTable& table) {
        table.in_group([&] {
            for (Device* const device : devices)
                ranks.push_back(
                    open_rank(*device, static_cast<int>(ranks.size()), static_cast<int>(devices.size()), id));
        });
    });
    return ranks;
}

}  // namespace firsttouch
