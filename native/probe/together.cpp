#include "probe/together.hpp"

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>

#include "device/host/memory.hpp"
#include "host/clock.hpp"

namespace firsttouch {
namespace {

constexpr std::uint64_t enough = 64;                // observed changes that prove that both agents were running
constexpr int max_launches = 20;                    // of a kernel until that many changes were seen
constexpr int attempts = 3;                         // if a reader saw no change, because it may not have been scheduled
constexpr std::uint64_t trips = 1000;               // round trips
constexpr double max_trip_seconds = 0.5;            // for all round trips
constexpr std::uint64_t stores = 1000;              // by the kernel whose stores the CPU reads
constexpr std::uint64_t pause = 20'000;             // steps of work between them: at least 100 us
constexpr std::uint64_t max_wait_ns = 300'000'000;  // time limit of a wait in a kernel
constexpr double max_answer_seconds = 2;            // for an answer of the kernel
constexpr double kernel_seconds = 0.02;             // target duration of a kernel over a half
constexpr std::size_t chunk_words = 512;            // words of its half that the CPU updates at a time
constexpr std::uint64_t stop_value = ~std::uint64_t{0};
constexpr std::size_t answer_word = 32;  // index: questions and answers are on separate cache lines

using Word = std::atomic_ref<std::uint64_t>;

// Memory that the CPU and kernels access by its address.
class SharedMemory {
  public:
    SharedMemory(Lab& lab, const Buffer& buffer) : lab_(lab), buffer_(buffer) {
        const AllocatorInfo& entry = lab.device().info(buffer.allocator());
        if (entry.cpu != Access::direct || entry.gpu != Access::direct)
            throw Unavailable("CPU and GPU cannot both access " + to_string(buffer.allocator()) +
                              " memory by its address");
        words_ = static_cast<std::uint64_t*>(buffer.block().host);
        try {  // the first kernel compiles the whole file; a failure says nothing about the memory
            lab.kernel("together", "count_changes");
        } catch (const VendorError& error) {
            throw Unavailable(error.what());
        }
        if (lab.shares_host_memory()) spins_ = std::uint64_t{1} << 27;
    }
    Lab& lab() { return lab_; }
    const Buffer& buffer() const { return buffer_; }
    Word word(std::size_t at) const { return Word(words_[at]); }
    std::uint64_t* words() const { return words_; }
    std::size_t size() const { return buffer_.size() / 8; }
    // Loads after which a kernel without a clock stops waiting. More if the device is a processor, where kernels share
    // the cores with other threads.
    std::uint64_t spins() const { return spins_; }

    void clear() { std::fill_n(words_, size(), 0); }
    Kernel& kernel(const std::string& entry) { return lab_.kernel("together", entry); }
    template <class... A>
    void launch(Grid grid, const std::string& entry, const A&... arguments) {
        const Argument list[] = {Argument(arguments)...};
        lab_.device().launch(lab_.stream(), kernel(entry), grid, list);
    }
    void wait() { lab_.device().wait(lab_.stream()); }

