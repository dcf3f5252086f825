// Whether the numbers and callbacks of the OpenMP tool are those of the header, and that a program without a device has
// no use for it.
#if __has_include(<omp-tools.h>)
#include <omp-tools.h>
#define FIRSTTOUCH_OMPT_HEADER
#elif __has_include("/usr/lib/llvm-19/lib/clang/19/include/omp-tools.h")
#include "/usr/lib/llvm-19/lib/clang/19/include/omp-tools.h"
#define FIRSTTOUCH_OMPT_HEADER
#endif

#include <gtest/gtest.h>

#include "profile/inject/front/openmp/api.hpp"
#include "signature.hpp"

#if !defined(FIRSTTOUCH_OMPT_HEADER)
extern "C" firsttouch::openmp_tool::StartToolResult* ompt_start_tool(unsigned, const char* version);
#endif

namespace firsttouch::openmp_tool {
namespace {

TEST(OpenmpTool, NumbersAndCallbacksAreThoseOfTheHeader) {
#if defined(FIRSTTOUCH_OMPT_HEADER)
    const std::pair<int, int> numbers[] = {
        {scope_begin, ompt_scope_begin},
        {scope_end, ompt_scope_end},
        {scope_begin | scope_end, ompt_scope_beginend},
        {device_initialize, ompt_callback_device_initialize},
        {target_emi, ompt_callback_target_emi},
        {target_data_op_emi, ompt_callback_target_data_op_emi},
        {target_submit_emi, ompt_callback_target_submit_emi},
        {set_sometimes, ompt_set_sometimes},
        {data_alloc, ompt_target_data_alloc},
        {data_to_device, ompt_target_data_transfer_to_device},
        {data_from_device, ompt_target_data_transfer_from_device},
        {data_delete, ompt_target_data_delete},
        {data_associate, ompt_target_data_associate},
        {data_disassociate, ompt_target_data_disassociate},
        {data_alloc + data_asynchronous, ompt_target_data_alloc_async},
        {data_to_device + data_asynchronous, ompt_target_data_transfer_to_device_async},
        {data_from_device + data_asynchronous, ompt_target_data_transfer_from_device_async},
        {data_delete + data_asynchronous, ompt_target_data_delete_async},
        {target_region, ompt_target},
        {target_exit_data, ompt_target_exit_data},
        {target_nowait, ompt_target_nowait},
    };
    for (const auto& [ours, theirs] : numbers) EXPECT_EQ(ours, theirs);
    EXPECT_LT(int(ompt_target_update), int(target_nowait));
    static_assert(CompatibleSignature<OnDevice*, ompt_callback_device_initialize_t>::value);
    static_assert(CompatibleSignature<OnTarget*, ompt_callback_target_emi_t>::value);
    static_assert(CompatibleSignature<OnDataOp*, ompt_callback_target_data_op_emi_t>::value);
    static_assert(CompatibleSignature<OnSubmit*, ompt_callback_target_submit_emi_t>::value);
    static_assert(CompatibleSignature<SetCallback, ompt_set_callback_t>::value);
    static_assert(CompatibleSignature<decltype(StartToolResult::initialize), ompt_initialize_t>::value);
    static_assert(CompatibleSignature<decltype(StartToolResult::finalize), ompt_finalize_t>::value);
    static_assert(sizeof(StartToolResult) == sizeof(ompt_start_tool_result_t));
#else
    GTEST_SKIP() << "omp-tools.h is not installed";
#endif
}

TEST(OpenmpTool, DeclinesWhereNoDeviceCanBeUsed) { EXPECT_EQ(ompt_start_tool(202011, "LLVM OMP"), nullptr); }

}  // namespace
}  // namespace firsttouch::openmp_tool
