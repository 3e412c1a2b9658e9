# Every src/**/*_fuzz.cpp is a libFuzzer program in build/fuzz/fuzz; its corpus lies in tests/corpus/<name>.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "libFuzzer comes with clang: cmake --preset fuzz (CMAKE_CXX_COMPILER=clang++)")
endif()

# The library's own code must count its edges for the fuzzer to see what an input reached.
target_compile_options(tern_objects PRIVATE -fsanitize=fuzzer-no-link)

file(GLOB_RECURSE fuzz_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_fuzz.cpp)
foreach(source IN LISTS fuzz_sources)
  cmake_path(GET source STEM stem)
  add_executable(${stem} ${source})
  string(REGEX REPLACE "_fuzz$" "" name ${stem})
  set_target_properties(${stem} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
  target_link_libraries(${stem} PRIVATE tern_internal)
  target_compile_options(${stem} PRIVATE -fsanitize=fuzzer)
  target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
endforeach()
