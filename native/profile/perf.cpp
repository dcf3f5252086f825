#include "profile/perf.hpp"

#include <dirent.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <set>
#include <system_error>

namespace firsttouch {
namespace {

constexpr std::uint64_t million = 1'000'000;
constexpr std::uint64_t sample_id_bytes = 16;  // the end of every record but samples: pid, tid, time

// Reads the fields of a record one after the other. Fields behind the end are 0.
class Fields {
  public:
    explicit Fields(std::span<const std::byte> bytes) : rest_(bytes) {}

    template <class T>
    T next() {
        T value{};
        if (rest_.size() < sizeof(T)) {
            rest_ = {};
            return value;
        }
        std::memcpy(&value, rest_.data(), sizeof(T));
        rest_ = rest_.subspan(sizeof(T));
        return value;
    }
    std::uint32_t u32() { return next<std::uint32_t>(); }
    std::uint64_t u64() { return next<std::uint64_t>(); }
    void skip(std::size_t bytes) { rest_ = rest_.subspan(std::min(bytes, rest_.size())); }
    // A string that is padded with zeros up to the record's sample_id.
    std::string text() const {
        if (rest_.empty()) return {};
        const std::size_t room = rest_.size() - std::min<std::size_t>(rest_.size(), sample_id_bytes);
        const auto* begin = reinterpret_cast<const char*>(rest_.data());
        return {begin, strnlen(begin, room)};
    }

  private:
    std::span<const std::byte> rest_;
};

std::uint64_t time_of(std::span<const std::byte> body) { return body.size() < 8 ? 0 : Fields(body.last(8)).u64(); }

void decode(const perf_event_header& header, std::span<const std::byte> body, PerfRecords& into) {
    Fields fields(body);
    switch (header.type) {
    case PERF_RECORD_FORK: {
        ThreadStart start{.ns = time_of(body)};
        start.pid = fields.u32(), start.parent = fields.u32(), start.tid = fields.u32();
        into.starts.push_back(start);
        break;
    }
    case PERF_RECORD_EXIT: {
        ThreadEnd end{.ns = time_of(body), .pid = fields.u32()};
        fields.skip(4);
        end.tid = fields.u32();
        into.ends.push_back(end);
        break;
    }
    case PERF_RECORD_COMM: {
        NameChange change{.ns = time_of(body)};
        change.pid = fields.u32(), change.tid = fields.u32(), change.name = fields.text();
        change.executed = (header.misc & PERF_RECORD_MISC_COMM_EXEC) != 0;
        into.names.push_back(std::move(change));
        break;
    }
    case PERF_RECORD_MMAP2: {
        NewMapping mapping{.ns = time_of(body), .pid = fields.u32()};
        fields.skip(4);
        mapping.address = fields.u64(), mapping.length = fields.u64(), mapping.offset = fields.u64();
        fields.skip(24 + 8);  // device and inode, protection and flags
        mapping.file = fields.text();
        into.mappings.push_back(std::move(mapping));
        break;
    }
    case PERF_RECORD_SAMPLE: {
        FaultSample sample{.instruction = fields.u64()};
        sample.pid = fields.u32(), sample.tid = fields.u32(), sample.ns = fields.u64(), sample.address = fields.u64();
        if (fields.u64() == sizeof(sample.stack))
            for (std::uint64_t& word : sample.stack) word = fields.u64();
        into.samples.push_back(sample);
        break;
    }
    case PERF_RECORD_LOST:
        fields.skip(8);
        into.lost += fields.u64();
        break;
    case PERF_RECORD_LOST_SAMPLES:
        into.lost += fields.u64();
        break;
    default:
        break;
    }
}

template <class Record>
void sort_list(std::vector<Record>& list) {
    const auto earlier = [](const Record& a, const Record& b) { return a.ns < b.ns; };
    if (!std::is_sorted(list.begin(), list.end(), earlier)) std::stable_sort(list.begin(), list.end(), earlier);
}

template <class Record>
std::vector<Record> take_from(std::vector<Record>& list, std::uint64_t ns) {
    const auto later = std::find_if(list.begin(), list.end(), [&](const Record& record) { return record.ns > ns; });
    std::vector<Record> taken(std::make_move_iterator(list.begin()), std::make_move_iterator(later));
    list.erase(list.begin(), later);
    return taken;
}

std::uint64_t clock_ns() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1000 * million + static_cast<std::uint64_t>(time.tv_nsec);
}

// The numbers that a folder of /proc has as names.
std::vector<std::uint32_t> numbers_in(const std::string& folder) {
    std::vector<std::uint32_t> numbers;
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(folder.c_str()), &closedir);
    if (directory == nullptr) return numbers;
    while (const dirent* entry = readdir(directory.get()))
        if (const unsigned long number = std::strtoul(entry->d_name, nullptr, 10); number != 0)
            numbers.push_back(static_cast<std::uint32_t>(number));
    return numbers;
}

