// Writes what a program does through CUDA into the journal: unified-memory events, allocations, copies and kernels.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "device/device.hpp"
#include "events/events.hpp"
#include "events/fetching.hpp"
#include "events/home_process.hpp"
#include "profile/inject/front/cuda/calls.hpp"
#include "profile/inject/front/cuda/graph_gate.hpp"
#include "profile/inject/core/recording.hpp"

namespace firsttouch::inject {

// Records from the end of cuInit on.
class Trace final : public RecordSink {
  public:
    // Throws Unavailable with the reason if this process cannot be traced.
    static std::unique_ptr<Trace> start(const cupti::Functions& api, Recording& recording);
    ~Trace() override;
    Trace(const Trace&) = delete;
    Trace& operator=(const Trace&) = delete;

    // Flushes, so that all records of work that has ended are in the journal. Nothing is flushed any more.
    void finish() noexcept;

    void event(const cupti::CounterRecord& record, const std::uint64_t* processors) noexcept override;
    void unknown(const cupti::Record& record) noexcept override;

  private:
    Trace(const cupti::Functions& api, Recording& recording);

    static void on_callback(void* trace, int domain, std::uint32_t id, const void* data) noexcept;
    void write_place(std::uint32_t id, std::uint32_t correlation) noexcept;
    void enable() noexcept;
    void enable_kind(int kind, const char* what);
    void enable_copies_between_devices(std::uint32_t version);
    void flush(std::uint32_t flags) noexcept;
    void write_clocks();
    std::uint32_t shape_of(const cupti::KernelRecord& kernel);

    const cupti::Functions& api_;
    Journal& journal_;
    cupti::Subscriber subscriber_ = nullptr;
    Texts& texts_;
    Places& places_;
    Recorder& recorder_;
    CopyWatch* const watch_;
    Calls calls_;
    std::mutex shapes_mutex_;
    std::map<std::array<std::int32_t, 6>, std::uint32_t> shapes_;  // grids and blocks of launches
    const HomeProcess home_;
    GraphGate graphs_;
    Fetching fetching_;
    std::atomic<bool> enabled_{false};
    std::atomic<bool> ready_{false};
    std::atomic<std::uint64_t> next_clocks_{0};  // when both clocks are read again, in nanoseconds
    std::atomic<std::uint64_t> incomplete_{0};   // records that could not be written
    std::atomic<std::uint64_t> unfinished_{0};   // copies and kernels without an end
};

}  // namespace firsttouch::inject
