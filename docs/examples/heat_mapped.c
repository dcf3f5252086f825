// Heat spreads on a plate, of which the CPU heats one edge before each frame and looks at the middle after it.
// This is heat_opencl.c after the changes that `firsttouch advise` lists: the device uses the CPU's array, by mappings.
// cc -g -O1 -o heat_mapped heat_mapped.c -lOpenCL
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { side = 1024, frames = 12, steps = 10 };
static const size_t bytes = side * side * sizeof(float);
static const char* const source =
    "kernel void spread(global const float* now, global float* next, int side) {"
    "    const int x = get_global_id(0), y = get_global_id(1), at = y * side + x;"
    "    const int edge = x == 0 || y == 0 || x == side - 1 || y == side - 1;"
    "    next[at] = edge ? now[at] : 0.25f * (now[at - 1] + now[at + 1] + now[at - side] + now[at + side]); }";

static void check(cl_int status) {
    if (status != CL_SUCCESS) {
        fprintf(stderr, "OpenCL failed with status %d\n", status);
        exit(1);
    }
}

int main(void) {
    cl_platform_id platform;
    cl_device_id device;
    cl_int status;
    check(clGetPlatformIDs(1, &platform, NULL));
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    check(status);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    check(status);
    cl_program program = clCreateProgramWithSource(context, 1, (const char**)&source, NULL, &status);
    check(status);
    check(clBuildProgram(program, 1, &device, "", NULL, NULL));
    cl_kernel spread = clCreateKernel(program, "spread", &status);
    check(status);

    float* plate = aligned_alloc(4096, bytes);
    memset(plate, 0, bytes);
    cl_mem now = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, plate, &status);
    check(status);
    cl_mem next = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &status);
    check(status);
    const int length = side;
    const size_t size[2] = {side, side};
    const cl_map_flags use = CL_MAP_READ | CL_MAP_WRITE;
    clEnqueueMapBuffer(queue, now, CL_TRUE, use, 0, bytes, 0, NULL, NULL, &status);
    check(status);
    for (int frame = 0; frame < frames; ++frame) {
        for (int x = 0; x < side; ++x) plate[x] = 100.0f * (frame + 1);
        check(clEnqueueUnmapMemObject(queue, now, plate, 0, NULL, NULL));
        for (int step = 0; step < steps; ++step) {
            check(clSetKernelArg(spread, 0, sizeof now, step % 2 ? &next : &now));
            check(clSetKernelArg(spread, 1, sizeof next, step % 2 ? &now : &next));
            check(clSetKernelArg(spread, 2, sizeof length, &length));
            check(clEnqueueNDRangeKernel(queue, spread, 2, NULL, size, NULL, 0, NULL, NULL));
        }
        clEnqueueMapBuffer(queue, now, CL_TRUE, use, 0, bytes, 0, NULL, NULL, &status);
        check(status);
        printf("frame %d: %.4f\n", frame, plate[20 * side + side / 2]);
    }
    check(clEnqueueUnmapMemObject(queue, now, plate, 0, NULL, NULL));
    check(clFinish(queue));
    check(clReleaseMemObject(now));
    check(clReleaseMemObject(next));
    free(plate);
    return 0;
}
