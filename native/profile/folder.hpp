// Folds a long sequence of numbers as it comes: stretches that recur become a repeat, which has a number of its own,
// also within what recurs. program/folding.py gives numbers their meaning.
//
// Stretches are compared by a hash of their numbers, so that each costs the same however long the loop is whose round
// it ends. A match of hashes is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace firsttouch {

class Folder {
  public:
    using Number = std::uint32_t;

    // longest: the most numbers of a round, of which each may be a repeat. candidates: how many of a number's last
    // places are tried as the end of the round before.
    Folder(std::size_t longest, std::size_t candidates) : longest_(longest), candidates_(candidates) {}

    // A further number, which stands for no repeat.
    Number add();

    // Throws std::out_of_range for a number that `add` did not return.
    void append(Number number);
    // Counts what a number took too.
    void append(Number number, double seconds);

    const std::vector<Number>& sequence() const { return sequence_; }

    // How often a repeat has its body; 0 and nothing: it is none. Throws std::out_of_range for an unknown number.
    const std::pair<std::uint64_t, std::vector<Number>>& repeat(Number number) const { return meanings_.at(number); }

    // The sum of what a number took, and of how many.
    std::pair<double, std::uint64_t> seconds(Number number) const { return seconds_.at(number); }

  private:
    using Body = std::vector<Number>;

    void append_known(Number number);
    bool extends_repeat(std::size_t length);
    bool begins_repeat(Number number, std::size_t length);
    void replace(std::size_t begin, std::uint64_t count, Body body);
    Number new_number(std::uint64_t count, Body body);
    std::uint64_t hash(std::size_t begin, std::size_t end) const;

    std::size_t longest_, candidates_;
    std::vector<std::pair<std::uint64_t, Body>> meanings_;
    std::vector<std::pair<double, std::uint64_t>> seconds_;
    std::map<std::pair<std::uint64_t, Body>, Number> repeats_;
    std::vector<Number> sequence_;
    std::vector<std::uint64_t> hashes_{0};  // of the first n numbers of the sequence
    std::vector<std::uint64_t> powers_{1};
    // Where each number is in the sequence; what is beyond its end, or has another number now, is out of date.
    std::vector<std::vector<std::size_t>> places_;
    // The number of the last repeat, and its only place.
    bool has_grown_ = false;
    Number grown_ = 0;
    std::size_t grown_place_ = 0;
    // By the length of the sequence: the places of repeats of which another round may end there.
    std::unordered_map<std::size_t, std::vector<std::size_t>> awaited_;
};

}  // namespace firsttouch
