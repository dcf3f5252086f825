// The driver's calls. The environment's STANDIN is the path of the stand-in for CUPTI, through which they are played;
// without it nothing is called back; if FIRSTTOUCH_EXACT is set, STANDIN_SANITIZER is that of the one for the Sanitizer
// API. CUDA_INJECTION64_PATH is loaded first, as the driver does. Other variables:
//   STANDIN_CUDA_MEMORY     bytes of the device's memory; 64 GiB by default
//   STANDIN_CUDA_DEVICES    how many devices there are; 1 by default
//   STANDIN_CUDA_LATE       1: the device does nothing before the program waits for it, as late as CUDA allows, so that
//   a
//                           program that does not wait where it has to reads old data
//   STANDIN_CUDA_FUNCTIONS  1: launches carry functions instead of kernels, so that cuFuncGetParamInfo takes them
#include "cuda_driver.hpp"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>

#include "cuda_calls.hpp"
#include "cuda_code.hpp"

namespace played {

namespace {

thread_local int current_device = 0;

constexpr std::size_t granule = 512, arena = 2 << 20;  // small blocks are parts of larger ones

struct Functions {
    void (*init)() = nullptr;
    int (*call)(std::uint32_t, const char*, const void*, int (*)(void*), void*) = nullptr;
    void (*launches)(const char*) = nullptr;
    void (*memory)(int, int, std::uint64_t, std::uint64_t, const char*, int) = nullptr;
    void (*copied)(int, int, int, std::uint64_t, std::uint32_t) = nullptr;
    void (*fill)(std::uint64_t) = nullptr;
    void (*ran)(const char*, const std::uint32_t*, const std::uint32_t*, std::uint32_t) = nullptr;
    void (*uses)(const void*, std::uint64_t, unsigned) = nullptr;  // of the Sanitizer API alone
};

struct Block {
    std::size_t bytes;
    Memory memory;
};
struct Symbol {
    const char* name;
    std::size_t bytes;
    Address* address;
    bool is_managed;
};

struct State {
    std::mutex mutex;
    std::deque<std::function<void()>> to_do;  // of a device that is late
    Functions cupti;
    std::map<Address, Block> blocks;
    std::multimap<std::size_t, Address> free_parts;
    Address part = 0, parts_end = 0;
    std::size_t used = 0;
    std::vector<Symbol> symbols;  // not loaded yet
    std::atomic<bool> has_code{false};
    std::deque<Kernel> kernels;
    std::map<std::string, std::vector<Parameter>> parameters;  // of kernels in code
};
State& state() {
    static State& instance = *new State;  // programs free memory while they exit
    return instance;
}

std::size_t total_memory() {
    const char* const text = std::getenv("STANDIN_CUDA_MEMORY");
    return text == nullptr ? std::size_t{64} << 30 : std::stoull(text);
}

void* needed(void* library, const char* name) {
    void* const address = library == nullptr ? nullptr : dlsym(library, name);
    if (address == nullptr) std::fprintf(stderr, "the stand-in for CUDA: %s\n", dlerror()), std::exit(99);
    return address;
}

// As the driver does it within cuInit.
void connect() {
    const bool is_exact = std::getenv("FIRSTTOUCH_EXACT") != nullptr;
    if (const char* const path = std::getenv(is_exact ? "STANDIN_SANITIZER" : "STANDIN");
        path != nullptr && *path != '\0') {
        void* const library = dlopen(path, RTLD_NOW);
        Functions& cupti = state().cupti;
        const auto find = [library](auto& function, const char* name) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(needed(library, name));
        };
        find(cupti.init, "standin_init"), find(cupti.call, "standin_call"), find(cupti.launches, "standin_launches");
        find(cupti.memory, "standin_memory"), find(cupti.copied, "standin_copied"), find(cupti.fill, "standin_fill");
        find(cupti.ran, "standin_ran");
        if (is_exact) find(cupti.uses, "standin_uses");
    }
    if (const char* const path = std::getenv("CUDA_INJECTION64_PATH"); path != nullptr && *path != '\0')
        if (void* const library = dlopen(path, RTLD_NOW); library != nullptr)
            reinterpret_cast<int (*)()>(needed(library, "InitializeInjection"))();
    if (state().cupti.init != nullptr) state().cupti.init();
}

std::uint32_t number(const Stream* stream) {  // 7 is CUPTI's number of the default stream
    return stream == nullptr ? 7 : 8 + static_cast<std::uint32_t>(reinterpret_cast<Address>(stream) / 16 % 1'000'000);
}

Address map_pages(std::size_t bytes) {
    void* const address =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return address == MAP_FAILED ? 0 : reinterpret_cast<Address>(address);
}

// Device addresses are used anew as soon as a block of the same size needs them.
Address take(std::size_t bytes) {
    State& s = state();
    if (const auto kept = s.free_parts.find(bytes); kept != s.free_parts.end()) {
        const Address address = kept->second;
        s.free_parts.erase(kept);
        return address;
    }
    if (bytes >= arena / 2) return map_pages(bytes);
    if (s.parts_end - s.part < bytes) s.part = map_pages(arena), s.parts_end = s.part == 0 ? 0 : s.part + arena;
    return s.part == 0 ? 0 : std::exchange(s.part, s.part + bytes);
}

int begin(Address* out, std::size_t bytes, Memory memory, const char* name = nullptr) {
    const std::size_t whole = (std::max<std::size_t>(bytes, 1) + granule - 1) / granule * granule;
    {
        State& s = state();
        const std::scoped_lock lock(s.mutex);
        if (memory == device && s.used + whole > total_memory()) return out_of_memory;
        *out = memory == device || memory == device_static ? take(whole) : map_pages(whole);
        if (*out == 0) return out_of_memory;
        if (memory == device) s.used += whole;
        s.blocks[*out] = {bytes, memory};
    }
    if (state().cupti.memory != nullptr) state().cupti.memory(1, memory, *out, bytes, name, current_device);
    return success;
}

int end(Address address) {
    Block block{};
    {
        State& s = state();
        const std::scoped_lock lock(s.mutex);
        const auto found = s.blocks.find(address);
        if (found == s.blocks.end()) return address == 0 ? success : invalid_value;
        block = found->second;
        s.blocks.erase(found);
        const std::size_t whole = (std::max<std::size_t>(block.bytes, 1) + granule - 1) / granule * granule;
        if (block.memory == device) s.used -= whole, s.free_parts.emplace(whole, address);
        if (block.memory == managed || block.memory == pinned) munmap(reinterpret_cast<void*>(address), whole);
    }
    if (state().cupti.memory != nullptr)
        state().cupti.memory(2, block.memory, address, block.bytes, nullptr, current_device);
    return success;
}

int load(const std::vector<Symbol>& symbols) {
    return call<cuLibraryLoadData>({}, [&] {
        for (const Symbol& symbol : symbols)
            begin(symbol.address, symbol.bytes, symbol.is_managed ? managed_static : device_static, symbol.name);
        return success;
    });
}

void load_code() {
    std::vector<Symbol> symbols;
    {
        const std::scoped_lock lock(state().mutex);
        symbols.swap(state().symbols);
        state().has_code = false;
    }
    load(symbols);
}

void record(const Copy& copy, std::size_t bytes) {
    if (state().cupti.copied == nullptr) return;
    state().cupti.copied(copy.direction, memory_at(copy.source), memory_at(copy.target), bytes, number(copy.stream));
}

watched::Side2D side(Address address, std::size_t pitch, bool is_host) {
    if (is_host) return {0, 0, 1, reinterpret_cast<void*>(address), 0, nullptr, pitch};
    return {0, 0, 2, nullptr, address, nullptr, pitch};
}

}  // namespace

