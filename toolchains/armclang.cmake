# Arm's compiler for Linux (armclang++, licensed), which runs on arm64 machines and compiles for them.
# Variables: as in gcc.cmake.
include(${CMAKE_CURRENT_LIST_DIR}/system_compiler.cmake)
