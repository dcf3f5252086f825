// Writes the ranges and marks that a program sends through NVTX into the journal. NVTX loads this library because
// NVTX_INJECTION64_PATH names it, at the program's first call, and takes the functions that are put into its tables.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "profile/inject/core/journal.hpp"
#include "profile/inject/front/cuda/nvtx_api.hpp"

namespace firsttouch::inject {
namespace {

using namespace nvtx;

constexpr std::size_t most_name_bytes = 1000;
enum What : std::uint8_t { begin = 0, end = 1, instant = 2 };

// What the handles of domains and registered strings point to, followed by the text. A program may keep a handle as
// long as it runs, so none is ever freed; all are in a list, so that no leak is found in the program.
struct Named {
    const Named* before;
    std::size_t bytes;
    std::string_view view() const { return {reinterpret_cast<const char*>(this + 1), bytes}; }
};

std::atomic<std::uint64_t> next_range{1};
std::atomic<const Named*> last_named{nullptr};

std::string_view cut(const char* text) {
    return text == nullptr ? std::string_view{} : std::string_view{text, strnlen(text, most_name_bytes)};
}

// A name in UTF-8, cut at the longest one.
class Converted {
  public:
    explicit Converted(const wchar_t* from) {
        for (; from != nullptr && *from != 0 && bytes_ + 4 <= most_name_bytes; ++from) {
            auto code = static_cast<std::uint32_t>(*from);
            if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) code = 0xFFFD;
            if (code < 0x80)
                add(code);
            else if (code < 0x800)
                add(0xC0 | code >> 6), add_rest(code, 1);
            else if (code < 0x10000)
                add(0xE0 | code >> 12), add_rest(code, 2);
            else
                add(0xF0 | code >> 18), add_rest(code, 3);
        }
    }
    std::string_view view() const { return {text_, bytes_}; }

  private:
    void add(std::uint32_t byte) { text_[bytes_++] = static_cast<char>(byte); }
    void add_rest(std::uint32_t code, int bytes) {
        for (int i = bytes - 1; i >= 0; --i) add(0x80 | (code >> (6 * i) & 0x3F));
    }

