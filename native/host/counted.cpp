#include "host/counted.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace firsttouch {
namespace {

constexpr int longest_answer_ms = 5000;

int open_pipe(const std::string& path, int mode) {
    const int descriptor = open(path.c_str(), mode | O_CLOEXEC);
    if (descriptor < 0) throw std::system_error(errno, std::generic_category(), "the profiler's pipe " + path);
    return descriptor;
}

}  // namespace

CountedRegion::CountedRegion(bool counted) {
    const char* pipes = std::getenv("FIRSTTOUCH_COUNTERS_CONTROL");
    if (!counted || pipes == nullptr) return;
    const std::string both = pipes;
    const std::size_t comma = both.find(',');
    control_ = open_pipe(both.substr(0, comma), O_WRONLY | O_NONBLOCK);  // fails at once if no profiler reads it
    try {
        acknowledge_ = open_pipe(both.substr(comma + 1), O_RDONLY | O_NONBLOCK);
        send("enable\n");
    } catch (...) {
        if (acknowledge_ >= 0) close(acknowledge_);
        close(control_);
        throw;
    }
}

CountedRegion::~CountedRegion() {
    if (control_ < 0) return;
    try {
        send("disable\n");
    } catch (const std::system_error&) {  // the profiler has ended, and its result is missing
    }
    close(acknowledge_);
    close(control_);
}

void CountedRegion::send(const std::string& command) const {
    if (write(control_, command.data(), command.size()) != static_cast<ssize_t>(command.size()))
        throw std::system_error(errno, std::generic_category(), "the profiler's control pipe");
    pollfd waiting{acknowledge_, POLLIN, 0};
    char answer[16];
    if (poll(&waiting, 1, longest_answer_ms) != 1 || read(acknowledge_, answer, sizeof(answer)) <= 0)
        throw std::system_error(ETIMEDOUT, std::generic_category(), "the profiler's answer");
}

}  // namespace firsttouch
