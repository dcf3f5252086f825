// The stand-in for the CUDA driver: what the stand-in for the CUDA runtime (cudart.cpp) asks it to do. It does it at
// once, in memory of the processor, and through the stand-in for CUPTI, so that a profiler sees the driver's calls with
// their numbers and parameters. Kernels that nvcc compiled do not run; those of tests are functions and do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "events/driver_calls.hpp"

namespace played {

using Address = std::uintptr_t;
struct Graph;
struct GraphToLaunch;
struct Event;
struct Stream {  // null: the default stream
    unsigned flags;
    Graph* captured;  // null if it is not
};

enum Code : int {
    success = 0,
    invalid_value = 1,
    out_of_memory = 2,
    invalid_handle = 400,
    not_found = 500,
    locked_already = 712,
    not_locked = 713
};
enum Memory : int { pageable = 1, pinned = 2, device = 3, managed = 5, device_static = 6, managed_static = 7 };
enum Direction : int { to_device = 1, to_host = 2, on_device = 8, on_host = 9 };

struct Size3 {
    std::uint32_t x, y, z;
};
struct Parameter {
    std::size_t offset, bytes;
};
using Body = void (*)(void** arguments);

struct Kernel {
    std::string name;  // as the compiler mangled it
    std::vector<Parameter> parameters;
    Body body = nullptr;
};
struct Launch {
    Kernel* kernel;
    Size3 grid, block;
    void** arguments;
    std::uint32_t shared_bytes;
    Stream* stream;
    bool is_cooperative;
};
struct Copy {
    Address target, source;
    std::size_t bytes;
    Direction direction;
    bool is_asynchronous;
    Stream* stream;
    bool is_direction_known = true;
};
struct Range {
    Address start;
    std::size_t bytes;
};
struct Rows {  // as many of copy.bytes each
    std::size_t count, target_pitch, source_pitch;
};

int initialise();
int devices();
int use_device(int device);  // of this thread
int allocate(Address* address, std::size_t bytes);
int allocate_pitched(Address* address, std::size_t* pitch, std::size_t width, std::size_t height);
int allocate_on_stream(Address* address, std::size_t bytes, Stream* stream);
int allocate_managed(Address* address, std::size_t bytes, unsigned flags);
int allocate_pinned(void** address, std::size_t bytes, unsigned flags);
int release(Address address);
int release_all();  // as a reset of the device does
int release_on_stream(Address address, Stream* stream);
int release_pinned(void* address);
int lock(void* address, std::size_t bytes, unsigned flags);
int unlock(void* address);
int copy(const Copy& copy);
int copy_now(Address target, Address source, std::size_t bytes);
int copy_rows(const Copy& copy, const Rows& rows);
int copy_slices(const firsttouch::cupti::Copy3D& slices);
int copy_between(Address target, Address source, std::size_t bytes);  // contexts
int copy_batch(const Address* targets, const Address* sources, const std::size_t* sizes, std::size_t count,
               Stream* stream);
int fill(Address target, unsigned char value, std::size_t bytes, bool is_asynchronous, Stream* stream);
int prefetch(Address address, std::size_t bytes, int place, int device, Stream* stream);
int advise(Address address, std::size_t bytes, int advice, int place, int device);
// Asks for a symbol that was loaded to this address.
int find_symbol(const char* name, Address* address, std::size_t* bytes);
int launch(const Launch& launch);
int begin_capture(Stream* stream);
int end_capture(Stream* stream, Graph** graph);
int instantiate(GraphToLaunch** out, Graph* graph);
int launch_graph(GraphToLaunch* graph, Stream* stream);
void destroy(Graph* graph);
void destroy(GraphToLaunch* graph);
int wait_for_context();
int wait_for_stream(Stream* stream);
int wait_for_event(Event* event);
int memory_info(std::size_t* free, std::size_t* total);
Memory memory_at(Address address);  // pageable if it is not known
Range range_at(Address address);    // of no bytes if it is not known

// A program that nvcc compiled registers its code: `code` is what is embedded, with the sizes of parameters.
void add_code(const void* code);
Kernel* add_kernel(const std::string& name);
// Memory of the device that the next call of the driver loads with the code it belongs to.
void add_symbol(const char* name, std::size_t bytes, Address* address, bool is_managed);

}  // namespace played
