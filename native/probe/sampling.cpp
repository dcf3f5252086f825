#include "probe/sampling.hpp"

#include <algorithm>
#include <cmath>

#include "host/clock.hpp"

namespace firsttouch {

Statistics summarise(std::vector<double> values) {
    Statistics s;
    s.n = static_cast<int>(values.size());
    if (values.empty()) return s;
    std::sort(values.begin(), values.end());
    const auto quantile = [&](double q) {
        const double place = q * static_cast<double>(values.size() - 1);
        const auto low = static_cast<std::size_t>(place);
        const std::size_t high = std::min(low + 1, values.size() - 1);
        return values[low] + (place - static_cast<double>(low)) * (values[high] - values[low]);
    };
    s.median = quantile(0.5);
    s.p5 = quantile(0.05);
    s.p95 = quantile(0.95);
    s.min = values.front();
    s.max = values.back();
    // Ranks by the normal approximation of the binomial distribution (Conover, Practical Nonparametric Statistics).
    const double n = s.n;
    const double half = 1.96 * std::sqrt(n) / 2;
    const double low = std::floor(n / 2 - half) - 1, high = std::ceil(n / 2 + half);
    s.ci_low = values[static_cast<std::size_t>(std::clamp(low, 0.0, n - 1))];
    s.ci_high = values[static_cast<std::size_t>(std::clamp(high, 0.0, n - 1))];
    return s;
}

Sampler::Sampler(const Stop& stop) : stop_(stop), start_(now()) {}

bool Sampler::add(double value) {
    auto& values = samples_.values;
    values.push_back(value);
    const auto n = static_cast<int>(values.size());
    if (n < stop_.min_samples) return true;
    if (values.size() >= next_check_) {
        next_check_ = values.size() + std::max<std::size_t>(1, values.size() / 4);
        const Statistics s = summarise(values);
        const double bound = stop_.tolerance * std::abs(s.median);
        if (s.median - s.ci_low <= bound && s.ci_high - s.median <= bound) samples_.stopped_by = "precision";
    }
    if (samples_.stopped_by.empty() && n >= stop_.max_samples) samples_.stopped_by = "count";
    if (samples_.stopped_by.empty() && now() - start_ >= stop_.seconds) samples_.stopped_by = "time";
    return samples_.stopped_by.empty();
}

}  // namespace firsttouch
