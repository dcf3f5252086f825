// What a program asks of the CUDA driver, of which CUPTI tells: each call becomes events of the recorder.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "events/cupti_api.hpp"
#include "events/driver_calls.hpp"
#include "events/home_process.hpp"
#include "profile/inject/core/recorder.hpp"
#include "profile/inject/front/cuda/asked.hpp"
#include "profile/inject/front/cuda/driver_functions.hpp"
#include "profile/inject/front/cuda/graph_gate.hpp"

namespace firsttouch::inject {

// The parameters of launches and fills.
template <class Parameters>
concept ChangingDevice =
    std::is_same_v<Parameters, cupti::Launch> || std::is_same_v<Parameters, cupti::LaunchTogether> ||
    std::is_same_v<Parameters, cupti::LaunchOf> || std::is_same_v<Parameters, cupti::GraphLaunch> ||
    std::is_same_v<Parameters, cupti::Fill> || std::is_same_v<Parameters, cupti::FillOn> ||
    std::is_same_v<Parameters, cupti::FillRows> || std::is_same_v<Parameters, cupti::FillRowsOn>;

class Calls {
  public:
    explicit Calls(Recorder& recorder, const DriverFunctions& driver = DriverFunctions::of_this_process())
        : recorder_(recorder), driver_(driver) {}

    // The numbers of the calls that are watched.
    static const std::vector<std::uint32_t>& numbers();
    // Whether a call launches a graph or makes nodes of one.
    GraphUse use_of_graphs(std::uint32_t id) const;

    const DriverFunctions& driver() const { return driver_; }

    // To be called by CUPTI before and after each of them. They do nothing in a forked process.
    void entering(std::uint32_t id, const cupti::CallData& data) noexcept;
    void leaving(std::uint32_t id, const cupti::CallData& data) noexcept;

  private:
    struct Call : RecordedCall {
        std::uint32_t id = 0;
        std::string_view function;
        const char* symbol = nullptr;  // of a launch
        bool is_per_thread = false;    // the default stream is that of the thread
    };
    using GraphSteps = std::vector<Recorder::GraphStep>;

    // What to do before a call, after one that succeeded, and after one that did not.
    void before(const auto&, const Call&) {}
    void before(const Copying auto& parameters, const Call& call) {
        recorder_.before_copies(on_stream(asked(parameters), call), call);
    }
    void before(const ChangingDevice auto&, const Call&) { recorder_.changes_device(); }
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

    void after(const Copying auto& parameters, const Call& call) {
        recorder_.after_copies(on_stream(asked(parameters), call), call);
    }
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
    void after(const cupti::ContextAt&, const Call& call) { recorder_.waited(WaitFor::context, call); }
    void after(const cupti::NoParameters&, const Call& call) { recorder_.waited(WaitFor::context, call); }
    void after(const cupti::FreeMemory& memory, const Call& call);

    void after_failure(const auto&, int, const Call&) {}
    void after_failure(const cupti::Stream& stream, int result, const Call& call);

    static Call call_of(std::uint32_t id, const cupti::CallData& data, std::string_view function) noexcept;
    void begin(std::uint64_t address, const Block& block, Call call, std::string_view name = {});
    void begin_ordered(std::uint64_t address, std::uint64_t bytes, cupti::Handle stream, const Call& call);
    void free_block(std::uint64_t address, const Call& call);
    void freed(const Call& call);
    void launched(cupti::Handle function, void* const* parameters, void* const* extra, cupti::Handle stream,
                  std::uint8_t flags, const Call& call);
    void keep_graph(cupti::Handle executable, cupti::Handle graph);
    void add_nodes(cupti::Handle graph, GraphSteps& steps, int depth);
    // Whether what is asked of a stream becomes a node of a graph.
    bool is_captured(cupti::Handle stream, const Call& call);
    std::uint64_t stream_key(std::uint64_t stream, const Call& call) const;
    std::uint64_t stream_key(cupti::Handle stream, const Call& call) const;
    Asked on_stream(Asked asked, const Call& call) const;

    Recorder& recorder_;
    const HomeProcess home_;
    // Found at the start: a thread that loads a library may wait for a mutex while it holds the loader's lock.
    const DriverFunctions driver_;
    std::mutex mutex_;  // of what follows
    std::unordered_map<cupti::Handle, std::shared_ptr<const GraphSteps>> graphs_;
    std::unordered_map<std::uint64_t, std::uint32_t> captured_memory_;  // calls that nodes of graphs are of, by address
    bool is_change_told_ = false;
};

}  // namespace firsttouch::inject
