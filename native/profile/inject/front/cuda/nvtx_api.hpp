// The types by which NVTX 3 hands its functions to a tool. tests/native/test_vendor_types.cpp compares them with the
// vendor's headers if they are installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace firsttouch::nvtx {

using FunctionPointer = void (*)();
using FunctionTable = FunctionPointer**;  // the place of each function's pointer

enum Module : int { module_core = 1, module_core2 = 5 };
inline constexpr std::uint32_t callbacks_table = 1;

struct Callbacks {
    std::size_t struct_size;
    int (*get_module_function_table)(Module module, FunctionTable* table, unsigned* size);
};
using GetExportTable = const void* (*)(std::uint32_t id);

enum Core : unsigned {
    mark_ex = 1,
    mark_a = 2,
    mark_w = 3,
    range_start_ex = 4,
    range_start_a = 5,
    range_start_w = 6,
    range_end = 7,
    range_push_ex = 8,
    range_push_a = 9,
    range_push_w = 10,
    range_pop = 11,
};
enum Core2 : unsigned {
    domain_mark_ex = 1,
    domain_range_start_ex = 2,
    domain_range_end = 3,
    domain_range_push_ex = 4,
    domain_range_pop = 5,
    domain_register_string_a = 10,
    domain_register_string_w = 11,
    domain_create_a = 12,
    domain_create_w = 13,
};

enum MessageType : std::int32_t { message_ascii = 1, message_unicode = 2, message_registered = 3 };
union Message {
    const char* ascii;
    const wchar_t* unicode;
    const void* registered;
};
struct EventAttributes {
    std::uint16_t version, size;
    std::uint32_t category;
    std::int32_t colour_type;
    std::uint32_t colour;
    std::int32_t payload_type, reserved;
    std::uint64_t payload;
    std::int32_t message_type;
    Message message;
};

inline constexpr int no_push_pop_tracking = -2;  // what NVTX itself returns where no tool is attached

}  // namespace firsttouch::nvtx
