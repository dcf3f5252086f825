#include "profile/inject/core/write_faults.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>

namespace firsttouch::inject {
namespace {

constexpr std::size_t most_samples = 1 << 17;

}  // namespace

WriteFaults::WriteFaults() noexcept {
    try {
        events_ = std::make_unique<PerfEvents>(getpid(), 1, false);
    } catch (const std::exception& reason) {
        why_not_ = reason.what();
    }
}

const FaultSample* WriteFaults::first_in(std::span<const PageRange> pages, std::uint64_t since) {
    if (events_ == nullptr || pages.empty()) return nullptr;
    const PerfEvents::Batch batch = events_->read(true);
    const auto own = static_cast<std::uint32_t>(getpid());
    for (const FaultSample& sample : batch.records.samples)
        if (sample.pid == own) samples_.push_back(sample);
    if (samples_.size() > most_samples)
        samples_.erase(samples_.begin(), samples_.end() - static_cast<std::ptrdiff_t>(most_samples));
    const auto is_in = [&](const FaultSample& sample) {
        const auto after =
            std::upper_bound(pages.begin(), pages.end(), sample.address,
                             [](std::uint64_t address, const PageRange& range) { return address < range.end; });
        return sample.ns >= since && after != pages.end() && sample.address >= after->start;
    };
    const auto found = std::find_if(samples_.begin(), samples_.end(), is_in);
    return found == samples_.end() ? nullptr : &*found;
}

}  // namespace firsttouch::inject
