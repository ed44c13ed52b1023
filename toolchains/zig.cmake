# Zig's C++ compiler: clang with its own libc++ and every glibc version's symbols, so that nothing is
# needed from the system. Variables (they come from the target's data):
#   ZIG_EXECUTABLE        the zig program of the PyPI package `ziglang`
#   TARGET_ARCHITECTURE   x86_64 or aarch64
#   TARGET_GLIBC          the board's glibc, for example 2.27: no newer symbol is linked
foreach(variable ZIG_EXECUTABLE TARGET_ARCHITECTURE TARGET_GLIBC)
  if(NOT ${variable})
    message(FATAL_ERROR "toolchains/zig.cmake needs -D${variable}=...")
  endif()
endforeach()

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${TARGET_ARCHITECTURE})

# Zig is one program with sub-commands, and CMake wants one program per tool. Zig takes features only as
# -mcpu=<core>+<feature> in LLVM's words, where GCC and clang share -march=armv8.2-a+fp16, and treats -mtune
# as -mcpu. Every call has -s (strip): a link without it would make Zig compile a second libc++, for a minute.
set(ZIG_WRAPPERS ${CMAKE_BINARY_DIR}/zig CACHE PATH "Where the wrappers of Zig's tools are written")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES
    ZIG_EXECUTABLE ZIG_WRAPPERS TARGET_ARCHITECTURE TARGET_GLIBC)
set(executable FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
foreach(tool ar ranlib)
  file(CONFIGURE OUTPUT ${ZIG_WRAPPERS}/${tool} @ONLY
       CONTENT "#!/bin/sh\nexec '@ZIG_EXECUTABLE@' @tool@ \"$@\"\n")
  file(CHMOD ${ZIG_WRAPPERS}/${tool} ${executable})
endforeach()
foreach(tool cc c++)
  file(CONFIGURE OUTPUT ${ZIG_WRAPPERS}/${tool} @ONLY CONTENT [[#!/bin/sh
for argument do
  shift
  case $argument in
    -march=armv8*-a*)
      version=${argument#-march=armv8}
      version=${version%%-a*}
      features=${argument#-march=armv8"$version"-a}
      case $features in
        *+fp16*) features=${features%%+fp16*}+fullfp16${features#*+fp16} ;;
      esac
      argument=-mcpu=generic${version:++v8_${version#.}a}$features ;;
    -mtune=*)
      set -- "$@" -Xclang -tune-cpu -Xclang
      argument=${argument#-mtune=} ;;
  esac
  set -- "$@" "$argument"
done
exec '@ZIG_EXECUTABLE@' @tool@ -s -target @TARGET_ARCHITECTURE@-linux-gnu.@TARGET_GLIBC@ "$@"
]])
  file(CHMOD ${ZIG_WRAPPERS}/${tool} ${executable})
endforeach()

set(CMAKE_C_COMPILER ${ZIG_WRAPPERS}/cc)
set(CMAKE_CXX_COMPILER ${ZIG_WRAPPERS}/c++)
set(CMAKE_AR ${ZIG_WRAPPERS}/ar)
set(CMAKE_RANLIB ${ZIG_WRAPPERS}/ranlib)

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
