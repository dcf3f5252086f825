#include "profile/inject/host_places.hpp"

#include <link.h>
#include <pthread.h>

#include <algorithm>

namespace firsttouch::inject {
namespace {

constexpr std::size_t most_stacks = 1024;

struct Stack {
    bool is_known = false;
    std::uint64_t start = 0, end = 0;
};
thread_local Stack own;

void find_own_stack() {
    own.is_known = true;
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    void* start = nullptr;
    std::size_t bytes = 0;
    if (pthread_attr_getstack(&attributes, &start, &bytes) == 0) {
        own.start = reinterpret_cast<std::uint64_t>(start);
        own.end = own.start + bytes;
    }
    pthread_attr_destroy(&attributes);
}

}  // namespace

// A thread that has ended may leave its stack to another, and so its range is replaced.
bool HostPlaces::is_in_a_stack(std::uint64_t address) {
    if (!own.is_known) {
        find_own_stack();
        std::erase_if(stacks_, [](const Range& other) { return other.start < own.end && own.start < other.end; });
        if (stacks_.size() < most_stacks) stacks_.push_back({own.start, own.end});
    }
    if (address - own.start < own.end - own.start) return true;
    return std::ranges::any_of(stacks_, [&](const Range& stack) { return stack.contains(address); });
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
                if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) continue;
                const std::uint64_t start = info->dlpi_addr + segment.p_vaddr;
                places.data_.push_back({start, start + segment.p_memsz});
            }
            return 0;
        },
        &search);
    if (search.is_new) std::ranges::sort(data_, {}, &Range::start);
}

}  // namespace firsttouch::inject