std::vector<std::uint32_t> threads_of(std::uint32_t pid) {
    return numbers_in("/proc/" + std::to_string(pid) + "/task");
}

// 0 if the process has ended. Source: proc_pid_stat(5); the name in parentheses may contain any character.
std::uint32_t parent_of(std::uint32_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(file, line);
    const std::size_t name_end = line.rfind(')');
    if (name_end == std::string::npos || name_end + 4 > line.size()) return 0;
    return static_cast<std::uint32_t>(std::strtoul(line.c_str() + name_end + 4, nullptr, 10));
}

// A process and its descendants.
std::vector<std::uint32_t> tree_of(std::uint32_t root) {
    std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> children;
    for (const std::uint32_t pid : numbers_in("/proc")) children[parent_of(pid)].push_back(pid);
    std::vector<std::uint32_t> tree{root};
    for (std::size_t i = 0; i < tree.size(); ++i) {
        const std::vector<std::uint32_t>& own = children[tree[i]];
        tree.insert(tree.end(), own.begin(), own.end());
    }
    return tree;
}

// Lets this process have that many more descriptors, as far as its hard limit permits.
void make_room_for_descriptors(std::size_t more) {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    const std::size_t used = numbers_in("/proc/self/fd").size() + 1;
    if (used + more + 64 <= limit.rlim_cur) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

// The size of a processor's buffer: 500 short processes or, where faults are sampled, at least 13,000 samples, and more
// where nearly every fault is one. All buffers together have at most 32 MiB.
std::size_t buffer_bytes(std::uint32_t every, std::size_t processors) {
    const std::size_t wanted = every == 0 ? 128 << 10 : every < 8 ? 8 << 20 : 512 << 10;
    return std::bit_floor(std::clamp<std::size_t>((32 << 20) / processors, 32 << 10, wanted));
}

perf_event_attr attributes(std::uint32_t every, bool faults, bool enable_on_exec) {
    perf_event_attr a{};
    a.size = sizeof(a);
    a.type = PERF_TYPE_SOFTWARE;
    a.config = faults ? PERF_COUNT_SW_PAGE_FAULTS : PERF_COUNT_SW_DUMMY;
    a.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    a.sample_id_all = 1;
    a.inherit = 1;
    a.exclude_kernel = a.exclude_hv = 1;
    a.disabled = a.enable_on_exec = enable_on_exec ? 1 : 0;
    a.use_clockid = 1;
    a.clockid = CLOCK_MONOTONIC;
    if (faults) {
        a.sample_type |= PERF_SAMPLE_IP | PERF_SAMPLE_ADDR | PERF_SAMPLE_STACK_USER;
        a.sample_stack_user = sizeof(FaultSample::stack);
        a.sample_period = every;
        a.wakeup_events = 1;  // lines of Python are read at once (PerfEvents::watch)
    } else {
        a.task = a.comm = a.comm_exec = 1;
        a.mmap = a.mmap2 = a.mmap_data = every > 0 ? 1 : 0;
    }
    return a;
}

// Returns -1 and sets errno if the kernel refuses.
int open_event(perf_event_attr a, pid_t thread, int processor) {
    return static_cast<int>(syscall(SYS_perf_event_open, &a, thread, processor, -1, PERF_FLAG_FD_CLOEXEC));
}

// Why an event on this thread cannot be opened on a processor: an errno, 0 if it can.
int try_processor(int processor) {
    const Descriptor event(open_event(attributes(0, false, true), 0, processor));
    return event.number() < 0 ? errno : 0;
}

[[noreturn]] void fail(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

}  // namespace

void PerfRecords::sort_by_time() {
    sort_list(starts), sort_list(names), sort_list(ends), sort_list(mappings), sort_list(samples);
}

PerfRecords PerfRecords::take_until(std::uint64_t ns) {
    return {.starts = take_from(starts, ns),
            .names = take_from(names, ns),
            .ends = take_from(ends, ns),
            .mappings = take_from(mappings, ns),
            .samples = take_from(samples, ns),
            .lost = std::exchange(lost, 0)};
}

std::uint64_t decode_ring(std::span<const std::byte> ring, std::uint64_t tail, std::uint64_t head, PerfRecords& into) {
    std::vector<std::byte> joined;  // a record that wraps around
    const auto bytes_at = [&](std::uint64_t position, std::size_t size) -> std::span<const std::byte> {
        const std::size_t begin = position & (ring.size() - 1), first = std::min(size, ring.size() - begin);
        if (first == size) return ring.subspan(begin, size);
        joined.assign(ring.begin() + static_cast<std::ptrdiff_t>(begin), ring.end());
        joined.insert(joined.end(), ring.begin(), ring.begin() + static_cast<std::ptrdiff_t>(size - first));
        return joined;
    };
    while (tail < head) {
        perf_event_header header{};
        if (head - tail < sizeof(header)) return head;
        std::memcpy(&header, bytes_at(tail, sizeof(header)).data(), sizeof(header));
        if (header.size < sizeof(header) || header.size > head - tail || header.size > ring.size()) return head;
        decode(header, bytes_at(tail, header.size).subspan(sizeof(header)), into);
        tail += header.size;
    }
    return tail;
}

Descriptor::~Descriptor() {
    if (number_ >= 0) close(number_);
}

std::vector<int> find_processors(const std::function<int(int)>& try_one) {
    constexpr int beyond_all = 1 << 16;
    std::vector<int> processors;
    int why = ENODEV;
    for (int processor = 0; processor < beyond_all; ++processor) {
        why = try_one(processor);
        if (why == 0) processors.push_back(processor);
        if (why != 0 && why != ENODEV) break;
    }
    if (processors.empty() || (why != EINVAL && why != ENODEV && why != 0))
        throw std::system_error(why, std::generic_category(), "perf_event_open");
    return processors;
}

// The buffer of one processor, into which all events on it write.
struct PerfEvents::Ring {
    Ring(int owner, std::size_t bytes) : descriptor(owner), size(bytes + page_bytes()) {
        void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, owner, 0);
        if (at == MAP_FAILED) fail("mmap");
        control = static_cast<perf_event_mmap_page*>(at);
        data = {static_cast<const std::byte*>(at) + page_bytes(), bytes};
    }
    Ring(Ring&& other) noexcept
        : descriptor(other.descriptor), size(other.size), control(std::exchange(other.control, nullptr)),
          data(other.data) {}
    Ring& operator=(Ring&&) = delete;
    ~Ring() {
        if (control != nullptr) munmap(control, size);
    }

    bool is_empty() const {
        return __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE) ==
               __atomic_load_n(&control->data_tail, __ATOMIC_RELAXED);
    }

    // Lets another event of the same processor write into this buffer.
    void take_from(int event) const {
        if (ioctl(event, PERF_EVENT_IOC_SET_OUTPUT, descriptor) != 0) fail("perf_event_open");
    }

    void drain(PerfRecords& into) const {
        const std::uint64_t head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
        const std::uint64_t tail = control->data_tail;
        if (head == tail) return;
        decode_ring(data, tail, head, into);
        __atomic_store_n(&control->data_tail, head, __ATOMIC_RELEASE);
    }

    int descriptor;
    std::size_t size = 0;
    perf_event_mmap_page* control = nullptr;
    std::span<const std::byte> data;
};

