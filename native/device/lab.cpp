#include "device/lab.hpp"

#include <algorithm>
#include <cstring>

#include "device/host/memory.hpp"

namespace firsttouch {
namespace {

constexpr std::size_t result_bytes = 64 * 1024;

// Bytes after a buffer's last whole word hold the first bytes of the pattern's first word.
std::uint64_t first_word(std::uint64_t seed) {
    std::uint64_t value = 0;
    run_on_host("fill_words", 1, &value, std::uint64_t{1}, seed);
    return value;
}

}  // namespace

Stream& Lab::stream() {
    if (stream_ == nullptr) stream_ = device_.stream();
    return *stream_;
}

Kernel& Lab::kernel(const std::string& source, const std::string& entry, const Defines& defines) {
    return timed_kernel(false, source, entry, defines);
}

Kernel& Lab::timed_kernel(bool counted, const std::string& source, const std::string& entry, const Defines& defines) {
    const std::string name = (counted ? "counted_" : "") + entry;
    std::string key = source + "/" + name;
    for (const auto& [macro, value] : defines) key += " " + macro + "=" + value;
    auto& known = kernels_[key];
    if (known == nullptr) {
        Source code = kernel_source(source, defines);
        if (const std::size_t at = code.text.find("KERNEL " + entry + "("); counted && at != std::string::npos)
            code.text.insert(at + std::string("KERNEL ").size(), "counted_");
        known = device_.kernel(code, name);
    }
    return *known;
}

Grid Lab::grid_for(std::uint64_t n) const {
    // Kernels use grid-stride loops, so the grid is bounded: this many blocks fill the largest device.
    constexpr std::uint32_t threads = 256, max_blocks = 8192;
    return {static_cast<std::uint32_t>(std::clamp<std::uint64_t>((n + threads - 1) / threads, 1, max_blocks)), threads};
}

bool Lab::shares_host_memory() {
    for (const auto& [key, value] : device_.facts())
        if (key == "shares_host_memory") return std::get<bool>(value);
    return false;
}

bool Lab::reaches(Agent agent, const Buffer& buffer) {
    const AllocatorInfo& entry = buffer.device().info(buffer.allocator());
    return (agent == Agent::cpu ? entry.cpu : entry.gpu) != Access::none;
}

Buffer& Lab::results() {
    if (results_ == nullptr) {
        const auto has = [&](Allocator a) {
            for (const auto& entry : device_.allocators())
                if (entry.allocator == a) return true;
            return false;
        };
        results_ = device_.allocate(has(Allocator::device) ? Allocator::device : Allocator::malloc, result_bytes);
    }
    return *results_;
}

Buffer& Lab::board() {
    if (board_ != nullptr) return *board_;
    for (const auto& entry : device_.allocators())
        if (entry.available && entry.concurrent == true && !entry.managed && entry.cpu == Access::direct &&
            entry.gpu == Access::direct) {
            board_ = device_.allocate(entry.allocator, result_bytes);
            std::memset(board_->block().host, 0, result_bytes);
            return *board_;
        }
    throw Unavailable(device_.name() + " has no memory in which the CPU and a running kernel see each other's stores");
}

bool Lab::is_foreign(const Buffer& buffer) {
    if (&buffer.device() == &device_) return false;
    if (stream_ != nullptr) device_.wait(*stream_);
    return true;
}

void Lab::write(const Buffer& buffer, std::size_t offset, const void* bytes, std::size_t count) {
    if (is_foreign(buffer)) return Lab(buffer.device()).write(buffer, offset, bytes, count);
    const auto staging = device_.allocate(Allocator::malloc, count);
    std::memcpy(staging->block().host, bytes, count);
    device_.copy(stream(), buffer, offset, *staging, 0, count);
    device_.wait(stream());
}

void Lab::read(const Buffer& buffer, std::size_t offset, void* bytes, std::size_t count) {
    if (is_foreign(buffer)) return Lab(buffer.device()).read(buffer, offset, bytes, count);
    constexpr std::size_t most = std::size_t{64} << 20;  // pages of a large staging buffer would all be new
    const auto staging = device_.allocate(Allocator::malloc, std::min(count, most));
    for (std::size_t done = 0, piece = 0; done < count; done += piece) {
        piece = std::min(count - done, most);
        device_.copy(stream(), *staging, 0, buffer, offset + done, piece);
        device_.wait(stream());
        std::memcpy(static_cast<char*>(bytes) + done, staging->block().host, piece);
    }
}

void Lab::clear_results() {
    const std::vector<std::uint64_t> zeros(result_bytes / 8, 0);
    write(results(), 0, zeros.data(), result_bytes);
}

std::vector<std::uint64_t> Lab::read_results(std::size_t words) {
    std::vector<std::uint64_t> values(words);
    read(results(), 0, values.data(), words * 8);
    return values;
}

std::uint64_t Lab::device_address(const Buffer& buffer) {
    if (const std::uint64_t address = device_.kernel_address(buffer); address != 0) return address;
    over(1, "walk", "address_of", buffer, results());
    return read_results(1)[0];
}

void Lab::fill(const Buffer& buffer, std::uint64_t seed, Agent agent) {
    if (is_foreign(buffer)) return Lab(buffer.device()).fill(buffer, seed, agent);
    const std::uint64_t words = buffer.size() / 8, tail = buffer.size() % 8;
    if (agent == Agent::gpu) {
        if (words > 0) over(words, "pattern", "fill_words", buffer, words, seed);
        device_.wait(stream());
    }
    if (agent == Agent::cpu) {
        const HostView view(buffer);
        if (words > 0) run_on_host("fill_words", 0, view.as<std::uint64_t>(), words, seed);
    }
    if (tail > 0) {
        const std::uint64_t last = first_word(seed);
        write(buffer, words * 8, &last, tail);
    }
}

std::uint64_t Lab::check(const Buffer& buffer, std::uint64_t seed, Agent agent) {
    if (is_foreign(buffer)) return Lab(buffer.device()).check(buffer, seed, agent);
    const std::uint64_t words = buffer.size() / 8, tail = buffer.size() % 8;
    std::uint64_t errors = 0;
    if (agent == Agent::gpu && words > 0) {
        clear_results();
        over(words, "pattern", "check_words", buffer, words, seed, results());
        errors = read_results(1)[0];
    }
    if (agent == Agent::cpu && words > 0) {
        const HostView view(buffer);
        run_on_host("check_words", 0, static_cast<const std::uint64_t*>(view.as<std::uint64_t>()), words, seed,
                    &errors);
    }
    if (tail > 0) {
        const std::uint64_t expected = first_word(seed);
        std::uint64_t word = expected;
        read(buffer, words * 8, &word, tail);
        errors += word != expected;
    }
    return errors;
}

}  // namespace firsttouch
