// What calls of OpenCL cost with the layer and without, over a runtime that does nothing.
//
//     reference_opencl LIBRARY BATCHES
//
// LIBRARY: a libfirsttouch_inject.so, as the loader of OpenCL would load it. Prints for each case its name, and the
// nanoseconds of processor time of one call without and with the layer, the least of all batches, which alternate.
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

namespace {

constexpr cl_uint arguments = 4;
int something;  // every object is here
template <class Handle>
Handle object() {
    return reinterpret_cast<Handle>(&something);
}

cl_command_queue create_queue(cl_context, cl_device_id, cl_command_queue_properties, cl_int* error) {
    *error = CL_SUCCESS;
    return object<cl_command_queue>();
}
cl_mem create_buffer(cl_context, cl_mem_flags, size_t, void*, cl_int* error) {
    *error = CL_SUCCESS;
    return object<cl_mem>();
}
cl_int release_buffer(cl_mem) { return CL_SUCCESS; }
cl_kernel create_kernel(cl_program, const char*, cl_int* error) {
    *error = CL_SUCCESS;
    return object<cl_kernel>();
}
cl_int kernel_info(cl_kernel, cl_kernel_info what, size_t, void* value, size_t*) {
    if (what == CL_KERNEL_NUM_ARGS) std::memcpy(value, &arguments, sizeof arguments);
    if (what == CL_KERNEL_FUNCTION_NAME) std::strcpy(static_cast<char*>(value), "kernel");
    return CL_SUCCESS;
}
cl_int kernel_argument_info(cl_kernel, cl_uint, cl_kernel_arg_info, size_t, void*, size_t*) {
    return CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
}
cl_int device_info(cl_device_id, cl_device_info, size_t, void*, size_t*) { return CL_INVALID_VALUE; }
cl_int set_argument(cl_kernel, cl_uint, size_t, const void*) { return CL_SUCCESS; }
cl_int write_buffer(cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void*, cl_uint, const cl_event*,
                    cl_event*) {
    return CL_SUCCESS;
}
cl_int launch(cl_command_queue, cl_kernel, cl_uint, const size_t*, const size_t*, const size_t*, cl_uint,
              const cl_event*, cl_event*) {
    return CL_SUCCESS;
}
cl_int finish(cl_command_queue) { return CL_SUCCESS; }

cl_icd_dispatch idle_runtime() {
    cl_icd_dispatch table{};
    table.clCreateCommandQueue = create_queue;
    table.clCreateBuffer = create_buffer;
    table.clReleaseMemObject = release_buffer;
    table.clCreateKernel = create_kernel;
    table.clGetKernelInfo = kernel_info;
    table.clGetKernelArgInfo = kernel_argument_info;
    table.clGetDeviceInfo = device_info;
    table.clSetKernelArg = set_argument;
    table.clEnqueueWriteBuffer = write_buffer;
    table.clEnqueueNDRangeKernel = launch;
    table.clFinish = finish;
    return table;
}

const cl_icd_dispatch& layered(const char* library, const cl_icd_dispatch& runtime) {
    void* const file = dlopen(library, RTLD_NOW);
    if (file == nullptr) std::exit((std::fprintf(stderr, "%s\n", dlerror()), 1));
    const auto begin = reinterpret_cast<cl_int (*)(cl_uint, const cl_icd_dispatch*, cl_uint*, const cl_icd_dispatch**)>(
        dlsym(file, "clInitLayer"));
    cl_uint count = 0;
    const cl_icd_dispatch* made = nullptr;
    if (begin == nullptr || begin(sizeof runtime / sizeof(void*), &runtime, &count, &made) != CL_SUCCESS)
        std::exit((std::fprintf(stderr, "the library is no layer\n"), 1));
    if (made->clFinish == finish) std::exit((std::fprintf(stderr, "the layer records nothing\n"), 1));
    return *made;
}

double processor_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e9 * double(now.tv_sec) + double(now.tv_nsec);
}

struct Case {
    const char* name;
    int calls;  // of a batch
    std::function<void(const cl_icd_dispatch&)> call;
};

double batch(const Case& of, const cl_icd_dispatch& table) {
    const double begin = processor_ns();
    for (int i = 0; i < of.calls; ++i) of.call(table);
    return (processor_ns() - begin) / of.calls;
}

}  // namespace

int main(int count, char** words) {
    if (count < 3) return 2;
    const cl_icd_dispatch plain = idle_runtime();
    const cl_icd_dispatch& with = layered(words[1], plain);
    cl_int error;
    const cl_command_queue queue = with.clCreateCommandQueue(nullptr, nullptr, 0, &error);
    const cl_mem buffer = with.clCreateBuffer(nullptr, CL_MEM_READ_WRITE, 1 << 20, nullptr, &error);
    const cl_kernel kernel = with.clCreateKernel(nullptr, "kernel", &error);
    for (cl_uint i = 0; i < arguments; ++i) with.clSetKernelArg(kernel, i, sizeof buffer, &buffer);
    const std::vector<char> host(1 << 20, 1);
    const size_t global = 1;
    const auto copy = [&](size_t bytes) {
        return [&, bytes](const cl_icd_dispatch& table) {
            table.clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, bytes, host.data(), 0, nullptr, nullptr);
        };
    };
    const Case cases[] = {
        {"launch with 4 arguments", 20000,
         [&](const cl_icd_dispatch& table) {
             table.clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &global, nullptr, 0, nullptr, nullptr);
         }},
        {"set an argument", 20000,
         [&](const cl_icd_dispatch& table) { table.clSetKernelArg(kernel, 0, sizeof buffer, &buffer); }},
        {"copy of 4 KiB", 10000, copy(4 << 10)},
        {"copy of 1 MiB", 2000, copy(1 << 20)},
        {"wait", 20000, [&](const cl_icd_dispatch& table) { table.clFinish(queue); }},
        {"allocate and free", 10000,
         [&](const cl_icd_dispatch& table) {
             cl_int status;
             table.clReleaseMemObject(table.clCreateBuffer(nullptr, 0, 4096, nullptr, &status));
         }},
    };
    for (const Case& of : cases) {
        double least[2] = {1e9, 1e9};
        for (int i = 0; i < 2 * std::atoi(words[2]); ++i)
            least[i % 2] = std::min(least[i % 2], batch(of, i % 2 == 0 ? plain : with));
        std::printf("%s\t%.1f\t%.1f\n", of.name, least[0], least[1]);
    }
}
