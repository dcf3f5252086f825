#include "probe/access.hpp"

namespace firsttouch {
namespace {

// The buffer as passed to a kernel: the vendor's object if there is one, otherwise the address, even if it is only a
// host address.
Block as_kernel_sees(const Buffer& buffer) {
    Block block = buffer.block();
    if (block.address == 0) block.address = reinterpret_cast<std::uintptr_t>(block.host);
    if (block.host == nullptr) block.host = reinterpret_cast<void*>(block.address);
    block.bytes = 0;  // does not own the memory
    return block;
}

class KernelAccess {
  public:
    KernelAccess(Lab& lab, const Buffer& buffer)
        : lab_(lab), buffer_(lab.device(), {}, as_kernel_sees(buffer)), words_(buffer.size() / 8) {}
    void fill(std::uint64_t seed) {
        lab_.over(words_, "pattern", "fill_words", buffer_, words_, seed);
        lab_.device().wait(lab_.stream());
    }
    std::uint64_t check(std::uint64_t seed) {
        lab_.clear_results();
        lab_.over(words_, "pattern", "check_words", buffer_, words_, seed, lab_.results());
        lab_.device().wait(lab_.stream());  // an error here is the kernel's
        return lab_.read_results(1)[0];
    }

  private:
    Lab& lab_;
    const Buffer buffer_;
    std::uint64_t words_;
};

std::uint64_t check_copy(Lab& lab, const Buffer& buffer, std::uint64_t seed) {
    const auto copy = lab.device().allocate(Allocator::malloc, buffer.size());
    lab.device().copy(lab.stream(), *copy, 0, buffer, 0, buffer.size());
    lab.device().wait(lab.stream());
    return lab.check(*copy, seed, Agent::cpu);
}

std::uint64_t try_cpu(Lab& lab, const Buffer& buffer, std::uint64_t seed) {
    const Block& block = buffer.block();
    auto* words =
        static_cast<std::uint64_t*>(block.host != nullptr ? block.host : reinterpret_cast<void*>(block.address));
    if (words == nullptr) throw Unavailable("the memory has an address only while it is mapped");
    const std::uint64_t count = buffer.size() / 8;
    std::uint64_t errors = 0;
    run_on_host("fill_words", 1, words, count, seed);
    run_on_host("check_words", 1, static_cast<const std::uint64_t*>(words), count, seed, &errors);
    if (lab.reaches(Agent::gpu, buffer)) errors += KernelAccess(lab, buffer).check(seed);
    return errors;
}

std::uint64_t try_gpu(Lab& lab, const Buffer& buffer, std::uint64_t seed) {
    const bool shared = lab.reaches(Agent::cpu, buffer);
    KernelAccess access(lab, buffer);
    std::uint64_t errors = 0;
    if (shared) {
        lab.fill(buffer, seed + 1, Agent::cpu);
        errors += access.check(seed + 1);
    }
    access.fill(seed);
    return errors + access.check(seed) + (shared ? lab.check(buffer, seed, Agent::cpu) : check_copy(lab, buffer, seed));
}

}  // namespace

std::uint64_t try_access(Lab& lab, const Buffer& buffer, Agent agent, std::uint64_t seed) {
    return agent == Agent::cpu ? try_cpu(lab, buffer, seed) : try_gpu(lab, buffer, seed);
}

}  // namespace firsttouch
