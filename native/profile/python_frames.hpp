// Which line of Python a thread is in, read from the interpreter's own structures: without the GIL, without counting
// references, and without calling Python. The memory is that of this process or of another one; so what reads it is a
// parameter: bool read(std::uint64_t address, void* into, std::size_t bytes), and is_direct, whether an access is
// cheap.
//
// Where things are is known by version. 3.10 to 3.12 are from CPython's headers; from 3.13 on, each interpreter has a
// table for debuggers (_Py_DebugOffsets, at the beginning of _PyRuntime). Only versions that were tried are known.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace firsttouch::python {

// Offsets in bytes. Source: Include/internal/pycore_{frame,interp,runtime}.h, cpython/{code,pystate,unicodeobject}.h.
struct Layout {
    int minor = 0;  // of 3.minor
    struct {
        std::uint16_t interpreters, next_interpreter, threads, next_thread, id, native_id;  // native_id 0: none (3.10)
    } runtime{};
    struct {
        std::uint16_t frame;    // of a thread: its frame, or where the frame is found
        std::int16_t in_frame;  // in what `frame` points to, the frame; -1: it is the frame
        std::uint16_t code, previous, instruction, owner;
        bool is_index;  // instruction: the number of a code unit, not an address (3.10)
    } frame{};
    struct {
        std::uint16_t bytes, first_traceable, filename, name, first_line, lines;
    } code{};
    struct {
        std::uint16_t ascii, compact;  // where the characters are
    } text{};
};

struct Frame {           // without values at first: each call of a program has room for hundreds
    std::uint64_t code;  // a PyCodeObject
    std::int32_t at;     // offset in its byte code; negative: it has not begun
};

struct CodePlace {
    std::string file, function;
    int line = 0;
};

// table: the beginning of _PyRuntime, of which 3.13 and later have a table there. None: the version was not tried.
constexpr std::size_t table_words = 44;
using Table = std::array<std::uint64_t, table_words>;
std::optional<Layout> layout_of(int minor, const Table& table);
inline constexpr std::string_view tried_versions = "3.10 to 3.13";

// The line of an offset in the byte code. lines: co_linetable. 0: there is none, as for code that the compiler added.
int find_line(std::string_view lines, int minor, int first_line, int at);

// Text of the interpreter as UTF-8. kind: bytes per character. Bytes of file names that are not UTF-8, which Python
// keeps as surrogates, are themselves again.
std::string utf8(std::string_view characters, unsigned kind);

// Whether a file is of the standard library, of an installed package or of the interpreter, not the user's.
bool is_of_a_library(std::string_view file);
// Of a chain of files, the innermost first, that of the user's innermost frame. Code without a file of its own, such as
// '<string>', is the user's if the user's code ran it. None if all are of libraries.
std::optional<std::size_t> user_frame(const std::vector<std::string>& files);

template <class Memory>
class Reader {
  public:
    Reader(Memory memory, const Layout& layout, std::uint64_t code_type)
        : memory_(memory), layout_(layout), code_type_(code_type) {}

    const Layout& layout() const { return layout_; }
    template <class T>
    bool get(std::uint64_t address, T& into) const {
        static_assert(std::is_trivially_copyable_v<T>);
        return address >= lowest && memory_.read(address, &into, sizeof into);
    }

    // The frames of a thread's state, the innermost first; how many. Frames of C are left out. Ends where something is
    // not what it should be, and then there are none.
    std::size_t frames(std::uint64_t thread, Frame* into, std::size_t most) const {
        const auto& o = layout_.frame;
        std::uint64_t frame = 0;
        if (!get(thread + o.frame, frame) || frame == 0) return 0;
        if (o.in_frame >= 0 && !get(frame + std::uint64_t(o.in_frame), frame)) return 0;
        std::size_t count = 0;
        for (int steps = 0; frame != 0 && count < most && steps < 4096; ++steps) {
            // What lies behind a frame need not be readable.
            const View bytes(memory_, frame, o.is_index ? 104 : 72);
            if (!bytes) return 0;
            const auto code = bytes.template at<std::uint64_t>(o.code);
            constexpr std::uint8_t of_c = 3;  // 3.12 and later; before, no frame has this owner
            if (o.owner == 0 || bytes.template at<std::uint8_t>(o.owner) != of_c) {
                std::uint64_t type = 0;
                if (code % 8 != 0 || !get(code + 8, type) || type != code_type_) return 0;
                const std::int64_t offset =
                    o.is_index
                        ? std::int64_t(bytes.template at<std::int32_t>(o.instruction)) * 2
                        : std::int64_t(bytes.template at<std::uint64_t>(o.instruction) - (code + layout_.code.bytes));
                if (offset < -2 || offset > most_code) return 0;
                into[count++] = {code, static_cast<std::int32_t>(offset)};
            }
            frame = bytes.template at<std::uint64_t>(o.previous);
        }
        return count;
    }

