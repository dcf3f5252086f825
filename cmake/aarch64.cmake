# Cross-compiles for 64-bit Arm Linux (Grace, Jetson) with Debian's g++-aarch64-linux-gnu.
# Tests run under qemu-user where it is installed:
#   cmake -S . -B build/aarch64 -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DFIRSTTOUCH_PYTHON=OFF
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(FIRSTTOUCH_AARCH64_ROOT /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${FIRSTTOUCH_AARCH64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

find_program(FIRSTTOUCH_QEMU_AARCH64 NAMES qemu-aarch64-static qemu-aarch64)
if(FIRSTTOUCH_QEMU_AARCH64)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${FIRSTTOUCH_QEMU_AARCH64} -L ${FIRSTTOUCH_AARCH64_ROOT})
endif()
