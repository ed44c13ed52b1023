# What gcc.cmake, clang.cmake and armclang.cmake share.
foreach(variable CXX_EXECUTABLE TARGET_ARCHITECTURE)
  if(NOT ${variable})
    message(FATAL_ERROR "${CMAKE_CURRENT_LIST_FILE} needs -D${variable}=...")
  endif()
endforeach()

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${TARGET_ARCHITECTURE})
set(CMAKE_CXX_COMPILER ${CXX_EXECUTABLE})
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CXX_EXECUTABLE TARGET_ARCHITECTURE TARGET_CPU TARGET_SYSROOT)
if(TARGET_SYSROOT)
  set(CMAKE_SYSROOT ${TARGET_SYSROOT})
endif()

# Compilers know different cores: one that this compiler does not know is left out.
if(TARGET_CPU)
  set(tune -mtune=${TARGET_CPU})
  if(CMAKE_CXX_COMPILER_TARGET)
    list(PREPEND tune --target=${CMAKE_CXX_COMPILER_TARGET})
  endif()
  execute_process(
    COMMAND ${CXX_EXECUTABLE} ${tune} -Werror -x c++ -c /dev/null -o /dev/null
    RESULT_VARIABLE refused OUTPUT_QUIET ERROR_QUIET)
  if(NOT refused)
    set(CMAKE_CXX_FLAGS_INIT "-mtune=${TARGET_CPU}")
  endif()
endif()
set(CMAKE_EXE_LINKER_FLAGS_INIT "-s")

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
