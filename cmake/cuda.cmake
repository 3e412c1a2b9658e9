# Looks for CUDA, sets TERN_HAVE_CUDA and the flags of .cu files. The runtime is linked statically, so that the same
# binary runs where there is no driver.
set(TERN_CUDA AUTO CACHE STRING "Build the CUDA kernels: ON, OFF, or AUTO where nvcc 13 or newer is found")
option(TERN_CUDA_BRIEF "Compile CUDA kernels for one architecture each: to see that they compile, not to run them" OFF)
set(TERN_HAVE_CUDA 0)
if(TERN_CUDA STREQUAL "OFF" OR (TERN_CUDA STREQUAL "AUTO" AND (CMAKE_CROSSCOMPILING OR TERN_SANITIZE)))
  return()
endif()

include(CheckLanguage)
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(TERN_NVCC nvcc HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  if(TERN_NVCC)
    set(CMAKE_CUDA_COMPILER ${TERN_NVCC})
  endif()
endif()
set(CMAKE_CUDA_ARCHITECTURES 75)  # for CMake's check of the compiler; our files get their architectures below
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  find_package(CUDAToolkit 13.0)
endif()
if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
  set(TERN_HAVE_CUDA 1)
elseif(TERN_CUDA STREQUAL "ON")
  message(FATAL_ERROR "TERN_CUDA is ON, but no CUDA 13 toolkit was found: set CUDACXX to its nvcc, or CUDA_PATH.")
else()
  message(STATUS "No CUDA 13 toolkit: building for CPUs only. Set CUDACXX to its nvcc, or CUDA_PATH.")
  return()
endif()

# The numerics flags are nvcc's equivalents of those in flags.cmake.
add_library(tern_cuda_flags INTERFACE)
target_compile_options(tern_cuda_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:\
-std=c++20;\
--fmad=false;--ftz=false;--prec-div=true;--prec-sqrt=true;--expt-relaxed-constexpr;--compress-mode=size;-diag-suppress=2810$<COMMA>554;-Xcompiler=-Wall$<COMMA>-Wextra>")
if(TERN_WERROR)
  target_compile_options(tern_cuda_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
endif()

# Machine code for Turing (7.5), Ampere (8.0) and Hopper (9.0a). GPUs newer than 8.0 compile the PTX of 8.0, older ones
# that of 7.5. If an op has files for several architectures, each is compiled for its own architecture only. A newer GPU
# runs such a kernel only when it is asked for by name, and compiles its PTX.
set(TERN_CUDA_CODE_75 "--generate-code=arch=compute_75,code=[compute_75,sm_75]")
set(TERN_CUDA_CODE_80 "--generate-code=arch=compute_80,code=[compute_80,sm_80]")
set(TERN_CUDA_CODE_90a "--generate-code=arch=compute_90a,code=sm_90a")
function(tern_cuda_architectures)
  foreach(source IN LISTS ARGN)
    cmake_path(GET source PARENT_PATH folder)
    set(code ${TERN_CUDA_CODE_75} ${TERN_CUDA_CODE_80} ${TERN_CUDA_CODE_90a})
    if(source MATCHES "/cuda_(float_|wide_)?sm([0-9]+a?)\\.cu$")
      set(own ${CMAKE_MATCH_2})
      file(GLOB others ${folder}/cuda_sm*.cu)
      list(LENGTH others count)
      if(count GREATER 1)
        set(code ${TERN_CUDA_CODE_${own}})
      endif()
    endif()
    if(TERN_CUDA_BRIEF)
      string(REGEX REPLACE "^--generate-code=arch=compute_([0-9]+a?),.*$"
                           "--generate-code=arch=compute_\\1,code=sm_\\1" code "${code}")
    endif()
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${code}")
  endforeach()
endfunction()
