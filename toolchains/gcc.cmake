# GCC as the distribution packages it: the system's own, or Debian's cross compiler. Its programs need its
# glibc and libstdc++. If they are newer than the board's, the gate after the build refuses the program.
# Variables (they come from the toolchain and the target's data):
#   CXX_EXECUTABLE        the g++ of the target's architecture
#   TARGET_ARCHITECTURE   x86_64 or aarch64
#   TARGET_SYSROOT        folder with the board's headers and libraries (optional)
include(${CMAKE_CURRENT_LIST_DIR}/system_compiler.cmake)