int play(std::uint32_t id, const char* name, const void* parameters, int (*body)(void*), void* user) {
    return state().cupti.call == nullptr ? body(user) : state().cupti.call(id, name, parameters, body, user);
}

namespace {

bool is_late() {
    const char* const text = std::getenv("STANDIN_CUDA_LATE");
    return text != nullptr && std::strcmp(text, "1") == 0;
}

// The device does some work, now or before the next wait.
int begin_work(std::function<void()> work) {
    if (!is_late()) return work(), success;
    const std::scoped_lock lock(state().mutex);
    state().to_do.push_back(std::move(work));
    return success;
}

int wait_for_work() {
    static std::mutex working;  // who waits, waits also for what another thread has begun
    const std::scoped_lock turn(working);
    for (;;) {
        std::function<void()> work;
        {
            const std::scoped_lock lock(state().mutex);
            if (state().to_do.empty()) return success;
            work = std::move(state().to_do.front());
            state().to_do.pop_front();
        }
        work();
    }
}

void copy_bytes(const Copy& copy, const void* source) {
    std::memmove(reinterpret_cast<void*>(copy.target), source, copy.bytes);
    record(copy, copy.bytes);
}

}  // namespace

// As the manual says under "API synchronization behavior": of memory that is not locked, what a copy to the device
// brings is read at once, and a copy to the host waits. Of managed memory it says nothing, so that no copy waits for
// it.
int run(const Copy& copy) {
    const void* const source = reinterpret_cast<const void*>(copy.source);
    const Memory of_host = memory_at(copy.direction == to_host ? copy.target : copy.source);
    const bool is_to_plain = copy.direction == to_host && of_host == pageable;
    const bool waits = is_to_plain || (copy.direction != on_device && of_host != managed && !copy.is_asynchronous);
    if (waits) return wait_for_work(), copy_bytes(copy, source), success;
    if (copy.direction == to_device && memory_at(copy.source) == pageable) {
        const char* const first = static_cast<const char*>(source);
        return begin_work(
            [copy, bytes = std::vector<char>(first, first + copy.bytes)] { copy_bytes(copy, bytes.data()); });
    }
    return begin_work([copy, source] { copy_bytes(copy, source); });
}
int run(const Launch& launch) {
    std::vector<std::vector<char>> values;
    for (std::size_t i = 0; i < launch.kernel->parameters.size() && is_late(); ++i) {
        const char* const value = static_cast<const char*>(launch.arguments[i]);
        values.emplace_back(value, value + launch.kernel->parameters[i].bytes);
    }
    return begin_work([launch, values]() mutable {
        std::vector<void*> arguments;
        for (std::vector<char>& value : values) arguments.push_back(value.data());
        if (launch.kernel->body != nullptr) launch.kernel->body(values.empty() ? launch.arguments : arguments.data());
        if (state().cupti.ran != nullptr)
            state().cupti.ran(launch.kernel->name.c_str(), &launch.grid.x, &launch.block.x, number(launch.stream));
    });
}
int run_fill(Address target, unsigned char value, std::size_t bytes) {
    return begin_work([=] {
        std::memset(reinterpret_cast<void*>(target), value, bytes);
        if (state().cupti.fill != nullptr) state().cupti.fill(bytes);
    });
}
bool launches_carry_functions() {
    const char* const text = std::getenv("STANDIN_CUDA_FUNCTIONS");
    return text != nullptr && std::strcmp(text, "1") == 0;
}

