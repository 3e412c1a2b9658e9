# Dependencies of a cross build, which cannot link this machine's libraries: fmt and spdlog as headers only, GoogleTest
# from its sources.
function(tern_headers_only name header package)
  if(TARGET ${name}::${name})  # defined by an outer project
    return()
  endif()
  find_path(TERN_${name}_INCLUDE ${header})
  tern_require(TERN_${name}_INCLUDE "${header}" ${package})
  add_library(${name}::${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${name}::${name} SYSTEM INTERFACE ${TERN_${name}_INCLUDE})
  target_compile_definitions(${name}::${name} INTERFACE ${ARGN})
endfunction()

tern_headers_only(fmt fmt/core.h libfmt-dev FMT_HEADER_ONLY)
if(TERN_BUILD_CLI)
  tern_headers_only(spdlog spdlog/spdlog.h libspdlog-dev SPDLOG_FMT_EXTERNAL)
endif()
if(TERN_BUILD_TESTS AND NOT TARGET GTest::gtest_main)
  find_path(TERN_GTEST_SOURCE googletest/src/gtest-all.cc PATHS /usr/src/googletest)
  tern_require(TERN_GTEST_SOURCE "The source of GoogleTest" libgtest-dev)
  set(BUILD_GMOCK OFF)
  set(INSTALL_GTEST OFF)
  add_subdirectory(${TERN_GTEST_SOURCE} ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
endif()
