// What every Comm does by means of its messages and words.
#include "comm/comm.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>

#include "device/device.hpp"

namespace firsttouch {
namespace {

// Rank 0 combines the words of all ranks and tells them the result.
template <class Combine>
std::uint64_t combined(Comm& comm, std::uint64_t word, Combine&& combine) {
    if (comm.rank() > 0) {
        comm.tell(0, word);
        return comm.hear(0);
    }
    for (int peer = 1; peer < comm.size(); ++peer) word = combine(word, comm.hear(peer));
    for (int peer = 1; peer < comm.size(); ++peer) comm.tell(peer, word);
    return word;
}

}  // namespace

void Comm::exchange(const std::vector<Message>& outgoing, const std::vector<Message>& incoming) {
    for (const auto& [peer, address, bytes] : incoming) start_receive(address, bytes, peer);
    for (const auto& [peer, address, bytes] : outgoing) start_send(address, bytes, peer);
    finish_all();
}

std::size_t Comm::finish_receive(int) {
    throw Unavailable("this library receives exactly as many bytes as it was told before");
}

std::uint64_t Comm::total(std::uint64_t own) {
    return combined(*this, own, [](std::uint64_t a, std::uint64_t b) { return a + b; });
}

double Comm::largest(double own) {
    const auto larger = [](std::uint64_t a, std::uint64_t b) {
        return std::bit_cast<std::uint64_t>(std::max(std::bit_cast<double>(a), std::bit_cast<double>(b)));
    };
    return std::bit_cast<double>(combined(*this, std::bit_cast<std::uint64_t>(own), larger));
}

std::vector<std::uint64_t> Comm::swap_words(const std::vector<int>& others, const std::vector<std::uint64_t>& words) {
    if (others.size() != words.size()) throw std::invalid_argument("there must be a word for each rank");
    std::vector<std::size_t> order(others.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // All in the order of the other's rank, the lower rank of a pair first: so no rank waits for one that waits for it.
    std::ranges::sort(order, {}, [&](std::size_t i) { return others[i]; });
    std::vector<std::uint64_t> heard(others.size());
    for (const std::size_t i : order) {
        if (rank() < others[i]) tell(others[i], words[i]);
        heard[i] = hear(others[i]);
        if (rank() > others[i]) tell(others[i], words[i]);
    }
    return heard;
}

}  // namespace firsttouch
