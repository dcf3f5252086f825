// Messages between two ranks. Both call this; the one that leads decides what comes next and takes the time.
#include <algorithm>

#include "host/clock.hpp"
#include "probe/probes.hpp"
#include "probe/ranks.hpp"

namespace firsttouch {
namespace {

constexpr std::uint64_t per_rank = 0x100;  // added to the request's seed
constexpr std::uint64_t acknowledged = 1;
constexpr std::size_t usual_window = std::size_t{1} << 28;  // bytes, if that is at least two messages

// The messages in a window of the usual bytes.
int messages_in_window(std::size_t bytes) {
    return static_cast<int>(std::min<std::size_t>(64, std::max<std::size_t>(2, usual_window / bytes)));
}
// The same, but at least fewest_queued where these are affordable. alone: returns the seconds
// of one message.
template <class Alone>
int messages_in_window(std::size_t bytes, Alone&& alone) {
    const int usual = messages_in_window(bytes);
    if (usual >= fewest_queued) return usual;
    const double first = alone();
    return std::max(usual, affordable(fewest_queued, std::min(first, alone())));
}

// How messages of one kind leave a rank's source and arrive in its target.
class MessagePath {
  public:
    virtual ~MessagePath() = default;
    virtual void send(int messages) = 0;     // returns when the source may be used again
    virtual void receive(int messages) = 0;  // returns when the last message can be used
};

// The library gets the addresses of source and target themselves: the CPU's, or the device's.
class Direct : public MessagePath {
  public:
    Direct(Lab& lab, Comm& comm, const Buffer& source, const Buffer& target, const MessageRequest& request)
        : comm_(comm), source_(lab, source, request.device_addresses), target_(lab, target, request.device_addresses),
          bytes_(request.bytes), peer_(request.peer) {}
    void send(int messages) override {
        if (messages == 1) return comm_.send(source_.address(), bytes_, peer_);
        for (int i = 0; i < messages; ++i) comm_.start_send(source_.address(), bytes_, peer_);
        comm_.finish_all();
    }
    void receive(int messages) override {
        if (messages == 1) return comm_.receive(target_.address(), bytes_, peer_);
        for (int i = 0; i < messages; ++i) comm_.start_receive(target_.address(), bytes_, peer_);
        comm_.finish_all();
    }

  private:
    Comm& comm_;
    RankBuffer source_, target_;
    std::size_t bytes_;
    int peer_;
};

// The device copies each message to host memory or from it. That has two places, so that a copy and a message are under
// way at once.
class Staged : public MessagePath {
  public:
    Staged(Lab& lab, Comm& comm, const Buffer& source, const Buffer& target, const Buffer& staging, std::size_t bytes,
           int peer)
        : lab_(lab), comm_(comm), source_(source), target_(target), staging_(staging), places_(staging), bytes_(bytes),
          peer_(peer) {}
    void send(int messages) override {
        int started[2] = {};
        for (int i = 0; i < messages; ++i) {
            if (i >= 2) comm_.finish(started[i % 2]);
            lab_.device().copy(lab_.stream(), staging_, offset(i), source_, 0, bytes_);
            lab_.device().wait(lab_.stream());
            started[i % 2] = comm_.start_send(place(i), bytes_, peer_);
        }
        comm_.finish_all();
    }
    void receive(int messages) override {
        int started[2] = {};
        for (int i = 0; i < std::min(messages, 2); ++i) started[i] = comm_.start_receive(place(i), bytes_, peer_);
        for (int i = 0; i < messages; ++i) {
            comm_.finish(started[i % 2]);
            lab_.device().copy(lab_.stream(), target_, 0, staging_, offset(i), bytes_);
            lab_.device().wait(lab_.stream());
            if (i + 2 < messages) started[i % 2] = comm_.start_receive(place(i), bytes_, peer_);
        }
        comm_.finish_all();
    }

  private:
    std::size_t offset(int message) const { return static_cast<std::size_t>(message % 2) * bytes_; }
    char* place(int message) const { return places_.as<char>() + offset(message); }

