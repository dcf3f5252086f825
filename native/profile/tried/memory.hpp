#pragma once

#include <atomic>
#include <optional>

#include "profile/tried/call_chain.hpp"
#include "profile/tried/tried.hpp"

namespace firsttouch::tried {

// An allocation that is watched. pair: its number in the plan, -1 for none. is_ours: its memory is this library's.
// is_page_locked: by the program itself.
struct Block {
    Address base = 0;
    std::uint64_t bytes = 0;
    Known known;
    int number = 0, pair = -1;
    bool is_page_locked = false, is_ours = false;

    bool has(Address address) const { return address - base < bytes; }
};

std::optional<Block> find(Address address, Side side);
// Of all arrays that were watched so far.
extern constinit std::atomic<Address> lowest_array, end_of_arrays;
// Whether an address may be one of an array that is watched. Takes no lock.
inline bool may_be_array(Address address) {
    return address < end_of_arrays.load(std::memory_order_acquire) && address >= lowest_array && is_watching();
}

// The allocation that is made now, by its callers; a key of 0 is that of one which is not watched. Callers are not
// looked for where the plan names none of that size.
Known known_now(std::uint64_t bytes, Role role);
// The memory that the plan gives an allocation, and its pair; 0 if it gives none.
Address planned(const Known& known, std::uint64_t bytes, Side side, int& pair);
void add(const Block& block, Side side);
void lock_pages(Address address, bool locks);

enum class Released { unknown, of_program, ours };
// The program gives an allocation back, or it moves. If it is `ours`, nothing is left to do.
Released release(Address base, Side side, bool moves = false);

// What malloc returns: memory that is watched, or null if the C library is to answer.
void* allocate_array(std::size_t bytes, std::size_t alignment, bool is_zero);
// What realloc returns. array: null if the memory is not watched so far.
void* resize_array(void* address, const Block* array, std::size_t bytes);

}  // namespace firsttouch::tried
