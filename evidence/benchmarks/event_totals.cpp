// The time that adding one unified-memory event to the totals takes (native/events/totals.hpp):
//   g++ -std=c++20 -O2 -Inative evidence/benchmarks/event_totals.cpp native/events/totals.cpp -o /tmp/event_totals
//   /tmp/event_totals
#include "events/totals.hpp"

#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

using namespace firsttouch;

struct Event {
    std::size_t kind, cause;
    std::uint64_t start, end;
};

int main() {
    constexpr std::size_t count = 10'000'000;
    for (const std::size_t disorder : {std::size_t(1), std::size_t(100), std::size_t(10'000)}) {
        std::mt19937_64 random(1);
        std::vector<Event> events;
        for (std::uint64_t i = 0, at = 0; i < count; ++i, at += random() % 8000)
            events.push_back({random() % 3, random() % 3, at, at + random() % 10'000});
        for (std::size_t i = 0; i + disorder <= count; i += disorder)
            std::shuffle(events.begin() + std::ptrdiff_t(i), events.begin() + std::ptrdiff_t(i + disorder), random);
        double best = 1e9;
        for (int repeat = 0; repeat < 5; ++repeat) {
            EventTotals totals(
                {{"h2d", TimedAs::move_to_device}, {"d2h", TimedAs::move_to_host}, {"gpu_fault", TimedAs::fault}});
            totals.restart(0);
            const auto started = std::chrono::steady_clock::now();
            for (const Event& e : events) totals.add(e.kind, e.cause, e.start, e.end, 4096, 1);
            totals.phases(0, events.back().end);
            best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count());
        }
        std::printf("order shuffled within %5zu events: %5.1f ns per event, %.1f million events per second\n", disorder,
                    best * 1e9 / double(count), double(count) / best / 1e6);
    }
}
