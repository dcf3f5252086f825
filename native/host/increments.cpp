#include "host/increments.hpp"

#include <random>

namespace firsttouch {
namespace {

void add_one(std::uint64_t& element) {
    std::atomic_ref<std::uint64_t>(element).fetch_add(1, std::memory_order_relaxed);
}

void add_one(double& element) {
    std::atomic_ref<double> target(element);
    double seen = target.load(std::memory_order_relaxed);
    while (!target.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed)) {
    }
}

template <class T>
void increment(T* elements, std::uint64_t count, std::uint64_t seed, const std::atomic<bool>& stop,
               IncrementProgress& progress) {
    std::minstd_rand draw(static_cast<std::uint_fast32_t>(seed % std::minstd_rand::modulus));
    std::uint64_t done = 0;
    while (!stop.load(std::memory_order_relaxed)) {
        for (int i = 0; i < IncrementProgress::step; ++i) add_one(elements[draw() * count >> 31]);
        progress.done.store(done += IncrementProgress::step, std::memory_order_relaxed);
    }
}

}  // namespace

void increment_host(Element type, void* elements, std::uint64_t count, std::uint64_t seed,
                    const std::atomic<bool>& stop, IncrementProgress& progress) {
    if (type == Element::u64)
        increment(static_cast<std::uint64_t*>(elements), count, seed, stop, progress);
    else
        increment(static_cast<double*>(elements), count, seed, stop, progress);
}

}  // namespace firsttouch
