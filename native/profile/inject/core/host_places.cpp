#include "profile/inject/core/host_places.hpp"

#include <link.h>
#include <pthread.h>

#include <algorithm>
#include <mutex>

namespace firsttouch::inject {
namespace {

constexpr std::size_t most_stacks = 1024;

struct Stack {
    std::uint64_t start = 0, end = 0;
    bool contains(std::uint64_t address) const { return address - start < end - start; }
};
thread_local Stack own;
thread_local bool is_own_known = false;

// Of all threads that asked.
struct Stacks {
    std::mutex mutex;
    std::vector<Stack> known;
};
Stacks& stacks() {
    static Stacks& instance = *new Stacks;  // threads may ask while the process ends
    return instance;
}

// A thread that has ended may leave its stack to another, and so its range is replaced.
void find_own_stack() {
    is_own_known = true;
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    void* start = nullptr;
    std::size_t bytes = 0;
    if (pthread_attr_getstack(&attributes, &start, &bytes) == 0) {
        own.start = reinterpret_cast<std::uint64_t>(start);
        own.end = own.start + bytes;
    }
    pthread_attr_destroy(&attributes);
    const std::scoped_lock lock(stacks().mutex);
    std::erase_if(stacks().known, [](const Stack& of) { return of.start < own.end && own.start < of.end; });
    if (stacks().known.size() < most_stacks) stacks().known.push_back(own);
}

}  // namespace

bool HostPlaces::is_in_a_stack(std::uint64_t address) {
    if (!is_own_known) find_own_stack();
    if (own.contains(address)) return true;
    const std::scoped_lock lock(stacks().mutex);
    return std::ranges::any_of(stacks().known, [&](const Stack& stack) { return stack.contains(address); });
}

bool HostPlaces::is_in_data(std::uint64_t address) {
    find_data();
    const auto after = std::ranges::upper_bound(data_, address, {}, &Range::start);
    return after != data_.begin() && std::prev(after)->contains(address);
}

// Only if something was loaded or unloaded since the last time, which the first file tells.
void HostPlaces::find_data() {
    struct Search {
        HostPlaces& places;
        bool is_new = false;
    } search{*this};
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* data) {
            Search& search = *static_cast<Search*>(data);
            HostPlaces& places = search.places;
            if (!search.is_new) {
                if (places.loaded_ == info->dlpi_adds && places.unloaded_ == info->dlpi_subs) return 1;
                places.loaded_ = info->dlpi_adds, places.unloaded_ = info->dlpi_subs;
                places.data_.clear();
                search.is_new = true;
            }
            for (int i = 0; i < info->dlpi_phnum; ++i) {
                const auto& segment = info->dlpi_phdr[i];
                if (segment.p_type != PT_LOAD) continue;  // constants too
                const std::uint64_t start = info->dlpi_addr + segment.p_vaddr;
                places.data_.push_back({start, start + segment.p_memsz});
            }
            return 0;
        },
        &search);
    if (search.is_new) std::ranges::sort(data_, {}, &Range::start);
}

}  // namespace firsttouch::inject
