#include "profile/inject/core/python_lines.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>

#include "profile/inject/core/journal.hpp"

namespace firsttouch::inject {
namespace {

template <class Function>
bool load(void* library, Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Libraries that have an interpreter, as an application has that opened one for itself alone.
std::vector<std::string> libraries() {
    std::vector<std::string> paths;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* data) {
            if (info->dlpi_name != nullptr && name_of(info->dlpi_name).starts_with("libpython3"))
                static_cast<std::vector<std::string>*>(data)->emplace_back(info->dlpi_name);
            return 0;
        },
        &paths);
    return paths;
}

}  // namespace

PythonLines& PythonLines::instance() {
    static PythonLines* const made = new PythonLines;  // threads may use it to the end
    return *made;
}

// At the 1st, 2nd, 4th, 8th ... call, since an interpreter may be loaded later.
void PythonLines::find() noexcept {
    if (is_off_ || !std::has_single_bit(calls_.fetch_add(1) + 1)) return;
    if (is_checking_.exchange(true)) return;  // another thread looks for it
    try {
        bool is_found = reader_ != nullptr || take(RTLD_DEFAULT, "");
        for (const std::string& path : is_found ? std::vector<std::string>() : libraries()) {
            void* const library = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
            is_found = library != nullptr && take(library, path.c_str());
            if (is_found) break;
            if (library != nullptr) dlclose(library);
        }
    } catch (...) {
        is_off_ = true;
    }
    is_checking_ = false;
}

// Whether the library has an interpreter that runs. One that was not tried is not read.
bool PythonLines::take(void* library, const char* path) {
    int (*is_initialized)() = nullptr;
    const char* (*version)() = nullptr;
    if (!load(library, is_initialized, "Py_IsInitialized") || is_initialized() == 0) return false;
    if (!load(library, version, "Py_GetVersion")) return false;
    const std::string text = version();
    const bool is_free_threaded = text.find("free-threading") != std::string::npos;
    python::Table table{};
    minor_ = text.starts_with("3.") ? std::atoi(text.c_str() + 2) : 0;
    const void* const runtime = dlsym(library, "_PyRuntime");
    const void* const code_type = dlsym(library, "PyCode_Type");
    if (minor_ >= 13 && runtime != nullptr) std::memcpy(table.data(), runtime, sizeof table);
    const std::optional<python::Layout> layout = python::layout_of(minor_, table);
    const bool is_whole =
        load(library, this_thread_, "PyGILState_GetThisThreadState") &&
        (load(library, current_thread_, "PyThreadState_GetUnchecked") ||
         load(library, current_thread_, "_PyThreadState_UncheckedGet")) &&
        (load(library, is_finalizing_, "Py_IsFinalizing") || load(library, is_finalizing_, "_Py_IsFinalizing")) &&
        load(library, frame_, "PyEval_GetFrame") && load(library, line_of_, "PyFrame_GetLineNumber") &&
        load(library, code_of_, "PyFrame_GetCode") && load(library, release_, "Py_DecRef") &&
        load(library, clear_error_, "PyErr_Clear") && load(library, disable_gc_, "PyGC_Disable") &&
        load(library, enable_gc_, "PyGC_Enable");
    if (!layout || is_free_threaded || !is_whole || code_type == nullptr) {
        is_off_ = true;
        const std::string number = text.substr(0, text.find(' ')) + (is_free_threaded ? " without the GIL" : "");
        notice(Layer::trace,
               "lines of Python are not read: of CPython, versions " + std::string(python::tried_versions) +
                   " were tried, and this is ",
               number);
        return true;
    }
    Dl_info about{};
    file_ = dladdr(code_type, &about) != 0 && about.dli_fname != nullptr ? about.dli_fname : path;
    std::array<char, 4096> own;
    const ssize_t length = readlink("/proc/self/exe", own.data(), own.size());
    const std::string_view program(own.data(), length > 0 ? std::size_t(length) : 0);
    is_program_ = !name_of(file_).starts_with("libpython");
    if (is_program_) file_ = program;
    reader_ = new Reader({}, *layout, reinterpret_cast<std::uint64_t>(code_type));  // threads may read to the end
    return true;
}

void PythonLines::read_chain(PythonChain& chain) noexcept {
    chain.count = 0, chain.key = 0;
    const Reader* reader = reader_.load(std::memory_order_acquire);
    if (reader == nullptr) {
        find();
        if ((reader = reader_.load(std::memory_order_acquire)) == nullptr) return;
    }
    if (is_off_.load(std::memory_order_relaxed) || is_finalizing_() != 0) return;
    const auto thread = reinterpret_cast<std::uint64_t>(this_thread_());
    if (thread == 0) return;
    chain.count = reader->frames(thread, chain.frames.data(), chain.frames.size());
    if (chain.count == 0) return;
    if (!is_checked_.load(std::memory_order_relaxed) && current_thread_() == reinterpret_cast<Object>(thread))
        check(chain.frames[0]);
    for (std::size_t i = 0; i < chain.count; ++i)
        chain.key = (chain.key ^ reader->identity(chain.frames[i])) * 0x9E3779B97F4A7C15u;
    chain.key |= 1;
}

// With the GIL: compares a line with what the public functions say. They may make an object; no garbage is collected
// meanwhile, since that may run any code.
void PythonLines::check(const python::Frame& innermost) noexcept {
    const Reader& reader = *reader_.load();
    if (!reader.has_begun(innermost) || is_checking_.exchange(true)) return;
    const bool was_collecting = disable_gc_() != 0;
    if (const Object frame = frame_(); frame != nullptr) {
        const Object code = code_of_(frame);
        std::optional<python::CodePlace> place;
        try {
            place = reader.place(innermost);
        } catch (...) {
            place.reset();
        }
        const bool is_right =
            code == reinterpret_cast<Object>(innermost.code) && place && place->line == line_of_(frame);
        release_(code);
        if (!is_right) {
            is_off_ = true;
            notice(Layer::trace, "lines of Python are not read from here on: one differed from what Python says");
        }
        is_checked_ = true;
    } else {
        clear_error_();
    }
    if (was_collecting) enable_gc_();
    is_checking_ = false;
}

std::vector<python::CodePlace> PythonLines::places(const PythonChain& chain, std::size_t most) const {
    const Reader* const reader = reader_.load();
    std::vector<python::CodePlace> places;
    if (reader == nullptr || is_off_) return places;
    std::vector<std::string> files;
    for (std::size_t i = 0; i < chain.count; ++i) {
        std::optional<python::CodePlace> place = reader->place(chain.frames[i]);
        if (!place) break;
        files.push_back(place->file);
        places.push_back(std::move(*place));
    }
    if (places.empty()) return places;
    places.erase(places.begin(), places.begin() + std::ptrdiff_t(python::user_frame(files).value_or(0)));
    if (places.size() > most) places.resize(most);
    return places;
}

bool PythonLines::is_interpreter(std::string_view file, std::uintptr_t instruction) const {
    if (file != file_) return false;
    if (!is_program_ || name_of(file).starts_with("python")) return true;
    Dl_info about{};  // a program with an interpreter in it: its functions are told by their names
    if (dladdr(reinterpret_cast<void*>(instruction), &about) == 0 || about.dli_sname == nullptr) return false;
    const std::string_view name = about.dli_sname;
    return name.starts_with("_Py") || name.starts_with("Py");
}

}  // namespace firsttouch::inject
