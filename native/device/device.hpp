// The Device interface: everything that probes, experiments and applications ask of a device and its memory. The
// folders cuda, hip, opencl and host implement it, one per driver.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "device/allocator.hpp"
#include "device/guard.hpp"

namespace firsttouch {

// Something this machine cannot do, as a sentence for the user. A point that runs into it is skipped with that reason.
class Unavailable : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A driver or library call that failed: the call and the driver's message.
class VendorError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A gate that gave up waiting before it was opened, so that the time measured behind it is wrong. The point fails;
// what() names the cause and the remedy.
class GateTimeout : public std::runtime_error {
  public:
    explicit GateTimeout(double seconds);  // how long the gate waits
};

using Fact = std::variant<bool, std::int64_t, double, std::string>;
using Facts = std::vector<std::pair<std::string, Fact>>;

// How long a device's points may take: the host's own, kernels that run on the host's processor, or a GPU's.
enum class TimeClass : std::uint8_t { host, host_kernels, gpu };

// What a device can do, as its driver states it. What is measured, and how, follows from these and from the allocators,
// never from a kind of device. src/firsttouch/records/schema.py (DeviceCapabilities) mirrors the fields.
struct Capabilities {
    bool runs_kernels = true;             // has an agent beside the CPU; only the host has none
    bool on_host_processor = false;       // what runs on it runs on the host's processor, through the host's caches
    bool shares_host_memory = false;      // its memory is the host's: a CPU, an integrated GPU, an APU
    bool gpu_hierarchy = false;           // a GPU's caches and TLBs: first level per multiprocessor, before translation
    bool page_migration = false;          // managed pages move between the memories when an agent touches them
    bool memory_guidance = false;         // has calls that prefetch managed memory and advise on it
    bool memory_events = false;           // its driver can record what unified memory does
    bool coherent_during_kernel = false;  // has memory in which CPU and a running kernel see each other's stores
    bool host_native_atomics = false;     // atomics of kernel and CPU on one word of host memory are atomic together
    bool uncached_loads = false;          // its language has loads past the first-level cache
    bool device_scope_atomics = false;    // its language has atomics of a scope narrower than the system
    bool device_clock = false;            // kernels can read a clock
    bool tells_free_memory = false;       // its driver tells how much of its own memory is free
    TimeClass time_class = TimeClass::gpu;
    std::string machine_code;  // what a kernel is compiled to: "cubin", "hsaco", "opencl"; "" where none is compiled
};

struct Clocks {
    double core_mhz = -1;  // < 0: not offered
    double memory_mhz = -1;
    double temperature_c = -1;
    double power_w = -1;
    std::vector<std::string> throttle;
};

enum class Agent : std::uint8_t { cpu, gpu };

// What a program may tell the driver about managed memory.
enum class Advice : std::uint8_t { read_mostly, preferred_gpu, preferred_cpu, accessed_by_gpu, accessed_by_cpu };

struct Grid {
    std::uint32_t blocks = 1;
    std::uint32_t threads = 1;
};

class Device;

// Guarded memory. Freed when it goes out of scope; must not outlive its device.
class Buffer {
  public:
    Buffer(Device& device, Reservation reservation, const Block& block)
        : device_(&device), reservation_(std::move(reservation)), block_(block) {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { release(); }

    std::size_t size() const { return block_.bytes; }
    Allocator allocator() const { return block_.allocator; }
    const Block& block() const { return block_; }
    Device& device() const { return *device_; }
    void release() noexcept;  // early; the buffer is empty afterwards

  private:
    Device* device_;
    Reservation reservation_;  // given back after the block
    Block block_;
};

// The CPU's view of a buffer while it lives: maps and unmaps where the allocator needs that.
class HostView {
  public:
    explicit HostView(const Buffer& buffer);
    HostView(const HostView&) = delete;
    HostView& operator=(const HostView&) = delete;
    ~HostView();
    void* data() const { return data_; }
    template <class T>
    T* as() const {
        return static_cast<T*>(data_);
    }

  private:
    const Buffer& buffer_;
    void* data_;
};

class Stream {
  public:
    virtual ~Stream() = default;
};
class Event {
  public:
    virtual ~Event() = default;
};
class Kernel {
  public:
    virtual ~Kernel() = default;
};
// Holds back everything queued after it on a stream until opened. Its destructor opens it.
class Gate {
  public:
    virtual ~Gate() = default;
    virtual void open() = 0;  // throws GateTimeout where it had given up before
};

// A kernel argument: a buffer, or up to eight bytes of a scalar.
struct Argument {
    const Buffer* buffer = nullptr;
    std::size_t size = 0;
    alignas(8) unsigned char bytes[8] = {};

    Argument(const Buffer& memory) : buffer(&memory), size(sizeof(void*)) {}
    template <class T>
    requires std::is_arithmetic_v<T> Argument(T value) : size(sizeof(T)) { std::memcpy(bytes, &value, sizeof(T)); }
};

// Device code: text in the dialect of src/firsttouch/kernels, and the macros it is compiled with.
struct Source {
    std::string name;
    std::string text;
    std::vector<std::pair<std::string, std::string>> defines;
};

// What a compiler made of a Source: machine code and, where the vendor has one, its assembly text.
struct Binary {
    std::string kind;  // "cubin", "hsaco", "opencl"
    std::string code;
    std::string assembly;
    std::string log;
};

class Device {
  public:
    explicit Device(std::string name) : name_(std::move(name)) {}
    virtual ~Device() = default;
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    const std::string& name() const { return name_; }

