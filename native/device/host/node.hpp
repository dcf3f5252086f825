// A NUMA node of the host as a scope.
#pragma once

#include <optional>
#include <vector>

#include "host/team.hpp"

namespace firsttouch {

// Until its end, the calling thread and threads that it starts run on the given processors (with none, where they ran
// before) and take new pages from the node's memory only (with none, by the policy that they had). Throws Unavailable
// with the kernel's words, for instance where a container forbids it; then nothing has changed.
class NodeScope {
  public:
    NodeScope(const std::vector<int>& processors, std::optional<int> memory);
    ~NodeScope();
    NodeScope(const NodeScope&) = delete;
    NodeScope& operator=(const NodeScope&) = delete;

  private:
    Affinity affinity_;
    bool bound_ = false;
    int mode_before_ = 0;
    std::vector<unsigned long> nodes_before_;
};

}  // namespace firsttouch
