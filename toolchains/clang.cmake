# Clang, with a sysroot or with the headers, libraries and linker of Debian's cross GCC.
# Variables: as in gcc.cmake; CXX_EXECUTABLE is clang++, which compiles for every architecture.
set(CMAKE_CXX_COMPILER_TARGET ${TARGET_ARCHITECTURE}-linux-gnu)
include(${CMAKE_CURRENT_LIST_DIR}/system_compiler.cmake)
