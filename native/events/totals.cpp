#include "events/totals.hpp"

#include <utility>

namespace firsttouch {

// Appends an interval that does not start before the last one, or extends that.
static void append(std::vector<Interval>& merged, Interval next) {
    if (!merged.empty() && next.start <= merged.back().end)
        merged.back().end = std::max(merged.back().end, next.end);
    else
        merged.push_back(next);
}

void IntervalUnion::merge() {
    if (pending_.empty()) return;
    const auto earlier = [](const Interval& a, const Interval& b) { return a.start < b.start; };
    if (!std::ranges::is_sorted(pending_, earlier)) std::ranges::sort(pending_, earlier);
    // Usually only the last of the kept intervals are affected.
    const auto first = std::ranges::lower_bound(kept_, pending_.front().start, {}, &Interval::end);
    const std::vector<Interval> affected(first, kept_.end());
    kept_.erase(first, kept_.end());
    auto old = affected.begin();
    for (const Interval& next : pending_) {
        for (; old != affected.end() && old->start <= next.start; ++old) append(kept_, *old);
        append(kept_, next);
    }
    for (; old != affected.end(); ++old) append(kept_, *old);
    pending_.clear();
    if (kept_.size() > 2 * least_kept) retire(kept_.size() - least_kept);
}

void IntervalUnion::retire(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) retired_ += kept_[i].end - kept_[i].start;
    if (count > 0) horizon_ = kept_[count - 1].end;
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(count));
}

std::uint64_t IntervalUnion::total() {
    merge();
    std::uint64_t total = retired_;
    for (const Interval& interval : kept_) total += interval.end - interval.start;
    return total;
}

void IntervalUnion::close() {
    merge();
    retire(kept_.size());
    kept_ = {};
    pending_ = {};
}

void EventCourse::restart(std::uint64_t origin_ns) {
    origin_ = origin_ns;
    shift_ = first_shift;
    used_ = 0;
    for (auto& row : rows_) row.reset();
}

void EventCourse::double_width() {
    for (auto& row : rows_) {
        if (row == nullptr) continue;
        for (std::size_t i = 0; i < bins; ++i) {
            Bin sum;
            for (std::size_t j = 2 * i; j < std::min(2 * i + 2, bins); ++j)
                sum.count += (*row)[j].count, sum.bytes += (*row)[j].bytes, sum.busy_ns += (*row)[j].busy_ns;
            (*row)[i] = sum;
        }
    }
    used_ = (used_ + 1) / 2;
    ++shift_;
}

void EventCourse::add(std::size_t kind, std::size_t cause, std::uint64_t start, std::uint64_t end,
                      std::uint64_t bytes) {
    if (start < origin_) return;
    while ((end - origin_) >> shift_ >= bins) double_width();
    auto& row = rows_[kind * max_causes + cause];
    if (row == nullptr) row = std::make_unique<std::array<Bin, bins>>();
    const std::size_t last = (end - origin_) >> shift_;
    Bin& bin = (*row)[last];
    ++bin.count, bin.bytes += bytes;
    used_ = std::max(used_, last + 1);
    for (std::size_t i = (start - origin_) >> shift_; i < last; ++i) {
        const std::uint64_t next = origin_ + (std::uint64_t(i + 1) << shift_);
        (*row)[i].busy_ns += next - start;
        start = next;
    }
    bin.busy_ns += end - start;
}

std::vector<EventCourse::CauseCourse> EventCourse::rows() const {
    std::vector<CauseCourse> listed;
    for (std::size_t i = 0; i < rows_.size(); ++i)
        if (const auto& row = rows_[i]; row != nullptr)
            listed.push_back({i / max_causes, i % max_causes, {row->begin(), row->begin() + std::ptrdiff_t(used_)}});
    return listed;
}

void EventTotals::PhaseSums::close() {
    for (auto& cell : causes)
        if (cell != nullptr) cell->busy.close();
    for (auto& busy : kinds)
        if (busy != nullptr) busy->close();
    for (auto* busy : {moves.get(), moves_and_faults.get()})
        if (busy != nullptr) busy->close();
}

