# The laboratory (selftest, benches, limits; never installed) and the tern command.
find_package(CLI11 REQUIRED)
if(NOT TARGET spdlog::spdlog)
  find_package(spdlog REQUIRED)
endif()

file(GLOB_RECURSE lab_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/lab/*.cpp
     ${PROJECT_SOURCE_DIR}/src/ops/bench.cpp ${PROJECT_SOURCE_DIR}/src/ops/selftest.cpp)
list(FILTER lab_sources EXCLUDE REGEX "/test\\.cpp$|_test\\.cpp$")
if(TERN_HAVE_CUDA)
  file(GLOB lab_cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/lab/*.cu)
  tern_cuda_architectures(${lab_cuda_sources})
  list(APPEND lab_sources ${lab_cuda_sources})
  list(FILTER lab_sources EXCLUDE REGEX "/gpu_loops_absent\\.cpp$")
endif()
# Kept out of the unity build: the ops' bench.cpp and selftest.cpp files use the same names for the same things, and
# tern_cli_differing (cmake/tests.cmake) replaces lab/selftest.cpp.
set(alone ${lab_sources})
list(FILTER alone INCLUDE REGEX "/src/ops/|/lab/selftest\\.cpp$")
set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
add_library(tern_lab STATIC ${lab_sources})
if(TERN_HAVE_CUDA)
  target_link_libraries(tern_lab PRIVATE tern_cuda_flags)
endif()
add_custom_target(tern_commit BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/commit.h
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${PROJECT_BINARY_DIR}/generated/commit.h
          -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake)
add_dependencies(tern_lab tern_commit)
target_link_libraries(tern_lab PUBLIC tern_internal)

file(GLOB cli_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/cli/*.cpp)
add_executable(tern_cli ${cli_sources})
target_compile_options(tern_cli PRIVATE $<$<CONFIG:Release>:-O1>)  # its time goes into the library
if(TERN_SANITIZE)
  target_compile_options(tern_cli PRIVATE -O0)
endif()
tern_light_sanitizers(tern_cli)
set_target_properties(tern_cli PROPERTIES OUTPUT_NAME tern RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
target_link_libraries(tern_cli PRIVATE tern_lab CLI11::CLI11 fmt::fmt spdlog::spdlog)
# The two headers that take longest to compile, precompiled once for all commands.
target_precompile_headers(tern_cli PRIVATE <CLI/CLI.hpp> <nlohmann/json.hpp>)
