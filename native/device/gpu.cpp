#include "device/gpu.hpp"

#include <cstdio>

namespace firsttouch {
namespace {

// The kernel polls the first word of the flag and sets the second when it times out
// (src/firsttouch/base/kernels/gate.c).
class SpinGate : public Gate {
  public:
    SpinGate(Device& device, Stream& stream, Kernel& kernel, std::chrono::nanoseconds limit)
        : flag_(device.allocate(Allocator::pinned, 4096)), words_(static_cast<std::uint64_t*>(flag_->block().host)),
          limit_(limit) {
        words_[0] = words_[1] = 0;
        const Argument arguments[] = {*flag_, static_cast<std::uint64_t>(limit.count())};
        device.launch(stream, kernel, {1, 1}, arguments);
        stream_ = &stream;
    }
    ~SpinGate() override {
        raise();
        try {
            flag_->device().wait(*stream_);  // the kernel reads the flag until it ends
        } catch (const std::exception&) {
        }
    }
    void open() override {
        const bool timed_out = __atomic_load_n(words_ + 1, __ATOMIC_ACQUIRE) != 0;
        raise();
        if (timed_out) throw GateTimeout(std::chrono::duration<double>(limit_).count());
    }

  private:
    void raise() { __atomic_store_n(words_, std::uint64_t{1}, __ATOMIC_RELEASE); }

    std::unique_ptr<Buffer> flag_;
    std::uint64_t* words_;
    std::chrono::nanoseconds limit_;
    Stream* stream_ = nullptr;
};

std::string seconds_text(double seconds) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g s", seconds);
    return text;
}

}  // namespace

GateTimeout::GateTimeout(double seconds)
    : runtime_error(
          "work behind a gate was still being queued when the gate timed out after " + seconds_text(seconds) +
          ", so its time would be wrong: a call that queues work waited for the device, or the process was delayed. "
          "Measure less at once (a smaller size or more bytes per chunk), on a machine with an idle processor and "
          "without a debugger") {}

std::unique_ptr<Gate> spin_gate(Device& device, Stream& stream, std::chrono::nanoseconds limit) {
    const auto spin = device.kernel(kernel_source("gate"), "gate_wait");
    return std::make_unique<SpinGate>(device, stream, *spin, limit);
}

}  // namespace firsttouch
