// The table of vendors: a kind of device, how many there are, how to open one.
#pragma once

#include "device/device.hpp"

namespace firsttouch {

struct Backend {
    std::string kind;
    int (*count)();
    std::unique_ptr<Device> (*open)(int);
};

const std::vector<Backend>& backends();

std::unique_ptr<Device> open_host();
int count_opencl();
std::unique_ptr<Device> open_opencl(int index);
int count_cuda();
std::unique_ptr<Device> open_cuda(int index);
int count_hip();
std::unique_ptr<Device> open_hip(int index);

}  // namespace firsttouch
