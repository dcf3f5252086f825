// The table of backends: a kind of device, how its devices are named, how many there are, how to open one. Its row in
// Python is in src/firsttouch/machine/backends.py.
#pragma once

#include "device/device.hpp"

namespace firsttouch {

struct Backend {
    std::string kind;
    std::string devices;
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
