// The Device interface, through which probes, experiments and applications use a device and its memory. The folders
// cuda, hip, opencl and host implement it, one for each driver.
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

// The machine cannot do what was asked; what() is a sentence for the user. The point is skipped with that reason.
class Unavailable : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A driver or library call failed; what() has the call and the driver's message.
class VendorError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A gate timed out before it was opened, so the time measured behind it is wrong. The point fails; what() says what
// causes this and what to do.
class GateTimeout : public std::runtime_error {
  public:
    explicit GateTimeout(double seconds);  // the gate's time limit
};

using Fact = std::variant<bool, std::int64_t, double, std::string>;
using Facts = std::vector<std::pair<std::string, Fact>>;

// Which of a preset's time budgets a device's points use: the host's, that of kernels on the host's processor, or the
// GPU's.
enum class TimeClass : std::uint8_t { host, host_kernels, gpu };

// What a device can do, as its driver reports it. These fields and the allocators decide what is measured and how; the
// kind of device never does. DeviceCapabilities in src/firsttouch/records/schema.py has the same fields.
struct Capabilities {
    bool runs_kernels = true;         // false for the host only
    bool on_host_processor = false;   // kernels run on the host's processor and use its caches
    bool shares_host_memory = false;  // its memory is host memory: a CPU, an integrated GPU, an APU
    bool gpu_hierarchy = false;       // has a GPU's caches and TLBs, with a virtually addressed L1 per multiprocessor
    bool page_migration = false;      // managed pages migrate between host and device memory when touched
    bool memory_guidance = false;     // has calls to prefetch managed memory and to advise on its use
    bool memory_events = false;       // its driver can record unified-memory events
    bool coherent_during_kernel = false;  // has memory in which the CPU and a running kernel see each other's stores
    bool host_native_atomics = false;     // CPU and GPU atomics on the same word of host memory are mutually atomic
    bool uncached_loads = false;          // kernels have loads that bypass the first-level cache
    bool device_scope_atomics = false;    // kernels have atomics of a narrower scope than the system
    bool device_clock = false;            // kernels can read a clock
    bool reports_free_memory = false;     // its driver reports how much device memory is free
    TimeClass time_class = TimeClass::gpu;
    std::string machine_code;  // format of compiled kernels: "cubin", "hsaco", "opencl"; "" if kernels are not compiled
};

struct Clocks {
    double core_mhz = -1;  // negative: unknown
    double memory_mhz = -1;
    double temperature_c = -1;
    double power_w = -1;
    std::vector<std::string> throttle;
};

enum class Agent : std::uint8_t { cpu, gpu };

// A hint to the driver about the use of managed memory.
enum class Advice : std::uint8_t { read_mostly, preferred_gpu, preferred_cpu, accessed_by_gpu, accessed_by_cpu };

struct Grid {
    std::uint32_t blocks = 1;
    std::uint32_t threads = 1;
};

class Device;

// An allocation charged to the guard. Its destructor frees it. It must not outlive its device.
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
    void release() noexcept;  // frees the memory before destruction; the buffer is empty afterwards

  private:
    Device* device_;
    Reservation reservation_;  // released after the block
    Block block_;
};

// Gives the CPU access to a buffer during its lifetime. Maps and unmaps the buffer if the allocator requires it.
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
// Holds back all work queued after it on a stream until it is opened. Its destructor opens it.
class Gate {
  public:
    virtual ~Gate() = default;
    virtual void open() = 0;  // throws GateTimeout if the gate timed out before
};

// A kernel argument: a buffer, or a scalar of up to eight bytes.
struct Argument {
    const Buffer* buffer = nullptr;
    std::size_t size = 0;
    alignas(8) unsigned char bytes[8] = {};

    Argument(const Buffer& memory) : buffer(&memory), size(sizeof(void*)) {}
    template <class T>
    requires std::is_arithmetic_v<T> Argument(T value) : size(sizeof(T)) { std::memcpy(bytes, &value, sizeof(T)); }
};

// Device code: a text in the dialect of src/firsttouch/base/kernels and the macros to compile it with.
struct Source {
    std::string name;
    std::string text;
    std::vector<std::pair<std::string, std::string>> defines;
};

