#include "profile/folder.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace firsttouch {
namespace {

constexpr std::uint64_t prime = (std::uint64_t{1} << 61) - 1, base = 1'000'003;

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(a) * b % prime);
}

}  // namespace

Folder::Number Folder::new_number(std::uint64_t count, Body body) {
    meanings_.emplace_back(count, std::move(body));
    seconds_.resize(std::max(seconds_.size(), meanings_.size()));
    places_.resize(std::max(places_.size(), meanings_.size()));
    return static_cast<Number>(meanings_.size() - 1);
}

Folder::Number Folder::add() { return new_number(0, {}); }

void Folder::append(Number number) {
    if (number >= meanings_.size()) throw std::out_of_range("a number that was not added");
    append_known(number);
}

void Folder::append(Number number, double seconds) {
    append(number);
    seconds_[number].first += seconds;
    ++seconds_[number].second;
}

void Folder::append_known(Number number) {
    sequence_.push_back(number);
    hashes_.push_back((times(hashes_.back(), base) + number + 1) % prime);
    const std::size_t length = sequence_.size();
    if (length >= powers_.size()) powers_.push_back(times(powers_.back(), base));
    if (extends_repeat(length) || begins_repeat(number, length)) return;
    std::vector<std::size_t>& places = places_[number];
    while (!places.empty() && places.back() >= length - 1) places.pop_back();
    places.push_back(length - 1);
    if (places.size() > 4 * candidates_)
        places.erase(places.begin(), places.end() - static_cast<std::ptrdiff_t>(2 * candidates_));
}

std::uint64_t Folder::hash(std::size_t begin, std::size_t end) const {
    return (hashes_[end] + prime - times(hashes_[begin], powers_[end - begin])) % prime;
}

// Whether the end of the sequence is one more round of the repeat before it, of which it becomes a part.
bool Folder::extends_repeat(std::size_t length) {
    const auto found = awaited_.find(length);
    if (found == awaited_.end()) return false;
    const std::vector<std::size_t> waiting = found->second;
    for (const std::size_t place : waiting) {
        const auto& [count, body] = meanings_[sequence_[place]];
        if (count == 0 || place + 1 + body.size() != length) {
            std::vector<std::size_t>& places = awaited_[length];
            places.erase(std::find(places.begin(), places.end(), place));
        } else if (std::equal(body.begin(), body.end(), sequence_.begin() + static_cast<std::ptrdiff_t>(place + 1))) {
            replace(place, count + 1, body);
            return true;
        }
    }
    return false;
}

// Whether the end of the sequence recurs, and becomes a repeat of two rounds.
bool Folder::begins_repeat(Number number, std::size_t length) {
    std::size_t tried = 0;
    const std::vector<std::size_t>& places = places_[number];
    for (auto each = places.rbegin(); each != places.rend(); ++each) {
        const std::size_t place = *each;
        if (place + 1 >= length || sequence_[place] != number) continue;
        const std::size_t size = length - 1 - place;
        if (size > longest_ || 2 * size > length || tried == candidates_) return false;
        ++tried;
        const std::size_t begin = length - 2 * size, middle = length - size;
        if (sequence_[begin] != sequence_[middle] || sequence_[place - size / 2] != sequence_[length - 1 - size / 2])
            continue;
        const auto first = sequence_.begin() + static_cast<std::ptrdiff_t>(begin);
        const auto second = sequence_.begin() + static_cast<std::ptrdiff_t>(middle);
        if (hash(begin, middle) == hash(middle, length) && std::equal(first, second, second)) {
            replace(begin, 2, Body(second, sequence_.end()));
            return true;
        }
    }
    return false;
}

// From a place on, the sequence becomes a repeat. The number of one that grows is forgotten if only this place has it,
// so that a loop takes one number and not one a round.
void Folder::replace(std::size_t begin, std::uint64_t count, Body body) {
    const Number before = sequence_[begin];
    if (count > 2 && has_grown_ && grown_ == before && grown_place_ == begin && before + 1 == meanings_.size()) {
        repeats_.erase({count - 1, body});
        meanings_.pop_back();
    }
    sequence_.resize(begin);
    hashes_.resize(begin + 1);
    const std::size_t awaited = begin + 1 + body.size();
    const auto known = repeats_.find({count, body});
    has_grown_ = known == repeats_.end();
    const Number number = has_grown_ ? new_number(count, body) : known->second;
    if (has_grown_) {
        grown_ = number, grown_place_ = begin;
        repeats_.emplace(std::pair{count, std::move(body)}, number);
    }
    append_known(number);
    if (sequence_.size() != begin + 1) return;
    std::vector<std::size_t>& places = awaited_[awaited];
    if (std::find(places.begin(), places.end(), begin) == places.end()) places.push_back(begin);
}

}  // namespace firsttouch
