# One row per instruction set: its name, the processors it exists on, its compiler flags. A file named after a row, in
# any folder of src/ops, is compiled with the row's flags; what the compiler cannot build becomes a rejection.
include(CheckCXXCompilerFlag)

set(TERN_ISA_NAMES)
function(tern_isa name processors)
  set(flags ${ARGN})
  set(built 0)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "${processors}")
    if(flags)
      string(REPLACE ";" " " joined "${flags}")
      check_cxx_compiler_flag("${joined}" TERN_COMPILER_HAS_${name})
    else()
      set(TERN_COMPILER_HAS_${name} 1)
    endif()
    if(TERN_COMPILER_HAS_${name})
      set(built 1)
    endif()
  endif()
  set(TERN_ISA_NAMES ${TERN_ISA_NAMES} ${name} PARENT_SCOPE)
  set(TERN_ISA_FLAGS_${name} ${flags} PARENT_SCOPE)
  set(TERN_ISA_BUILT_${name} ${built} PARENT_SCOPE)
endfunction()

# GCC's own AVX-512 header reads variables it left alone on purpose (GCC bug 105593).
set(avx512_warnings)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(avx512_warnings -Wno-uninitialized -Wno-maybe-uninitialized)
endif()
#        name       processors          flags
tern_isa(reference  ".*")
tern_isa(scalar     ".*")
tern_isa(x86_sse41  "x86_64|AMD64"      -msse4.1)
tern_isa(x86_avx2   "x86_64|AMD64"      -mavx2 -mfma -mf16c)
tern_isa(x86_avx512 "x86_64|AMD64"      -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq
                                        ${avx512_warnings})

# build_config.h: what kernels.inc and the rooms ask about this build.
set(TERN_BUILT_MACROS "")
foreach(name IN LISTS TERN_ISA_NAMES)
  if(TERN_ISA_BUILT_${name})
    string(APPEND TERN_BUILT_MACROS "#define TERN_BUILT_${name}(symbol) (&symbol)\n")
  else()
    string(APPEND TERN_BUILT_MACROS "#define TERN_BUILT_${name}(symbol) nullptr\n")
  endif()
endforeach()
configure_file(cmake/build_config.h.in ${PROJECT_BINARY_DIR}/generated/build_config.h)
configure_file(include/tern/version.h.in ${PROJECT_BINARY_DIR}/generated/tern/version.h)
