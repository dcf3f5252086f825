#include "profile/inject/core/watch_budget.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string_view>

#include "profile/inject/core/journal.hpp"

namespace firsttouch::inject {
namespace {

constexpr double shortest_run_ns = 1e9, longest_run_ns = 1e18;
constexpr double clearly = 1.05;
constexpr std::uint64_t pause_ns = 1'000'000;

struct Digits {
    char text[28];  // of any number, with commas
};

Digits with_commas(std::uint64_t number) noexcept {
    Digits digits{};
    char reversed[sizeof digits.text];
    std::size_t count = 0;
    for (int i = 0; i == 0 || number > 0; ++i, number /= 10) {
        if (i > 0 && i % 3 == 0) reversed[count++] = ',';
        reversed[count++] = char('0' + number % 10);
    }
    std::reverse_copy(reversed, reversed + count, digits.text);
    return digits;
}

std::uint64_t clock_ns(clockid_t clock) noexcept {
    timespec now{};
    clock_gettime(clock, &now);
    return std::uint64_t(now.tv_sec) * 1'000'000'000 + std::uint64_t(now.tv_nsec);
}

}  // namespace

// Source: proc_pid_stat(5).
std::uint64_t WatchBudget::process_start() {
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    std::FILE* const file = std::fopen("/proc/self/stat", "re");
    if (file == nullptr) return now;
    char text[1024];
    const std::size_t length = std::fread(text, 1, sizeof text - 1, file);
    std::fclose(file);
    text[length] = '\0';
    const std::string_view all(text);
    unsigned long long ticks = 0;
    std::size_t at = all.rfind(')');
    for (int field = 2; field < 22 && at != std::string_view::npos; ++field) at = all.find(' ', at + 1);
    if (at == std::string_view::npos || std::sscanf(text + at, "%llu", &ticks) != 1) return now;
    const double started = double(ticks) / double(sysconf(_SC_CLK_TCK)) * 1e9;
    const double age = double(clock_ns(CLOCK_BOOTTIME)) - started;
    return age > 0 && age < double(now) ? now - std::uint64_t(age) : now;
}

WatchBudget::WatchBudget(double percent, std::uint64_t began) : share_(percent / 100), began_(began) {}

void WatchBudget::begin_step() { step_began_ = clock_ns(CLOCK_THREAD_CPUTIME_ID); }

// By this thread's processor time, so that what others do meanwhile does not count.
double WatchBudget::spent_ns() const { return spent_ns_ + double(clock_ns(CLOCK_THREAD_CPUTIME_ID) - step_began_); }

bool WatchBudget::affords(std::uint64_t time, double more_ns) const {
    return spent_ns() + more_ns <= share_ * std::max(run_ns(time), shortest_run_ns);
}

bool WatchBudget::has_half(std::uint64_t time, double more_ns) const {
    return spent_ns() + more_ns <= share_ / 2 * run_ns(time);
}

void WatchBudget::leave_out(std::uint64_t time) {
    if (left_out_++ == 0) first_left_out_ = time;
    if (pauses(time)) return;
    const double until = spent_ns() / share_;  // of the run
    if (until <= std::max(run_ns(time), shortest_run_ns)) return;
    resumes_ = until < longest_run_ns ? began_ + std::uint64_t(until) + pause_ns : ~std::uint64_t(0);
}

void WatchBudget::tell(std::uint64_t time) const {
    const double run = run_ns(time), spent = spent_ns();
    char text[200];
    if (left_out_ > 0) {
        std::snprintf(text, sizeof text,
                      "%s looks at host data were left out, the first %.3f s after the start, to keep within %g %% of "
                      "the run",
                      with_commas(left_out_).text, double(first_left_out_ - began_) * 1e-9, share_ * 100);
        notice(Layer::host, text);
    }
    if (spent > clearly * share_ * run) {
        std::snprintf(text, sizeof text, "looking at host data took %.1f ms, %.1f %% of the run, more than %g %%",
                      spent * 1e-6, spent / run * 100, share_ * 100);
        notice(Layer::host, text);
    }
}

}  // namespace firsttouch::inject
