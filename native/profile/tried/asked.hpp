// What is done when a program asks for memory and copies, by CUDA or HIP. `make` asks the driver for what the program
// asked for; variant 1 of a function has the default stream of the thread as stream 0.
#pragma once

#include <string.h>
#include <unistd.h>

#include <string_view>

#include "profile/tried/driver.hpp"
#include "profile/tried/memory.hpp"

namespace firsttouch::tried {

inline std::uint64_t hash_of(Address address, std::size_t bytes) {
    if (settings().has_shadow) return 0;  // which would take the look for the program's
    const auto* next = reinterpret_cast<const unsigned char*>(address);
    std::uint64_t hash = bytes, word = 0;
    for (; bytes >= sizeof word; bytes -= sizeof word, next += sizeof word) {
        memcpy(&word, next, sizeof word);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    for (; bytes > 0; --bytes, ++next) hash = (hash ^ *next) * 1099511628211u;
    return hash;
}

inline bool is_captured(Stream stream) {
    int status = 0;
    return stream != nullptr && ask_driver<"cuStreamIsCapturing">(stream, &status) == 0 && status != 0;
}

template <int variant>
Result wait_for(Stream stream) {
    const Stream of_thread = reinterpret_cast<Stream>(2);  // CU_STREAM_PER_THREAD
    return ask_driver<"cuStreamSynchronize">(stream == nullptr && variant == 1 ? of_thread : stream);
}

inline std::string_view worded(const std::optional<Block>& host) {
    return host ? "an array of the heap" : "memory that is no array of the heap";
}
inline Known known_of(const std::optional<Block>& block) { return block ? block->known : Known{}; }
inline bool is_paired(const std::optional<Block>& block) { return block && block->pair >= 0; }
// Memory of this library in the place of an array that the program did not lock itself.
inline bool stands_for_pageable(const std::optional<Block>& array) {
    return array && array->is_ours && !array->is_page_locked;
}

struct Sides {
    bool is_to_host;
    Address host, device;
    std::optional<Block> array, block;

    Sides(bool is_to_host, Address host, Address device)
        : is_to_host(is_to_host), host(host), device(device), array(find(host, Side::host)),
          block(find(device, Side::device)) {}

    bool has_pair() const { return is_paired(array) || is_paired(block); }
    bool is_foreseen() const { return settings().foreseen->contains({known_of(array), known_of(block), is_to_host}); }
    void check(std::size_t bytes) const {
        if (settings().is_unified() && has_pair() && !is_foreseen())
            leave("a copy of %zu bytes joins %s and a block of the device that the plan keeps apart", bytes,
                  worded(array).data());
    }
};

inline void check_within_device(Address target, Address source, std::size_t bytes) {
    if (!settings().is_unified()) return;
    const auto to = find(target, Side::device), from = find(source, Side::device);
    if ((is_paired(to) || is_paired(from)) && !settings().within->contains({known_of(from), known_of(to)}))
        leave("a copy of %zu bytes joins two blocks of the device, which it does not in the plain run", bytes);
}

// is_whole: its bytes follow each other on both sides.
struct Copied {
    std::size_t bytes;
    Stream stream;
    bool is_asynchronous, is_whole = true;
};

// A copy between host and device. `make` asks the driver for it.
template <int variant, class Make>
Result copy(const Sides& sides, const Copied& copied, Make make) {
    const auto [bytes, stream, is_asynchronous, is_whole] = copied;
    const bool is_page_locked = sides.array && sides.array->is_page_locked;
    const bool is_noted = settings().notes() && is_whole && !is_captured(stream);
    const bool is_one = settings().is_unified() && is_whole && sides.host == sides.device;
    std::uint64_t hash = 0;
    if (is_noted && !sides.is_to_host) {
        if (is_one) wait_for<variant>(stream);
        hash = hash_of(sides.host, bytes);
    }
    Result result = 0;
    if (is_one) {
        if (is_captured(stream)) leave("a copy between an array and its block is captured into a graph");
        counts().left_out += 1, counts().left_out_bytes += bytes;
        if (settings().strategy == Strategy::prefetch && (!sides.is_to_host || !is_asynchronous || !is_page_locked)) {
            constexpr int processor = -1;
            const int place = sides.is_to_host ? processor : settings().device;
            counts().refused_hints += ask_driver<"cuMemPrefetchAsync">(sides.host, bytes, place, stream) != 0;
        }
        // The wait stays: of a copy that blocks, and of one from the device to memory that is not locked.
        if (!is_asynchronous || (sides.is_to_host && !is_page_locked)) result = wait_for<variant>(stream);
    } else {
        sides.check(bytes);
        counts().made += 1, counts().made_bytes += bytes;
        result = make();
        // Copies from or to memory that is not locked have read or written the array when they return.
        if (is_asynchronous && result == 0 && stands_for_pageable(sides.array)) result = wait_for<variant>(stream);
    }
    if (is_noted && sides.is_to_host) {
        if (is_asynchronous) wait_for<variant>(stream);
        hash = hash_of(sides.host, bytes);
    }
    if (is_noted)
        note("C %c %d %zu %016llx\n", sides.is_to_host ? 'd' : 'u', static_cast<int>(gettid()), bytes,
             static_cast<unsigned long long>(hash));
    return result;
}

inline Address address_of(const void* pointer) { return reinterpret_cast<Address>(pointer); }

// Whether a copy is one that the plain run makes, where only the driver knows its sides: memory of a pair may be the
// array or its block.
inline void check_by_address(Address target, Address source, std::size_t bytes) {
    if (!settings().is_unified()) return;
    const Sides back(true, target, source), in(false, source, target);
    if (!back.has_pair() && !in.has_pair()) return;
    const bool is_within = settings().within->contains({known_of(back.block), known_of(in.block)});
    if (!is_within && !back.is_foreseen() && !in.is_foreseen()) (back.array ? back : in).check(bytes);
}

// A copy whose direction the driver finds out by its addresses, of which one that no block has is the host's.
template <int variant, class Make>
Result copy_by_address(Address target, Address source, const Copied& copied, Make make) {
    const auto from = find(source, Side::device), to = find(target, Side::device);
    if (from && to && target == source) {
        const int pair = from->pair;
        const bool is_to_host = pair >= 0 && (*settings().pairs)[static_cast<std::size_t>(pair)].is_copied_back;
        return copy<variant>({is_to_host, target, source}, copied, make);
    }
    if (from.has_value() != to.has_value())
        return copy<variant>({from.has_value(), from ? target : source, from ? source : target}, copied, make);
    check_by_address(target, source, copied.bytes);
    return make();
}

// One of the copies that are asked for together. They stay, and the plan keeps what they join apart. Returns whether
// the program may use its array when they were asked for.
inline bool is_batched_of_pageable(Address target, Address source, std::size_t bytes) {
    bool of_pageable = false;
    for (const Address address : {target, source})
        for (const Side side : {Side::host, Side::device})
            if (const auto block = find(address, side)) {
                of_pageable |= side == Side::host && stands_for_pageable(block);
                note("B %c %d\n", side == Side::host ? 'h' : 'd', block->number);
            }
    check_by_address(target, source, bytes);
    return of_pageable;
}

// A fill of a block that is also an array, which the plain run does not make, would destroy what the CPU has there.
inline void check_fill(Address target) {
    if (!settings().is_unified()) return;
    const auto block = find(target, Side::device), array = find(target, Side::host);
    const auto& filled = *settings().filled;
    if ((is_paired(block) || is_paired(array)) && !filled.contains(known_of(block)))
        leave("the program fills a block that is an array, too, which it does not in the plain run");
}

template <class Make>
Result allocate_block(Address* out, std::size_t bytes, Make make) {
    if (!is_watching() || bytes == 0) return make();
    const Known known = known_now(bytes, Role::block);
    if (known.key == 0) return make();
    int pair = -1;
    const Address base = planned(known, bytes, Side::device, pair);
    if (base != 0) {
        *out = base;
    } else if (settings().mode == Mode::run && settings().strategy == Strategy::managed_device) {
        constexpr Result out_of_memory = 2;
        const PlanLock lock;
        if ((*out = get_memory(bytes, nullptr)) == 0) return out_of_memory;
        add({.base = *out, .bytes = bytes, .known = known, .is_ours = true}, Side::device);
        return 0;
    } else if (const Result result = make(); result != 0) {
        return result;
    }
    add({.base = *out, .bytes = bytes, .known = known, .pair = pair, .is_ours = base != 0}, Side::device);
    return 0;
}

template <class Make>
Result allocate_page_locked(void** out, std::size_t bytes, Make make) {
    if (!is_watching() || bytes < settings().least) return make();
    const Known known = known_now(bytes, Role::page_locked);
    if (known.key == 0) return make();
    int pair = -1;
    const Address base = settings().is_unified() ? planned(known, bytes, Side::host, pair) : 0;
    if (base != 0)
        *out = reinterpret_cast<void*>(base);
    else if (const Result result = make(); result != 0)
        return result;
    add({.base = address_of(*out),
         .bytes = bytes,
         .known = known,
         .pair = pair,
         .is_page_locked = true,
         .is_ours = base != 0},
        Side::host);
    return 0;
}

inline bool is_given_back(Address address, Side side) {
    return is_watching() && address != 0 && release(address, side) == Released::ours;
}

// Memory of this library is not locked, nor is it unlocked: managed memory cannot be, other is already. What is wrong
// for the driver, CUDA's and HIP's, stays wrong.
template <class Make>
Result lock_array(void* address, Make make) {
    constexpr Result is_locked_already = 712;
    if (!is_watching()) return make();
    const auto array = find(address_of(address), Side::host);
    const bool is_ours = array && array->is_ours;
    if (is_ours && array->is_page_locked) return is_locked_already;
    const Result result = is_ours ? 0 : make();
    if (result == 0) lock_pages(address_of(address), true);
    return result;
}
template <class Make>
Result unlock_array(void* address, Make make) {
    constexpr Result is_not_locked = 713;
    if (!is_watching()) return make();
    const auto array = find(address_of(address), Side::host);
    if (array && array->is_ours && !array->is_page_locked) return is_not_locked;
    lock_pages(address_of(address), false);
    return array && array->is_ours ? ask_driver<"cuCtxSynchronize">() : make();
}

}  // namespace firsttouch::tried
