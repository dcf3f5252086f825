// What graphs do: their nodes as a program adds them, or as calls of a stream that is captured become them. The runtime
// is not asked, since what it tells of a node differs between its versions.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "profile/inject/core/recorder.hpp"

namespace firsttouch::hip_front {

class Graphs {
  public:
    using Step = inject::Recorder::GraphStep;
    using Steps = std::vector<Step>;
    using Handle = const void*;

    void begin_capture(std::uint64_t stream);
    // Of a stream where a capture began, or of one that joined a capture: then the only one, or nothing is known of
    // any.
    void add_captured(std::uint64_t stream, Step step);
    // What was captured becomes a part of the graph; null: it is given up.
    void end_capture(std::uint64_t stream, Handle graph);

    void add(Handle graph, Step step);
    void add_all_of(Handle graph, Handle other);
    // It has a node of which nothing is known.
    void add_unknown(Handle graph);
    void forget(Handle graph);

    void instantiate(Handle executable, Handle graph);
    void forget_executable(Handle executable);
    // Null: unknown.
    std::shared_ptr<const Steps> steps_of(Handle executable);

  private:
    struct Graph {
        Steps steps;
        bool is_known = true;
        void add(const Graph& other);
    };
    std::mutex mutex_;
    std::unordered_map<std::uint64_t, Graph> captures_;
    std::unordered_map<Handle, Graph> graphs_;
    std::unordered_map<Handle, std::shared_ptr<const Steps>> executables_;
};

}  // namespace firsttouch::hip_front
