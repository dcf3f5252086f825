#include "profile/python_frames.hpp"

namespace firsttouch::python {
namespace {

constexpr Layout of_310 = {
    .minor = 10,
    .runtime = {.interpreters = 32, .next_interpreter = 0, .threads = 8, .next_thread = 8, .id = 176, .native_id = 0},
    .frame = {.frame = 24, .in_frame = -1, .code = 32, .previous = 24, .instruction = 96, .owner = 0, .is_index = true},
    .code = {.bytes = 0, .first_traceable = 0, .filename = 104, .name = 112, .first_line = 40, .lines = 120},
    .text = {.ascii = 48, .compact = 72}};
constexpr Layout of_311 = {
    .minor = 11,
    .runtime =
        {.interpreters = 40, .next_interpreter = 0, .threads = 16, .next_thread = 8, .id = 152, .native_id = 160},
    .frame =
        {.frame = 56, .in_frame = 8, .code = 32, .previous = 48, .instruction = 56, .owner = 69, .is_index = false},
    .code = {.bytes = 184, .first_traceable = 168, .filename = 112, .name = 120, .first_line = 72, .lines = 136},
    .text = {.ascii = 48, .compact = 72}};
constexpr Layout of_312 = {
    .minor = 12,
    .runtime =
        {.interpreters = 40, .next_interpreter = 0, .threads = 72, .next_thread = 8, .id = 136, .native_id = 144},
    .frame = {.frame = 56, .in_frame = 0, .code = 0, .previous = 8, .instruction = 56, .owner = 70, .is_index = false},
    .code = {.bytes = 192, .first_traceable = 176, .filename = 112, .name = 120, .first_line = 68, .lines = 136},
    .text = {.ascii = 40, .compact = 56}};

// Reads the bytes of a location table one after the other. Those behind the end are 0.
class Bytes {
  public:
    explicit Bytes(std::string_view bytes) : rest_(bytes) {}
    bool is_empty() const { return rest_.empty(); }
    unsigned next() {
        if (rest_.empty()) return 0;
        const auto byte = static_cast<unsigned char>(rest_.front());
        rest_.remove_prefix(1);
        return byte;
    }
    int number() {
        unsigned byte = next(), value = byte & 63, shift = 0;
        while ((byte & 64) != 0 && shift < 24) byte = next(), value |= (byte & 63) << (shift += 6);
        return static_cast<int>(value);
    }
    int signed_number() {
        const int value = number();
        return (value & 1) != 0 ? -(value >> 1) : value >> 1;
    }

