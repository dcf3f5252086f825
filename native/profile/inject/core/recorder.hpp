// Writes what a program asks of a device: blocks, copies with their addresses, launches with what they name, waits.
// What an interface such as CUDA or OpenCL calls these is known to its front alone, which tells the recorder of each
// call.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "events/home_process.hpp"
#include "profile/inject/core/arguments.hpp"
#include "profile/inject/core/blocks.hpp"
#include "profile/inject/core/host_places.hpp"
#include "profile/inject/core/copy_watch.hpp"
#include "profile/inject/core/journal.hpp"
#include "profile/inject/core/places.hpp"
#include "profile/inject/core/transfers.hpp"

namespace firsttouch::inject {

enum class HostPlace : std::uint8_t { other = 0, stack = 1, data = 2, pinned = 3, registered = 4, managed = 5 };

inline std::uint32_t this_thread_id() {
    static thread_local const std::uint32_t id = thread_id();
    return id;
}

// While one of this thread exists, further calls are those that the runtime or this library makes, and not the
// program's: they are not recorded. Shared by all fronts, since one runtime is built on another.
class Within {
  public:
    Within() noexcept : is_first_(!std::exchange(is_within_, true)) {}
    ~Within() { is_within_ = !is_first_; }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;
    bool is_first() const { return is_first_; }

  private:
    inline static thread_local bool is_within_ = false;
    const bool is_first_;
};

// A call of the program. Records of the same call have the same number.
struct RecordedCall {
    std::uint32_t correlation = 0;
    std::uint64_t began = 0;  // 0: unknown
    bool has_place = false;   // whether its place was written already
};

enum class WaitFor : std::uint8_t { stream = 0, event = 1, context = 2, free = 4 };
enum class Order : std::uint8_t { fill = 1, prefetch = 2, advice = 3 };  // besides copies
enum LaunchFlag : std::uint8_t { cooperative = 4, launched_by_graph = 8 };
inline constexpr std::uint8_t moved_by_graph = 32;  // a flag of a move

// The number of a stream, and the flags of what is asked of it.
using OfStream = std::pair<std::uint16_t, std::uint8_t>;

// Each may be called by any thread, and throws std::bad_alloc. A stream is told by its key: what no other stream of the
// process has.
class Recorder {
  public:
    Recorder(Journal& journal, Texts& texts, Places& places)
        : journal_(journal), texts_(texts), places_(places), arguments_(journal, texts, blocks_) {}

    // From now on, also tells a watch of copies, launches and waits; before the first call.
    void tell(CopyWatch& watch) { watch_ = &watch; }

    // Records where in the program a call is.
    void write_place(std::uint32_t correlation);
    CallPlace place() { return places_.of_this_call(); }

    // What the program uses, as it is called: "OpenCL", "OpenCL 3.0", "NVIDIA H200", "sm_90". Unknown: nothing.
    void runs_on(std::string_view api, std::string_view version, std::string_view device,
                 std::string_view architecture);

    // name: of a static variable; one that is known already is not recorded again.
    void begin_block(std::uint64_t address, const Block& block, const RecordedCall& call, std::string_view name = {});
    // Before the runtime frees it, since another thread may be given the same address right after. Returns what has
    // ended, if anything.
    std::optional<Block> end_block(std::uint64_t address, const RecordedCall& call);
    // All that begin in a range, which a program may have mapped one by one.
    void end_blocks_in(std::uint64_t address, std::uint64_t bytes, const RecordedCall& call);
    // A block that will be there: launches may be told of its address before.
    void expect(std::uint64_t address, const Block& block);
    // Addresses into which memory is mapped; 0 bytes: no more.
    void reserve(std::uint64_t address, std::uint64_t bytes);

    void before_copies(Asked asked, const RecordedCall& call);
    void after_copies(const Asked& asked, const RecordedCall& call);
    // record: what, its target, bytes, rows, and what belongs to it.
    void ordered(Order what, MoveRecord record, std::uint64_t stream, const RecordedCall& call);
    void filled(std::uint64_t target, std::uint64_t bytes, std::uint64_t rows, std::uint64_t pitch,
                std::uint64_t stream, const RecordedCall& call);

    // What a launch names, by number; 0: unknown.
    std::uint32_t number_arguments(const Kernels& kernels, Handle kernel, const char* symbol, void* const* parameters,
                                   void* const* extra);
    // Before a call that changes memory of the device, such as a launch.
    void changes_device();
    void launched(const Kernels& kernels, Handle kernel, const char* symbol, void* const* parameters,
                  void* const* extra, std::uint64_t stream, std::uint8_t flags, const RecordedCall& call);

    // What a graph does that was made before.
    struct GraphStep {
        std::optional<std::uint32_t> arguments;  // of a kernel
        std::vector<Transfer> copies, fills;
        std::uint64_t begins = 0, ends = 0;  // addresses of blocks
        Block block;                         // that begins
        std::uint32_t allocated_by = 0;      // the call that was captured, whose place it has; 0: unknown
    };
    void launched_graph(const std::vector<GraphStep>* steps, std::uint64_t stream, const RecordedCall& call);

    // A mapping of a device's memory begins or ends. host: where the CPU finds it. use: 1 reads, 2 writes, 3 both.
    void viewed(std::uint64_t address, std::uint64_t host, std::uint64_t bytes, std::uint8_t use, bool begins,
                bool waits);

    // stream: that was waited for; 0: another, or all.
    void waited(WaitFor what, const RecordedCall& call, std::uint64_t stream = 0);
    bool has_work() const { return has_work_; }
    // A call that returned an error and did nothing. function: its name, of the driver.
    void failed(std::string_view function, std::int32_t error, const RecordedCall& call);
    void asked_for_free_memory(std::uint64_t free, std::uint64_t total);

    void begin_capture(std::uint64_t stream);
    void end_capture(std::uint64_t stream);
    bool is_captured(std::uint64_t stream);
    bool is_capturing() const { return is_capturing_.load(std::memory_order_relaxed); }

  private:
    void find_direction(Transfer& transfer);
    HostPlace host_place(std::uint64_t address);
    bool is_blocking(const Transfer& transfer, HostPlace place) const;
    void tell_of_copy(const Transfer& transfer, std::uint64_t stream);
    bool sample_before(const Transfer& transfer, std::uint64_t& hash);
    void after_copy(Transfer transfer, OfStream stream, CallPlace place, const RecordedCall& call);
    bool is_known_touched(const HostRows& rows) const;
    bool find_pointers(const Transfer& transfer, std::vector<std::uint64_t>& found);
    void write_step(const GraphStep& step, OfStream stream, CallPlace place, const RecordedCall& call);
    void write_fill(const Transfer& fill, OfStream stream, CallPlace place, const RecordedCall& call);
    OfStream about_stream(std::uint64_t stream);

    Journal& journal_;
    Texts& texts_;
    Places& places_;
    CopyWatch* watch_ = nullptr;
    std::mutex mutex_;  // of all that follows
    Blocks blocks_;
    Arguments arguments_;
    HostPlaces host_places_;
    std::unordered_map<std::uint64_t, std::uint16_t> streams_;
    std::unordered_set<std::uint64_t> capturing_;
    std::atomic<bool> is_capturing_{false};                      // some stream
    std::unordered_map<std::uint64_t, std::uint64_t> pointers_;  // the hash of those that were last copied to a target
    std::array<HostRows, 1024> touched_;                         // of copies before, by their addresses
    std::atomic<bool> has_work_{false};                          // since the last wait
};

}  // namespace firsttouch::inject
