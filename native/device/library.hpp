// A shared library opened at run time. If it is missing, the exception says why; the module can be imported without it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace firsttouch {

// The paths or sonames to try with dlopen, in order, for a vendor library such as "cuda" or "nvrtc".
void set_library_paths(const std::string& name, std::vector<std::string> candidates);
std::vector<std::string> library_paths(const std::string& name);

// A function that returns the result code of its library, as most do.
template <class... A>
using ApiCall = int (*)(A...);

// A function of a library, which converts to the pointer that is declared for it. Null if an optional one is missing.
struct Symbol {
    void* address;
    template <class F>
    operator F*() const {
        return reinterpret_cast<F*>(address);
    }
};

class Library {
  public:
    // Tries the paths set for `name`, or `fallbacks` if none are set. Throws Unavailable with the errors of all
    // attempts.
    Library(const std::string& name, const std::vector<std::string>& fallbacks);

    const std::string& path() const { return path_; }

    // A table of functions initialises or assigns its members with these. If the library has no such function,
    // `function` throws Unavailable.
    Symbol function(const std::string& name);
    Symbol optional_function(const std::string& name);

    // The name under which a function was loaded, without a "_v2" suffix. For error messages.
    template <class F>
    std::string name_of(F* function) const {
        return name_at(reinterpret_cast<const void*>(function));
    }

  private:
    std::string name_at(const void* address) const;

    void* handle_ = nullptr;  // kept open until the process ends: vendor libraries do not unload safely
    std::string path_;
    std::map<const void*, std::string> names_;
};

}  // namespace firsttouch