    // What tells code at an address from other code that is there later: most of what a place consists of.
    std::uint64_t identity(const Frame& frame) const {
        const View head(memory_, frame.code, code_head);
        if (!head) return 0;
        const auto& o = layout_.code;
        const auto file = head.template at<std::uint64_t>(o.filename), lines = head.template at<std::uint64_t>(o.lines);
        std::uint64_t words[2] = {}, lines_bytes = 0, file_bytes = 0, file_end = 0;
        if (get(lines + 16, lines_bytes) && lines_bytes >= sizeof words) get(lines + bytes_at, words);
        // The names of files that are made up often differ in their end.
        if (get(file + 16, file_bytes) && file_bytes >= 8 && file_bytes < most_text)
            get(file + layout_.text.ascii + file_bytes - 8, file_end);
        const std::array<std::uint64_t, 9> parts = {frame.code ^ std::uint64_t(std::uint32_t(frame.at)) << 40,
                                                    file,
                                                    lines,
                                                    head.template at<std::uint64_t>(o.name),
                                                    lines_bytes ^ file_bytes << 32,
                                                    head.template at<std::uint32_t>(o.first_line),
                                                    words[0],
                                                    words[1],
                                                    file_end};
        std::uint64_t hash = 0, factor = 0x9E3779B97F4A7C15u;  // all products are independent of each other
        for (const std::uint64_t part : parts) hash += (part ^ part >> 31) * factor, factor = factor * 5 + 2;
        return hash ^ hash >> 29;
    }

    std::optional<CodePlace> place(const Frame& frame) const {
        const View head(memory_, frame.code, code_head);
        if (!head) return std::nullopt;
        const auto& o = layout_.code;
        CodePlace place;
        const auto first = head.template at<std::int32_t>(o.first_line);
        std::uint64_t bytes = 0;
        const auto lines = head.template at<std::uint64_t>(o.lines);
        if (!get(lines + 16, bytes) || bytes > most_code) return std::nullopt;
        std::string table(bytes, '\0');
        if (bytes != 0 && !memory_.read(lines + bytes_at, table.data(), bytes)) return std::nullopt;
        place.line = frame.at < 0 ? first : find_line(table, layout_.minor, first, frame.at);
        if (place.line <= 0) place.line = first;
        place.file = text(head.template at<std::uint64_t>(o.filename));
        place.function = text(head.template at<std::uint64_t>(o.name));
        if (place.file.empty() || place.line < 0) return std::nullopt;
        return place;
    }

    // Whether the frame has begun: the interpreter does not show one that is being made.
    bool has_begun(const Frame& frame) const {
        std::int32_t first = 0;
        const auto at = layout_.code.first_traceable;
        return frame.at >= 0 && (at == 0 || (get(frame.code + at, first) && frame.at >= 2 * first));
    }

    // The state of a thread of another process; 0: it has none. thread: as the kernel numbers it.
    std::uint64_t thread_state(std::uint64_t runtime, std::uint32_t thread) const {
        const auto& o = layout_.runtime;
        std::uint64_t interpreter = 0;
        get(runtime + o.interpreters, interpreter);
        for (int i = 0; interpreter != 0 && i < 256; ++i) {
            std::uint64_t state = 0;
            get(interpreter + o.threads, state);
            for (int k = 0; state != 0 && k < 4096; ++k) {
                if (is_of(state, thread)) return state;
                if (!get(state + o.next_thread, state)) return 0;
            }
            if (!get(interpreter + o.next_interpreter, interpreter)) return 0;
        }
        return 0;
    }
    bool is_of(std::uint64_t state, std::uint32_t thread) const {
        const auto& o = layout_.runtime;
        std::uint64_t number = 0;
        if (o.native_id != 0) return get(state + o.native_id, number) && number == thread;
        // 3.10 has what pthread_self returns: in glibc on x86-64, a structure with the kernel's number in it.
        constexpr std::uint64_t in_glibc = 720;
        std::uint32_t in_pthread = 0;
        return get(state + o.id, number) && get(number + in_glibc, in_pthread) && in_pthread == thread;
    }

  private:
    static constexpr std::uint64_t lowest = 4096;
    static constexpr std::int64_t most_code = 64 << 20;
    static constexpr std::uint64_t most_text = 16 << 10, bytes_at = 32;
    static constexpr std::size_t code_head = 144;

    // Some bytes at an address, which are fetched together where each access takes long.
    class View {
      public:
        View(const Memory& memory, std::uint64_t address, std::size_t bytes) : memory_(memory), address_(address) {
            is_there_ = address >= lowest && address % 8 == 0;
            if constexpr (!Memory::is_direct) is_there_ = is_there_ && memory.read(address, copy_.data(), bytes);
        }
        explicit operator bool() const { return is_there_; }
        template <class T>
        T at(std::size_t offset) const {
            T value;
            if constexpr (Memory::is_direct)
                memory_.read(address_ + offset, &value, sizeof value);
            else
                std::memcpy(&value, copy_.data() + std::min(offset, copy_.size() - sizeof value), sizeof value);
            return value;
        }

      private:
        const Memory& memory_;
        std::uint64_t address_;
        std::array<char, Memory::is_direct ? 8 : code_head> copy_;
        bool is_there_;
    };
    // '' if it is none that the interpreter makes of names.
    std::string text(std::uint64_t object) const {
        std::uint64_t length = 0;
        std::uint32_t state = 0;
        if (!get(object + 16, length) || !get(object + 32, state) || length > most_text) return {};
        const unsigned kind = state >> 2 & 7;
        if ((state >> 5 & 1) == 0 || (kind != 1 && kind != 2 && kind != 4)) return {};  // not compact
        const bool is_ascii = (state >> 6 & 1) != 0;
        std::string characters(length * kind, '\0');
        const std::uint64_t from = object + (is_ascii ? layout_.text.ascii : layout_.text.compact);
        if (length != 0 && !memory_.read(from, characters.data(), characters.size())) return {};
        return is_ascii ? characters : utf8(characters, kind);
    }

    Memory memory_;
    Layout layout_;
    std::uint64_t code_type_;
};

}  // namespace firsttouch::python
