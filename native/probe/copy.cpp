#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "device/host/memory.hpp"
#include "host/clock.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

constexpr std::uint64_t poison = 0x77, second_way = 0x1000;  // added to the request's seed

class Transfer {
  public:
    Transfer(Lab& lab, const Buffer& target, const Buffer& source, const CopyRequest& request)
        : lab_(lab), target_(target), source_(source), request_(request) {
        for (int i = 1; i < request.streams; ++i) extra_.push_back({lab, lab.device().stream()});
        between_devices_ = target.device().name() != source.device().name();
        if (request.second_target != nullptr) {
            Device& owner = request.second_source->device();
            if (request.second_by_owner && owner.name() != lab.device().name()) owner_.emplace(owner);
            Lab& second = owner_ ? *owner_ : lab;
            extra_.push_back({second, second.device().stream()});
        }
        if (request.engine == Engine::cpu) {
            from_ = std::make_unique<HostView>(source);
            to_ = std::make_unique<HostView>(target);
            team_ = std::make_unique<Team>(request.threads > 0 ? request.threads : usable_processors());
        }
    }

    // Queues the copies of one transfer, split over the streams and into chunks.
    void queue_copies() {
        const std::size_t chunk = request_.chunk > 0 ? request_.chunk : std::max<std::size_t>(request_.bytes, 1);
        for (int s = 0; s < request_.streams; ++s) {
            const Share part = share_of(request_.bytes, s, request_.streams, base_page);
            for (std::size_t at = part.first; at < part.last; at += chunk)
                lab_.device().copy(stream(s), target_, at, source_, at, std::min(chunk, part.last - at));
        }
    }
    void queue_kernel(Lab& lab, Stream& stream, const Buffer& target, const Buffer& source) {
        const std::uint64_t bytes = request_.bytes, vectors = bytes / 16;
        if (vectors > 0 && bytes % 16 == 0) {
            const Argument list[] = {target, source, vectors};
            lab.device().launch(stream, lab.kernel("copy", "copy_vectors"), lab.grid_for((vectors + 3) / 4), list);
        } else {
            const Argument list[] = {target, source, bytes};
            lab.device().launch(stream, lab.kernel("copy", "copy_bytes"), lab.grid_for(bytes), list);
        }
    }
    double cpu_copy() {
        return team_->run([&](int member) {
            const Share part = share_of(request_.bytes, member, team_->size(), base_page);
            std::memcpy(to_->as<char>() + part.first, from_->as<char>() + part.first, part.last - part.first);
        });
    }

    // Returns the seconds of `n` transfers on the clock of the device that queues them; with two of them, of the slower
    // one on its own. They are queued behind a gate, so that the time for queueing is not measured, and between two
    // devices behind a transfer that is not timed either, since engines need some microseconds to begin.
    double time_queued(int n) {
        Device& device = lab_.device();
        std::vector<std::unique_ptr<Gate>> gates;
        const auto hold = [&](Device& owner, Stream& stream) { gates.push_back(owner.hold(stream)); };
        if (gated_ && n * static_cast<int>(copies_per_transfer()) <= 128) {
            hold(device, lab_.stream());
            if (owner_) hold(owner_->device(), second());
        }
        if (between_devices_) queue_transfer();
        const auto from = device.record(lab_.stream());
        for (auto& [lab, stream] : extra_)
            if (!owner_ || gates.empty()) lab.device().join(*stream, *from);
        const auto second_from = owner_ ? owner_->device().record(second()) : nullptr;
        for (int i = 0; i < n; ++i) queue_transfer();
        std::vector<std::unique_ptr<Event>> ends;
        for (auto& [lab, stream] : extra_) {
            ends.push_back(lab.device().record(*stream));
            if (!owner_) device.join(lab_.stream(), *ends.back());
        }
        const auto to = device.record(lab_.stream());
        for (const auto& gate : gates) gate->open();
        device.wait(lab_.stream());
        if (!owner_) return device.elapsed(*from, *to);
        owner_->device().wait(second());
        return std::max(device.elapsed(*from, *to), owner_->device().elapsed(*second_from, *ends.back()));
    }
    // Returns the seconds of one transfer from the call to its completion, timed by the host.
    double time_single() {
        const double start = now();
        if (request_.engine == Engine::cpu) return cpu_copy();
        queue_transfer();
        for (auto& [lab, stream] : extra_) lab.device().wait(*stream);
        lab_.device().wait(lab_.stream());
        return now() - start - clock_cost();
    }
    void set_gated(bool gated) { gated_ = gated; }