int devices() {
    const char* const text = std::getenv("STANDIN_CUDA_DEVICES");
    return text == nullptr ? 1 : std::stoi(text);
}

int use_device(int device) {
    if (device < 0 || device >= devices()) return 101;
    current_device = device;
    return success;
}

int initialise() {
    static std::recursive_mutex mutex;  // other threads wait until a profiler is loaded, which may call the driver
    static bool is_connected = false;
    {
        const std::scoped_lock lock(mutex);
        if (!std::exchange(is_connected, true)) connect();
    }
    if (state().has_code) load_code();
    return success;
}

int allocate(Address* address, std::size_t bytes) {
    watched::Address out = 0;
    const cuMemAlloc_v2::Parameters parameters{&out, bytes};
    const int result = call<cuMemAlloc_v2>(parameters, [&] {
        const int code = begin(address, bytes, device);
        out = *address;
        return code;
    });
    return result;
}
int allocate_pitched(Address* address, std::size_t* pitch, std::size_t width, std::size_t height) {
    watched::Address out = 0;
    const cuMemAllocPitch_v2::Parameters parameters{&out, pitch, width, height, 4};
    return call<cuMemAllocPitch_v2>(parameters, [&] {
        *pitch = (width + granule - 1) / granule * granule;
        const int code = begin(address, *pitch * height, device);
        out = *address;
        return code;
    });
}
int allocate_on_stream(Address* address, std::size_t bytes, Stream* stream) {
    watched::Address out = 0;
    const cuMemAllocAsync::Parameters parameters{&out, bytes, stream};
    return call<cuMemAllocAsync>(parameters, [&] {
        const int code = begin(address, bytes, device);
        out = *address;
        return code;
    });
}
int allocate_managed(Address* address, std::size_t bytes, unsigned flags) {
    watched::Address out = 0;
    const cuMemAllocManaged::Parameters parameters{&out, bytes, flags};
    return call<cuMemAllocManaged>(parameters, [&] {
        const int code = begin(address, bytes, managed);
        out = *address;
        return code;
    });
}
int allocate_pinned(void** address, std::size_t bytes, unsigned flags) {
    const cuMemHostAlloc::Parameters parameters{address, bytes, flags};
    return call<cuMemHostAlloc>(parameters, [&] {
        Address begun = 0;
        const int code = begin(&begun, bytes, pinned);
        *address = reinterpret_cast<void*>(begun);
        return code;
    });
}
int release(Address address) {
    return call<cuMemFree_v2>({address}, [&] { return wait_for_work(), end(address); });
}
int release_all() {
    wait_for_work();
    std::vector<Address> addresses;
    {
        const std::scoped_lock lock(state().mutex);
        for (const auto& [address, block] : state().blocks)
            if (block.memory == device || block.memory == managed || block.memory == pinned)
                addresses.push_back(address);
    }
    for (const Address address : addresses) end(address);
    return success;
}
int release_on_stream(Address address, Stream* stream) {
    return call<cuMemFreeAsync>({address, stream}, [&] { return end(address); });
}
int release_pinned(void* address) {
    return call<cuMemFreeHost>({address}, [&] { return wait_for_work(), end(reinterpret_cast<Address>(address)); });
}
int lock(void* address, std::size_t bytes, unsigned flags) {
    return call<cuMemHostRegister_v2>({address, bytes, flags}, [&] {
        const Address begun = reinterpret_cast<Address>(address);
        {
            const std::scoped_lock held(state().mutex);
            if (!state().blocks.try_emplace(begun, Block{bytes, pinned}).second) return locked_already;
        }
        if (state().cupti.memory != nullptr) state().cupti.memory(1, pinned, begun, bytes, nullptr, current_device);
        return success;
    });
}
int unlock(void* address) {
    return call<cuMemHostUnregister>({address}, [&] {
        wait_for_work();
        const Address begun = reinterpret_cast<Address>(address);
        std::size_t bytes = 0;
        {
            const std::scoped_lock held(state().mutex);
            const auto found = state().blocks.find(begun);
            if (found == state().blocks.end()) return not_locked;
            bytes = found->second.bytes;
            state().blocks.erase(found);
        }
        if (state().cupti.memory != nullptr) state().cupti.memory(2, pinned, begun, bytes, nullptr, current_device);
        return success;
    });
}

