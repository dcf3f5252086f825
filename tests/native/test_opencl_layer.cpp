// Whether the numbers of the OpenCL layer are those of the Khronos headers, and what it tells a loader.
#if __has_include(<CL/cl_icd.h>)
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <CL/cl_icd.h>
#endif

#include <gtest/gtest.h>

#include "profile/inject/front/opencl/api.hpp"
#include "profile/inject/front/opencl/objects.hpp"

extern "C" std::int32_t clGetLayerInfo(std::uint32_t what, std::size_t bytes, void* value, std::size_t* needed);

namespace firsttouch::opencl_layer {
namespace {

TEST(OpenclLayer, NumbersAreThoseOfTheHeaders) {
#if defined(CL_VERSION_3_0)
#define CALL(index, name) EXPECT_EQ(std::size_t(index), offsetof(cl_icd_dispatch, name) / sizeof(void*)) << #name;
    FIRSTTOUCH_OPENCL_CALLS(CALL)
#undef CALL
    EXPECT_EQ(memory_write_only, CL_MEM_WRITE_ONLY);
    EXPECT_EQ(memory_read_only, CL_MEM_READ_ONLY);
    EXPECT_EQ(memory_use_host, CL_MEM_USE_HOST_PTR);
    EXPECT_EQ(memory_alloc_host, CL_MEM_ALLOC_HOST_PTR);
    EXPECT_EQ(memory_copy_host, CL_MEM_COPY_HOST_PTR);
    EXPECT_EQ(svm_fine, CL_MEM_SVM_FINE_GRAIN_BUFFER);
    EXPECT_EQ(svm_atomics, CL_MEM_SVM_ATOMICS);
    EXPECT_EQ(map_read, CL_MAP_READ);
    EXPECT_EQ(map_write, CL_MAP_WRITE);
    EXPECT_EQ(map_write_invalidate, CL_MAP_WRITE_INVALIDATE_REGION);
    EXPECT_EQ(kernel_name, CL_KERNEL_FUNCTION_NAME);
    EXPECT_EQ(kernel_arguments, CL_KERNEL_NUM_ARGS);
    EXPECT_EQ(argument_access, CL_KERNEL_ARG_ACCESS_QUALIFIER);
    EXPECT_EQ(argument_type_qualifier, CL_KERNEL_ARG_TYPE_QUALIFIER);
    EXPECT_EQ(access_read_only, CL_KERNEL_ARG_ACCESS_READ_ONLY);
    EXPECT_EQ(access_write_only, CL_KERNEL_ARG_ACCESS_WRITE_ONLY);
    EXPECT_EQ(qualifier_const, CL_KERNEL_ARG_TYPE_CONST);
    EXPECT_EQ(image_element_bytes, CL_IMAGE_ELEMENT_SIZE);
    EXPECT_EQ(exec_svm_pointers, CL_KERNEL_EXEC_INFO_SVM_PTRS);
    EXPECT_EQ(event_status, CL_EVENT_COMMAND_EXECUTION_STATUS);
    EXPECT_EQ(complete, CL_COMPLETE);
    EXPECT_EQ(device_name, CL_DEVICE_NAME);
    EXPECT_EQ(device_version, CL_DEVICE_VERSION);
    EXPECT_EQ(device_free_amd, CL_DEVICE_GLOBAL_FREE_MEMORY_AMD);
    EXPECT_EQ(invalid_value, CL_INVALID_VALUE);
    EXPECT_EQ(sizeof(BufferRegion), sizeof(cl_buffer_region));
    EXPECT_EQ(sizeof(ImageDescription), sizeof(cl_image_desc));
    EXPECT_EQ(offsetof(ImageDescription, array_size), offsetof(cl_image_desc, image_array_size));
#else
    GTEST_SKIP() << "CL/cl_icd.h is not installed";
#endif
}

TEST(OpenclLayer, SaysWhichVersionOfTheInterfaceItHas) {
    std::uint32_t version = 0;
    std::size_t needed = 0;
    EXPECT_EQ(clGetLayerInfo(layer_version, sizeof version, &version, &needed), 0);
    EXPECT_EQ(version, 100u);
    EXPECT_EQ(needed, sizeof version);
    EXPECT_NE(clGetLayerInfo(layer_version, 1, &version, nullptr), 0);
    EXPECT_NE(clGetLayerInfo(1, sizeof version, &version, nullptr), 0);
}

TEST(OpenclLayer, AnArgumentIsTheAddressOfItsMemoryUntilItIsSetAgain) {
    Objects objects;
    const Object buffer = Object(0x1000), part = Object(0x2000), kernel = Object(0x3000);
    const std::uint64_t address = objects.add_memory(buffer, {.bytes = 4096}).address;
    EXPECT_TRUE(objects.add_part(part, buffer, 1024, 512));
    EXPECT_FALSE(objects.add_part(part, Object(0x4000), 0, 1));
    objects.add_kernel(kernel, {"k", {{.bytes = 8}, {.offset = 8, .bytes = 8}}});
    objects.set_argument(kernel, 0, sizeof buffer, &buffer);
    objects.set_argument(kernel, 1, sizeof part, &part);
    objects.set_argument(kernel, 7, sizeof part, &part);  // it has no such argument
    EXPECT_EQ(objects.kernel(kernel).values, (std::vector<std::uint64_t>{address, address + 1024}));
    const float number = 1;
    objects.set_argument(kernel, 0, sizeof number, &number);
    objects.set_argument(kernel, 1, 256, nullptr);  // memory of a work-group
    EXPECT_EQ(objects.kernel(kernel).values, (std::vector<std::uint64_t>{0, 0}));
    EXPECT_EQ(objects.kernel(Object(0x5000)).info, nullptr);
}

TEST(OpenclLayer, MemoryIsGoneWithItsLastReferenceAndKernelsWithAnother) {
    Objects objects;
    const Object buffer = Object(0x1000), kernel = Object(0x3000), clone = Object(0x4000);
    objects.add_memory(buffer, {.bytes = 4096});
    objects.retain_memory(buffer);
    EXPECT_EQ(objects.release_memory(buffer).bytes, 0u);
    EXPECT_EQ(objects.release_memory(buffer).bytes, 4096u);
    EXPECT_EQ(objects.release_memory(buffer).bytes, 0u);  // once too often
    objects.add_kernel(kernel, {"k", {{.bytes = 8}}});
    const void* pointers[] = {&objects, &buffer};
    objects.set_pointers(kernel, pointers, 2);
    objects.clone_kernel(kernel, clone);
    objects.release_kernel(kernel);
    const Kernel left = objects.kernel(clone);
    std::vector<inject::Parameter> parameters;
    ASSERT_TRUE(objects.find_parameters(const_cast<KernelInfo*>(left.info), parameters));
    EXPECT_EQ(parameters.size(), left.values.size());
    EXPECT_EQ(left.values[1], reinterpret_cast<std::uint64_t>(&objects));
}

TEST(OpenclLayer, OfARangeThatIsMappedTwiceTheLastMappingEndsFirst) {
    Objects objects;
    objects.add_mapping(&objects, {.device = 1, .bytes = 8});
    objects.add_mapping(&objects, {.device = 2, .bytes = 8});
    EXPECT_EQ(objects.end_mapping(&objects).device, 2u);
    EXPECT_EQ(objects.end_mapping(&objects).device, 1u);
    EXPECT_EQ(objects.end_mapping(&objects).bytes, 0u);
}

}  // namespace
}  // namespace firsttouch::opencl_layer
