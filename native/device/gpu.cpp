#include "device/gpu.hpp"

namespace firsttouch {
namespace {

class SpinGate : public Gate {
  public:
    SpinGate(Device& device, Stream& stream, Kernel& kernel)
        : flag_(device.allocate(Allocator::pinned, 4096)), word_(static_cast<std::uint64_t*>(flag_->block().host)) {
        *word_ = 0;
        const Argument arguments[] = {*flag_, std::uint64_t{5'000'000'000}};
        device.launch(stream, kernel, {1, 1}, arguments);
        stream_ = &stream;
    }
    ~SpinGate() override {
        open();
        try {
            flag_->device().wait(*stream_);  // the kernel reads the flag until it ends
        } catch (const std::exception&) {
        }
    }
    void open() override { __atomic_store_n(word_, std::uint64_t{1}, __ATOMIC_RELEASE); }

  private:
    std::unique_ptr<Buffer> flag_;
    std::uint64_t* word_;
    Stream* stream_ = nullptr;
};

}  // namespace

std::unique_ptr<Gate> spin_gate(Device& device, Stream& stream) {
    const auto spin = device.kernel(kernel_source("gate"), "gate_wait");
    return std::make_unique<SpinGate>(device, stream, *spin);
}

}  // namespace firsttouch
