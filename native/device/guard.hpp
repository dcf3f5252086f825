// The guard. Every allocation on every device is charged to it first, and refused if it would exceed a limit.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <string>

namespace firsttouch {

// An allocation would exceed a limit of the machine, the device or the user. what() names the limit.
class GuardRefused : public std::bad_alloc {
  public:
    explicit GuardRefused(std::string message) : message_(std::move(message)) {}
    const char* what() const noexcept override { return message_.c_str(); }

  private:
    std::string message_;
};

// Bytes to count against each limit.
struct Charge {
    std::size_t host = 0;
    std::size_t device = 0;
    std::size_t managed = 0;
    std::size_t ballast = 0;  // the part of `device` that is held only to leave less of the device free
};

struct DeviceMemory {
    std::size_t total = 0;
    std::size_t free = 0;
};

// The bytes of a device's memory of `total` bytes that are always left for other processes.
std::size_t device_reserve(std::size_t total);

class Guard {
  public:
    static Guard& instance();

    // Throws GuardRefused if the bytes held plus `charge` would exceed a limit. Host memory has one sum for the
    // process; device and managed memory have a sum and a limit for each device. Ballast counts as taken even if the
    // driver does not count it yet. Ballast and what is allocated beside it leave the reserve together. Only managed
    // memory may take it, where oversubscription is allowed.
    void add(const Charge& charge, const std::string& device, const DeviceMemory& memory);
    void remove(const Charge& charge, const std::string& device) noexcept;

    // Bytes held through a device.
    Charge held(const std::string& device);

    // The limit on the sum of host allocations of this process, in bytes.
    std::size_t host_limit();
    // The limit that an environment variable sets, or SIZE_MAX. Throws std::invalid_argument if it is not a size.
    static std::size_t environment_limit(const char* variable);
    // Whether managed memory may exceed the device's free memory (FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION=1).
    static bool oversubscription_allowed();

  private:
    std::mutex mutex_;
    std::size_t limit_at_start_ = 0;
    std::string bound_at_start_;  // what that limit is; empty before it is read
    std::size_t host_ = 0;
    std::map<std::string, Charge> held_;                      // by device
    std::map<std::string, std::size_t> free_beside_ballast_;  // by device that holds ballast
};

// Holds a charge during its lifetime.
class Reservation {
  public:
    Reservation() = default;
    Reservation(const Charge& charge, std::string device, const DeviceMemory& memory)
        : charge_(charge), device_(std::move(device)) {
        Guard::instance().add(charge_, device_, memory);
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
        if (held_) Guard::instance().remove(charge_, device_);
    }

  private:
    Charge charge_;
    std::string device_;
    bool held_ = false;
};

}  // namespace firsttouch
