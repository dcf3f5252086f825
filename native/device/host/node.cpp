#include "device/host/node.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "device/device.hpp"

namespace firsttouch {
namespace {

constexpr unsigned long most_nodes = 1024;  // the largest MAX_NUMNODES that Linux can be built with
constexpr unsigned long word_bits = 8 * sizeof(unsigned long);

using Nodes = std::vector<unsigned long>;

void require(long result, int memory, const char* call) {
    if (result != 0)
        throw Unavailable("memory cannot be bound to node" + std::to_string(memory) + ": " + std::strerror(errno) +
                          " (" + call + ")");
}

}  // namespace

NodeScope::NodeScope(const std::vector<int>& processors, std::optional<int> memory)
    : affinity_(processors), nodes_before_(most_nodes / word_bits, 0) {
    if (!memory) return;
    if (*memory < 0 || static_cast<unsigned long>(*memory) >= most_nodes)
        throw Unavailable("there is no node" + std::to_string(*memory));
    require(syscall(SYS_get_mempolicy, &mode_before_, nodes_before_.data(), most_nodes, nullptr, 0UL), *memory,
            "get_mempolicy");
    Nodes nodes(nodes_before_.size(), 0);
    const auto bit = static_cast<unsigned long>(*memory);
    nodes[bit / word_bits] |= 1UL << bit % word_bits;
    // The kernel reads one bit less than the number that it is given.
    require(syscall(SYS_set_mempolicy, MPOL_BIND, nodes.data(), most_nodes + 1), *memory, "set_mempolicy");
    bound_ = true;
}

NodeScope::~NodeScope() {
    if (bound_) syscall(SYS_set_mempolicy, mode_before_, nodes_before_.data(), most_nodes + 1);
}

}  // namespace firsttouch
