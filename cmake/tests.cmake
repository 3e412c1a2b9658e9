# One test program per folder that has a test.cpp or *_test.cpp; every case in it is a CTest test.
if(NOT TARGET GTest::gtest_main)
  find_package(GTest REQUIRED)
endif()
include(GoogleTest)

function(tern_test_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE tern_internal GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})  # for tests/support
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)   # tests are compiled more often than they run
  if(TERN_SANITIZE AND ARGN MATCHES "/(src/(api|base|device|io|memory|model|plan)|tests/cli)/")  # have no long loops
    target_compile_options(${name} PRIVATE -O0)
  endif()
  target_compile_definitions(${name} PRIVATE TERN_WORDS_ARE_CALLED)  # simd/emulated.h
  tern_light_sanitizers(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(TARGET tern_lab)
    target_link_libraries(${name} PRIVATE tern_lab)
  endif()
  set(labels)
  set(timeout 300)
  if(name MATCHES "_slow$") # a folder named slow: its tests run in scripts/test-deep only
    set(labels LABELS slow)
    set(timeout 900)
  endif()
  if(TERN_SANITIZE)  # several times slower, more so on a busy machine
    set(timeout 900)
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 TEST_PREFIX "${name}."
    PROPERTIES SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]" TIMEOUT ${timeout} ${labels}
               # Tests provoke refused allocations; the sanitizer must not stop there.
               ENVIRONMENT "ASAN_OPTIONS=allocator_may_return_null=1")
endfunction()

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     ${PROJECT_SOURCE_DIR}/src/test.cpp ${PROJECT_SOURCE_DIR}/src/*_test.cpp ${PROJECT_SOURCE_DIR}/tests/*_test.cpp)
if(NOT TARGET tern_lab)
  list(FILTER test_sources EXCLUDE REGEX "^src/lab/")
endif()
if(TERN_SANITIZE)  # scripts/test-deep runs them, in release
  list(FILTER test_sources EXCLUDE REGEX "^tests/slow/")
endif()
set(test_folders)
foreach(source IN LISTS test_sources)
  cmake_path(GET source PARENT_PATH folder)
  list(APPEND test_folders ${folder})
endforeach()
list(REMOVE_DUPLICATES test_folders)
foreach(folder IN LISTS test_folders)
  set(sources ${test_sources})
  list(FILTER sources INCLUDE REGEX "^${folder}/[^/]+$")
  list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/)
  string(REGEX REPLACE "^(src/ops|src|tests)/" "" name "${folder}")
  string(REPLACE "/" "_" name "test_${name}")
  tern_test_program(${name} ${sources})
endforeach()

# The command-line tests run the built command.
if(TARGET test_cli AND TARGET tern_cli)
  if(TERN_COVERAGE)
    target_sources(tern_cli PRIVATE ${PROJECT_SOURCE_DIR}/tests/cli/without_counts.cpp)
  endif()
  add_executable(tern_cli_differing $<TARGET_OBJECTS:tern_cli> ${PROJECT_SOURCE_DIR}/tests/cli/differing_selftest.cpp)
  set_target_properties(tern_cli_differing PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/cli)
  target_link_libraries(tern_cli_differing PRIVATE $<TARGET_PROPERTY:tern_cli,LINK_LIBRARIES>)
  target_compile_definitions(test_cli PRIVATE TERN_CLI_PATH="$<TARGET_FILE:tern_cli>"
                             TERN_DIFFERING_CLI_PATH="$<TARGET_FILE:tern_cli_differing>")
  add_dependencies(test_cli tern_cli tern_cli_differing)
endif()
# These read the golden files and corpora of the source tree, or share a header with those that do.
foreach(name test_api test_io test_format test_plan test_model test_golden test_end_to_end test_affine_quantize test_affine_dequantize
             test_fake_quantize test_fake_quantize_backward test_choose_qparams test_dynamic_quantize test_cli
             test_conv2d)
  if(TARGET ${name})
    target_compile_definitions(${name} PRIVATE TERN_TESTS_DIR="${PROJECT_SOURCE_DIR}/tests")
  endif()
endforeach()
# The programs below are used by scripts only, in release builds.
if(TERN_SANITIZE)
  return()
endif()
# The program whose instructions scripts/test-deep counts.
add_executable(callgrind_cases ${PROJECT_SOURCE_DIR}/tests/callgrind/main.cpp)
target_link_libraries(callgrind_cases PRIVATE tern_lab tern_flags)
target_include_directories(callgrind_cases PRIVATE ${PROJECT_SOURCE_DIR})
set_target_properties(callgrind_cases PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
# Makes a model of any size to try the commands on.
add_executable(make_bitnet_checkpoint ${PROJECT_SOURCE_DIR}/tests/tools/make_bitnet_checkpoint.cpp)
target_link_libraries(make_bitnet_checkpoint PRIVATE tern_internal)
target_include_directories(make_bitnet_checkpoint PRIVATE ${PROJECT_SOURCE_DIR})
set_target_properties(make_bitnet_checkpoint PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
