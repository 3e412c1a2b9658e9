# Every src/**/*_fuzz.cpp is a libFuzzer program in build/fuzz/fuzz, with its corpus in tests/corpus/<name>.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "libFuzzer comes with clang: cmake --preset fuzz (CMAKE_CXX_COMPILER=clang++)")
endif()

# Only the rooms that read files, and the rooms below them. Their code is instrumented, so that the fuzzer sees which
# edges an input reached. Without the kernels, a minute of fuzzing need not wait for them to be compiled.
set(reader_sources ${sources})
list(FILTER reader_sources INCLUDE REGEX "/src/(base|device|memory|format|io)/[^/]+\\.cpp$")
add_library(tern_readers STATIC ${reader_sources})
target_compile_definitions(tern_readers PRIVATE TERN_BUILDING)
target_compile_options(tern_readers PRIVATE -fsanitize=fuzzer-no-link)
target_include_directories(tern_readers PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/generated
                           ${PROJECT_SOURCE_DIR}/src)
target_include_directories(tern_readers SYSTEM PUBLIC ${TERN_SYSTEM_INCLUDES})
target_link_libraries(tern_readers PUBLIC tern_flags nlohmann_json::nlohmann_json ${TERN_PRIVATE_LIBRARIES})

file(GLOB_RECURSE fuzz_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_fuzz.cpp)
foreach(source IN LISTS fuzz_sources)
  cmake_path(GET source STEM stem)
  add_executable(${stem} ${source})
  string(REGEX REPLACE "_fuzz$" "" name ${stem})
  set_target_properties(${stem} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
  target_link_libraries(${stem} PRIVATE tern_readers)
  target_compile_options(${stem} PRIVATE -fsanitize=fuzzer)
  target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
endforeach()
