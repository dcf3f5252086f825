#include "profile/inject/front/hip/graphs.hpp"

#include <utility>

namespace firsttouch::hip_front {
namespace {

constexpr std::size_t most_steps = 1 << 16;

}  // namespace

void Graphs::Graph::add(const Graph& other) {
    is_known = is_known && other.is_known && steps.size() + other.steps.size() <= most_steps;
    if (is_known) steps.insert(steps.end(), other.steps.begin(), other.steps.end());
}

void Graphs::begin_capture(std::uint64_t stream) {
    const std::scoped_lock lock(mutex_);
    captures_[stream] = {};
}

void Graphs::add_captured(std::uint64_t stream, Step step) {
    const std::scoped_lock lock(mutex_);
    auto found = captures_.find(stream);
    if (found == captures_.end() && captures_.size() == 1) found = captures_.begin();
    if (found != captures_.end()) return found->second.add({.steps = {std::move(step)}});
    for (auto& [_, graph] : captures_) graph.is_known = false;
}

void Graphs::end_capture(std::uint64_t stream, Handle graph) {
    const std::scoped_lock lock(mutex_);
    const auto found = captures_.find(stream);
    if (found == captures_.end()) return;
    if (graph != nullptr) graphs_[graph].add(found->second);
    captures_.erase(found);
}

void Graphs::add(Handle graph, Step step) {
    const std::scoped_lock lock(mutex_);
    graphs_[graph].add({.steps = {std::move(step)}});
}

void Graphs::add_all_of(Handle graph, Handle other) {
    const std::scoped_lock lock(mutex_);
    const auto found = graphs_.find(other);
    const Graph added = found == graphs_.end() ? Graph{.steps = {}, .is_known = false} : found->second;
    graphs_[graph].add(added);
}

void Graphs::add_unknown(Handle graph) {
    const std::scoped_lock lock(mutex_);
    graphs_[graph].is_known = false;
}

void Graphs::forget(Handle graph) {
    const std::scoped_lock lock(mutex_);
    graphs_.erase(graph);
}

void Graphs::instantiate(Handle executable, Handle graph) {
    const std::scoped_lock lock(mutex_);
    const auto found = graphs_.find(graph);
    if (found != graphs_.end() && found->second.is_known)
        executables_[executable] = std::make_shared<const Steps>(found->second.steps);
    else
        executables_.erase(executable);
}

void Graphs::forget_executable(Handle executable) {
    const std::scoped_lock lock(mutex_);
    executables_.erase(executable);
}

std::shared_ptr<const Graphs::Steps> Graphs::steps_of(Handle executable) {
    const std::scoped_lock lock(mutex_);
    const auto found = executables_.find(executable);
    return found == executables_.end() ? nullptr : found->second;
}

}  // namespace firsttouch::hip_front
