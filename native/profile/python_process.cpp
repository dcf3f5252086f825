#include "profile/python_process.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <span>
#include <sstream>

namespace firsttouch::python {
namespace {

constexpr std::size_t most_lines = 1 << 16;

// A file that is mapped while this lives; empty if it cannot be.
class MappedFile {
  public:
    explicit MappedFile(const std::string& path) {
        const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        struct stat about {};
        if (file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
            void* const at = mmap(nullptr, std::size_t(about.st_size), PROT_READ, MAP_PRIVATE, file, 0);
            if (at != MAP_FAILED) bytes_ = {static_cast<const char*>(at), std::size_t(about.st_size)};
        }
        if (file >= 0) close(file);
    }
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile() {
        if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
    }
    template <class T>
    bool get(std::uint64_t offset, T& into) const {
        if (offset > bytes_.size() || bytes_.size() - offset < sizeof into) return false;
        std::memcpy(&into, bytes_.data() + offset, sizeof into);
        return true;
    }
    std::string_view text(std::uint64_t offset) const {
        if (offset >= bytes_.size()) return {};
        const char* const begin = bytes_.data() + offset;
        return {begin, strnlen(begin, bytes_.size() - offset)};
    }

  private:
    std::span<const char> bytes_;
};

struct Symbols {
    std::uint64_t runtime = 0, code_type = 0, version = 0;  // addresses in the file's image
    std::uint64_t base = 0;                                 // of its first segment there
};

// The interpreter's exported symbols. Source: elf(5).
std::optional<Symbols> symbols_of(const std::string& path) {
    const MappedFile file(path);
    Elf64_Ehdr header{};
    if (!file.get(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64)
        return std::nullopt;
    Symbols found;
    bool has_base = false;
    for (unsigned i = 0; i < header.e_phnum && !has_base; ++i) {
        Elf64_Phdr segment{};
        if (!file.get(header.e_phoff + std::uint64_t(i) * sizeof segment, segment)) return std::nullopt;
        if (segment.p_type == PT_LOAD) found.base = segment.p_vaddr - segment.p_offset, has_base = true;
    }
    for (unsigned i = 0; i < header.e_shnum; ++i) {
        Elf64_Shdr section{}, names{};
        if (!file.get(header.e_shoff + std::uint64_t(i) * sizeof section, section)) return std::nullopt;
        if (section.sh_type != SHT_DYNSYM) continue;
        if (!file.get(header.e_shoff + std::uint64_t(section.sh_link) * sizeof names, names)) return std::nullopt;
        Elf64_Sym symbol{};
        for (std::uint64_t at = 0; at + sizeof symbol <= section.sh_size; at += sizeof symbol) {
            if (!file.get(section.sh_offset + at, symbol)) return std::nullopt;
            if (symbol.st_value == 0) continue;
            const std::string_view name = file.text(names.sh_offset + symbol.st_name);
            if (name == "_PyRuntime") found.runtime = symbol.st_value;
            if (name == "PyCode_Type") found.code_type = symbol.st_value;
            if (name == "Py_Version") found.version = symbol.st_value;
        }
    }
    if (found.runtime == 0 || found.code_type == 0) return std::nullopt;
    return found;
}

struct Candidate {
    std::string path;
    std::uint64_t address = 0;  // of the file's beginning
};

// Files of a process that may have an interpreter: a library first, since the program may only begin it. Source:
// proc_pid_maps(5).
std::vector<Candidate> candidates(pid_t pid) {
    std::vector<Candidate> found;
    std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
    bool is_first = true;
    for (std::string line; std::getline(maps, line);) {
        const std::size_t slash = line.find('/');
        if (slash == std::string::npos) continue;
        std::istringstream words(line.substr(0, slash));
        std::string range, access, offset;
        words >> range >> access >> offset;
        if (std::strtoull(offset.c_str(), nullptr, 16) != 0) continue;
        const std::string path = line.substr(slash), name = path.substr(path.rfind('/') + 1);
        const bool is_library = name.starts_with("libpython3");
        if (is_library || is_first || name.starts_with("python3"))
            found.insert(is_library ? found.begin() : found.end(), {path, std::strtoull(range.c_str(), nullptr, 16)});
        is_first = false;  // the program
    }
    return found;
}

// Of 'python3.11' or 'libpython3.11.so.1.0'; 0: it does not tell.
int minor_of(std::string_view path) {
    const std::size_t at = path.rfind("python3.");
    return at == std::string_view::npos ? 0 : std::atoi(std::string(path.substr(at + 8, 3)).c_str());
}

}  // namespace

bool MemoryOfProcess::read(std::uint64_t address, void* into, std::size_t bytes) const {
    const iovec ours{into, bytes}, theirs{reinterpret_cast<void*>(address), bytes};
    return process_vm_readv(pid, &ours, 1, &theirs, 1, 0) == static_cast<ssize_t>(bytes);
}

std::optional<PythonProcess> PythonProcess::find(pid_t pid, std::string& why) {
    const MemoryOfProcess memory{pid};
    for (const Candidate& candidate : candidates(pid)) {
        const std::optional<Symbols> symbols = symbols_of("/proc/" + std::to_string(pid) + "/root" + candidate.path);
        if (!symbols) continue;
        const auto address_of = [&](std::uint64_t symbol) { return candidate.address + symbol - symbols->base; };
        std::uint64_t version = 0;
        if (symbols->version != 0) memory.read(address_of(symbols->version), &version, sizeof version);
        const std::string name = candidate.path.substr(candidate.path.rfind('/') + 1);
        const int minor = version >> 24 == 3 ? int(version >> 16 & 255) : minor_of(candidate.path);
        Table table{};
        const std::uint64_t runtime = address_of(symbols->runtime);
        if (!memory.read(runtime, table.data(), sizeof table)) {
            if (errno == EPERM) why = "the kernel does not let this user read the memory of " + name;
            continue;
        }
        const std::optional<Layout> layout = layout_of(minor, table);
        if (!layout) {
            if (table[0] != 0)
                why = "of CPython, versions " + std::string(tried_versions) + " were tried, and not that of " + name;
            continue;
        }
        const Reader<MemoryOfProcess> reader(memory, *layout, address_of(symbols->code_type));
        std::uint64_t interpreter = 0;
        if (reader.get(runtime + layout->runtime.interpreters, interpreter) && interpreter != 0)
            return PythonProcess(reader, runtime);
    }
    return std::nullopt;
}

std::size_t PythonProcess::frames(std::uint32_t thread, Frame* into, std::size_t most) {
    std::uint64_t& state = states_[thread];
    if (state == 0 || !reader_.is_of(state, thread)) state = reader_.thread_state(runtime_, thread);
    if (state == 0) {
        states_.erase(thread);
        return 0;
    }
    for (int attempt = 0; attempt < 3; ++attempt) {
        const std::size_t count = reader_.frames(state, into, most);
        Frame again;
        if (count != 0 && reader_.frames(state, &again, 1) == 1 && again.code == into[0].code && again.at == into[0].at)
            return count;
    }
    return 0;
}

PythonLog::Now PythonLog::look(std::uint32_t pid, std::uint32_t thread, std::uint64_t ns) {
    constexpr std::uint64_t first_wait = 5'000'000, most_wait = 5'000'000'000;
    Process& process = processes_[pid];
    if (!process.python) {
        if (ns < process.looked + process.wait) return {};
        process.looked = ns, process.wait = std::min(most_wait, std::max(first_wait, 2 * process.wait));
        process.python = PythonProcess::find(static_cast<pid_t>(pid), why_not_);
        if (!process.python) return {};
        has_python_ = true;
    }
    std::array<Frame, 128> frames;
    const std::size_t count = process.python->frames(thread, frames.data(), frames.size());
    if (count == 0) return {};
    const auto& reader = process.python->reader();
    Now now{.line = 0, .key = pid};
    for (std::size_t i = 0; i < count; ++i) now.key = (now.key ^ reader.identity(frames[i])) * 0x9E3779B97F4A7C15u;
    if (const auto known = known_.find(now.key); known != known_.end()) {
        now.line = known->second;
        return now;
    }
    std::vector<std::string> files;
    std::vector<CodePlace> places;
    for (std::size_t i = 0; i < count; ++i) {
        std::optional<CodePlace> place = reader.place(frames[i]);
        if (!place) return {};
        files.push_back(place->file);
        places.push_back(std::move(*place));
    }
    if (const auto user = user_frame(files)) now.line = number(places[*user]);  // else it is of a library alone
    if (known_.size() >= most_lines) known_.clear();
    known_[now.key] = now.line;
    return now;
}

std::uint32_t PythonLog::number(const CodePlace& place) {
    std::uint32_t& number = numbers_[{place.file, place.line}][place.function];
    if (number == 0 && last_ < most_lines) {
        number = ++last_;
        new_.push_back(place);
    }
    return number;
}

}  // namespace firsttouch::python
