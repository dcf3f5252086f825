#include "profile/inject/core/recording.hpp"

#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>

namespace firsttouch::inject {

bool is_one(const char* variable) noexcept {
    const char* const value = std::getenv(variable);
    return value != nullptr && std::string_view(value) == "1";
}

Recording::Recording(Journal& to) : journal(to) {
    const char* const percent = std::getenv("FIRSTTOUCH_HOST");
    const bool has_shadow = is_one("FIRSTTOUCH_SHADOW");
    if (percent == nullptr && !has_shadow) return;
    try {
        if (has_shadow)
            watch = std::make_unique<Shadow>(journal, places);
        else
            watch = std::make_unique<HostWatch>(journal, std::strtod(percent, nullptr));
        recorder.tell(*watch);
    } catch (const std::exception& reason) {
        notice(Layer::host, "what the CPU does with host data is not seen: ", reason.what());
    }
}

void Recording::reads_device_by(ReadDevice read) {
    if (auto* const shadow = dynamic_cast<Shadow*>(watch.get())) shadow->reads_device_by(std::move(read));
}

// Never freed: runtimes may call for as long as the process runs.
Recording* Recording::of_this_process() noexcept {
    static Recording* const made = []() -> Recording* {
        if (!is_one("FIRSTTOUCH_TRACE") || inject::journal() == nullptr) return nullptr;
        try {
            return new Recording(*inject::journal());
        } catch (...) {
            notice(Layer::trace, "this process is not traced: there is no memory");
            return nullptr;
        }
    }();
    return made;
}

}  // namespace firsttouch::inject