  private:
    std::string_view rest_;
};

// Source: Objects/lnotab_notes.txt of 3.10: pairs of a number of bytes and a signed number of lines.
int find_line_in_pairs(Bytes bytes, int line, int at) {
    constexpr int none = -128;
    for (int end = 0; !bytes.is_empty();) {
        end += static_cast<int>(bytes.next());
        const int delta = static_cast<signed char>(bytes.next());
        if (delta != none) line += delta;
        if (at < end) return delta == none ? 0 : line;
    }
    return 0;
}

// Source: Objects/locations.md of 3.11 and later.
int find_line_in_locations(Bytes bytes, int line, int at) {
    for (int end = 0; !bytes.is_empty();) {
        const unsigned first = bytes.next(), code = first >> 3 & 15;
        end += 2 * (static_cast<int>(first & 7) + 1);
        if (code == 14) {  // lines and columns in full
            line += bytes.signed_number();
            for (int i = 0; i < 3; ++i) bytes.number();
        } else if (code == 13) {  // no columns
            line += bytes.signed_number();
        } else if (code >= 10 && code < 13) {
            line += static_cast<int>(code) - 10;
            bytes.next(), bytes.next();
        } else if (code < 10) {
            bytes.next();
        }
        if (at < end) return code == 15 ? 0 : line;
    }
    return 0;
}

void append_utf8(std::string& text, std::uint32_t point) {
    constexpr std::uint32_t first_byte = 0xDC80, last_byte = 0xDCFF;  // surrogateescape
    if (point < 0x80) {
        text += static_cast<char>(point);
    } else if (point >= first_byte && point <= last_byte) {
        text += static_cast<char>(point - 0xDC00);
    } else if (point < 0x800) {
        text += static_cast<char>(0xC0 | point >> 6), text += static_cast<char>(0x80 | (point & 63));
    } else if (point < 0x10000) {
        text += static_cast<char>(0xE0 | point >> 12), text += static_cast<char>(0x80 | (point >> 6 & 63));
        text += static_cast<char>(0x80 | (point & 63));
    } else {
        text += static_cast<char>(0xF0 | (point >> 18 & 7)), text += static_cast<char>(0x80 | (point >> 12 & 63));
        text += static_cast<char>(0x80 | (point >> 6 & 63)), text += static_cast<char>(0x80 | (point & 63));
    }
}

bool has_no_file(std::string_view file) { return file.starts_with('<'); }

}  // namespace

std::optional<Layout> layout_of(int minor, const Table& table) {
    if (minor == 10) return of_310;
    if (minor == 11) return of_311;
    if (minor == 12) return of_312;
    std::uint64_t cookie = 0;
    std::memcpy(&cookie, "xdebugpy", sizeof cookie);
    const bool is_free_threaded = table[2] != 0;
    if (minor != 13 || table[0] != cookie || table[1] >> 16 != 0x030d || is_free_threaded) return std::nullopt;
    if (std::any_of(table.begin() + 3, table.end(), [](std::uint64_t word) { return word >= 1 << 20; }))
        return std::nullopt;
    const auto word = [&](std::size_t i) { return static_cast<std::uint16_t>(table[i]); };
    return Layout{.minor = 13,
                  .runtime = {.interpreters = word(5),
                              .next_interpreter = word(8),
                              .threads = word(9),
                              .next_thread = word(21),
                              .id = word(24),
                              .native_id = word(25)},
                  .frame = {.frame = word(23),
                            .in_frame = -1,
                            .code = word(30),
                            .previous = word(29),
                            .instruction = word(31),
                            .owner = word(33),
                            .is_index = false},
                  .code = {.bytes = word(43),
                           .first_traceable = 184,
                           .filename = word(35),
                           .name = word(36),
                           .first_line = word(39),
                           .lines = word(38)},
                  .text = {.ascii = 40, .compact = 56}};
}

int find_line(std::string_view lines, int minor, int first_line, int at) {
    return minor == 10 ? find_line_in_pairs(Bytes(lines), first_line, at)
                       : find_line_in_locations(Bytes(lines), first_line, at);
}

std::string utf8(std::string_view characters, unsigned kind) {
    std::string text;
    for (std::size_t i = 0; i + kind <= characters.size(); i += kind) {
        std::uint32_t point = 0;
        std::memcpy(&point, characters.data() + i, kind);  // little-endian, as all processors that have a device
        append_utf8(text, point);
    }
    return text;
}

bool is_of_a_library(std::string_view file) {
    if (file.starts_with("<frozen ") || file.starts_with("<__array_function__")) return true;
    for (const std::string_view folder : {"/site-packages/", "/dist-packages/"})
        if (file.find(folder) != std::string_view::npos) return true;
    // The standard library: /lib/python3.11/, or /lib64/.
    const std::size_t found = file.find("/python3.");
    if (found == std::string_view::npos || found < 3) return false;
    const std::string_view before = file.substr(0, found);
    const std::size_t after = file.find_first_not_of("0123456789t", found + 9);
    return (before.ends_with("/lib") || before.ends_with("/lib64")) && after != std::string_view::npos &&
           file[after] == '/';
}

std::optional<std::size_t> user_frame(const std::vector<std::string>& files) {
    std::optional<std::size_t> without_file, nearest;  // nearest: the first of frames without a file in a row
    for (std::size_t i = 0; i < files.size(); ++i) {
        if (is_of_a_library(files[i])) {
            nearest.reset();
        } else if (has_no_file(files[i])) {
            if (!nearest) nearest = i;
            if (!without_file) without_file = i;
        } else {
            return nearest.value_or(i);
        }
    }
    return without_file;
}

}  // namespace firsttouch::python
