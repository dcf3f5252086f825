#include "profile/tried/queries.hpp"

#include <mutex>
#include <set>

#include "profile/tried/driver.hpp"

namespace firsttouch::tried {
namespace {

constexpr std::size_t least_bytes = 64;

Address block_like_others() {
    static const Address block = [] {
        Address base = 0;
        return ask_driver<"cuMemAlloc_v2">(&base, least_bytes) == 0 ? base : 0;
    }();
    return block;
}
Address page_locked_like_others() {
    static const Address array = [] {
        void* base = nullptr;
        return ask_driver<"cuMemHostAlloc">(&base, least_bytes, 0u) == 0 ? reinterpret_cast<Address>(base) : 0;
    }();
    return array;
}
Address array_like_others() {
    alignas(least_bytes) static char array[least_bytes];
    return reinterpret_cast<Address>(array);
}

// Where both are there, who asks is known by its callers.
Side side_of(const std::optional<Block>& array, const std::optional<Block>& block, std::uint64_t caller) {
    if (!array || !block) return array ? Side::host : Side::device;
    const auto known = settings().queried->find(caller);
    if (known == settings().queried->end())
        leave("the program asks of what kind memory is that is an array and a block now, and the plain run does not "
              "tell which of both is meant");
    return known->second;
}

void note_query(std::uint64_t caller, Side side) {
    static std::mutex mutex;
    static std::set<std::pair<std::uint64_t, Side>>& noted = *new std::set<std::pair<std::uint64_t, Side>>;
    const Inside inside;
    const std::scoped_lock lock(mutex);
    if (noted.emplace(caller, side).second)
        note("Q %c %016llx\n", side == Side::host ? 'h' : 'd', static_cast<unsigned long long>(caller));
}

}  // namespace

std::optional<Query> query_of(Address address) {
    if (!is_watching()) return std::nullopt;
    const auto array = find(address, Side::host), block = find(address, Side::device);
    if (!array && !block) return std::nullopt;
    const auto caller = [] {
        const Inside inside;
        return key_of_this_call(0, Role::query);
    };
    if (settings().mode == Mode::record) return note_query(caller(), array ? Side::host : Side::device), std::nullopt;
    if (!(array && array->is_ours) && !(block && block->is_ours)) return std::nullopt;
    const Side side = side_of(array, block, array && block ? caller() : 0);
    if (side == Side::device) return Query{address, block_like_others(), *block};
    return Query{address, array->is_page_locked ? page_locked_like_others() : array_like_others(), *array};
}

void answer(const Query& query, int attribute, void* value) {
    constexpr int device_pointer = 3, host_pointer = 4, range_start = 11, range_bytes = 12;
    if (value == nullptr) return;
    Address& number = *static_cast<Address*>(value);  // of the attributes that follow
    if (attribute == device_pointer || attribute == host_pointer) number = query.translated(number);
    if (attribute == range_start && number != 0) number = query.block.base;
    if (attribute == range_bytes && number != 0) number = query.block.bytes;
}

}  // namespace firsttouch::tried
