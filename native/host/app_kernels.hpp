// Included before the kernels of an application when they are compiled for the host. On x86-64, GCC compiles each
// kernel for several instruction sets, and the version is chosen when the process starts. Builds with a sanitizer and
// other processors have one version.
#pragma once

#include <atomic>
#include <bit>
#include <cmath>

#include "host/entries.hpp"

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define HOST_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#endif