    // What the device is: "title" first, then the vendor's attributes under plain names, sizes in bytes.
    virtual Facts facts() = 0;

    virtual Capabilities capabilities() = 0;

    // Every allocator that this kind of device knows, with what the driver states about it here.
    virtual const std::vector<AllocatorInfo>& allocators() = 0;

    // Device memory now; for a device that shares the host's memory, the host's.
    virtual DeviceMemory memory() = 0;

    // Obtains memory without asking the guard: only for allocate() and for probes that hold a Reservation.
    // Throws Unavailable, VendorError or std::bad_alloc.
    virtual Block obtain(Allocator allocator, std::size_t bytes, Pages pages) = 0;
    virtual void release(Block& block) noexcept = 0;

    // The CPU's address of a block; paired with unmap. A no-op where the CPU has direct access.
    virtual void* map(const Block& block) = 0;
    virtual void unmap(const Block& block, void* address) = 0;

    // Compiles (or takes from the cache) and finds one kernel. Throws VendorError with the compiler's log.
    virtual std::unique_ptr<Kernel> kernel(const Source& source, const std::string& entry) = 0;
    virtual Binary compile(const Source& source) = 0;

    // Work is queued on streams, in order within one; arguments are copied before launch returns. Both throw
    // Unavailable where a buffer belongs to another device and this one has no access to it.
    virtual std::unique_ptr<Stream> stream() = 0;
    void launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments);
    void copy(Stream& stream, const Buffer& target, std::size_t target_offset, const Buffer& source,
              std::size_t source_offset, std::size_t bytes);

    // Opens the other device's memory to kernels and copies of this one; calling it again changes nothing. Throws
    // Unavailable with the driver's message where there is no such access. Plain host memory, and page-locked and
    // managed memory of the same driver, need no call.
    void reach(Device& other);
    // Why reach would throw, as far as the driver states it; nothing where it would not. Opens nothing.
    virtual std::optional<std::string> why_unreachable(Device& other);
    // The address of a buffer for kernels of this device; 0 where it has none.
    unsigned long long kernel_address(const Buffer& buffer);
    // The same; throws Unavailable where there is none or this device has no access. `what` names who asks: "a kernel
    // of ".
    unsigned long long require_address(const Buffer& buffer, const char* what);
    static constexpr const char* a_kernel_of = "a kernel of ";

    // Moves `bytes` of managed memory from `offset` to an agent ahead of their use, and tells the driver how the
    // buffer will be used. Both throw Unavailable where the device has no such call for this memory.
    virtual void prefetch(Stream& stream, const Buffer& buffer, std::size_t offset, std::size_t bytes, Agent agent) = 0;
    virtual void advise(const Buffer& buffer, Advice advice) = 0;
    virtual void wait(Stream& stream) = 0;

    // Marks a place in a stream; elapsed gives the seconds between two completed marks on the device's clock.
    virtual std::unique_ptr<Event> record(Stream& stream) = 0;
    virtual double elapsed(Event& from, Event& to) = 0;
    virtual void join(Stream& stream, Event& event) = 0;  // work queued on stream from now on waits for event
    virtual std::unique_ptr<Gate> hold(Stream& stream) = 0;

    // Clocks and throttle reasons now; nothing where the vendor offers none.
    virtual Clocks clocks() { return {}; }

    // Device memory in use by all programs, as the vendor's management library counts it: "total_bytes", "used_bytes",
    // "free_bytes", "reserved_bytes" as far as it tells; nothing where there is none.
    virtual Facts usage() { return {}; }

    // Guarded memory. Throws GuardRefused, or Unavailable with the reason that allocators() gives.
    std::unique_ptr<Buffer> allocate(Allocator allocator, std::size_t bytes, Pages pages = Pages::policy);
    // The first `bytes` of an open file in memory, to be read only, guarded and charged as mmap is. Kernels reach it
    // where they reach mmap. Throws GuardRefused, or Unavailable with the reason.
    std::unique_ptr<Buffer> map_file(int descriptor, std::size_t bytes);
    // A charge for `bytes` of `allocator`, for code that obtains blocks itself.
    Reservation reserve(Allocator allocator, std::size_t bytes);
    const AllocatorInfo& info(Allocator allocator);

  protected:
    virtual void queue_launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments) = 0;
    virtual void queue_copy(Stream& stream, const Buffer& target, std::size_t target_offset, const Buffer& source,
                            std::size_t source_offset, std::size_t bytes) = 0;
    // Opens access in the driver. Throws Unavailable with the driver's message.
    virtual void open_access(Device&) {}
    // Why this device cannot use a buffer of another device; nothing where it can.
    virtual std::optional<std::string> why_out_of_reach(const Buffer& buffer);

  private:
    void require_reach(const Buffer& buffer, const char* what);

    std::string name_;
    std::set<std::string> reached_;  // names of devices whose memory reach has opened
};

// Opens "cpu", "opencl:N", "cuda:N" or "hip:N". Throws Unavailable with the reason.
std::unique_ptr<Device> open_device(const std::string& name);
// How many devices of a kind ("cpu", "opencl", "cuda", "hip") this machine has. Throws Unavailable with the reason.
int count_devices(const std::string& kind);

}  // namespace firsttouch
