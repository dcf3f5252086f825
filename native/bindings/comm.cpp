// Bindings of the communication between ranks.
#include "comm/comm.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "bindings/handle.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace firsttouch {

void bind_comm(nb::module_& m) {
    nb::class_<Comm>(m, "Comm", "What the ranks that were started together can do with each other.")
        .def_prop_ro("rank", &Comm::rank)
        .def_prop_ro("size", &Comm::size)
        .def_prop_ro("library", &Comm::library, "The path of the library.");
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