  private:
    Lab& lab_;
    const Buffer& buffer_;
    std::uint64_t* words_ = nullptr;
    std::uint64_t spins_ = std::uint64_t{1} << 20;
};

// A store that becomes visible at once: release alone may leave it in a write-combining buffer.
void publish(Word word, std::uint64_t value) {
    word.store(value, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

// Runs `round` repeatedly on another thread, from before the constructor returns until end() or destruction.
class BackgroundLoop {
  public:
    template <class Round>
    explicit BackgroundLoop(Round round)
        : thread_([this, round = std::move(round)](const std::stop_token& stop) mutable {
              started_.count_down();
              while (!stop.stop_requested()) round();
          }) {
        started_.wait();
    }
    BackgroundLoop(const BackgroundLoop&) = delete;
    BackgroundLoop& operator=(const BackgroundLoop&) = delete;
    void end() {
        thread_.request_stop();
        thread_.join();
    }

  private:
    std::latch started_{1};
    std::jthread thread_;
};

// Spins at first, then yields the processor, as Team does. Returns false if `done` is not true in time.
template <class Done>
bool wait_until(Done&& done) {
    const double start = now();
    for (int i = 0; !done(); ++i) {
        if (i > 20000) std::this_thread::yield();
        if (i % 1024 == 0 && now() - start > max_answer_seconds) return false;
    }
    return true;
}

std::uint64_t count_changes_seen_by_gpu(SharedMemory& memory) {
    memory.clear();
    memory.lab().clear_results();
    std::uint64_t value = 0;
    BackgroundLoop writer([&, word = memory.words()] {
        for (int i = 0; i < 64; ++i) publish(Word(*word), ++value);
    });
    memory.launch({1, 1}, "count_changes", memory.buffer(), std::uint64_t{0}, enough, max_wait_ns, memory.spins(),
                  memory.lab().results());
    memory.wait();
    writer.end();
    return memory.lab().read_results(1)[0];
}

// Counts only values before the last, which remains in memory after the kernel's end.
std::uint64_t count_changes_seen_by_cpu(SharedMemory& memory) {
    memory.clear();
    std::uint64_t last = 0, changes = 0;
    BackgroundLoop reader([&, word = memory.words()] {
        const std::uint64_t seen = Word(*word).load(std::memory_order_acquire);
        changes += seen > last && seen < stores;
        last = seen;
    });
    memory.launch({1, 1}, "store_rounds", memory.buffer(), std::uint64_t{0}, stores, pause, memory.lab().results());
    memory.wait();
    reader.end();
    return changes;
}

void measure_round_trips(SharedMemory& memory, Coherence& result) {
    memory.clear();
    memory.lab().clear_results();
    const Word question = memory.word(0), answer = memory.word(answer_word);
    memory.launch({1, 1}, "answer_rounds", memory.buffer(), std::uint64_t{0}, std::uint64_t{answer_word}, trips,
                  max_wait_ns, memory.spins(), memory.lab().results());
    const double asked = now();
    std::vector<double> taken;  // without the first, which includes the start of the kernel
    for (result.rounds = 0; result.rounds < trips && now() - asked < max_trip_seconds; ++result.rounds) {
        const double start = now();
        publish(question, result.rounds + 1);
        if (!wait_until([&] { return answer.load(std::memory_order_acquire) == result.rounds + 1; })) break;
        if (result.rounds > 0) taken.push_back(now() - start);
    }
    result.round_trip_ns = summarise(taken).median * 1e9;
    publish(question, stop_value);
    memory.wait();
    result.answered = memory.lab().read_results(1)[0];
}

// The GPU updates the half that starts at `gpu_first`, the CPU the other.
void add_to_halves(SharedMemory& memory, std::size_t gpu_first, Halves& result) {
    const std::size_t half = memory.size() / 2, cpu_first = half - gpu_first;
    const auto launch_passes = [&](std::uint64_t passes) {
        memory.lab().over(half, "together", "add_passes", memory.buffer(), std::uint64_t{gpu_first},
                          std::uint64_t{half}, passes);
    };
    memory.clear();
    launch_passes(1);  // lets pages migrate first
    const double once = device_seconds(memory.lab(), [&] { launch_passes(1); });
    const auto many = static_cast<std::uint64_t>(std::clamp(kernel_seconds / std::max(once, 1e-7), 1.0, 1e5));

    // The CPU counts pieces, not whole passes: with uncached loads a pass may take longer than the kernel.
    const std::size_t pieces = std::max<std::size_t>(1, half / chunk_words), length = half / pieces;
    std::atomic<std::uint64_t> done = 0;
    BackgroundLoop adder([&, mine = memory.words() + cpu_first] {
        auto* word = const_cast<volatile std::uint64_t*>(mine) + done.load(std::memory_order_relaxed) % pieces * length;
        for (std::size_t i = 0; i < length; ++i) word[i] = word[i] + 1;
        done.fetch_add(1, std::memory_order_release);
    });
    std::uint64_t before = 0;
    result.seconds += device_seconds(memory.lab(), [&] {
        before = done.load(std::memory_order_acquire);
        launch_passes(many);
    });
    const std::uint64_t during = done.load(std::memory_order_acquire) - before;
    adder.end();

    for (std::size_t i = 0; i < half; ++i) result.errors += memory.words()[gpu_first + i] != many + 2;
    for (std::size_t i = 0; i < pieces * length; ++i) {
        const std::uint64_t visits = done / pieces + (i / length < done % pieces ? 1 : 0);
        result.errors += memory.words()[cpu_first + i] != visits;
    }
    result.cpu_passes += static_cast<double>(during) / static_cast<double>(pieces);
    result.gpu_passes += static_cast<double>(many);
}

}  // namespace

Coherence try_coherence(Lab& lab, const Buffer& buffer) {
    SharedMemory memory(lab, buffer);
    Coherence result;
    for (int i = 0; i < attempts && result.gpu_saw == 0; ++i) result.gpu_saw = count_changes_seen_by_gpu(memory);
    for (int i = 0; i < attempts && result.cpu_saw == 0; ++i) result.cpu_saw = count_changes_seen_by_cpu(memory);
    if (result.gpu_saw > 0 && result.cpu_saw > 0) measure_round_trips(memory, result);
    return result;
}

Halves try_halves(Lab& lab, const Buffer& buffer) {
    SharedMemory memory(lab, buffer);
    Halves result;
    add_to_halves(memory, 0, result);
    add_to_halves(memory, memory.size() / 2, result);
    return result;
}

SharedAdds try_shared_adds(Lab& lab, const Buffer& buffer) {
    SharedMemory memory(lab, buffer);
    memory.clear();
    lab.clear_results();
    SharedAdds result;
    std::uint64_t last = 0;
    std::atomic<std::uint64_t> mixed = 0;
    BackgroundLoop adder([&, word = memory.words()] {
        const std::uint64_t before = Word(*word).fetch_add(1, std::memory_order_relaxed);
        if (before != last) mixed.fetch_add(1, std::memory_order_relaxed);
        last = before + 1;
        ++result.by_cpu;
    });
    for (int i = 0; i < max_launches && mixed.load(std::memory_order_relaxed) < enough; ++i) {
        memory.launch({4, 64}, "add_shared", buffer, std::uint64_t{1 << 14}, std::uint64_t{50'000'000}, lab.results());
        memory.wait();
    }
    adder.end();
    result.mixed = mixed;
    result.by_gpu = lab.read_results(1)[0];
    result.sum = memory.word(0).load();
    return result;
}

Moves try_moves(Lab& lab, const Buffer& buffer, std::uint64_t seed) {
    SharedMemory memory(lab, buffer);
    Moves result{.page_bytes = base_page, .pages = buffer.size() / base_page};
    const auto present = [&] { return pages_present(memory.words(), buffer.size()); };
    const auto node = [&] {
        const int number = residency(memory.words(), buffer.size()).numa_node;
        return number < 0 ? std::nullopt : std::optional<int>(number);
    };
    const auto count = [](const std::vector<bool>& pages) {
        return static_cast<std::size_t>(std::count(pages.begin(), pages.end(), true));
    };
    const auto touch = [&](std::uint64_t first_page, std::uint64_t pages) {
        const std::uint64_t words = base_page / 8;
        lab.over(pages, "together", "retouch_pages", buffer, first_page * words, pages, words);
        memory.wait();
    };
    lab.fill(buffer, seed, Agent::cpu);
    const std::vector<bool> before = present();
    result.present = count(before);
    if (result.present == 0)
        throw Unavailable("the kernel shows no page of this mapping, although the CPU wrote all of it");
    result.node_before = node();
    const auto left = [&](const std::vector<bool>& after) {
        std::vector<bool> gone(before.size());
        for (std::size_t i = 0; i < gone.size(); ++i) gone[i] = before[i] && !after[i];
        return gone;
    };
    result.touched = result.pages / 8 * 5;
    touch(result.touched, 1);
    const std::vector<bool> by_one = left(present());
    result.left_by_one = count(by_one);
    if (by_one[result.touched]) {
        std::size_t first = result.touched, end = result.touched;
        while (first > 0 && by_one[first - 1]) --first;
        while (end < by_one.size() && by_one[end]) ++end;
        result.region_first = first;
        result.region = end - first;
    }
    touch(0, result.pages);
    result.left_by_all = count(left(present()));
    result.node_by_all = node();
    result.errors = lab.check(buffer, seed, Agent::cpu);
    result.back = count(present());
    return result;
}

}  // namespace firsttouch
