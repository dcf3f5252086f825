// A program of a run-time compiler. NVRTC and hipRTC have the same interface; Api is the function table of either.
#pragma once

#include <string>
#include <vector>

#include "device/device.hpp"

namespace firsttouch {

template <class Api>
class CompilerProgram {
  public:
    CompilerProgram(const Api& api, const std::string& text, const std::string& file) : api_(api), file_(file) {
        if (const int result = api_.create(&program_, text.c_str(), file.c_str(), 0, nullptr, nullptr); result != 0)
            throw VendorError(api_.library.name_of(api_.create) + ": " + api_.error_string(result));
    }
    ~CompilerProgram() { api_.destroy(&program_); }
    CompilerProgram(const CompilerProgram&) = delete;
    CompilerProgram& operator=(const CompilerProgram&) = delete;

    // Returns the log. Throws VendorError with the log if the text does not compile.
    std::string compile(const std::vector<std::string>& options) {
        std::vector<const char*> list;
        for (const auto& option : options) list.push_back(option.c_str());
        const int result = api_.compile(program_, static_cast<int>(list.size()), list.data());
        std::string log = fetch(api_.log_size, api_.log);
        if (result != 0)
            throw VendorError(api_.library.name_of(api_.compile) + " of " + file_ + " with " + options.front() + ": " +
                              api_.error_string(result) + "\n" + log);
        return log;
    }

    // Returns a variable-length result, read by a pair of calls: its size, then its content. Empty if there is none.
    template <class Program>
    std::string fetch(int (*size_of)(Program, std::size_t*), int (*get)(Program, char*)) const {
        std::size_t size = 0;
        std::string out;
        if (size_of(program_, &size) == 0 && size > 0) {
            out.resize(size);
            get(program_, out.data());
        }
        return out;
    }

  private:
    const Api& api_;
    std::string file_;
    typename Api::Program program_ = nullptr;
};

}  // namespace firsttouch