    std::size_t bytes_ = 0;
    char text_[most_name_bytes];
};

std::string_view name_of(const void* handle) {
    return handle == nullptr ? std::string_view{} : static_cast<const Named*>(handle)->view();
}

void record(What what, std::string_view name, const void* domain, std::int64_t range) noexcept {
    const std::uint64_t time = monotonic_ns();
    Journal* const to = journal();
    if (to == nullptr) return;
    const std::string_view domain_name = name_of(domain);
    const MarkRecord mark{.time = time,
                          .range = range,
                          .thread = thread_id(),
                          .name_bytes = static_cast<std::uint16_t>(name.size()),
                          .domain_bytes = static_cast<std::uint16_t>(domain_name.size()),
                          .what = what,
                          .unused = {}};
    to->append(Kind::mark, {Journal::bytes_of(mark), name, domain_name});
}

void record_wide(What what, const wchar_t* name, std::int64_t range) noexcept {
    record(what, Converted(name).view(), nullptr, range);
}

void record_event(What what, const void* domain, const EventAttributes* event, std::int64_t range) noexcept {
    const bool has_message = event != nullptr && event->size >= offsetof(EventAttributes, message) + sizeof(Message);
    const int type = has_message ? event->message_type : 0;
    if (type == message_unicode) {
        record(what, Converted(event->message.unicode).view(), domain, range);
    } else if (type == message_ascii) {
        record(what, cut(event->message.ascii), domain, range);
    } else {
        record(what, type == message_registered ? name_of(event->message.registered) : std::string_view{}, domain,
               range);
    }
}

std::int64_t new_range() { return static_cast<std::int64_t>(next_range.fetch_add(1, std::memory_order_relaxed)); }

void* remember(std::string_view text) {
    void* const place = std::malloc(sizeof(Named) + text.size());
    if (place == nullptr) return nullptr;
    auto* const named = new (place) Named{last_named.load(std::memory_order_relaxed), text.size()};
    std::ranges::copy(text, reinterpret_cast<char*>(named + 1));
    while (!last_named.compare_exchange_weak(named->before, named, std::memory_order_release)) {
    }
    return named;
}

// The functions of the module CORE.
void on_mark_ex(const EventAttributes* event) { record_event(instant, nullptr, event, -1); }
void on_mark_a(const char* name) { record(instant, cut(name), nullptr, -1); }
void on_mark_w(const wchar_t* name) { record_wide(instant, name, -1); }
std::uint64_t on_start_ex(const EventAttributes* event) {
    const std::int64_t range = new_range();
    record_event(begin, nullptr, event, range);
    return static_cast<std::uint64_t>(range);
}
std::uint64_t on_start_a(const char* name) {
    const std::int64_t range = new_range();
    record(begin, cut(name), nullptr, range);
    return static_cast<std::uint64_t>(range);
}
std::uint64_t on_start_w(const wchar_t* name) {
    const std::int64_t range = new_range();
    record_wide(begin, name, range);
    return static_cast<std::uint64_t>(range);
}
void on_end(std::uint64_t range) { record(end, {}, nullptr, static_cast<std::int64_t>(range)); }
int on_push_ex(const EventAttributes* event) {
    record_event(begin, nullptr, event, -1);
    return no_push_pop_tracking;
}
int on_push_a(const char* name) {
    record(begin, cut(name), nullptr, -1);
    return no_push_pop_tracking;
}
int on_push_w(const wchar_t* name) {
    record_wide(begin, name, -1);
    return no_push_pop_tracking;
}
int on_pop() {
    record(end, {}, nullptr, -1);
    return no_push_pop_tracking;
}

// The functions of the module CORE2.
void on_domain_mark(const void* domain, const EventAttributes* event) { record_event(instant, domain, event, -1); }
std::uint64_t on_domain_start(const void* domain, const EventAttributes* event) {
    const std::int64_t range = new_range();
    record_event(begin, domain, event, range);
    return static_cast<std::uint64_t>(range);
}
void on_domain_end(const void* domain, std::uint64_t range) {
    record(end, {}, domain, static_cast<std::int64_t>(range));
}
int on_domain_push(const void* domain, const EventAttributes* event) {
    record_event(begin, domain, event, -1);
    return no_push_pop_tracking;
}
int on_domain_pop(const void* domain) {
    record(end, {}, domain, -1);
    return no_push_pop_tracking;
}
void* on_register_a(const void*, const char* text) { return remember(cut(text)); }
void* on_register_w(const void*, const wchar_t* text) { return remember(Converted(text).view()); }
void* on_domain_create_a(const char* name) { return remember(cut(name)); }
void* on_domain_create_w(const wchar_t* name) { return remember(Converted(name).view()); }

struct Entry {
    unsigned id;
    FunctionPointer function;
};
template <class F>
Entry entry(unsigned id, F* function) {
    return {id, reinterpret_cast<FunctionPointer>(function)};
}

bool fill(const Callbacks& callbacks, Module module, std::initializer_list<Entry> entries) {
    FunctionTable table = nullptr;
    unsigned size = 0;
    if (callbacks.get_module_function_table(module, &table, &size) == 0 || table == nullptr) return false;
    for (const Entry& entry : entries)
        if (entry.id < size && table[entry.id] != nullptr) *table[entry.id] = entry.function;
    return true;
}

}  // namespace
}  // namespace firsttouch::inject

// Returns 1, or 0 if no tool is to be attached; then NVTX makes its functions do nothing.
extern "C" __attribute__((visibility("default"))) int
InitializeInjectionNvtx2(firsttouch::nvtx::GetExportTable get_export_table) {
    using namespace firsttouch::inject;
    if (get_export_table == nullptr || journal() == nullptr) return 0;
    const auto* const callbacks = static_cast<const Callbacks*>(get_export_table(callbacks_table));
    if (callbacks == nullptr || callbacks->struct_size < sizeof(Callbacks)) return 0;
    const bool has_core =
        fill(*callbacks, module_core,
             {entry(mark_ex, on_mark_ex), entry(mark_a, on_mark_a), entry(mark_w, on_mark_w),
              entry(range_start_ex, on_start_ex), entry(range_start_a, on_start_a), entry(range_start_w, on_start_w),
              entry(range_end, on_end), entry(range_push_ex, on_push_ex), entry(range_push_a, on_push_a),
              entry(range_push_w, on_push_w), entry(range_pop, on_pop)});
    const bool has_core2 =
        fill(*callbacks, module_core2,
             {entry(domain_mark_ex, on_domain_mark), entry(domain_range_start_ex, on_domain_start),
              entry(domain_range_end, on_domain_end), entry(domain_range_push_ex, on_domain_push),
              entry(domain_range_pop, on_domain_pop), entry(domain_register_string_a, on_register_a),
              entry(domain_register_string_w, on_register_w), entry(domain_create_a, on_domain_create_a),
              entry(domain_create_w, on_domain_create_w)});
    return has_core || has_core2 ? 1 : 0;
}
