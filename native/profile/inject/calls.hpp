// Writes what a program asks of the driver: launches with what they name, copies with their addresses, blocks, waits.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "events/cupti_api.hpp"
#include "events/driver_calls.hpp"
#include "events/home_process.hpp"
#include "profile/inject/arguments.hpp"
#include "profile/inject/blocks.hpp"
#include "profile/inject/graph_gate.hpp"
#include "profile/inject/host_places.hpp"
#include "profile/inject/host_watch.hpp"
#include "profile/inject/journal.hpp"
#include "profile/inject/places.hpp"
#include "profile/inject/transfers.hpp"

namespace firsttouch::inject {

inline constexpr std::uint8_t moved_by_graph = 32;  // a flag of a move

enum class HostPlace : std::uint8_t { other = 0, stack = 1, data = 2, pinned = 3, registered = 4, managed = 5 };

inline std::uint32_t this_thread_id() {
    static thread_local const std::uint32_t id = thread_id();
    return id;
}

class Calls {
  public:
    Calls(Journal& journal, Texts& texts, Places& places,
          const DriverFunctions& driver = DriverFunctions::of_this_process())
        : journal_(journal), texts_(texts), places_(places), arguments_(journal, texts, blocks_), driver_(driver) {}

    // The numbers of the calls that are watched.
    static const std::vector<std::uint32_t>& numbers();
    // Whether a call launches a graph or makes nodes of one.
    GraphUse use_of_graphs(std::uint32_t id) const;

    const DriverFunctions& driver() const { return driver_; }

    // From now on, also tells a watch of copies, launches and waits; before the first call.
    void tell(HostWatch& watch) { watch_ = &watch; }

    // To be called by CUPTI before and after each of them. They do nothing in a forked process.
    void entering(std::uint32_t id, const cupti::CallData& data) noexcept;
    void leaving(std::uint32_t id, const cupti::CallData& data) noexcept;

    // Records where in the program a call is. Throws std::bad_alloc.
    void write_place(std::uint32_t correlation);

  private:
    struct Call {
        std::uint32_t id = 0, correlation = 0;
        std::string_view function;
        const char* symbol = nullptr;  // of a launch
        bool is_per_thread = false;    // the default stream is that of the thread
    };
    struct GraphStep {
        int type = cupti::kernel_node;
        std::uint32_t arguments = 0;     // of a kernel
        std::vector<Transfer> moves;     // of a copy or a fill; of memory, its address and bytes
        std::uint32_t allocated_by = 0;  // of memory: the call that was captured; 0: unknown
    };

    // What to do before a call, after one that succeeded, and after one that did not.
    void before(const auto&, const Call&) {}
    void before(const Copying auto& parameters, const Call& call) { before_copies(asked(parameters), call); }
    void before(const cupti::MemoryAt& at, const Call& call) { free_block(at.address, call); }
    void before(const cupti::MemoryAtOn& at, const Call& call);
    void before(const cupti::UnmappedMemory& at, const Call& call);
    void before(const cupti::Stream& stream, const Call& call);
    void before(const cupti::ReleasedHost& at, const Call& call);
    void before(const cupti::ArrayAt& at, const Call& call);
    void before(const cupti::ReleasedReserved& at, const Call& call);

    void after(const auto&, const Call&) {}
    void after(const cupti::NewMemory& made, const Call& call);
    void after(const cupti::NewPitched& made, const Call& call);
    void after(const cupti::NewManaged& made, const Call& call);
    void after(const cupti::NewMemoryOn& made, const Call& call);
    void after(const cupti::NewFromPoolOn& made, const Call& call);
    void after(const cupti::NewHost& made, const Call& call);
    void after(const cupti::NewHostOfKind& made, const Call& call);
    void after(const cupti::RegisteredHost& made, const Call& call);
    void after(const cupti::MappedMemory& made, const Call& call);
    void after(const cupti::NewReserved& made, const Call& call);
    void after(const cupti::MemoryAt&, const Call& call) { freed(call); }
    void after(const cupti::ReleasedHost&, const Call& call) { freed(call); }
    void after(const cupti::Variable& made, const Call& call);
    void after(const cupti::NewArray& made, const Call& call);
    void after(const cupti::NewArray3D& made, const Call& call);

    void after(const Copying auto& parameters, const Call& call) { after_copies(asked(parameters), call); }
    void after(const cupti::Fill& fill, const Call& call);
    void after(const cupti::FillOn& fill, const Call& call);
    void after(const cupti::FillRows& fill, const Call& call);
    void after(const cupti::FillRowsOn& fill, const Call& call);
    void after(const cupti::PrefetchOn& prefetch, const Call& call);
    void after(const cupti::PrefetchToOn& prefetch, const Call& call);
    void after(const cupti::Advice& advice, const Call& call);
    void after(const cupti::AdviceTo& advice, const Call& call);

