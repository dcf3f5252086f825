// What kernels call that hip_kernels.py compiled for the processor: where a work-item is, barriers, what those of a
// wave exchange, mathematical functions, and printf. A group's work-items run one after another, each on a stack of its
// own, and switch at barriers; groups run one after another. A wave has 64 work-items. An exchange takes place when all
// of a wave have come to one, to a barrier or to their end.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" void standin_switch(void** save, void* load);
asm(R"(
.globl standin_switch
.hidden standin_switch
standin_switch:
    push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp
    ret
)");

namespace {

using Size3 = std::array<unsigned, 3>;
constexpr unsigned wave = 64;
constexpr std::size_t stack_bytes = 256 << 10;

enum class State { ready, at_barrier, exchanges, ended };
struct Item {
    char* stack = nullptr;
    void* place = nullptr;
    State state = State::ready;
    Size3 id{};
    std::uint64_t given = 0;
    unsigned lane = 0;         // that it asks
    std::uint64_t active = 0;  // those that exchange with it
};
std::vector<Item> items;
std::vector<std::uint64_t> given(1024);
unsigned current = 0;
Size3 group{}, groups{}, group_size{};
void* launcher = nullptr;
void (*kernel)(void**) = nullptr;
void** arguments = nullptr;

void leave(State state) {
    Item& mine = items[current];
    mine.state = state;
    standin_switch(&mine.place, launcher);
}
void begin() {
    for (;;) {
        kernel(arguments);
        leave(State::ended);
    }
}

void prepare(unsigned count) {
    while (items.size() < count) {
        Item item;
        void* const at = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) std::abort();
        item.stack = static_cast<char*>(at);
        void** const top = reinterpret_cast<void**>(item.stack + stack_bytes - 16);
        top[-2] = reinterpret_cast<void*>(&begin);  // whose frame is aligned as if it had been called
        item.place = top - 8;
        items.push_back(item);
    }
    given.resize(std::max<std::size_t>(given.size(), count));
}

// Lets those of a wave that wait for an exchange go on. False: none does.
bool exchange(unsigned first, unsigned end) {
    std::uint64_t active = 0;
    for (unsigned i = first; i < end; ++i) {
        if (items[i].state == State::exchanges) active |= std::uint64_t(1) << (i - first);
        given[i] = items[i].given;
    }
    for (unsigned i = first; i < end; ++i)
        if (items[i].state == State::exchanges) items[i].state = State::ready, items[i].active = active;
    return active != 0;
}

void run_group(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
        items[i].id = {i % group_size[0], i / group_size[0] % group_size[1], i / group_size[0] / group_size[1]};
        items[i].state = State::ready;
    }
    for (;;) {
        bool goes_on = false;
        for (unsigned first = 0; first < count; first += wave) {
            const unsigned end = std::min(count, first + wave);
            do
                for (current = first; current < end; ++current)
                    if (items[current].state == State::ready) standin_switch(&launcher, items[current].place);
            while (exchange(first, end));
        }
        for (unsigned i = 0; i < count; ++i)
            if (items[i].state == State::at_barrier) items[i].state = State::ready, goes_on = true;
        if (!goes_on) return;
    }
}

// Of the lanes that take part.
std::uint64_t lanes(bool (*is_one)(std::uint64_t)) {
    const unsigned first = current / wave * wave;
    std::uint64_t found = 0;
    for (unsigned lane = 0; lane < wave; ++lane)
        if ((items[current].active >> lane & 1) != 0 && is_one(given[first + lane])) found |= std::uint64_t(1) << lane;
    return found;
}
std::uint64_t give(std::uint64_t value) {
    items[current].given = value;
    leave(State::exchanges);
    return items[current].active;
}

}  // namespace

extern "C" void standin_launch(void (*f)(void**), const unsigned* grid, const unsigned* block, void** a) {
    groups = {grid[0], grid[1], grid[2]};
    group_size = {block[0], block[1], block[2]};
    const unsigned count = block[0] * block[1] * block[2];
    prepare(count);
    kernel = f;
    arguments = a;
    for (unsigned z = 0; z < grid[2]; ++z)
        for (unsigned y = 0; y < grid[1]; ++y)
            for (unsigned x = 0; x < grid[0]; ++x) {
                group = {x, y, z};
                run_group(count);
            }
}

// ---------------------------------------------------------------------------------------------------------- places

