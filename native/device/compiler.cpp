#include "device/compiler.hpp"

namespace firsttouch {
namespace {

class CompilerProgram {
  public:
    CompilerProgram(const RuntimeCompiler& api, const std::string& text, const std::string& file)
        : api_(api), file_(file) {
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
    std::string fetch(decltype(RuntimeCompiler::log_size) size_of, decltype(RuntimeCompiler::log) get) const {
        std::size_t size = 0;
        std::string out;
        if (size_of != nullptr && size_of(program_, &size) == 0 && size > 0) {
            out.resize(size);
            get(program_, out.data());
        }
        return out;
    }

  private:
    const RuntimeCompiler& api_;
    std::string file_;
    RuntimeCompiler::Program program_ = nullptr;
};

}  // namespace

RuntimeCompiler::RuntimeCompiler(const std::string& name, const std::vector<std::string>& sonames,
                                 std::string machine_code_format, const std::string& code_in_names)
    : prefix(name), machine_code(std::move(machine_code_format)), library(name, sonames),
      code_size(function("Get" + code_in_names + "Size")), code(function("Get" + code_in_names)) {}

Binary RuntimeCompiler::binary(const std::string& text, const std::string& file,
                               const std::vector<std::string>& options) const {
    CompilerProgram program(*this, text, file);
    std::string compiler_log = program.compile(options);
    return {machine_code, program.fetch(code_size, code), program.fetch(assembly_size, assembly),
            std::move(compiler_log)};
}

}  // namespace firsttouch
