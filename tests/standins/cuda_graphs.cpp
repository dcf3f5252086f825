// Graphs: what a stream is asked while it is captured, kept as nodes that a launch of the graph does in their order.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "cuda_calls.hpp"
#include "cuda_driver.hpp"

namespace played {

struct Node {
    int type;
    Launch launch;
    Copy copy;
    std::vector<std::vector<char>> values;  // of the arguments
    std::vector<void*> arguments;
    Address target;  // of a fill
    unsigned char value;
    std::size_t bytes;
};
struct Graph {
    std::deque<Node> nodes;
};
struct GraphToLaunch {
    Graph graph;
};

bool capture(const Launch& launch) {
    if (launch.stream == nullptr || launch.stream->captured == nullptr) return false;
    Node& node = launch.stream->captured->nodes.emplace_back(Node{.type = watched::kernel_node, .launch = launch});
    for (std::size_t i = 0; i < launch.kernel->parameters.size(); ++i) {
        const char* const value = static_cast<const char*>(launch.arguments[i]);
        node.values.emplace_back(value, value + launch.kernel->parameters[i].bytes);
    }
    for (std::vector<char>& value : node.values) node.arguments.push_back(value.data());
    return true;
}
bool capture(const Copy& copy) {
    if (copy.stream == nullptr || copy.stream->captured == nullptr) return false;
    copy.stream->captured->nodes.push_back(Node{.type = watched::copy_node, .copy = copy});
    return true;
}
bool capture_fill(Stream* stream, Address target, unsigned char value, std::size_t bytes) {
    if (stream == nullptr || stream->captured == nullptr) return false;
    stream->captured->nodes.push_back(
        Node{.type = watched::fill_node, .target = target, .value = value, .bytes = bytes});
    return true;
}

int begin_capture(Stream* stream) {
    return call<cuStreamBeginCapture_v2>({stream}, [&] {
        stream->captured = new Graph;
        return success;
    });
}
int end_capture(Stream* stream, Graph** graph) {
    return call<cuStreamEndCapture>({stream}, [&] {
        *graph = std::exchange(stream->captured, nullptr);
        return *graph == nullptr ? invalid_value : success;
    });
}
int instantiate(GraphToLaunch** out, Graph* graph) {
    return call<cuGraphInstantiateWithFlags>({reinterpret_cast<void**>(out), graph}, [&] {
        *out = new GraphToLaunch{*graph};
        for (Node& node : (*out)->graph.nodes)
            for (std::size_t i = 0; i < node.values.size(); ++i) node.arguments[i] = node.values[i].data();
        return success;
    });
}
int launch_graph(GraphToLaunch* graph, Stream* stream) {
    return call<cuGraphLaunch>({graph, stream}, [&] {
        for (Node& node : graph->graph.nodes) {
            if (node.type == watched::kernel_node) {
                node.launch.arguments = node.arguments.data(), node.launch.stream = stream;
                run(node.launch);
            } else if (node.type == watched::copy_node) {
                node.copy.stream = stream;
                run(node.copy);
            } else {
                run_fill(node.target, node.value, node.bytes);
            }
        }
        return success;
    });
}
void destroy(Graph* graph) { delete graph; }
void destroy(GraphToLaunch* graph) { delete graph; }

}  // namespace played

using namespace played;

DRIVER cuGraphGetNodes(Graph* graph, Node** nodes, std::size_t* count) {
    if (nodes == nullptr) return *count = graph->nodes.size(), success;
    *count = std::min(*count, graph->nodes.size());
    for (std::size_t i = 0; i < *count; ++i) nodes[i] = &graph->nodes[i];
    return success;
}
DRIVER cuGraphNodeGetType(const Node* node, int* type) { return *type = node->type, success; }
DRIVER cuGraphKernelNodeGetParams_v2(Node* node, watched::NodeParameters* out) {
    const auto& [kernel, grid, block, arguments, shared_bytes, stream, is_cooperative] = node->launch;
    const bool is_function = launches_carry_functions();
    *out = {is_function ? kernel : nullptr, {grid.x, grid.y, grid.z},
            {block.x, block.y, block.z},    shared_bytes,
            node->arguments.data(),         nullptr,
            is_function ? nullptr : kernel, nullptr};
    return success;
}
DRIVER cuGraphMemcpyNodeGetParams(const Node* node, watched::Copy3D* out) {
    const auto side = [](Address address, bool is_host) {
        watched::Side3D side{};
        side.type = is_host ? watched::host_memory : watched::device_memory;
        (is_host ? side.host = reinterpret_cast<void*>(address) : nullptr);
        if (!is_host) side.device = address;
        return side;
    };
    *out = {side(node->copy.source, node->copy.direction == to_device),
            side(node->copy.target, node->copy.direction == to_host), node->copy.bytes, 1, 1};
    return success;
}
