// The host device with callbacks that inject faults, for tests that probes detect them.
#pragma once

#include <functional>

#include "device/backends.hpp"
#include "device/device.hpp"

namespace firsttouch {

class FaultyDevice : public Device {
  public:
    FaultyDevice() : Device("faulty"), host_(open_host()) {}

    std::function<void(const Block&)> before_map = [](const Block&) {};
    std::function<void(const Block&)> after_copy = [](const Block&) {};
    std::function<void()> before_obtain = [] {};
    int live_blocks = 0;  // obtained and not yet released

    Facts facts() override { return host_->facts(); }
    Capabilities capabilities() override { return host_->capabilities(); }
    const std::vector<AllocatorInfo>& allocators() override { return host_->allocators(); }
    DeviceMemory memory() override { return host_->memory(); }
    Block obtain(Allocator allocator, std::size_t bytes, Pages pages) override {
        before_obtain();
        const Block block = host_->obtain(allocator, bytes, pages);
        ++live_blocks;
        return block;
    }
    void release(Block& block) noexcept override {
        --live_blocks;
        host_->release(block);
    }
    void* map(const Block& block) override {
        before_map(block);
        return host_->map(block);
    }
    void unmap(const Block& block, void* address) override { host_->unmap(block, address); }
    std::unique_ptr<Kernel> kernel(const Source& source, const std::string& entry) override {
        return host_->kernel(source, entry);
    }
    Binary compile(const Source& source) override { return host_->compile(source); }
    std::unique_ptr<Stream> stream() override { return host_->stream(); }
    void advise(const Buffer& buffer, Advice advice) override { host_->advise(buffer, advice); }
    void prefetch(Stream& stream, const Buffer& buffer, std::size_t offset, std::size_t bytes, Agent agent) override {
        host_->prefetch(stream, buffer, offset, bytes, agent);
    }
    void wait(Stream& stream) override { host_->wait(stream); }
    std::unique_ptr<Event> record(Stream& stream) override { return host_->record(stream); }
    double elapsed(Event& from, Event& to) override { return host_->elapsed(from, to); }
    void join(Stream& stream, Event& event) override { host_->join(stream, event); }
    std::unique_ptr<Gate> hold(Stream& stream) override { return host_->hold(stream); }

  protected:
    void queue_launch(Stream& stream, Kernel& kernel, Grid grid, std::span<const Argument> arguments) override {
        host_->launch(stream, kernel, grid, arguments);
    }
    void queue_copy(Stream& stream, const Buffer& target, std::size_t target_offset, const Buffer& source,
                    std::size_t source_offset, std::size_t bytes) override {
        host_->copy(stream, target, target_offset, source, source_offset, bytes);
        after_copy(target.block());
    }

  private:
    std::unique_ptr<Device> host_;
};

}  // namespace firsttouch