  private:
    void queue_transfer() {
        if (request_.engine == Engine::copy_engine)
            queue_copies();
        else
            queue_whole(lab_, lab_.stream(), target_, source_);
        if (request_.second_target != nullptr)
            queue_whole(extra_.back().lab, second(), *request_.second_target, *request_.second_source);
    }
    void queue_whole(Lab& lab, Stream& stream, const Buffer& target, const Buffer& source) {
        if (request_.engine == Engine::kernel)
            queue_kernel(lab, stream, target, source);
        else if (request_.engine == Engine::peer_call)
            lab.device().copy_between(stream, target, source, request_.bytes);
        else
            lab.device().copy(stream, target, 0, source, 0, request_.bytes);
    }
    Stream& second() const { return *extra_.back().stream; }
    std::size_t copies_per_transfer() const {
        return request_.chunk > 0 ? (request_.bytes + request_.chunk - 1) / request_.chunk + extra_.size()
                                  : 1 + extra_.size();
    }
    Stream& stream(int index) {
        return index == 0 ? lab_.stream() : *extra_[static_cast<std::size_t>(index - 1)].stream;
    }

    struct Queue {
        Lab& lab;
        std::unique_ptr<Stream> stream;
    };
    Lab& lab_;
    const Buffer &target_, &source_;
    const CopyRequest& request_;
    std::optional<Lab> owner_;  // of the device that queues the second copy, if that is another one
    std::vector<Queue> extra_;  // beside the lab's own stream; the last is the second copy's
    std::unique_ptr<HostView> from_, to_;
    std::unique_ptr<Team> team_;
    bool gated_ = false, between_devices_ = false;
};

// True if a copy between the two can be queued without waiting for the device. The driver accesses pageable and managed
// memory while it queues a copy, and the CPU performs copies from host memory to host memory, in stream order.
bool can_wait_behind_gate(const Buffer& target, const Buffer& source) {
    const auto queued = [](const Buffer& buffer) {
        return !is_host_allocator(buffer.allocator()) && !buffer.device().info(buffer.allocator()).managed;
    };
    const auto on_device = [](const Buffer& buffer) { return buffer.device().info(buffer.allocator()).device_memory; };
    return queued(target) && queued(source) && (on_device(target) || on_device(source));
}

// True if single copies are also timed into pages that nobody has touched: whole copies by the device into plain host
// memory, which gets its pages at the first touch.
bool fills_new_pages(const Buffer& target, const CopyRequest& request) {
    return request.engine == Engine::copy_engine && request.streams == 1 && request.chunk == 0 &&
           request.second_target == nullptr && is_host_allocator(target.allocator());
}

// Counters of a time: its median in seconds and the ends of its 95 % interval, as NAME_us, NAME_low_us, NAME_high_us.
void add_time(Outcome& outcome, const std::string& name, double median, double low, double high) {
    outcome.counters[name + "_us"] = median * 1e6;
    outcome.counters[name + "_low_us"] = low * 1e6;
    outcome.counters[name + "_high_us"] = high * 1e6;
}

// Times single copies into the target, whose pages are given back to the kernel before each. Without counters where
// they cannot be given back.
void time_into_new_pages(Transfer& transfer, const Buffer& target, const CopyRequest& request, const Stop& stop,
                         Outcome& outcome) {
    const auto discard = [&] { return discard_pages(target.block().host, request.bytes); };
    if (!discard()) return;
    transfer.time_single();
    const auto sampled = sample(stop, [&] {
        discard();
        return transfer.time_single();
    });
    const Statistics s = summarise(sampled.values);
    add_time(outcome, "new_pages", s.median, s.ci_low, s.ci_high);
}

}  // namespace

