#include "probe/together.hpp"

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>

#include "device/host/memory.hpp"
#include "host/clock.hpp"

namespace firsttouch {
namespace {

constexpr std::uint64_t enough = 64;               // observed changes that show that both agents were running
constexpr int most_launches = 20;                  // until that many were seen
constexpr int attempts = 3;                        // if a reader saw nothing: it may not have been scheduled
constexpr std::uint64_t trips = 1000;              // round trips
constexpr double trip_seconds = 0.5;               // most seconds for them
constexpr std::uint64_t stores = 1000;             // of the kernel that the CPU watches
constexpr std::uint64_t pause = 20'000;            // steps of work between them: at least 100 us
constexpr std::uint64_t longest_ns = 300'000'000;  // that a kernel waits
constexpr double patience = 2;                     // seconds that the CPU waits for an answer
constexpr double kernel_seconds = 0.02;            // target duration of a kernel over a half
constexpr std::size_t piece = 512;                 // words that the CPU takes at a time in its half
constexpr std::uint64_t give_up = ~std::uint64_t{0};
constexpr std::size_t apart = 32;  // words between the words that the two agents store to

using Word = std::atomic_ref<std::uint64_t>;

// Zeroed memory that the CPU and kernels access by its address.
class Both {
  public:
    Both(Lab& lab, const Buffer& buffer) : lab_(lab), buffer_(buffer) {
        const AllocatorInfo& entry = lab.device().info(buffer.allocator());
        if (entry.cpu != Access::direct || entry.gpu != Access::direct)
            throw Unavailable("not both agents use " + to_string(buffer.allocator()) + " memory by its address");
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
    // Loads after which a kernel without a clock stops waiting. More on a processor, where a kernel is a thread
    // among others.
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
class Meanwhile {
  public:
    template <class Round>
    explicit Meanwhile(Round round)
        : thread_([this, round = std::move(round)](const std::stop_token& stop) mutable {
              begun_.count_down();
              while (!stop.stop_requested()) round();
          }) {
        begun_.wait();
    }
    Meanwhile(const Meanwhile&) = delete;
    Meanwhile& operator=(const Meanwhile&) = delete;
    void end() {
        thread_.request_stop();
        thread_.join();
    }

  private:
    std::latch begun_{1};
    std::jthread thread_;
};

// Waits like Team: spins at first, then yields the processor.
template <class Done>
bool wait_until(Done&& done) {
    const double start = now();
    for (int i = 0; !done(); ++i) {
        if (i > 20000) std::this_thread::yield();
        if (i % 1024 == 0 && now() - start > patience) return false;
    }
    return true;
}

std::uint64_t changes_the_gpu_sees(Both& both) {
    both.clear();
    both.lab().clear_results();
    std::uint64_t value = 0;
    Meanwhile writer([&, word = both.words()] {
        for (int i = 0; i < 64; ++i) publish(Word(*word), ++value);
    });
    both.launch({1, 1}, "count_changes", both.buffer(), std::uint64_t{0}, enough, longest_ns, both.spins(),
                both.lab().results());
    both.wait();
    writer.end();
    return both.lab().read_results(1)[0];
}

// Only values between the first and the last count: the last stays after the kernel's end.
std::uint64_t changes_the_cpu_sees(Both& both) {
    both.clear();
    std::uint64_t last = 0, changes = 0;
    Meanwhile reader([&, word = both.words()] {
        const std::uint64_t seen = Word(*word).load(std::memory_order_acquire);
        changes += seen > last && seen < stores;
        last = seen;
    });
    both.launch({1, 1}, "store_rounds", both.buffer(), std::uint64_t{0}, stores, pause, both.lab().results());
    both.wait();
    reader.end();
    return changes;
}

void ask_and_answer(Both& both, Coherence& found) {
    both.clear();
    both.lab().clear_results();
    const Word ball = both.word(0), answer = both.word(apart);
    both.launch({1, 1}, "answer_rounds", both.buffer(), std::uint64_t{0}, std::uint64_t{apart}, trips, longest_ns,
                both.spins(), both.lab().results());
    const double asked = now();
    std::vector<double> taken;  // the first waits for the kernel to start
    for (found.rounds = 0; found.rounds < trips && now() - asked < trip_seconds; ++found.rounds) {
        const double start = now();
        publish(ball, found.rounds + 1);
        if (!wait_until([&] { return answer.load(std::memory_order_acquire) == found.rounds + 1; })) break;
        if (found.rounds > 0) taken.push_back(now() - start);
    }
    found.round_trip_ns = summarise(taken).median * 1e9;
    publish(ball, give_up);
    both.wait();
    found.answered = both.lab().read_results(1)[0];
}

// The GPU works on the half that starts at `gpu_first`, the CPU on the other.
void add_to_halves(Both& both, std::size_t gpu_first, Halves& found) {
    const std::size_t half = both.size() / 2, cpu_first = half - gpu_first;
    const auto passes_over = [&](std::uint64_t passes) {
        both.lab().over(half, "together", "add_passes", both.buffer(), std::uint64_t{gpu_first}, std::uint64_t{half},
                        passes);
    };
    both.clear();
    passes_over(1);  // lets pages migrate first
    const double once = device_seconds(both.lab(), [&] { passes_over(1); });
    const auto many = static_cast<std::uint64_t>(std::clamp(kernel_seconds / std::max(once, 1e-7), 1.0, 1e5));

    // The CPU counts pieces, not whole passes: with uncached loads a pass may take longer than the kernel.
    const std::size_t pieces = std::max<std::size_t>(1, half / piece), length = half / pieces;
    std::atomic<std::uint64_t> done = 0;
    Meanwhile adder([&, mine = both.words() + cpu_first] {
        auto* word = const_cast<volatile std::uint64_t*>(mine) + done.load(std::memory_order_relaxed) % pieces * length;
        for (std::size_t i = 0; i < length; ++i) word[i] = word[i] + 1;
        done.fetch_add(1, std::memory_order_release);
    });
    std::uint64_t before = 0;
    found.seconds += device_seconds(both.lab(), [&] {
        before = done.load(std::memory_order_acquire);
        passes_over(many);
    });
    const std::uint64_t during = done.load(std::memory_order_acquire) - before;
    adder.end();

    for (std::size_t i = 0; i < half; ++i) found.errors += both.words()[gpu_first + i] != many + 2;
    for (std::size_t i = 0; i < pieces * length; ++i) {
        const std::uint64_t visits = done / pieces + (i / length < done % pieces ? 1 : 0);
        found.errors += both.words()[cpu_first + i] != visits;
    }
    found.cpu_passes += static_cast<double>(during) / static_cast<double>(pieces);
    found.gpu_passes += static_cast<double>(many);
}

}  // namespace

Coherence try_coherence(Lab& lab, const Buffer& buffer) {
    Both both(lab, buffer);
    Coherence found;
    for (int i = 0; i < attempts && found.gpu_saw == 0; ++i) found.gpu_saw = changes_the_gpu_sees(both);
    for (int i = 0; i < attempts && found.cpu_saw == 0; ++i) found.cpu_saw = changes_the_cpu_sees(both);
    if (found.gpu_saw > 0 && found.cpu_saw > 0) ask_and_answer(both, found);
    return found;
}

Halves try_halves(Lab& lab, const Buffer& buffer) {
    Both both(lab, buffer);
    Halves found;
    add_to_halves(both, 0, found);
    add_to_halves(both, both.size() / 2, found);
    return found;
}

SharedAdds try_shared_adds(Lab& lab, const Buffer& buffer) {
    Both both(lab, buffer);
    both.clear();
    lab.clear_results();
    SharedAdds found;
    std::uint64_t last = 0;
    std::atomic<std::uint64_t> mixed = 0;
    Meanwhile adder([&, word = both.words()] {
        const std::uint64_t before = Word(*word).fetch_add(1, std::memory_order_relaxed);
        if (before != last) mixed.fetch_add(1, std::memory_order_relaxed);
        last = before + 1;
        ++found.by_cpu;
    });
    for (int i = 0; i < most_launches && mixed.load(std::memory_order_relaxed) < enough; ++i) {
        both.launch({4, 64}, "add_shared", buffer, std::uint64_t{1 << 14}, std::uint64_t{50'000'000}, lab.results());
        both.wait();
    }
    adder.end();
    found.mixed = mixed;
    found.by_gpu = lab.read_results(1)[0];
    found.sum = both.word(0).load();
    return found;
}

Moves try_moves(Lab& lab, const Buffer& buffer, std::uint64_t seed) {
    Both both(lab, buffer);
    Moves found{.page_bytes = base_page, .pages = buffer.size() / base_page};
    const auto present = [&] { return pages_present(both.words(), buffer.size()); };
    const auto node = [&] {
        const int number = residency(both.words(), buffer.size()).numa_node;
        return number < 0 ? std::nullopt : std::optional<int>(number);
    };
    const auto count = [](const std::vector<bool>& pages) {
        return static_cast<std::size_t>(std::count(pages.begin(), pages.end(), true));
    };
    const auto touch = [&](std::uint64_t first_page, std::uint64_t pages) {
        const std::uint64_t words = base_page / 8;
        lab.over(pages, "together", "retouch_pages", buffer, first_page * words, pages, words);
        both.wait();
    };
    lab.fill(buffer, seed, Agent::cpu);
    const std::vector<bool> before = present();
    found.present = count(before);
    if (found.present == 0) throw Unavailable("the kernel shows no page of this mapping, though the CPU wrote it all");
    found.node_before = node();
    const auto left = [&](const std::vector<bool>& after) {
        std::vector<bool> gone(before.size());
        for (std::size_t i = 0; i < gone.size(); ++i) gone[i] = before[i] && !after[i];
        return gone;
    };
    found.touched = found.pages / 8 * 5;
    touch(found.touched, 1);
    const std::vector<bool> by_one = left(present());
    found.left_by_one = count(by_one);
    if (by_one[found.touched]) {
        std::size_t first = found.touched, end = found.touched;
        while (first > 0 && by_one[first - 1]) --first;
        while (end < by_one.size() && by_one[end]) ++end;
        found.region_first = first;
        found.region = end - first;
    }
    touch(0, found.pages);
    found.left_by_all = count(left(present()));
    found.node_by_all = node();
    found.errors = lab.check(buffer, seed, Agent::cpu);
    found.back = count(present());
    return found;
}

}  // namespace firsttouch
