// A shared library opened at run time. If it is missing, the exception says why; the module can be imported without it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace firsttouch {

// The paths or sonames to try with dlopen, in order, for a vendor library such as "cuda" or "nvrtc".
void set_library_paths(const std::string& name, std::vector<std::string> candidates);
std::vector<std::string> library_paths(const std::string& name);

class Library {
  public:
    // Tries the paths set for `name`, or `fallbacks` if none are set. Throws Unavailable with the errors of all
    // attempts.
    Library(const std::string& name, const std::vector<std::string>& fallbacks);

    const std::string& path() const { return path_; }

    // If the library has no such function, symbol throws Unavailable and optional_symbol returns nullptr.
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

    // The name under which a function was loaded, without a "_v2" suffix. For error messages.
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