PerfEvents::PerfEvents(pid_t pid, std::uint32_t every, bool enable_on_exec)
    : every_(every), enable_on_exec_(enable_on_exec), processors_(find_processors(try_processor)) {
    if (enable_on_exec) {
        make_room_for_descriptors(2 * processors_.size());
        open_thread(pid);
        attached_ = {static_cast<std::uint32_t>(pid)};
        threads_[static_cast<std::uint32_t>(pid)] = {static_cast<std::uint32_t>(pid)};
    } else {
        open_all(pid);
    }
    if (every_ == 0) return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the caller's
    watcher_ = std::thread([this] { watch(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PerfEvents::~PerfEvents() {
    is_ending_ = true;
    if (watcher_.joinable()) watcher_.join();
}

// Looks at the threads that faulted as soon as the kernel tells of them: the structures of Python say which line a
// thread is in now, not which it was in then.
void PerfEvents::watch() {
    constexpr int ms_for_end = 20;
    constexpr std::chrono::microseconds apart{100}, apart_without_python{2000};
    std::vector<pollfd> files;
    for (const Ring& ring : rings_) files.push_back({.fd = ring.descriptor, .events = POLLIN, .revents = 0});
    while (!is_ending_) {
        const int ready = poll(files.data(), files.size(), ms_for_end);
        for (pollfd& file : files)
            if ((file.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) file.fd = -1;  // its thread has ended
        if (ready < 0) std::this_thread::sleep_for(std::chrono::milliseconds(ms_for_end));
        bool has_python = false;
        {
            const std::scoped_lock lock(mutex_);
            drain();
            has_python = python_.has_python();
        }
        if (ready > 0) std::this_thread::sleep_for(has_python ? apart : apart_without_python);
    }
}

// Of samples from a position on. The line is that of the look that is nearest in time: the one before, or the one now.
void PerfEvents::add_lines(std::size_t first) {
    constexpr std::size_t most_threads = 1 << 16;
    std::set<std::uint32_t> looked;
    if (seen_.size() > most_threads) seen_.clear();
    for (std::size_t i = pending_.samples.size(); i-- > first;) {  // each thread is looked at for its last sample
        const FaultSample& last = pending_.samples[i];
        if (!looked.insert(last.tid).second) continue;
        const Seen before = seen_[last.tid];
        Seen now{.ns = 0, .now = python_.look(last.pid, last.tid, last.ns)};
        now.ns = clock_ns();
        for (std::size_t k = first; k <= i; ++k) {
            FaultSample& sample = pending_.samples[k];
            if (sample.tid != last.tid) continue;
            const bool is_before = before.now.line != 0 && sample.ns >= before.ns &&
                                   (now.now.line == 0 || sample.ns - before.ns < now.ns - std::min(now.ns, sample.ns));
            sample.line = is_before ? before.now.line : now.now.line;
            sample.is_sure = sample.line != 0 && before.now.line == now.now.line;
        }
        seen_[last.tid] = now;
    }
}

void PerfEvents::open_thread(pid_t thread) {
    const bool first = rings_.empty();
    const auto open = [&](bool faults, int processor) {
        const int number = open_event(attributes(every_, faults, enable_on_exec_), thread, processor);
        if (number < 0) fail("perf_event_open");
        descriptors_.emplace_back(number);
        return number;
    };
    std::vector<int> events;
    for (const int processor : processors_) events.push_back(open(false, processor));
    if (first) map_rings(events);
    for (std::size_t i = 0; i < processors_.size(); ++i) {
        if (!first) rings_[i].take_from(events[i]);
        if (every_ == 0) continue;
        counters_.push_back(open(true, processors_[i]));
        rings_[i].take_from(counters_.back());
    }
}

// All have the same size, because those of one user share what the kernel permits.
void PerfEvents::map_rings(const std::vector<int>& owners) {
    std::size_t bytes = std::max(buffer_bytes(every_, owners.size()), page_bytes());
    while (true) {
        try {
            rings_.clear();
            for (const int owner : owners) rings_.emplace_back(owner, bytes);
            return;
        } catch (const std::system_error&) {
            if (bytes <= page_bytes()) throw;
            bytes /= 2;
        }
    }
}

// Threads that start meanwhile are either told by the kernel, and then have inherited the events, or are found by the
// next search.
void PerfEvents::open_all(pid_t pid) {
    std::set<std::uint32_t> known, processes;
    bool more = true;
    while (more) {
        more = false;
        const std::vector<std::uint32_t> tree = tree_of(static_cast<std::uint32_t>(pid));
        std::vector<std::pair<std::uint32_t, std::uint32_t>> threads;
        for (const std::uint32_t process : tree)
            for (const std::uint32_t thread : threads_of(process)) threads.emplace_back(process, thread);
        if (threads.empty()) throw std::system_error(ESRCH, std::generic_category(), "perf_event_open");
        drain();
        for (const ThreadStart& start : pending_.starts) known.insert(start.tid);
        make_room_for_descriptors((every_ > 0 ? 2 : 1) * processors_.size() * threads.size());
        for (const auto& [process, thread] : threads) {
            if (!known.insert(thread).second) continue;
            try {
                open_thread(static_cast<pid_t>(thread));
            } catch (const std::system_error& error) {
                const bool ended = error.code().value() == ESRCH && threads.size() > 1;
                const bool foreign = error.code().value() == EACCES && process != tree.front();  // another user's
                if (ended || foreign) continue;
                throw;
            }
            more = true;
            threads_[process].insert(thread);
            if (processes.insert(process).second) attached_.push_back(process);
        }
    }
}

bool PerfEvents::is_waiting() const {
    return is_pending_ || !std::ranges::all_of(rings_, [](const Ring& ring) { return ring.is_empty(); });
}

void PerfEvents::drain() {
    const std::size_t names = pending_.names.size(), ends = pending_.ends.size(), samples = pending_.samples.size();
    for (const Ring& ring : rings_) ring.drain(pending_);
    for (std::size_t i = names; i < pending_.names.size(); ++i)
        if (pending_.names[i].executed) python_.forget(pending_.names[i].pid);
    if (every_ != 0) add_lines(samples);
    for (std::size_t i = ends; i < pending_.ends.size(); ++i) {
        seen_.erase(pending_.ends[i].tid);
        if (pending_.ends[i].pid == pending_.ends[i].tid) python_.forget(pending_.ends[i].pid);
    }
}

// Keeps the living threads, because the first thread of a process may end before others. A thread that executes a
// program takes the place of the first one, and the others have ended.
std::vector<ThreadEnd> PerfEvents::process_ends(const PerfRecords& records) {
    std::vector<ThreadEnd> ended;
    auto start = records.starts.begin();
    auto name = records.names.begin();
    const auto begin_until = [&](std::uint64_t ns) {
        for (; start != records.starts.end() && start->ns <= ns; ++start) {
            if (start->is_process()) threads_[start->pid].clear();
            threads_[start->pid].insert(start->tid);
        }
        for (; name != records.names.end() && name->ns <= ns; ++name)
            if (name->executed) threads_[name->pid] = {name->tid};
    };
    for (const ThreadEnd& end : records.ends) {
        begin_until(end.ns);
        const auto process = threads_.find(end.pid);
        if (process == threads_.end()) {
            if (end.tid == end.pid) ended.push_back(end);  // its start was lost
            continue;
        }
        if (process->second.erase(end.tid) == 0 || !process->second.empty()) continue;
        threads_.erase(process);
        ended.push_back(end);
    }
    begin_until(~std::uint64_t{0});
    return ended;
}

PerfEvents::Batch PerfEvents::read(bool rest) {
    const std::uint64_t until = rest ? ~std::uint64_t{0} : clock_ns() - million;
    const std::scoped_lock lock(mutex_);
    drain();
    pending_.sort_by_time();
    Batch batch{.records = pending_.take_until(until), .processes = {}, .lines = python_.take()};
    is_pending_ = !pending_.is_empty();
    batch.processes = process_ends(batch.records);
    std::erase_if(batch.records.starts, [](const ThreadStart& start) { return !start.is_process(); });
    std::erase_if(batch.records.names, [](const NameChange& change) { return change.tid != change.pid; });
    return batch;
}

std::uint64_t PerfEvents::counted() const {
    std::uint64_t sum = 0;
    for (const int counter : counters_) {
        std::uint64_t count = 0;
        if (::read(counter, &count, sizeof(count)) != sizeof(count)) fail("read");
        sum += count;
    }
    return sum;
}

}  // namespace firsttouch
