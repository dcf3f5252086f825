// Bindings of the communication between ranks.
#include "comm/comm.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "bindings/handle.hpp"
#include "comm/exchange.hpp"
#include "host/clock.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace firsttouch {
namespace {

using PyParcel = std::tuple<int, BufferHandle*, std::size_t, std::size_t>;

std::vector<Parcel> parcels(const std::vector<PyParcel>& given) {
    std::vector<Parcel> parcels;
    for (const auto& [peer, buffer, offset, bytes] : given) parcels.push_back({peer, &buffer->get(), offset, bytes});
    return parcels;
}

// Keeps the buffers as long as messages may arrive in them: Python holds them by the list of parcels.
struct PyReceives {
    std::unique_ptr<Receives> receives;

    std::tuple<std::vector<std::size_t>, double> finish(const std::vector<PyParcel>& outgoing, BufferHandle* staging) {
        const auto parcels_out = parcels(outgoing);
        const Buffer* memory = staging == nullptr ? nullptr : &staging->get();
        nb::gil_scoped_release release;
        const double start = now();
        auto arrived = receives->finish(parcels_out, memory);
        return {std::move(arrived), now() - start};
    }
};

}  // namespace

void bind_comm(nb::module_& m) {
    nb::class_<Comm>(m, "Comm", "What the ranks that were started together can do with each other.")
        .def_prop_ro("rank", &Comm::rank)
        .def_prop_ro("size", &Comm::size)
        .def_prop_ro("library", &Comm::library, "The path of the library.")
        .def("meet", &Comm::meet, nb::call_guard<nb::gil_scoped_release>(), "Returns when all ranks have called it.")
        .def("total", &Comm::total, "own"_a, nb::call_guard<nb::gil_scoped_release>(),
             "The sum of the numbers of all ranks, modulo 2^64.")
        .def("largest", &Comm::largest, "own"_a, nb::call_guard<nb::gil_scoped_release>(),
             "The largest of the numbers of all ranks.")
        .def("swap_words", &Comm::swap_words, "others"_a, "words"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Tells each of the other ranks, which all name this rank in turn, a number below 2^64. Returns theirs.");
    m.def(
        "exchange",
        [](DeviceHandle& d, Comm* comm, const std::vector<PyParcel>& outgoing, const std::vector<PyParcel>& incoming,
           BufferHandle* staging_out, BufferHandle* staging_in, bool device_addresses) {
            const ExchangeRequest request{parcels(outgoing), parcels(incoming),
                                          staging_out == nullptr ? nullptr : &staging_out->get(),
                                          staging_in == nullptr ? nullptr : &staging_in->get(), device_addresses};
            nb::gil_scoped_release release;
            return exchange(d.lab, comm, request);
        },
        "device"_a, "comm"_a.none(), "outgoing"_a, "incoming"_a, nb::kw_only(), "staging_out"_a.none() = nb::none(),
        "staging_in"_a.none() = nb::none(), "device_addresses"_a = false,
        "Carries messages between ranks, each as the other rank, a buffer, an offset and its bytes; those to the rank "
        "itself are copied by the device. Returns the seconds until the last can be used. comm: None if the rank is "
        "alone. staging_out, staging_in: host memory through which the device copies messages.");
    nb::class_<PyReceives>(m, "Receives", "Messages that this rank has begun to receive.")
        .def(
            "finish", &PyReceives::finish, "outgoing"_a, "staging_out"_a.none() = nb::none(),
            "Sends messages to other ranks, empty ones too, and returns the bytes of each that arrived and the seconds "
            "until all can be used.");
    m.def(
        "receive",
        [](DeviceHandle& d, Comm& comm, const std::vector<PyParcel>& incoming, BufferHandle* staging_in,
           bool device_addresses) {
            const Buffer* staging = staging_in == nullptr ? nullptr : &staging_in->get();
            return PyReceives{std::make_unique<Receives>(d.lab, comm, parcels(incoming), staging, device_addresses)};
        },
        "device"_a, "comm"_a, "incoming"_a, nb::kw_only(), "staging_in"_a.none() = nb::none(),
        "device_addresses"_a = false, nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(),
        "Begins to receive a message from each of other ranks, of at most so many bytes at an offset of a buffer. No "
        "other messages may be exchanged until they have ended.");
    m.def(
        "open_mpi",
        [](const std::string& library, std::uint64_t world, std::uint64_t byte, std::uint64_t real, std::uint64_t sum,
           std::size_t request_bytes) {
            return open_mpi({library, world, byte, real, sum, request_bytes});
        },
        "library"_a, nb::kw_only(), "world"_a, "byte"_a, "real"_a, "sum"_a, "request_bytes"_a,
        "Opens the ranks of an MPI that this process has initialised. library: its path; world, byte, real, sum: the "
        "handles of the communicator, of the types byte and float and of the operation; request_bytes: the size of a "
        "request's handle.");
    m.def(
        "new_xccl_id",
        [](DeviceHandle& d) {
            const std::string id = new_xccl_id(*d.device);
            return nb::bytes(id.data(), id.size());
        },
        "device"_a, "Makes the id with which all ranks open NCCL or RCCL.");
    m.def(
        "open_xccl",
        [](std::shared_ptr<DeviceHandle> d, int rank, int ranks, nb::bytes id) {
            const std::string text(id.c_str(), id.size());
            nb::gil_scoped_release release;
            return open_xccl(*d->device, rank, ranks, text);
        },
        "device"_a, nb::kw_only(), "rank"_a, "ranks"_a, "id"_a, nb::keep_alive<0, 1>(),
        "Opens NCCL or RCCL for this rank. All ranks do so at once; the device is kept alive.");
    m.def(
        "open_xccl_of",
        [](const std::vector<std::shared_ptr<DeviceHandle>>& handles) {
            std::vector<Device*> devices;
            for (const auto& handle : handles) devices.push_back(handle->device.get());
            std::vector<std::unique_ptr<Comm>> ranks;
            {
                nb::gil_scoped_release release;
                ranks = open_xccl_of(devices);
            }
            std::vector<std::shared_ptr<Comm>> with_devices;
            for (std::size_t i = 0; i < ranks.size(); ++i)
                with_devices.emplace_back(ranks[i].release(), [device = handles[i]](Comm* comm) { delete comm; });
            return with_devices;
        },
        "devices"_a,
        "Opens NCCL or RCCL for all ranks in this process, one for each device; the devices are kept alive.");
}

}  // namespace firsttouch
