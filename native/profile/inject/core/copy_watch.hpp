// What is told of a program's calls to whoever watches the host side of its copies.
#pragma once

#include <cstdint>

#include "profile/page_tracker.hpp"

namespace firsttouch::inject {

// The host side of a copy. device: the address of the other side; 0: there is none of one row. blocking: the call
// returns when the copy is done.
struct HostSide {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    bool is_target = false;
    bool blocking = true;
    bool is_pageable = true;  // so that the processor copies it
    std::uint64_t device = 0;
    bool is_async = false;
};

// When a call of the program was, by the time of its own record, and where, as `Places` numbers it. stream: as the
// recorder numbers them.
struct Moment {
    static constexpr std::uint32_t all = ~std::uint32_t(0), unknown = all - 1;  // streams
    Moment(std::uint64_t time, std::uint32_t site = 0, std::uint32_t stream = unknown)
        : time(time), site(site), stream(stream) {}
    std::uint64_t time;
    std::uint32_t site, stream;
};

// Calls of the program, from any thread; none throws or changes errno.
class CopyWatch {
  public:
    virtual ~CopyWatch() = default;
    // copies: before the copy; copied: when its call returns. Memory that CUDA allocated and stacks are not to be
    // given.
    virtual void copies(Moment at, const HostSide& side) noexcept = 0;
    virtual void copied(Moment at, const HostSide& side) noexcept = 0;
    // Before a launch, or another call that changes memory of the device; and when it returns.
    virtual void launches(Moment) noexcept {}
    virtual void launched(Moment at) noexcept = 0;
    virtual void waited(Moment at) noexcept = 0;
    // What is not copied as a whole, or by a graph, is joined in another way than arrays are.
    virtual void copied_otherwise(Moment, PageRange) noexcept {}
    // A call that fills or copies memory of the device on the device has returned.
    virtual void changed_device(Moment) noexcept {}
    // The program frees memory of the device, so that it may free that of the host next.
    virtual void frees(Moment at, PageRange block) noexcept = 0;
    // To be called now and then, so that something is known of memory whose end is not seen, and what could not be
    // looked at is looked at later.
    virtual void passes(Moment at) noexcept = 0;
    virtual void finish(Moment at) noexcept = 0;
};

}  // namespace firsttouch::inject
