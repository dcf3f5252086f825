// Before the kernels of an application are included for the host: versions of each for the instruction sets of x86-64,
// chosen when the process starts. A sanitizer's build and other processors take one version.
#pragma once

#include <atomic>
#include <cmath>

#include "host/entries.hpp"

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define HOST_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#endif
