// What several tests need: an environment variable for a while, a folder of one's own.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace firsttouch {

class Variable {
  public:
    Variable(std::string name, const std::string& value) : name_(std::move(name)) {
        if (const char* text = std::getenv(name_.c_str()); text != nullptr) before_ = text, was_set_ = true;
        setenv(name_.c_str(), value.c_str(), 1);
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;
    ~Variable() {
        if (was_set_)
            setenv(name_.c_str(), before_.c_str(), 1);
        else
            unsetenv(name_.c_str());
    }

  private:
    std::string name_, before_;
    bool was_set_ = false;
};

class Folder {
  public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "firsttouch-XXXXXX").string();
        path = mkdtemp(name.data());
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    void write(const std::string& file, const std::string& text) const {
        std::filesystem::create_directories((path / file).parent_path());
        std::ofstream(path / file) << text;
    }
    std::filesystem::path path;
};

// The text of the exception that `action` throws, "" where it throws nothing.
template <class Exception, class Action>
std::string words_of(Action&& action) {
    try {
        action();
    } catch (const Exception& problem) {
        return problem.what();
    }
    return "";
}

inline testing::AssertionResult holds(const std::string& text, const std::string& part) {
    if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

}  // namespace firsttouch