extern "C" {
std::uint64_t __ockl_get_group_id(unsigned i) { return group[i]; }
std::uint64_t __ockl_get_local_id(unsigned i) { return items[current].id[i]; }
std::uint64_t __ockl_get_local_size(unsigned i) { return group_size[i]; }
std::uint64_t __ockl_get_num_groups(unsigned i) { return groups[i]; }
std::uint64_t __ockl_get_global_size(unsigned i) { return std::uint64_t(groups[i]) * group_size[i]; }
std::uint64_t __ockl_get_global_id(unsigned i) {
    return std::uint64_t(group[i]) * group_size[i] + items[current].id[i];
}
int __ockl_mul24_i32(int a, int b) { return (int(unsigned(a) << 8) >> 8) * (int(unsigned(b) << 8) >> 8); }
void __atomic_work_item_fence(unsigned, unsigned, unsigned) {}
std::uint32_t id_x() asm("standin.amdgcn.workitem.id.x");
std::uint32_t id_x() { return items[current].id[0]; }
void barrier() asm("standin.amdgcn.s.barrier");
void barrier() { leave(State::at_barrier); }
void wave_barrier() asm("standin.amdgcn.wave.barrier");
void wave_barrier() { give(0); }
void sleep(unsigned) asm("standin.amdgcn.s.sleep");
void sleep(unsigned) {}
std::uint32_t mask_below(std::uint32_t mask, std::uint32_t more) asm("standin.amdgcn.mbcnt.lo");
std::uint32_t mask_below(std::uint32_t mask, std::uint32_t more) {
    const unsigned lane = current % wave;
    return more + unsigned(__builtin_popcount(lane >= 32 ? mask : mask & ((1u << lane) - 1)));
}
std::uint32_t mask_above(std::uint32_t mask, std::uint32_t more) asm("standin.amdgcn.mbcnt.hi");
std::uint32_t mask_above(std::uint32_t mask, std::uint32_t more) {
    const unsigned lane = current % wave;
    return lane < 32 ? more : more + unsigned(__builtin_popcount(mask & ((1u << (lane - 32)) - 1)));
}
std::uint32_t permute(std::uint32_t from, std::uint32_t value) asm("standin.amdgcn.ds.bpermute");
std::uint32_t permute(std::uint32_t from, std::uint32_t value) {
    const std::uint64_t active = give(value);
    const unsigned lane = from / 4 % wave;
    return (active >> lane & 1) != 0 ? std::uint32_t(given[current / wave * wave + lane]) : 0;
}
std::uint32_t first_lane(std::uint32_t value) asm("standin.amdgcn.readfirstlane");
std::uint32_t first_lane(std::uint32_t value) {
    const std::uint64_t active = give(value);
    return std::uint32_t(given[current / wave * wave + unsigned(__builtin_ctzll(active))]);
}
std::uint64_t ballot(bool value) asm("standin.amdgcn.ballot.i64");
std::uint64_t ballot(bool value) {
    give(value ? 1 : 0);
    return lanes([](std::uint64_t of) { return of != 0; });
}
std::uint64_t unequal(std::uint32_t a, std::uint32_t b, std::uint32_t) asm("standin.amdgcn.icmp.i64.i32");
std::uint64_t unequal(std::uint32_t a, std::uint32_t b, std::uint32_t) { return ballot(a != b); }
std::uint64_t __ockl_fprintf_stderr_begin() { return 2; }

// A printf comes in pieces: a format, and arguments of eight bytes each.
struct Printed {
    std::string format;
    std::vector<std::string> texts;
    std::vector<std::uint64_t> words;
};
static Printed printed;
static void print(FILE* to) {
    std::size_t word = 0, text = 0;
    const std::string& format = printed.format;
    for (std::size_t at = 0; at < format.size(); ++at) {
        if (format[at] != '%' || at + 1 == format.size() || format[at + 1] == '%') {
            std::fputc(format[at], to);
            at += format[at] == '%' ? 1 : 0;
            continue;
        }
        const std::size_t end = format.find_first_of("diouxXcsfFeEgGaAp", at);
        if (end == std::string::npos) return;
        std::string one = format.substr(at, end - at + 1);
        const bool is_text = one.back() == 's', is_real = std::strchr("fFeEgGaA", one.back()) != nullptr;
        if (is_text) {
            std::fprintf(to, one.c_str(), text < printed.texts.size() ? printed.texts[text++].c_str() : "");
        } else {
            const std::uint64_t value = word < printed.words.size() ? printed.words[word++] : 0;
            double real = 0;
            std::memcpy(&real, &value, sizeof real);
            if (is_real)
                std::fprintf(to, one.c_str(), real);
            else
                std::fprintf(to, one.c_str(), value);
        }
        at = end;
    }
}
std::uint64_t __ockl_printf_begin(std::uint64_t) { return printed = {}, 1; }
std::uint64_t __ockl_printf_append_string_n(std::uint64_t to, const char* text, std::uint64_t bytes, unsigned last) {
    const std::string one(text, bytes == 0 ? 0 : bytes - 1);
    if (printed.format.empty())
        printed.format = one;
    else
        printed.texts.push_back(one);
    if (last != 0) print(to == 2 ? stderr : stdout);
    return to;
}
std::uint64_t __ockl_printf_append_args(std::uint64_t to, unsigned count, std::uint64_t a, std::uint64_t b,
                                        std::uint64_t c, std::uint64_t d, std::uint64_t e, std::uint64_t f,
                                        std::uint64_t g, unsigned last) {
    const std::uint64_t words[] = {a, b, c, d, e, f, g};
    printed.words.insert(printed.words.end(), words, words + count);
    if (last != 0) print(to == 2 ? stderr : stdout);
    return to;
}
std::uint64_t __ockl_fprintf_append_string_n(std::uint64_t to, const char* text, std::uint64_t bytes, unsigned last) {
    return __ockl_printf_append_string_n(to, text, bytes, last);
}
std::uint64_t __ockl_fprintf_append_args(std::uint64_t to, unsigned count, std::uint64_t a, std::uint64_t b,
                                         std::uint64_t c, std::uint64_t d, std::uint64_t e, std::uint64_t f,
                                         std::uint64_t g, unsigned last) {
    return __ockl_printf_append_args(to, count, a, b, c, d, e, f, g, last);
}

#define ONE(name)                                                                                                      \
    float __ocml_##name##_f32(float x) { return std::name(x); }                                                        \
    double __ocml_##name##_f64(double x) { return std::name(x); }
#define NATIVE(name)                                                                                                   \
    float __ocml_native_##name##_f32(float x) { return std::name(x); }
#define TWO(name)                                                                                                      \
    float __ocml_##name##_f32(float x, float y) { return std::name(x, y); }                                            \
    double __ocml_##name##_f64(double x, double y) { return std::name(x, y); }
// clang-format off
ONE(sqrt) ONE(sin) ONE(cos) ONE(tan) ONE(asin) ONE(acos) ONE(atan) ONE(sinh) ONE(cosh) ONE(tanh) ONE(exp) ONE(exp2)
ONE(expm1) ONE(log) ONE(log2) ONE(log10) ONE(log1p) ONE(fabs) ONE(floor) ONE(ceil) ONE(trunc) ONE(round) ONE(rint)
ONE(cbrt) ONE(erf) ONE(erfc) ONE(lgamma) ONE(tgamma) ONE(nearbyint)
NATIVE(sqrt) NATIVE(sin) NATIVE(cos) NATIVE(exp) NATIVE(log) NATIVE(log2) NATIVE(log10) NATIVE(exp2)
TWO(pow) TWO(fmod) TWO(atan2) TWO(fmax) TWO(fmin) TWO(hypot) TWO(copysign) TWO(fdim)
    // clang-format on
    float __ocml_rsqrt_f32(float x) {
    return 1 / std::sqrt(x);
}
double __ocml_rsqrt_f64(double x) { return 1 / std::sqrt(x); }
float __ocml_native_rsqrt_f32(float x) { return 1 / std::sqrt(x); }
float __ocml_exp10_f32(float x) { return exp10f(x); }
double __ocml_exp10_f64(double x) { return exp10(x); }
float __ocml_fma_f32(float x, float y, float z) { return std::fma(x, y, z); }
double __ocml_fma_f64(double x, double y, double z) { return std::fma(x, y, z); }
float __ocml_pown_f32(float x, int n) { return float(std::pow(x, n)); }
double __ocml_pown_f64(double x, int n) { return std::pow(x, n); }
float __ocml_ldexp_f32(float x, int n) { return std::ldexp(x, n); }
double __ocml_ldexp_f64(double x, int n) { return std::ldexp(x, n); }
int __ocml_isnan_f32(float x) { return std::isnan(x); }
int __ocml_isinf_f32(float x) { return std::isinf(x); }
int __ocml_isnan_f64(double x) { return std::isnan(x); }
int __ocml_isinf_f64(double x) { return std::isinf(x); }
float __ocml_sincos_f32(float x, float* c) { return *c = std::cos(x), std::sin(x); }
double __ocml_sincos_f64(double x, double* c) { return *c = std::cos(x), std::sin(x); }
}
