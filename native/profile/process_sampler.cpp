#include "profile/process_sampler.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "host/clock.hpp"

namespace firsttouch {

namespace {

// Reads a file of /proc as text. Returns false if the process is gone.
template <std::size_t size>
bool read_text(int descriptor, char (&text)[size]) {
    const ssize_t length = pread(descriptor, text, size - 1, 0);
    if (length <= 0) return false;
    text[length] = '\0';
    return true;
}

// Skips `count` fields that are separated by single spaces.
const char* skip(const char* at, int count) {
    while (count-- > 0 && at != nullptr) {
        at = std::strchr(at, ' ');
        if (at != nullptr) ++at;
    }
    return at;
}

std::uint64_t number(const char* at) { return at == nullptr ? 0 : std::strtoull(at, nullptr, 10); }

bool has_ended(char state) { return state == '?' || state == 'Z' || state == 'X'; }

// Reads the counters and the state of a process that has not ended. Source: proc(5). The name in stat may hold spaces
// and parentheses, so fields are counted from its last ')'.
void read_counters(int statm, int stat, ProcessReading& reading) {
    char text[1024];
    reading.state = '?';
    if (!read_text(stat, text)) return;
    const char* const after_name = std::strrchr(text, ')');
    if (after_name == nullptr || after_name[1] != ' ') return;
    const char* const state = after_name + 2;  // field 3
    const char* const minor = skip(state, 7);  // field 10
    const char* const major = skip(minor, 2);  // field 12
    if (major == nullptr) return;
    if (const std::uint64_t start = number(skip(major, 16)); start != 0) reading.stack_start = start;  // field 28
    reading.counters.minor_faults = number(minor), reading.counters.major_faults = number(major);
    const char letter = *state;
    // The memory of a process that has ended is gone: its last reading holds until then.
    if (!has_ended(letter)) {
        if (!read_text(statm, text)) return;
        const std::uint64_t pages = number(skip(text, 1));
        if (pages != 0) {  // 0: it is ending, and has no memory any more
            reading.counters.resident_pages = pages;
            reading.counters.shared_pages = number(skip(text, 2));
        }
    }
    reading.state = letter;
}

}  // namespace

ProcessSampler::~ProcessSampler() {
    stop();
    while (!files_.empty()) remove(files_.back().key);
}

bool ProcessSampler::add(std::int64_t key, std::int64_t pid) {
    const std::string folder = root_ + "/" + std::to_string(pid);
    const int statm = open((folder + "/statm").c_str(), O_RDONLY | O_CLOEXEC);
    const int stat = statm < 0 ? -1 : open((folder + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
    ProcessReading first{.key = key};
    if (stat >= 0) read_counters(statm, stat, first);
    if (has_ended(first.state)) {
        if (statm >= 0) close(statm);
        if (stat >= 0) close(stat);
        return false;
    }
    first.time = now();
    const std::scoped_lock lock(mutex_);
    files_.push_back({key, statm, stat, first});
    readings_.processes.push_back(first);
    add_up(first.time);
    return true;
}

void ProcessSampler::remove(std::int64_t key) {
    const std::scoped_lock lock(mutex_);
    const auto entry = std::ranges::find(files_, key, &Files::key);
    if (entry == files_.end()) return;
    ended_.minor_faults += entry->last.counters.minor_faults;
    ended_.major_faults += entry->last.counters.major_faults;
    close(entry->statm);
    close(entry->stat);
    files_.erase(entry);
}

void ProcessSampler::read_all(double time) {
    const std::scoped_lock lock(mutex_);
    for (Files& files : files_) {
        if (has_ended(files.last.state)) continue;
        ProcessReading reading = files.last;
        reading.time = time;
        read_counters(files.statm, files.stat, reading);
        if (reading.counters != files.last.counters || has_ended(reading.state)) readings_.processes.push_back(reading);
        files.last = reading;
    }
    add_up(time);
    ++readings_.ticks;
}

// Adds the sums over all processes to the readings if they have changed.
void ProcessSampler::add_up(double time) {
    TotalReading total{.time = time, .counters = ended_, .processes = 0};
    for (const Files& files : files_) {
        total.counters.minor_faults += files.last.counters.minor_faults;
        total.counters.major_faults += files.last.counters.major_faults;
        if (has_ended(files.last.state)) continue;
        total.counters.resident_pages += files.last.counters.resident_pages;
        total.counters.shared_pages += files.last.counters.shared_pages;
        ++total.processes;
    }
    const bool is_same = total.counters == last_total_.counters && total.processes == last_total_.processes;
    if (total.processes == 0 || is_same) return;
    total.least_pages = least_pages();
    readings_.totals.push_back(total);
    last_total_ = total;
}

// Processes share memory of their own only with those that they were forked from, or that were forked from the same
// one: they have the same stack, until they execute a program. Other memory may be the same in all.
std::uint64_t ProcessSampler::least_pages() const {
    std::map<std::uint64_t, std::uint64_t> own;  // by the start of the stack, the most that one process has
    std::uint64_t shared = 0, largest = 0;
    for (const Files& files : files_) {
        const ProcessCounters& of = files.last.counters;
        if (has_ended(files.last.state)) continue;
        if (const std::uint64_t start = files.last.stack_start; start != 0)
            own[start] = std::max(own[start], of.resident_pages - std::min(of.resident_pages, of.shared_pages));
        shared = std::max(shared, of.shared_pages);
        largest = std::max(largest, of.resident_pages);
    }
    for (const auto& [stack, pages] : own) shared += pages;
    return std::max(shared, largest);
}

void ProcessSampler::tick() { read_all(now()); }

void ProcessSampler::start(double interval, std::function<bool()> hurry, int signal) {
    stop();
    hurry_ = std::move(hurry), signal_ = signal, stopping_ = is_asked_ = false;
    caller_ = static_cast<pid_t>(syscall(SYS_gettid));
    thread_ = std::thread([this, interval] { run(std::chrono::duration<double>(interval)); });
}

void ProcessSampler::run(std::chrono::duration<double> interval) {
    // Signals are for the thread that started this one.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    using Clock = std::chrono::steady_clock;
    const auto step = std::chrono::duration_cast<Clock::duration>(interval);
    Clock::time_point due = Clock::now();
    while (!stopping_) {
        read_all(now());
        // To the thread that waits for it: another one of this process may not block the signal, which would be fatal.
        if (hurry_ && !is_asked_ && hurry_()) {
            is_asked_ = true;
            syscall(SYS_tgkill, getpid(), caller_, signal_);
        }
        due += step;
        const Clock::time_point after = Clock::now();
        if (after > due + step) {  // ticks that were missed are left out
            const std::scoped_lock lock(mutex_);
            ++readings_.late;
            due = after;
        }
        // Short sleeps, so that a stop does not wait for a long interval.
        while (!stopping_ && Clock::now() < due)
            std::this_thread::sleep_until(std::min(due, Clock::now() + std::chrono::milliseconds(50)));
    }
}

void ProcessSampler::stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
}

Readings ProcessSampler::take() {
    is_asked_ = false;
    const std::scoped_lock lock(mutex_);
    Readings taken = std::move(readings_);
    readings_ = {.processes = {}, .totals = {}, .ticks = taken.ticks, .late = taken.late};
    return taken;
}

}  // namespace firsttouch