int copy(const Copy& copy) {
    const auto [target, source, bytes, direction, is_asynchronous, stream, is_direction_known] = copy;
    const auto work = [&copy] { return capture(copy) ? success : run(copy); };
    void* const to = reinterpret_cast<void*>(target);
    const void* const from = reinterpret_cast<const void*>(source);
    if (bytes == 0) return success;
    if (!is_direction_known || direction == on_host) {
        if (is_asynchronous) return call<cuMemcpyAsync>({target, source, bytes, stream}, work);
        return call<cuMemcpy>({target, source, bytes}, work);
    }
    if (is_asynchronous) {
        if (direction == to_device) return call<cuMemcpyHtoDAsync_v2>({target, from, bytes, stream}, work);
        if (direction == to_host) return call<cuMemcpyDtoHAsync_v2>({to, source, bytes, stream}, work);
        return call<cuMemcpyDtoDAsync_v2>({target, source, bytes, stream}, work);
    }
    if (direction == to_device) return call<cuMemcpyHtoD_v2>({target, from, bytes}, work);
    if (direction == to_host) return call<cuMemcpyDtoH_v2>({to, source, bytes}, work);
    return call<cuMemcpyDtoD_v2>({target, source, bytes}, work);
}

// Without a call that is played, as CUPTI leaves out those within its own.
int copy_now(Address target, Address source, std::size_t bytes) {
    if (memory_at(source) == pageable || memory_at(source + bytes - 1) == pageable) return invalid_value;
    wait_for_work();
    return std::memcpy(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), bytes), success;
}

