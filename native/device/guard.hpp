// Every allocation on every device is charged here first, and refused where it would exceed a limit.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <string>

namespace firsttouch {

// An allocation that would exceed what the machine, the device or the user allows. what() names the limit.
class GuardRefused : public std::bad_alloc {
  public:
    explicit GuardRefused(std::string message) : message_(std::move(message)) {}
    const char* what() const noexcept override { return message_.c_str(); }

  private:
    std::string message_;
};

// Bytes by the limits that they count against.
struct Charge {
    std::size_t host = 0;
    std::size_t device = 0;
    std::size_t managed = 0;
};

struct DeviceMemory {
    std::size_t total = 0;
    std::size_t free = 0;
};

// Bytes the host can give right now: the least of MemAvailable and every cgroup's limit less its usage.
std::size_t host_available(const std::string& root = "");

class Guard {
  public:
    static Guard& instance();

    // Throws GuardRefused unless everything alive plus `charge` stays within the limits. Host memory is one pool for
    // all; device and managed memory are counted, and limited, for each device by itself.
    void take(const Charge& charge, const std::string& device, const DeviceMemory& memory);
    void give(const Charge& charge, const std::string& device) noexcept;

    // What is alive through a device.
    Charge held(const std::string& device);

    // The limit on the sum of host allocations of this process, in bytes.
    std::size_t host_limit();
    // The limits that the environment sets, or SIZE_MAX.
    static std::size_t environment_limit(const char* variable);
    // Whether the user lets managed memory exceed what a device has free (FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION=1).
    static bool oversubscription_allowed();

  private:
    std::mutex mutex_;
    std::size_t at_start_ = 0;
    std::size_t host_ = 0;
    std::map<std::string, Charge> held_;  // by device
};

// Holds a charge for as long as it lives.
class Reservation {
  public:
    Reservation() = default;
    Reservation(const Charge& charge, std::string device, const DeviceMemory& memory)
        : charge_(charge), device_(std::move(device)) {
        Guard::instance().take(charge_, device_, memory);
        held_ = true;
    }
    Reservation(Reservation&& other) noexcept { *this = std::move(other); }
    Reservation& operator=(Reservation&& other) noexcept {
        std::swap(charge_, other.charge_);
        std::swap(device_, other.device_);
        std::swap(held_, other.held_);
        return *this;
    }
    ~Reservation() {
        if (held_) Guard::instance().give(charge_, device_);
    }

  private:
    Charge charge_;
    std::string device_;
    bool held_ = false;
};

}  // namespace firsttouch