    Lab& lab_;
    Comm& comm_;
    const Buffer &source_, &target_, &staging_;
    HostView places_;
    std::size_t bytes_;
    int peer_;
};

// Sources and targets of a message to itself: the device's addresses.
class ToItself {
  public:
    ToItself(Lab& lab, Comm& comm, const Buffer& source, const Buffer& target, std::size_t bytes)
        : comm_(comm), source_(lab, source, true), target_(lab, target, true), bytes_(bytes) {}
    // The seconds of `times` windows, each of which is complete before the next begins.
    double send(int messages, int times) {
        const double start = now();
        for (int n = 0; n < times; ++n) {
            comm_.start_to_itself(target_.address(), source_.address(), bytes_, messages);
            comm_.finish_all();
        }
        return now() - start - clock_cost();
    }

  private:
    Comm& comm_;
    RankBuffer source_, target_;
    std::size_t bytes_;
};

// What the leader has both do next.
enum class MessageStep : std::uint8_t { check, ping, resize, window, end };

class Conversation {
  public:
    Conversation(Lab& lab, Comm& comm, const Buffer& source, const Buffer& target, const MessageRequest& request)
        : lab_(lab), comm_(comm), source_(source), target_(target), request_(request) {
        if (request.staging != nullptr)
            path_ = std::make_unique<Staged>(lab, comm, source, target, *request.staging, request.bytes, request.peer);
        else
            path_ = std::make_unique<Direct>(lab, comm, source, target, request);
        window_ = messages_in_window(request.bytes);
    }
    int window() const { return window_; }
    std::uint64_t errors() const { return errors_; }

    // The leader's side of each step, which returns the seconds that it took.
    double lead(MessageStep step, int times) {
        comm_.tell(request_.peer, static_cast<std::uint64_t>(step) | static_cast<std::uint64_t>(times) << 8);
        if (step == MessageStep::end) return 0;
        if (step == MessageStep::check) return check(times != 0), 0;
        if (step == MessageStep::resize) return window_ = times, 0;
        take_turns(1);  // the other is on its way here
        const double start = now();
        step == MessageStep::ping ? take_turns(times) : send_windows(times);
        return now() - start - clock_cost();
    }
    // The leader's side of a longer window, where messages are large and quick.
    void resize_window() {
        const int window = messages_in_window(request_.bytes, [this] { return lead(MessageStep::ping, 1) / 2; });
        if (window != window_) lead(MessageStep::resize, window);
    }
    // The other's side of all steps until the last.
    void follow() {
        for (;;) {
            const std::uint64_t word = comm_.hear(request_.peer);
            const int times = static_cast<int>(word >> 8);
            const auto step = static_cast<MessageStep>(word & 0xff);
            if (step == MessageStep::end) return;
            if (step == MessageStep::check) {
                check(times != 0);
                continue;
            }
            if (step == MessageStep::resize) {
                window_ = times;
                continue;
            }
            take_turns(1);
            step == MessageStep::ping ? take_turns(times) : receive_windows(times);
        }
    }

  private:
    bool leads() const { return comm_.rank() < request_.peer; }

    // Messages there and back.
    void take_turns(int times) {
        for (int i = 0; i < times; ++i) {
            if (leads()) path_->send(1);
            path_->receive(1);
            if (!leads()) path_->send(1);
        }
    }
    void send_windows(int times) {
        for (int i = 0; i < times; ++i) {
            path_->send(window_);
            comm_.hear(request_.peer);
        }
    }
    void receive_windows(int times) {
        for (int i = 0; i < times; ++i) {
            path_->receive(window_);
            comm_.tell(request_.peer, acknowledged);
        }
    }

    std::uint64_t seed(int rank) const {
        return request_.seed + static_cast<std::uint64_t>(rank + 1) * per_rank + repetition_ * per_repetition;
    }
    // Counts what differs in the target from what the other rank has sent since the last new data.
    void compare() { errors_ += lab_.check(target_, seed(request_.peer), lab_.agent_with_access(target_)); }
    void write_new_data() {
        ++repetition_;
        lab_.fill(source_, seed(comm_.rank()), lab_.agent_with_access(source_));
        lab_.fill(target_, seed(comm_.rank()) + poison, lab_.agent_with_access(target_));
        comm_.tell(request_.peer, acknowledged);  // none sends before both have written
        comm_.hear(request_.peer);
    }
    // Compares every byte: of what was timed, if anything was, of a new message each way, and of a new window.
    void check(bool after_timing) {
        if (after_timing) compare();
        write_new_data();
        take_turns(1);
        compare();
        write_new_data();
        leads() ? send_windows(1) : receive_windows(1);
        if (!leads()) compare();
        write_new_data();  // which the timed messages move
    }

