// Compares what the injected library declares of the Sanitizer API with the vendor's headers where those are installed.
#include "profile/inject/front/cuda/sanitizer_api.hpp"
#include "signature.hpp"
#include "support.hpp"

#if __has_include(<sanitizer_callbacks.h>) && __has_include(<cuda.h>)
#define FIRSTTOUCH_SANITIZER_HEADERS
#include <sanitizer.h>
#endif

namespace firsttouch {
namespace {

TEST(VendorTypes, Sanitizer) {
#if defined(FIRSTTOUCH_SANITIZER_HEADERS)
    using namespace sanitizer;
    static_assert(SANITIZER_SUCCESS == 0 && SANITIZER_PATCH_SUCCESS == 0);
    const std::pair<int, int> numbers[] = {
        {resources, SANITIZER_CB_DOMAIN_RESOURCE},
        {synchronisations, SANITIZER_CB_DOMAIN_SYNCHRONIZE},
        {launches, SANITIZER_CB_DOMAIN_LAUNCH},
        {copies, SANITIZER_CB_DOMAIN_MEMCPY},
        {fills, SANITIZER_CB_DOMAIN_MEMSET},
        {graphs, SANITIZER_CB_DOMAIN_GRAPHS},
        {context_created, SANITIZER_CBID_RESOURCE_CONTEXT_CREATION_FINISHED},
        {context_ends, SANITIZER_CBID_RESOURCE_CONTEXT_DESTROY_STARTING},
        {stream_ends, SANITIZER_CBID_RESOURCE_STREAM_DESTROY_STARTING},
        {module_loaded, SANITIZER_CBID_RESOURCE_MODULE_LOADED},
        {memory_allocated, SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_ALLOC},
        {memory_freed, SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_FREE},
        {host_memory_allocated, SANITIZER_CBID_RESOURCE_HOST_MEMORY_ALLOC},
        {host_memory_freed, SANITIZER_CBID_RESOURCE_HOST_MEMORY_FREE},
        {allocated_in_stream, SANITIZER_CBID_RESOURCE_MEMORY_ALLOC_ASYNC},
        {freed_in_stream, SANITIZER_CBID_RESOURCE_MEMORY_FREE_ASYNC},
        {stream_synchronised, SANITIZER_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED},
        {context_synchronised, SANITIZER_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED},
        {launch_begins, SANITIZER_CBID_LAUNCH_BEGIN},
        {copy_begins, SANITIZER_CBID_MEMCPY_STARTING},
        {fill_begins, SANITIZER_CBID_MEMSET_STARTING},
        {node_begins, SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN},
        {graph_begins, SANITIZER_CBID_GRAPHS_LAUNCH_BEGIN},
        {of_module, SANITIZER_MEMORY_FLAG_MODULE},
        {managed, SANITIZER_MEMORY_FLAG_MANAGED},
        {host_pinned, SANITIZER_MEMORY_FLAG_HOST_PINNED},
        {of_peer, SANITIZER_MEMORY_FLAG_PEER},
        {host_to_device, SANITIZER_MEMCPY_DIRECTION_HOST_TO_DEVICE},
        {device_to_host, SANITIZER_MEMCPY_DIRECTION_DEVICE_TO_HOST},
        {device_to_device, SANITIZER_MEMCPY_DIRECTION_DEVICE_TO_DEVICE},
        {global_access, SANITIZER_INSTRUCTION_GLOBAL_MEMORY_ACCESS},
        {copy_async, SANITIZER_INSTRUCTION_MEMCPY_ASYNC},
        {bulk_copy_in, SANITIZER_INSTRUCTION_BULK_COPY_GLOBAL_TO_SHARED},
        {bulk_copy_out, SANITIZER_INSTRUCTION_BULK_COPY_SHARED_TO_GLOBAL},
        {bulk_reduction, SANITIZER_INSTRUCTION_BULK_REDUCTION_SHARED_TO_GLOBAL},
        {kernel_node, CU_GRAPH_NODE_TYPE_KERNEL},
        {copy_node, CU_GRAPH_NODE_TYPE_MEMCPY},
        {fill_node, CU_GRAPH_NODE_TYPE_MEMSET},
        // What granules.cu writes as numbers.
        {1, SANITIZER_MEMORY_DEVICE_FLAG_READ},
        {2, SANITIZER_MEMORY_DEVICE_FLAG_WRITE},
        {8, SANITIZER_MEMORY_DEVICE_FLAG_PREFETCH},
    };
    for (const auto& [ours, theirs] : numbers) EXPECT_EQ(ours, theirs);
#define SAME(ours, member, theirs, their_member)                                                                       \
    static_assert(offsetof(ours, member) == offsetof(theirs, their_member) &&                                          \
                  sizeof(ours::member) == sizeof(theirs::their_member))
    SAME(ContextData, context, Sanitizer_ResourceContextData, context);
    SAME(StreamData, context, Sanitizer_ResourceStreamData, context);
    SAME(StreamData, handle, Sanitizer_ResourceStreamData, hStream);
    SAME(ModuleData, context, Sanitizer_ResourceModuleData, context);
    SAME(ModuleData, module, Sanitizer_ResourceModuleData, module);
    SAME(ModuleData, cubin_bytes, Sanitizer_ResourceModuleData, cubinSize);
    SAME(ModuleData, cubin, Sanitizer_ResourceModuleData, pCubin);
    SAME(MemoryData, address, Sanitizer_ResourceMemoryData, address);
    SAME(MemoryData, bytes, Sanitizer_ResourceMemoryData, size);
    SAME(MemoryData, flags, Sanitizer_ResourceMemoryData, flags);
    SAME(SynchronisationData, context, Sanitizer_SynchronizeData, context);
    SAME(SynchronisationData, handle, Sanitizer_SynchronizeData, hStream);
    SAME(LaunchData, context, Sanitizer_LaunchData, context);
    SAME(LaunchData, handle, Sanitizer_LaunchData, hStream);
    SAME(LaunchData, function, Sanitizer_LaunchData, function);
    SAME(LaunchData, name, Sanitizer_LaunchData, functionName);
    SAME(LaunchData, launch, Sanitizer_LaunchData, hLaunch);
    SAME(LaunchData, graph_handle, Sanitizer_LaunchData, hApiStream);
    static_assert(offsetof(LaunchData, grid) == offsetof(Sanitizer_LaunchData, gridDim_x));
    static_assert(offsetof(LaunchData, block) == offsetof(Sanitizer_LaunchData, blockDim_x));
    SAME(CopyData, source_context, Sanitizer_MemcpyData, srcContext);
    SAME(CopyData, source_handle, Sanitizer_MemcpyData, hSrcStream);
    SAME(CopyData, target, Sanitizer_MemcpyData, dstAddress);
    SAME(CopyData, bytes, Sanitizer_MemcpyData, size);
    SAME(CopyData, width, Sanitizer_MemcpyData, width);
    SAME(CopyData, height, Sanitizer_MemcpyData, height);
    SAME(CopyData, depth, Sanitizer_MemcpyData, depth);
    SAME(CopyData, asynchronous, Sanitizer_MemcpyData, isAsync);
    SAME(CopyData, direction, Sanitizer_MemcpyData, direction);
    SAME(FillData, address, Sanitizer_MemsetData, address);
    SAME(FillData, width, Sanitizer_MemsetData, width);
    SAME(FillData, height, Sanitizer_MemsetData, height);
    SAME(FillData, element_bytes, Sanitizer_MemsetData, elementSize);
    SAME(NodeData, type, Sanitizer_GraphNodeLaunchData, nodeType);
    SAME(NodeData, launch.context, Sanitizer_GraphNodeLaunchData, launchData.context);
#undef SAME
    using Table = Functions;
    static_assert(CompatibleSignature<decltype(Table::get_result_string), decltype(&sanitizerGetResultString)>::value);
    static_assert(CompatibleSignature<decltype(Table::subscribe), decltype(&sanitizerSubscribe)>::value);
    static_assert(CompatibleSignature<decltype(Table::enable_domain), decltype(&sanitizerEnableDomain)>::value);
    static_assert(CompatibleSignature<decltype(Table::add_patches), decltype(&sanitizerAddPatchesFromFile)>::value);
    static_assert(
        CompatibleSignature<decltype(Table::patch_instructions), decltype(&sanitizerPatchInstructions)>::value);
    static_assert(CompatibleSignature<decltype(Table::patch_module), decltype(&sanitizerPatchModule)>::value);
    static_assert(
        CompatibleSignature<decltype(Table::set_launch_data), decltype(&sanitizerSetLaunchCallbackData)>::value);
    static_assert(CompatibleSignature<decltype(Table::allocate), decltype(&sanitizerAlloc)>::value);
    static_assert(CompatibleSignature<decltype(Table::synchronise), decltype(&sanitizerStreamSynchronize)>::value);
    static_assert(CompatibleSignature<decltype(Table::copy_in), decltype(&sanitizerMemcpyHostToDeviceAsync)>::value);
    static_assert(CompatibleSignature<decltype(Table::copy_out), decltype(&sanitizerMemcpyDeviceToHost)>::value);
#else
    GTEST_SKIP() << "sanitizer_callbacks.h is not installed";
#endif
}

}  // namespace
}  // namespace firsttouch
