// The table of backends. Each also has a row in src/firsttouch/machine/backends.py.
#pragma once

#include "device/device.hpp"

namespace firsttouch {

struct Backend {
    std::string kind;
    std::string names;  // of its devices, such as "cuda:N"
    int (*count)();
    std::unique_ptr<Device> (*open)(int index);
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
