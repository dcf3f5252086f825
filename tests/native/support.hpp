// Helpers of several tests: an environment variable for a scope, a temporary folder, the message of an exception.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace firsttouch {

class ScopedVariable {
  public:
    ScopedVariable(std::string name, const std::string& value) : name_(std::move(name)) {
        if (const char* text = std::getenv(name_.c_str()); text != nullptr) before_ = text, was_set_ = true;
        setenv(name_.c_str(), value.c_str(), 1);
    }
    ScopedVariable(const ScopedVariable&) = delete;
    ScopedVariable& operator=(const ScopedVariable&) = delete;
    ~ScopedVariable() {
        if (was_set_)
            setenv(name_.c_str(), before_.c_str(), 1);
        else
            unsetenv(name_.c_str());
    }

  private:
    std::string name_, before_;
    bool was_set_ = false;
};

class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "firsttouch-XXXXXX").string();
        path = mkdtemp(name.data());
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    void write(const std::string& file, const std::string& text) const {
        std::filesystem::create_directories((path / file).parent_path());
        std::ofstream(path / file) << text;
    }
    std::filesystem::path path;
};

// Returns the message of the exception that `action` throws, or "" if it throws none.
template <class Exception, class Action>
std::string message_of(Action&& action) {
    try {
        action();
    } catch (const Exception& error) {
        return error.what();
    }
    return "";
}

inline testing::AssertionResult contains(const std::string& text, const std::string& part) {
    if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

}  // namespace firsttouch
