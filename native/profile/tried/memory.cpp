#include "profile/tried/memory.hpp"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <utility>

#include "profile/tried/allocator.hpp"
#include "profile/tried/driver.hpp"

namespace firsttouch::tried {

constinit thread_local int inside __attribute__((tls_model("initial-exec"))) = 0;

constinit std::atomic<Address> lowest_array{~Address{0}}, end_of_arrays{0};

namespace {

pthread_mutex_t plan_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

// Of what is allocated. Nobody calls the driver, whose own threads may allocate, while it is held.
class TableLock {
  public:
    TableLock() {
        while (held_.test_and_set(std::memory_order_acquire)) sched_yield();
    }
    ~TableLock() { held_.clear(std::memory_order_release); }
    TableLock(const TableLock&) = delete;
    TableLock& operator=(const TableLock&) = delete;

  private:
    static inline std::atomic_flag held_ = ATOMIC_FLAG_INIT;
    Inside inside_;
};

struct Table {
    std::map<Address, Block> blocks[2];  // by side
    std::map<std::uint64_t, std::uint32_t> ordinals;
    int next = 0;
};
Table& table() {
    static Table& instance = *new Table;  // programs free memory while they exit
    return instance;
}
std::map<Address, Block>& blocks(Side side) { return table().blocks[side == Side::device]; }

double seconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

char letter(Side side) { return side == Side::host ? 'h' : 'd'; }

std::map<Address, Block>::iterator at(Address address, Side side) {
    std::map<Address, Block>& all = blocks(side);
    const auto next = all.upper_bound(address);
    if (next == all.begin()) return all.end();
    const auto place = std::prev(next);
    return place->second.has(address) ? place : all.end();
}

void add_array(void* base, std::size_t bytes, const Known& known, int pair, bool is_ours) {
    if (base == nullptr) return;
    add({.base = reinterpret_cast<Address>(base), .bytes = bytes, .known = known, .pair = pair, .is_ours = is_ours},
        Side::host);
}

}  // namespace

PlanLock::PlanLock() { pthread_mutex_lock(&plan_mutex); }
PlanLock::~PlanLock() { pthread_mutex_unlock(&plan_mutex); }

std::optional<Block> find(Address address, Side side) {
    const TableLock lock;
    const auto place = at(address, side);
    return place == blocks(side).end() ? std::nullopt : std::optional(place->second);
}

bool has_array_of_ours() {
    const TableLock lock;
    return std::ranges::any_of(blocks(Side::host), [](const auto& entry) { return entry.second.is_ours; });
}

Known known_now(std::uint64_t bytes, Role role) {
    constexpr Known of_no_plan{1, 0};
    const Settings& plan = settings();
    if (plan.mode == Mode::run && !plan.sizes->contains(bytes) && is_this_thread_numbered()) return of_no_plan;
    const Inside inside;
    Known known{key_of_this_call(bytes, role), 0};
    if (known.key == 0) return known;
    if (plan.is_by_size && (role == Role::block || role == Role::page_locked))
        known.key = bytes << 1 | std::uint64_t{role == Role::page_locked};
    const TableLock lock;
    known.ordinal = table().ordinals[known.key]++;
    return known;
}

Address planned(const Known& known, std::uint64_t bytes, Side side, int& number) {
    number = -1;
    if (settings().mode != Mode::run || known.key == 0) return 0;
    const PlanLock lock;
    const Settings& plan = settings();
    if (plan.strategy == Strategy::page_locked) {
        const auto array = side == Side::host ? plan.arrays->find(known) : plan.arrays->end();
        return array != plan.arrays->end() && array->second == bytes ? get_memory(bytes, nullptr) : 0;
    }
    if (!plan.is_unified()) return 0;
    const auto& known_pairs = side == Side::host ? *plan.hosts : *plan.devices;
    const auto place = known_pairs.find(known);
    if (place == known_pairs.end()) return 0;
    Pair& pair = (*settings().pairs)[place->second];
    bool& has_had = side == Side::host ? pair.has_had_host : pair.has_had_device;
    if (has_had || bytes != (side == Side::host ? pair.host_bytes : pair.device_bytes)) return 0;
    if (pair.base == 0) pair.base = get_memory(pair.bytes(), &pair);
    if (pair.base == 0) give_up("no memory of %llu bytes could be had", static_cast<unsigned long long>(pair.bytes()));
    if (pair.users++ > 0) counts().joined_bytes += std::min(pair.host_bytes, pair.device_bytes);
    has_had = true, number = static_cast<int>(place->second);
    return pair.base;
}

void add(const Block& block, Side side) {
    const TableLock lock;
    Block& added = blocks(side)[block.base] = block;
    added.number = table().next++;
    if (side == Side::host) {
        lowest_array = std::min(lowest_array.load(), block.base);
        end_of_arrays = std::max(end_of_arrays.load(), block.base + block.bytes);
    } else if (!block.is_ours) {
        counts().device += block.bytes;
        counts().device_peak = std::max(counts().device_peak, counts().device);
    }
    const char letter_of_role = side == Side::host && block.is_page_locked ? 'p' : letter(side);
    note("A %c %d %016llx %u %llu %llx %.9f\n", letter_of_role, added.number,
         static_cast<unsigned long long>(block.known.key), block.known.ordinal,
         static_cast<unsigned long long>(block.bytes), static_cast<unsigned long long>(block.base), seconds());
}

void lock_pages(Address address, bool locks) {
    const TableLock lock;
    if (const auto place = at(address, Side::host); place != blocks(Side::host).end())
        place->second.is_page_locked = locks;
}

Released release(Address base, Side side, bool moves) {
    Block block;
    {
        const TableLock lock;
        const auto place = blocks(side).find(base);
        if (place == blocks(side).end()) return Released::unknown;
        block = place->second;
        blocks(side).erase(place);
        note("F %c %d %d %.9f\n", letter(side), block.number, int{moves}, seconds());
        if (side == Side::device && !block.is_ours) counts().device -= std::min(counts().device, block.bytes);
    }
    if (!block.is_ours) return Released::of_program;
    const PlanLock lock;
    if (block.pair < 0) return give_memory(base, block.bytes), Released::ours;
    if (side == Side::device) ask_driver<"cuCtxSynchronize">();  // as a free waits
    Pair& pair = (*settings().pairs)[static_cast<std::size_t>(block.pair)];
    if (--pair.users == 0) give_memory(std::exchange(pair.base, 0), pair.bytes());
    return Released::ours;
}

void* allocate_array(std::size_t bytes, std::size_t alignment, bool is_zero) {
    const Known known = known_now(bytes, Role::array);
    if (known.key == 0) return nullptr;
    const Inside inside;
    int pair = -1;
    void* base = reinterpret_cast<void*>(planned(known, bytes, Side::host, pair));
    const bool is_ours = base != nullptr;
    if (is_ours && is_zero) std::memset(base, 0, bytes);
    if (!is_ours)
        base = is_zero          ? next_allocator.calloc(bytes, 1)
               : alignment == 0 ? next_allocator.malloc(bytes)
                                : next_allocator.memalign(alignment, bytes);
    add_array(base, bytes, known, pair, is_ours);
    return base;
}

void* resize_array(void* address, const Block* array, std::size_t bytes) {
    const Known known = bytes < settings().least ? Known{} : known_now(bytes, Role::resized);
    const Inside inside;
    int pair = -1;
    void* base = known.key == 0 ? nullptr : reinterpret_cast<void*>(planned(known, bytes, Side::host, pair));
    const bool is_ours = base != nullptr;
    if (!is_ours && (array == nullptr || !array->is_ours)) {
        if (array != nullptr) release(array->base, Side::host, true);
        base = next_allocator.realloc(address, bytes);
    } else {
        if (!is_ours) base = next_allocator.malloc(bytes);
        if (base == nullptr) return nullptr;
        const std::size_t before = array != nullptr ? array->bytes : next_allocator.malloc_usable_size(address);
        std::memcpy(base, address, std::min(before, bytes));
        if (array == nullptr || release(array->base, Side::host, true) != Released::ours) next_allocator.free(address);
    }
    if (known.key != 0) add_array(base, bytes, known, pair, is_ours);
    return base;
}

}  // namespace firsttouch::tried