void EventTotals::restart(std::uint64_t now) {
    phases_.clear();
    mark("", now, true);
}

std::size_t EventTotals::mark(std::string name, std::uint64_t now, bool restart_course) {
    auto phase = std::make_unique<PhaseSums>();
    phase->name = std::move(name);
    phase->start = phases_.empty() ? now : std::max(now, phases_.back()->start);
    if (restart_course) course_.restart(phase->start);
    phases_.push_back(std::move(phase));
    if (phases_.size() > open_phases) phases_[phases_.size() - open_phases - 1]->close();
    return phases_.size() - 1;
}

void EventTotals::add(std::size_t kind, std::size_t cause, std::uint64_t start, std::uint64_t end, std::uint64_t bytes,
                      std::uint64_t faults) {
    end = std::max(start, end);
    std::size_t i = phases_.size();  // usually it is the last phase
    while (i > 0 && phases_[i - 1]->start > start) --i;
    if (i-- == 0) return;
    course_.add(kind, cause, start, end, bytes);
    for (bool is_first = true; i < phases_.size(); ++i, is_first = false) {
        PhaseSums& phase = *phases_[i];
        if (!is_first && phase.start >= end) break;
        auto& cell = phase.causes[kind * max_causes + cause];
        if (cell == nullptr) cell = std::make_unique<Cell>();
        if (is_first) cell->sums += {1, bytes, faults, end - start};
        const bool is_last = i + 1 == phases_.size();
        add_busy(phase, kind, *cell, std::max(start, phase.start),
                 is_last ? end : std::min(end, phases_[i + 1]->start));
    }
}

void EventTotals::add_busy(PhaseSums& phase, std::size_t kind, Cell& cell, std::uint64_t start, std::uint64_t end) {
    const TimedAs timed = kinds_[kind].timed;
    if (timed == TimedAs::nothing || end <= start) return;
    cell.busy.add(start, end);
    created(phase.kinds[kind]).add(start, end);
    if (timed == TimedAs::itself) return;
    created(phase.moves_and_faults).add(start, end);
    if (timed != TimedAs::fault) created(phase.moves).add(start, end);
}

std::vector<PhaseTotals> EventTotals::phases(std::size_t first, std::uint64_t now) {
    std::vector<PhaseTotals> closed;
    for (std::size_t i = first; i < phases_.size(); ++i) {
        PhaseSums& phase = *phases_[i];
        PhaseTotals& totals = closed.emplace_back();
        totals.name = phase.name;
        totals.start_ns = phase.start;
        totals.end_ns = std::max(phase.start, i + 1 < phases_.size() ? phases_[i + 1]->start : now);
        for (std::size_t j = 0; j < phase.causes.size(); ++j) {
            if (phase.causes[j] == nullptr) continue;
            Cell& cell = *phase.causes[j];
            totals.causes.push_back(
                {cell.sums, {cell.busy.total(), cell.busy.uncertain()}, j / max_causes, j % max_causes});
        }
        std::uint64_t to_device = 0;
        for (std::size_t kind = 0; kind < phase.kinds.size(); ++kind) {
            if (phase.kinds[kind] == nullptr) continue;
            IntervalUnion& busy = *phase.kinds[kind];
            totals.kinds.push_back({{busy.total(), busy.uncertain()}, kind});
            if (kinds_[kind].timed == TimedAs::move_to_device) to_device += busy.total();
        }
        const auto total = [](const auto& busy) { return busy == nullptr ? 0 : busy->total(); };
        const std::uint64_t moves = total(phase.moves), all = total(phase.moves_and_faults);
        totals.to_device_ns = std::min(to_device, moves);
        totals.to_host_ns = moves - totals.to_device_ns;
        totals.fault_ns = std::max(all, moves) - moves;
    }
    return closed;
}

}  // namespace firsttouch
