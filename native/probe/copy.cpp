#include <algorithm>
#include <cstring>

#include "device/host/memory.hpp"
#include "host/clock.hpp"
#include "probe/probes.hpp"

namespace firsttouch {
namespace {

constexpr std::uint64_t poison = 0x77;

// The agent that fills or checks a buffer in place: the CPU if it has access, otherwise the device.
Agent agent_with_access(Lab& lab, const Buffer& buffer) {
    return lab.reaches(Agent::cpu, buffer) ? Agent::cpu : Agent::gpu;
}

class Transfer {
  public:
    Transfer(Lab& lab, const Buffer& target, const Buffer& source, const CopyRequest& request)
        : lab_(lab), target_(target), source_(source), request_(request) {
        for (int i = 1; i < request.streams; ++i) extra_.push_back(lab.device().stream());
        if (request.engine == Engine::cpu) {
            from_ = std::make_unique<HostView>(source);
            to_ = std::make_unique<HostView>(target);
            team_ = std::make_unique<Team>(usable_processors());
        }
    }

    // Queues the copies of one transfer, split over the streams and into chunks.
    void queue_copies() {
        const std::size_t chunk = request_.chunk > 0 ? request_.chunk : std::max<std::size_t>(request_.bytes, 1);
        const int streams = 1 + static_cast<int>(extra_.size());
        for (int s = 0; s < streams; ++s) {
            const Share part = share_of(request_.bytes, s, streams, base_page);
            for (std::size_t at = part.first; at < part.last; at += chunk)
                lab_.device().copy(stream(s), target_, at, source_, at, std::min(chunk, part.last - at));
        }
    }
    void queue_kernel() {
        const std::uint64_t vectors = request_.bytes / 16, tail = request_.bytes % 16;
        if (vectors > 0 && tail == 0) {
            const Argument list[] = {target_, source_, vectors};
            lab_.device().launch(lab_.stream(), lab_.kernel("copy", "copy_vectors"), lab_.grid_for((vectors + 3) / 4),
                                 list);
        } else {
            lab_.over(request_.bytes, "copy", "copy_bytes", target_, source_, std::uint64_t{request_.bytes});
        }
    }
    double cpu_copy() {
        return team_->run([&](int member) {
            const Share part = share_of(request_.bytes, member, team_->size(), base_page);
            std::memcpy(to_->as<char>() + part.first, from_->as<char>() + part.first, part.last - part.first);
        });
    }

    // Returns the seconds of `n` transfers on the device's clock. They are queued behind a gate, so that the time for
    // queueing is not measured.
    double time_queued(int n) {
        Device& device = lab_.device();
        std::unique_ptr<Gate> gate;
        if (gated_ && n * static_cast<int>(copies_per_transfer()) <= 128) gate = device.hold(lab_.stream());
        const auto from = device.record(lab_.stream());
        for (auto& stream : extra_) device.join(*stream, *from);
        for (int i = 0; i < n; ++i) queue_transfer();
        std::vector<std::unique_ptr<Event>> ends;
        for (auto& stream : extra_) {
            ends.push_back(device.record(*stream));
            device.join(lab_.stream(), *ends.back());
        }
        const auto to = device.record(lab_.stream());
        if (gate != nullptr) gate->open();
        device.wait(lab_.stream());
        return device.elapsed(*from, *to);
    }
    // Returns the seconds of one transfer from the call to its completion, timed by the host.
    double time_single() {
        const double start = now();
        if (request_.engine == Engine::cpu) return cpu_copy();
        queue_transfer();
        for (auto& stream : extra_) lab_.device().wait(*stream);
        lab_.device().wait(lab_.stream());
        return now() - start - clock_cost();
    }
    void set_gated(bool gated) { gated_ = gated; }

  private:
    void queue_transfer() { request_.engine == Engine::kernel ? queue_kernel() : queue_copies(); }
    std::size_t copies_per_transfer() const {
        return request_.chunk > 0 ? (request_.bytes + request_.chunk - 1) / request_.chunk + extra_.size()
                                  : 1 + extra_.size();
    }
    Stream& stream(int index) { return index == 0 ? lab_.stream() : *extra_[static_cast<std::size_t>(index - 1)]; }

    Lab& lab_;
    const Buffer &target_, &source_;
    const CopyRequest& request_;
    std::vector<std::unique_ptr<Stream>> extra_;
    std::unique_ptr<HostView> from_, to_;
    std::unique_ptr<Team> team_;
    bool gated_ = false;
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
           is_host_allocator(target.allocator());
}

// Times single copies into the target, whose pages are given back to the kernel before each. Without counters where
// they cannot be given back.
void time_into_new_pages(Transfer& transfer, const Buffer& target, const CopyRequest& request, const Stop& stop,
                         Outcome& outcome) {
    const auto discard = [&] { return discard_pages(target.block().host, request.bytes); };
    if (!discard()) return;
    transfer.time_single();
    const auto found = sample(stop, [&] {
        discard();
        return transfer.time_single();
    });
    const Statistics s = summarise(found.values);
    outcome.counters["new_pages_us"] = s.median * 1e6;
    outcome.counters["new_pages_low_us"] = s.ci_low * 1e6;
    outcome.counters["new_pages_high_us"] = s.ci_high * 1e6;
}

}  // namespace

Outcome copy(Lab& lab, const Buffer& target, const Buffer& source, const CopyRequest& request, const Stop& stop) {
    if (request.bytes == 0 || request.bytes > std::min(target.size(), source.size()))
        throw std::invalid_argument("bytes must be between 1 and the size of the smaller buffer");
    Outcome outcome;
    lab.fill(source, request.seed, agent_with_access(lab, source));
    lab.fill(target, request.seed + poison, agent_with_access(lab, target));
    {
        Transfer transfer(lab, target, source, request);
        transfer.set_gated(can_wait_behind_gate(target, source));
        std::vector<double> single;
        for (int i = 0; i < 3; ++i) single.push_back(transfer.time_single());
        const double estimate = std::max(1e-7, *std::min_element(single.begin() + 1, single.end()));
        const Stop latency{stop.tolerance, stop.seconds / 4, stop.min_samples, stop.max_samples};
        outcome.counters["latency_us"] =
            summarise(sample(latency, [&] { return transfer.time_single(); }).values).median * 1e6;
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
            return static_cast<double>(request.bytes) * n / seconds * 1e-9;
        });
    }
    outcome.errors = std::max(outcome.errors, lab.check(target, request.seed, agent_with_access(lab, target)));
    return outcome;
}

}  // namespace firsttouch
