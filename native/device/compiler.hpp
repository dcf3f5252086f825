// A run-time compiler as a table of functions. NVRTC and hipRTC have the same interface, and names that differ in the
// prefix, which is also the name of the library: "nvrtc" or "hiprtc".
#pragma once

#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/library.hpp"

namespace firsttouch {

struct RuntimeCompiler {
    using Program = struct ProgramTag*;

    // code_in_names: how the functions that return machine code call it.
    RuntimeCompiler(const std::string& name, const std::vector<std::string>& sonames, std::string machine_code,
                    const std::string& code_in_names);

    // Compiles a text; no GPU is needed. Throws VendorError with the log if it does not compile.
    Binary binary(const std::string& text, const std::string& file, const std::vector<std::string>& options) const;

    std::string prefix;
    std::string machine_code;  // "cubin" or "hsaco"
    Library library;
    ApiCall<int*, int*> version = function("Version");
    const char* (*error_string)(int) = function("GetErrorString");
    ApiCall<Program*, const char*, const char*, int, const char* const*, const char* const*> create =
        function("CreateProgram");
    ApiCall<Program*> destroy = function("DestroyProgram");
    ApiCall<Program, int, const char* const*> compile = function("CompileProgram");
    ApiCall<Program, std::size_t*> log_size = function("GetProgramLogSize");
    ApiCall<Program, char*> log = function("GetProgramLog");
    ApiCall<Program, std::size_t*> code_size;
    ApiCall<Program, char*> code;
    ApiCall<Program, std::size_t*> assembly_size = optional_function("GetPTXSize");  // not in hipRTC
    ApiCall<Program, char*> assembly = optional_function("GetPTX");

  private:
    Symbol function(const std::string& name) { return library.function(prefix + name); }
    Symbol optional_function(const std::string& name) { return library.optional_function(prefix + name); }
};

}  // namespace firsttouch