// A compiled Source: machine code and, if the vendor's compiler provides it, assembly text.
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

    // The device's properties: "title" first, then the vendor's attributes by plain names, with sizes in bytes.
    virtual Facts facts() = 0;

    virtual Capabilities capabilities() = 0;

    // All allocators of this kind of device, with what the driver states about each on this machine.
    virtual const std::vector<AllocatorInfo>& allocators() = 0;

    // Total and currently free device memory; host memory if the device shares it.
    virtual DeviceMemory memory() = 0;
    // The same as the guard counts it. A driver may state less as free than it can allocate.
    virtual DeviceMemory available_memory() { return memory(); }

    // Obtains memory without charging the guard. For allocate(), and for probes that hold a Reservation.
    // Throws Unavailable, VendorError or std::bad_alloc.
    virtual Block obtain(Allocator allocator, std::size_t bytes, Pages pages) = 0;
    virtual void release(Block& block) noexcept = 0;

    // Returns the CPU's address of a block; unmap must follow. No-ops if the CPU has direct access.
    virtual void* map(const Block& block) = 0;
    virtual void unmap(const Block& block, void* address) = 0;

    // Returns one kernel of a source, compiled or from the cache. Throws VendorError with the compiler's log.
    virtual std::unique_ptr<Kernel> kernel(const Source& source, const std::string& entry) = 0;
    virtual Binary compile(const Source& source) = 0;

    // Queues work on a stream. The work of one stream runs in order. Arguments are copied before launch returns. Both
    // throw Unavailable if a buffer belongs to another device and this device has no access to it.
    virtual std::unique_ptr<Stream> stream() = 0;
    void launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments);
    void copy(Stream& stream, const Buffer& target, std::size_t target_offset, const Buffer& source,
              std::size_t source_offset, std::size_t bytes);

    // Gives kernels and copies of this device access to the other device's memory. Idempotent. Throws Unavailable with
    // the driver's message if access is not possible. Plain host memory needs no call, nor do page-locked and managed
    // memory of the same driver.
    void reach(Device& peer);
    // The reason why reach would throw, as far as the driver states it, or nullopt. Has no side effects.
    virtual std::optional<std::string> why_unreachable(Device& peer);
    // The buffer's address in kernels of this device, or 0 if it has none.
    unsigned long long kernel_address(const Buffer& buffer);
    // Throw Unavailable if this device has no access to the buffer, or no address for it. The message starts with
    // `user` and this device's name.
    void require_reach(const Buffer& buffer, const char* user);
    unsigned long long require_address(const Buffer& buffer, const char* user);
    static constexpr const char* kernel_user = "a kernel of ";

    // Copies the first `bytes` between memory of two devices by the driver's call that names both. It needs no access
    // of one to the other's memory; without access, the driver copies through the host. Throws Unavailable if the
    // driver has no such call, or not for this memory.
    virtual void copy_between(Stream& stream, const Buffer& target, const Buffer& source, std::size_t bytes);

    // prefetch moves `bytes` of managed memory, starting at `offset`, to an agent before they are used. advise passes a
    // hint about the buffer to the driver. Both throw Unavailable if the device has no such call for this memory.
    virtual void prefetch(Stream& stream, const Buffer& buffer, std::size_t offset, std::size_t bytes, Agent agent) = 0;
    virtual void advise(const Buffer& buffer, Advice advice) = 0;
    virtual void wait(Stream& stream) = 0;

    // record queues an event on a stream. elapsed returns the seconds between two events on the device's clock, after
    // both have completed.
    virtual std::unique_ptr<Event> record(Stream& stream) = 0;
    // The same with an event that is no longer needed, which may be used again.
    virtual void record(Stream& stream, std::unique_ptr<Event>& event) { event = record(stream); }
    virtual double elapsed(Event& from, Event& to) = 0;
    virtual void join(Stream& stream, Event& event) = 0;  // work queued on the stream afterwards waits for the event
    virtual std::unique_ptr<Gate> hold(Stream& stream) = 0;

    // Current clocks and throttle reasons, as far as the vendor's library reports them.
    virtual Clocks clocks() { return {}; }

    // Device memory in use by all programs according to the vendor's management library: "total_bytes", "used_bytes",
    // "free_bytes" and, if reported, "reserved_bytes". Empty if there is no such library.
    virtual Facts usage() { return {}; }

    // Allocates memory and charges it to the guard. Throws GuardRefused, or Unavailable with the reason in
    // allocators(). ballast: it is held only to leave less of the device free. host_only: no kernel uses it.
    std::unique_ptr<Buffer> allocate(Allocator allocator, std::size_t bytes, Pages pages = Pages::policy,
                                     bool ballast = false, bool host_only = false);
    // Maps the first `bytes` of an open file read-only. Charged to the guard like mmap memory, and accessible to
    // kernels if mmap memory is. Throws GuardRefused, or Unavailable with the reason.
    std::unique_ptr<Buffer> map_file(int descriptor, std::size_t bytes);
    // Charges the guard for `bytes` of `allocator`, for code that calls obtain itself.
    Reservation reserve(Allocator allocator, std::size_t bytes, bool ballast = false, bool host_only = false);
    const AllocatorInfo& info(Allocator allocator);

  protected:
    virtual void queue_launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments) = 0;
    virtual void queue_copy(Stream& stream, const Buffer& target, std::size_t target_offset, const Buffer& source,
                            std::size_t source_offset, std::size_t bytes) = 0;
    // Opens access to another device's memory in the driver. Throws Unavailable with the driver's message.
    virtual void open_access(Device&) {}
    // The reason why this device cannot use a buffer of another device, or nullopt.
    virtual std::optional<std::string> why_out_of_reach(const Buffer& buffer);

  private:
    std::string name_;
    std::set<std::string> reached_;  // names of the devices to which reach has opened access
};

// Opens "cpu", "opencl:N", "cuda:N" or "hip:N". Throws Unavailable with the reason.
std::unique_ptr<Device> open_device(const std::string& name);
// The number of devices of a kind ("cpu", "opencl", "cuda", "hip"). Throws Unavailable with the reason.
int count_devices(const std::string& kind);

}  // namespace firsttouch