    Lab& lab_;
    Comm& comm_;
    const Buffer &source_, &target_;
    const MessageRequest& request_;
    std::unique_ptr<MessagePath> path_;
    int window_ = 1;
    std::uint64_t repetition_ = 0, errors_ = 0;
};

// The times of both kinds, from functions that return the seconds of one message alone and of a window.
template <class Alone, class Window>
void time_messages(const Stop& stop, double bytes_in_window, Alone&& alone, Window&& window, Outcome& outcome) {
    const Stop latency{stop.tolerance, stop.seconds / 3, stop.min_samples, stop.max_samples};
    const Statistics single = summarise(sample(latency, alone).values);
    outcome.counters["latency_us"] = single.median * 1e6;
    outcome.counters["latency_low_us"] = single.ci_low * 1e6;
    outcome.counters["latency_high_us"] = single.ci_high * 1e6;
    const Stop rest{stop.tolerance, stop.seconds * 2 / 3, stop.min_samples, stop.max_samples};
    outcome.samples = sample(rest, [&] { return bytes_in_window / window() * 1e-9; });
}

// Messages of the only rank to itself.
Outcome to_itself(Lab& lab, Comm& comm, const Buffer& source, const Buffer& target, const MessageRequest& request,
                  const Stop& stop) {
    Outcome outcome;
    ToItself way(lab, comm, source, target, request.bytes);
    std::uint64_t seed = request.seed;
    const auto write_new_data = [&] {
        seed += per_repetition;
        lab.fill(source, seed, lab.agent_with_access(source));
        lab.fill(target, seed + poison, lab.agent_with_access(target));
    };
    const auto compare = [&] { outcome.errors += lab.check(target, seed, lab.agent_with_access(target)); };
    for (const int messages : {1, messages_in_window(request.bytes)}) {
        write_new_data();
        way.send(messages, 1);
        compare();
    }
    write_new_data();
    const int window = messages_in_window(request.bytes, [&] { return way.send(1, 1); });
    const int alone = repetitions([&](int n) { return way.send(1, n); }, 100e-6);
    const int windows = repetitions([&](int n) { return way.send(window, n); }, 1e-3);
    outcome.counters["window"] = window;
    time_messages(
        stop, static_cast<double>(request.bytes) * window * windows, [&] { return way.send(1, alone) / alone; },
        [&] { return way.send(window, windows); }, outcome);
    compare();
    return outcome;
}

}  // namespace

Outcome message(Lab& lab, Comm& comm, const Buffer& source, const Buffer& target, const MessageRequest& request,
                const Stop& stop) {
    if (request.bytes == 0 || request.bytes > std::min(source.size(), target.size()))
        throw std::invalid_argument("bytes must be between 1 and the size of the smaller buffer");
    if (request.staging != nullptr && request.staging->size() < 2 * request.bytes)
        throw std::invalid_argument("staging must hold two messages");
    const bool alone = request.peer == comm.rank() && comm.size() == 1;
    if (request.peer < 0 || request.peer >= comm.size() || (request.peer == comm.rank() && !alone))
        throw std::invalid_argument("there is no other rank " + std::to_string(request.peer));
    if (alone) return to_itself(lab, comm, source, target, request, stop);
    Outcome outcome;
    Conversation both(lab, comm, source, target, request);
    if (comm.rank() > request.peer) {
        both.follow();
        outcome.errors = both.errors();
        return outcome;
    }
    both.lead(MessageStep::check, 0);
    both.resize_window();
    const int pings = repetitions([&](int n) { return both.lead(MessageStep::ping, n); }, 100e-6);
    const int windows = repetitions([&](int n) { return both.lead(MessageStep::window, n); }, 1e-3);
    outcome.counters["window"] = both.window();
    time_messages(
        stop, static_cast<double>(request.bytes) * both.window() * windows,
        [&] { return both.lead(MessageStep::ping, pings) / (2.0 * pings); },
        [&] { return both.lead(MessageStep::window, windows); }, outcome);
    both.lead(MessageStep::check, 1);
    both.lead(MessageStep::end, 0);
    outcome.errors = both.errors();
    return outcome;
}

}  // namespace firsttouch