int copy_rows(const Copy& copy, const Rows& rows) {
    const watched::Copy2D written{side(copy.source, rows.source_pitch, copy.direction == to_device),
                                  side(copy.target, rows.target_pitch, copy.direction == to_host), copy.bytes,
                                  rows.count};
    const auto work = [&] {
        wait_for_work();
        for (std::size_t i = 0; i < rows.count; ++i)
            std::memmove(reinterpret_cast<void*>(copy.target + i * rows.target_pitch),
                         reinterpret_cast<const void*>(copy.source + i * rows.source_pitch), copy.bytes);
        record(copy, copy.bytes * rows.count);
        return success;
    };
    if (copy.is_asynchronous) return call<cuMemcpy2DAsync_v2>({&written, copy.stream}, work);
    return call<cuMemcpy2DUnaligned_v2>({&written}, work);
}

int copy_slices(const watched::Copy3D& slices) {
    const auto begin = [](const watched::Side3D& side) {
        const Address base = side.type == watched::host_memory ? reinterpret_cast<Address>(side.host) : side.device;
        return base + (side.z * side.height + side.y) * side.pitch + side.x;
    };
    const Direction direction = slices.source.type == watched::host_memory   ? to_device
                                : slices.target.type == watched::host_memory ? to_host
                                                                             : on_device;
    const Copy copy{begin(slices.target), begin(slices.source), slices.width, direction, false, nullptr};
    return call<cuMemcpy3D_v2>({&slices}, [&] {
        wait_for_work();
        for (std::size_t z = 0; z < slices.depth; ++z)
            for (std::size_t y = 0; y < slices.height; ++y)
                std::memmove(
                    reinterpret_cast<void*>(copy.target + (z * slices.target.height + y) * slices.target.pitch),
                    reinterpret_cast<const void*>(copy.source + (z * slices.source.height + y) * slices.source.pitch),
                    copy.bytes);
        record(copy, copy.bytes * slices.height * slices.depth);
        return success;
    });
}
int copy_between(Address target, Address source, std::size_t bytes) {
    const Copy copy{target, source, bytes, on_device, false, nullptr};
    return call<cuMemcpyPeer>({target, nullptr, source, nullptr, bytes}, [&] { return run(copy); });
}
int copy_batch(const Address* targets, const Address* sources, const std::size_t* sizes, std::size_t count,
               Stream* stream) {
    const std::vector<watched::Address> to(targets, targets + count), from(sources, sources + count);
    const cuMemcpyBatchAsync_v2::Parameters parameters{to.data(), from.data(), sizes, count,
                                                       nullptr,   nullptr,     0,     stream};
    return call<cuMemcpyBatchAsync_v2>(parameters, [&] {
        for (std::size_t i = 0; i < count; ++i) {
            const Direction direction = memory_at(sources[i]) == pageable   ? to_device
                                        : memory_at(targets[i]) == pageable ? to_host
                                                                            : on_device;
            run({targets[i], sources[i], sizes[i], direction, true, stream});
        }
        return success;
    });
}

int fill(Address target, unsigned char value, std::size_t bytes, bool is_asynchronous, Stream* stream) {
    const auto work = [&] {
        return capture_fill(stream, target, value, bytes) ? success : run_fill(target, value, bytes);
    };
    if (is_asynchronous) return call<cuMemsetD8Async>({target, value, bytes, stream}, work);
    return call<cuMemsetD8_v2>({target, value, bytes}, work);
}

int prefetch(Address address, std::size_t bytes, int place, int device, Stream* stream) {
    const cuMemPrefetchAsync_v2::Parameters parameters{address, bytes, {place, device}, 0, stream};
    return call<cuMemPrefetchAsync_v2>(parameters, [] { return success; });
}
int find_symbol(const char* name, Address* address, std::size_t* bytes) {
    watched::Address out = 0;
    return call<cuLibraryGetGlobal>({&out, bytes, &state(), name}, [&] {
        const std::scoped_lock lock(state().mutex);
        const auto found = state().blocks.find(*address);
        if (found == state().blocks.end()) return not_found;
        out = *address;
        if (bytes != nullptr) *bytes = found->second.bytes;
        return success;
    });
}
int advise(Address address, std::size_t bytes, int advice, int place, int device) {
    const cuMemAdvise_v2::Parameters parameters{address, bytes, advice, {place, device}};
    return call<cuMemAdvise_v2>(parameters, [] { return success; });
}

