// A fixture for tests that run on every device of this machine: the host, and OpenCL and CUDA where a driver is found.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/library.hpp"
#include "probe/probes.hpp"
#include "support.hpp"

namespace firsttouch {

inline constexpr std::size_t MiB = 1024 * 1024;
inline const Stop brief{.tolerance = 0.1, .seconds = 0.05, .min_samples = 3, .max_samples = 20};
inline const Stop very_brief{.tolerance = 0.5, .seconds = 0.01, .min_samples = 3, .max_samples = 5};

// Uses the driver in FIRSTTOUCH_LIB_OPENCL_ICD if it is set, otherwise those that /etc/OpenCL/vendors lists.
inline void find_opencl_drivers() {
    std::vector<std::string> drivers;
    if (const char* chosen = std::getenv("FIRSTTOUCH_LIB_OPENCL_ICD"); chosen != nullptr && *chosen != '\0') {
        drivers.emplace_back(chosen);
    } else {
        std::error_code ignored;
        for (const auto& entry : std::filesystem::directory_iterator("/etc/OpenCL/vendors", ignored)) {
            std::ifstream file(entry.path());
            if (std::string line; entry.path().extension() == ".icd" && file >> line) drivers.push_back(line);
        }
    }
    set_library_paths("opencl-icd", drivers);
    static const TemporaryFolder cache;  // of PoCL's compiled kernels
    setenv("POCL_CACHE_DIR", cache.path.c_str(), 0);
}

// Repeats a measurement that needs several threads to run at the same time, until `done` holds for its outcome. On a
// busy machine the system may not have scheduled one of them.
template <class Measure, class Done>
auto repeat_until(Done&& done, Measure&& measure) {
    auto found = measure();
    for (int attempt = 1; attempt < 10 && !done(found); ++attempt) found = measure();
    return found;
}

class OnDevice : public testing::TestWithParam<std::string> {
  protected:
    void SetUp() override {
        static const bool once = (find_opencl_drivers(), true);
        (void)once;
        if (GetParam() != "cpu") {
#if defined(__SANITIZE_THREAD__)
            GTEST_SKIP() << "drivers are not built with the thread sanitizer";
#endif
        }
        try {
            device = open_device(GetParam());
        } catch (const Unavailable& reason) {
            GTEST_SKIP() << reason.what();
        }
        lab = std::make_unique<Lab>(*device);
    }
    std::vector<AllocatorInfo> available_allocators() {
        std::vector<AllocatorInfo> list;
        for (const auto& entry : device->allocators())
            if (entry.available) list.push_back(entry);
        return list;
    }
    std::vector<Agent> agents_of(const Buffer& buffer) {
        std::vector<Agent> list;
        for (const Agent agent : {Agent::cpu, Agent::gpu})
            if (lab->reaches(agent, buffer)) list.push_back(agent);
        return list;
    }
    static void expect_sane(const Outcome& outcome) {
        EXPECT_EQ(outcome.errors, 0u);
        EXPECT_GE(outcome.samples.values.size(), 3u);
        EXPECT_NE(outcome.samples.stopped_by, "");
    }
    static void expect_positive(const Outcome& outcome) {
        expect_sane(outcome);
        for (const double value : outcome.samples.values) EXPECT_GT(value, 0);
    }
    // For probes that take fewer than three samples where one would take long, as on a busy machine.
    static void expect_few_positive(const Outcome& outcome) {
        EXPECT_EQ(outcome.errors, 0u);
        EXPECT_FALSE(outcome.samples.values.empty());
        EXPECT_NE(outcome.samples.stopped_by, "");
        for (const double value : outcome.samples.values) EXPECT_GT(value, 0);
    }
    std::unique_ptr<Device> device;
    std::unique_ptr<Lab> lab;
};

inline const auto every_device = testing::Values("cpu", "opencl:0", "cuda:0");
inline const auto kind_of = [](const testing::TestParamInfo<std::string>& info) {
    return info.param.substr(0, info.param.find(':'));
};

}  // namespace firsttouch
