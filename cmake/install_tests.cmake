# Outside projects, one for each way to use an installed tern, and one CTest test for each. Release only: they test the
# packaging, which is the same in sanitizer and debug builds.
set(install_work ${PROJECT_BINARY_DIR}/install_tests)
function(tern_install_test name)
  add_test(NAME install.${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/install/run ${name} ${PROJECT_BINARY_DIR}
                                        ${install_work} ${PROJECT_SOURCE_DIR})
  set_tests_properties(install.${name} PROPERTIES LABELS install TIMEOUT 600 ${ARGN})
endfunction()

tern_install_test(prefix FIXTURES_SETUP installed)
foreach(name shared static pkg_config pkg_config_static)
  tern_install_test(${name} FIXTURES_REQUIRED installed)
endforeach()
tern_install_test(add_subdirectory)
if(TARGET tern_cli)
  tern_install_test(command FIXTURES_REQUIRED installed)
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/include/tern/tern_c.h)
  tern_install_test(c_program FIXTURES_REQUIRED installed)
endif()