int launch(const Launch& launch) {
    const auto& [kernel, grid, block, arguments, shared_bytes, stream, is_cooperative] = launch;
    const auto work = [&launch] { return capture(launch) ? success : run(launch); };
    if (state().cupti.launches != nullptr) state().cupti.launches(kernel->name.c_str());
    if (is_cooperative)
        return call<cuLaunchCooperativeKernel>(
            {kernel, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes, stream, arguments}, work);
    return call<cuLaunchKernel>(
        {kernel, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes, stream, arguments, nullptr},
        work);
}

int wait_for_context() {
    return call<cuCtxSynchronize>({}, [] { return wait_for_work(); });
}
int wait_for_stream(Stream* stream) {
    return call<cuStreamSynchronize>({stream}, [] { return wait_for_work(); });
}
int wait_for_event(Event* event) {
    return call<cuEventSynchronize>({event}, [] { return wait_for_work(); });
}
int memory_info(std::size_t* free, std::size_t* total) {
    return call<cuMemGetInfo_v2>({free, total}, [&] {
        const std::scoped_lock lock(state().mutex);
        *total = total_memory(), *free = *total - state().used;
        return success;
    });
}

namespace {

const std::pair<const Address, Block>* block_at(Address address) {
    const auto next = state().blocks.upper_bound(address);
    if (next == state().blocks.begin()) return nullptr;
    const auto& found = *std::prev(next);
    return address < found.first + std::max<std::size_t>(found.second.bytes, 1) ? &found : nullptr;
}

}  // namespace

Memory memory_at(Address address) {
    const std::scoped_lock lock(state().mutex);
    const auto* const found = block_at(address);
    return found == nullptr ? pageable : found->second.memory;
}
Range range_at(Address address) {
    const std::scoped_lock lock(state().mutex);
    const auto* const found = block_at(address);
    return found == nullptr ? Range{0, 0} : Range{found->first, found->second.bytes};
}

void add_code(const void* code) {
    auto parameters = parameters_of(code);
    const std::scoped_lock lock(state().mutex);
    state().parameters.merge(parameters);
    state().has_code = true;
}
Kernel* add_kernel(const std::string& name) {
    const std::scoped_lock lock(state().mutex);
    return &state().kernels.emplace_back(Kernel{name, state().parameters[name]});
}
void add_symbol(const char* name, std::size_t bytes, Address* address, bool is_managed) {
    const std::scoped_lock lock(state().mutex);
    state().symbols.push_back({name, bytes, address, is_managed});
    state().has_code = true;
}

}  // namespace played

using namespace played;

namespace {

int parameter_info(const Kernel* kernel, std::size_t index, std::size_t* offset, std::size_t* bytes) {
    if (index >= kernel->parameters.size()) return invalid_value;
    *offset = kernel->parameters[index].offset;
    if (bytes != nullptr) *bytes = kernel->parameters[index].bytes;
    return success;
}

}  // namespace

DRIVER cuFuncGetParamInfo(const Kernel* function, std::size_t index, std::size_t* offset, std::size_t* bytes) {
    return launches_carry_functions() ? parameter_info(function, index, offset, bytes) : int{invalid_handle};
}
DRIVER cuKernelGetParamInfo(const Kernel* kernel, std::size_t index, std::size_t* offset, std::size_t* bytes) {
    return launches_carry_functions() ? int{invalid_handle} : parameter_info(kernel, index, offset, bytes);
}
DRIVER cuFuncGetName(const char** name, const Kernel* function) {
    return launches_carry_functions() ? (*name = function->name.c_str(), success) : invalid_handle;
}
DRIVER cuKernelGetName(const char** name, const Kernel* kernel) {
    return launches_carry_functions() ? invalid_handle : (*name = kernel->name.c_str(), success);
}

// A kernel of a test says that it uses memory: 1 reads, 2 writes.
extern "C" __attribute__((visibility("default"))) void standin_uses(const void* address, std::size_t bytes,
                                                                    unsigned how) {
    if (state().cupti.uses != nullptr) state().cupti.uses(address, bytes, how);
}