    void after(const cupti::Launch& launch, const Call& call);
    void after(const cupti::LaunchTogether& launch, const Call& call);
    void after(const cupti::LaunchOf& launch, const Call& call);
    void after(const cupti::NewGraph& graph, const Call& call);
    void after(const cupti::GraphLaunch& launch, const Call& call);
    void after(const cupti::GraphUpdate& update, const Call& call);
    void after(const cupti::GraphChange& change, const Call& call);
    void after(const cupti::GraphEnd& end, const Call& call);
    void after(const cupti::Stream& stream, const Call& call);
    void after(const cupti::Event& event, const Call& call);
    void after(const cupti::ContextAt&, const Call& call) { waited(2, call); }
    void after(const cupti::NoParameters&, const Call& call) { waited(2, call); }
    void after(const cupti::FreeMemory& memory, const Call& call);

    void after_failure(const auto&, int, const Call&) {}
    void after_failure(const cupti::Stream& stream, int result, const Call& call);
    void failed(int result, const Call& call);

    void begin_ordered(std::uint64_t address, std::uint64_t bytes, cupti::Handle stream, const Call& call);
    void begin_block(std::uint64_t address, const Block& block, const Call& call, std::string_view name = {});
    // Returns what has ended, if anything.
    std::optional<Block> end_block(std::uint64_t address, const Call& call);
    void free_block(std::uint64_t address, const Call& call);
    void freed(const Call& call);
    void write_reserved(std::uint64_t address, std::uint64_t bytes);

    void find_direction(Transfer& transfer);
    HostPlace host_place(std::uint64_t address);
    bool is_blocking(const Transfer& transfer, HostPlace place) const;
    void before_copies(Asked asked, const Call& call);
    void tell_of_copy(const Transfer& transfer);
    bool sample_before(const Transfer& transfer, std::uint64_t& hash);
    void after_copies(const Asked& asked, const Call& call);
    void after_copy(Transfer transfer, std::uint16_t stream, std::uint8_t flags, CallPlace place, const Call& call);
    bool is_known_touched(const HostRows& rows) const;
    bool find_pointers(const Transfer& transfer, std::vector<std::uint64_t>& found);
    void filled(std::uint64_t target, std::uint64_t bytes, std::uint64_t rows, std::uint64_t pitch,
                cupti::Handle stream, const Call& call);
    void advised(MoveRecord record, cupti::Handle stream, const Call& call);

    void launched(cupti::Handle function, void* const* parameters, void* const* extra, cupti::Handle stream,
                  std::uint8_t flags, const Call& call);
    void write_step(const GraphStep& step, std::pair<std::uint16_t, std::uint8_t> stream, CallPlace place,
                    const Call& call);
    void write_memory(const GraphStep& step, const Call& call);
    void write_fill(const Transfer& fill, std::pair<std::uint16_t, std::uint8_t> stream, CallPlace place,
                    const Call& call);
    void keep_graph(cupti::Handle executable, cupti::Handle graph);
    void add_nodes(cupti::Handle graph, std::vector<GraphStep>& steps, int depth);
    void waited(std::uint8_t what, const Call& call);
    // When the call began that this thread returns from; 0 if that is not known.
    static std::uint64_t began(const Call& call) noexcept;

    void begin_capture(cupti::Handle stream, const Call& call);
    void end_capture(cupti::Handle stream, const Call& call);
    std::uint64_t stream_key(cupti::Handle stream, const Call& call) const;
    // Whether what is asked of a stream becomes a node of a graph.
    bool is_captured(cupti::Handle stream, const Call& call);
    // The number of a stream, and the flags of what is asked of it.
    std::pair<std::uint16_t, std::uint8_t> about_stream(cupti::Handle stream, const Call& call);

    Journal& journal_;
    Texts& texts_;
    Places& places_;
    HostWatch* watch_ = nullptr;
    const HomeProcess home_;
    std::mutex mutex_;  // of all that follows
    Blocks blocks_;
    Arguments arguments_;
    HostPlaces host_places_;
    // Found at the start: a thread that loads a library may wait for the mutex while it holds the loader's lock.
    const DriverFunctions driver_;
    std::unordered_map<std::uint64_t, std::uint16_t> streams_;
    std::unordered_set<std::uint64_t> capturing_;
    std::atomic<bool> is_capturing_{false};  // some stream
    std::unordered_map<cupti::Handle, std::shared_ptr<const std::vector<GraphStep>>> graphs_;
    std::unordered_map<std::uint64_t, std::uint32_t>
        captured_memory_;  // the calls that nodes of graphs are of, by address
    bool is_change_told_ = false;
    std::unordered_map<std::uint64_t, std::uint64_t> pointers_;  // the hash of those that were last copied to a target
    std::array<HostRows, 1024> touched_;                         // of copies before, by their addresses
    std::atomic<bool> has_work_{false};                          // since the last wait
};

}  // namespace firsttouch::inject