Outcome copy(Lab& lab, const Buffer& target, const Buffer& source, const CopyRequest& request, const Stop& stop) {
    if (request.bytes == 0 || request.bytes > std::min(target.size(), source.size()))
        throw std::invalid_argument("bytes must be between 1 and the size of the smaller buffer");
    const Buffer *second_target = request.second_target, *second_source = request.second_source;
    if ((second_target == nullptr) != (second_source == nullptr) || (second_target && request.engine == Engine::cpu))
        throw std::invalid_argument("a second copy needs a target and a source, and is not made by the CPU");
    Outcome outcome;
    // Each buffer has data of its own.
    struct OneWayCopy {
        const Buffer *target, *source;
        std::uint64_t seed;
        const std::vector<int>&target_processors, &source_processors;
    };
    const auto &target_side = request.target_processors, &source_side = request.source_processors;
    std::vector<OneWayCopy> ways = {{&target, &source, request.seed, target_side, source_side}};
    if (second_target != nullptr)
        ways.push_back({second_target, second_source, request.seed + second_way, source_side, target_side});
    const auto touch = [&](const Buffer& buffer, std::uint64_t seed, const std::vector<int>& processors) {
        if (request.anew && is_host_allocator(buffer.allocator())) discard_pages(buffer.block().host, buffer.size());
        const Affinity touching(processors);
        lab.fill(buffer, seed, lab.agent_with_access(buffer, request.touched_by.value_or(Agent::cpu)));
    };
    const auto touch_all = [&] {
        for (const OneWayCopy& way : ways) {
            touch(*way.source, way.seed, way.source_processors);
            touch(*way.target, way.seed + poison, way.target_processors);
        }
    };
    const auto count_errors = [&] {
        std::uint64_t errors = 0;
        for (const OneWayCopy& way : ways)
            errors += lab.check(*way.target, way.seed, lab.agent_with_access(*way.target));
        return errors;
    };
    touch_all();
    {
        Transfer transfer(lab, target, source, request);
        const double bytes = static_cast<double>(request.bytes * ways.size());
        if (request.anew) {
            transfer.time_single();
            outcome.samples = sample(stop, [&] {
                touch_all();
                return bytes / transfer.time_single() * 1e-9;
            });
            const Statistics rate = summarise(outcome.samples.values);
            const double scaled = bytes * 1e-9;
            add_time(outcome, "latency", scaled / rate.median, scaled / rate.ci_high, scaled / rate.ci_low);
            outcome.errors = count_errors();
            return outcome;
        }
        transfer.set_gated(std::ranges::all_of(
            ways, [](const OneWayCopy& way) { return can_wait_behind_gate(*way.target, *way.source); }));
        std::vector<double> single;
        for (int i = 0; i < 3; ++i) single.push_back(transfer.time_single());
        const double estimate = std::max(1e-7, *std::min_element(single.begin() + 1, single.end()));
        const Stop latency{stop.tolerance, stop.seconds / 4, stop.min_samples, stop.max_samples};
        const Statistics alone = summarise(sample(latency, [&] { return transfer.time_single(); }).values);
        add_time(outcome, "latency", alone.median, alone.ci_low, alone.ci_high);
        Stop rest{stop.tolerance, stop.seconds * 3 / 4, stop.min_samples, stop.max_samples};
        if (fills_new_pages(target, request)) {
            rest.seconds = stop.seconds / 2;
            time_into_new_pages(transfer, target, request, latency, outcome);
            outcome.errors = lab.check(target, request.seed, Agent::cpu);
        }
        // Enough transfers to make the cost of the two events negligible, as in nvbandwidth.
        const int runs = std::clamp(static_cast<int>(20e-3 / estimate), 4, 64);
        outcome.samples = sample(rest, [&] {
            const double seconds = request.engine == Engine::cpu ? transfer.time_single() : transfer.time_queued(runs);
            const double n = request.engine == Engine::cpu ? 1 : runs;
            return bytes * n / seconds * 1e-9;
        });
    }
    outcome.errors = std::max(outcome.errors, count_errors());
    return outcome;
}

}  // namespace firsttouch
