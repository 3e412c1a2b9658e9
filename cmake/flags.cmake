# Compiler flags of our own targets. The numerics flags come last, so that no fast-math of an outer project survives.
add_library(tern_flags INTERFACE)
target_compile_features(tern_flags INTERFACE cxx_std_20)
function(tern_cxx_options)
  target_compile_options(tern_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>")
endfunction()
tern_cxx_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -Wno-missing-field-initializers)  # designated initialisers leave the defaults alone
if(TERN_WERROR)
  tern_cxx_options(-Werror)
endif()
if(TERN_SANITIZE)
  tern_cxx_options(-fsanitize=${TERN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE})
  if(TERN_SANITIZE MATCHES "undefined")  # a third of the compile time, and the address sanitizer finds these, too
    tern_cxx_options(-fno-sanitize=null,object-size,vptr)
    tern_cxx_options($<$<BOOL:$<TARGET_PROPERTY:TERN_LIGHT_SANITIZERS>>:-fno-sanitize=undefined>)
  endif()
  if(TERN_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Every test and command is a new process. Position-independent, each would first relocate the two million pointers
    # with which the sanitizers describe the code, which takes half of the time of a short process.
    target_link_options(tern_flags INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  endif()
endif()
tern_cxx_options(-fno-fast-math -ffp-contract=off)

# For the targets around the library (command, tests): without the undefined behaviour sanitizer, which checks only the
# library, they compile in two thirds of the time. Their address sanitizer checks are calls: faster to compile, slower
# to run. TERN_LIGHT_SANITIZERS is read above, because a target's own options come before those of tern_flags, and the
# last of -fsanitize and -fno-sanitize wins.
function(tern_light_sanitizers name)
  set_target_properties(${name} PROPERTIES TERN_LIGHT_SANITIZERS ON)
  if(TERN_SANITIZE MATCHES "undefined")  # of an inline function the linker keeps the first copy, here the library's
    target_link_options(${name} PRIVATE LINKER:--whole-archive,$<TARGET_FILE:tern_static>,--no-whole-archive)
  endif()
  if(TERN_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE --param=asan-instrumentation-with-call-threshold=0)
  endif()
endfunction()

set(TERN_SYSTEM_INCLUDES ${TERN_XXHASH_INCLUDE})
if(TERN_HAVE_HWLOC)
  list(APPEND TERN_SYSTEM_INCLUDES ${TERN_HWLOC_INCLUDE})
endif()
