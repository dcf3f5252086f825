// A shared library opened at run time; its absence is a reason in words, never an error at import.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace firsttouch {

// Where to look for a vendor library (name such as "cuda" or "nvrtc"), in order: paths or sonames for dlopen.
void set_library_paths(const std::string& name, std::vector<std::string> candidates);
const std::vector<std::string>& library_paths(const std::string& name);

class Library {
  public:
    // Tries the paths set for `name`, or `fallbacks` where none are set. Throws Unavailable listing what was tried.
    Library(const std::string& name, const std::vector<std::string>& fallbacks);

    const std::string& path() const { return path_; }

    // Throws Unavailable where the library has no such function.
    void* symbol(const char* function) const;
    void* optional_symbol(const char* function) const;

    template <class F>
    void load(F*& pointer, const std::string& function) {
        pointer = reinterpret_cast<F*>(remember(symbol(function.c_str()), function));
    }
    template <class F>
    void load_optional(F*& pointer, const std::string& function) {
        pointer = reinterpret_cast<F*>(remember(optional_symbol(function.c_str()), function));
    }

    // The name under which a function was loaded, for errors; without the "_v2" of a later form.
    template <class F>
    std::string name_of(F* function) const {
        return name_at(reinterpret_cast<const void*>(function));
    }

  private:
    void* remember(void* address, const std::string& function);
    std::string name_at(const void* address) const;

    void* handle_ = nullptr;  // kept open until the process ends: vendor libraries do not unload safely
    std::string path_;
    std::map<const void*, std::string> names_;
};

}  // namespace firsttouch
