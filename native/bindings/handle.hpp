// The Python objects of a device with its lab, and of a buffer, which keeps its device alive.
#pragma once

#include <memory>
#include <optional>

#include "device/lab.hpp"

namespace firsttouch {

struct DeviceHandle {
    explicit DeviceHandle(const std::string& name) : device(open_device(name)), lab(*device) {}
    std::unique_ptr<Device> device;
    Lab lab;
};

struct BufferHandle {
    std::shared_ptr<DeviceHandle> owner;
    std::unique_ptr<Buffer> buffer;

    Buffer& get() {
        if (buffer == nullptr) throw std::runtime_error("this buffer has been freed");
        return *buffer;
    }
};

Agent agent_from(const std::string& name);
Pages pages_from(const std::string& name);

}  // namespace firsttouch
