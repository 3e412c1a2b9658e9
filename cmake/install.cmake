# cmake --install: headers, libraries, the tern command, packages for CMake and pkg-config, the licences. Nothing in them
# names a folder of this machine, so an installed tree may be moved.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tern)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tern ${PROJECT_BINARY_DIR}/generated/tern
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# Two export sets, because only users of the archive must link hwloc and CUDA's runtime.
install(TARGETS tern EXPORT ternSharedTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS tern_static EXPORT ternStaticTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(set ternSharedTargets ternStaticTargets)
  install(EXPORT ${set} NAMESPACE tern:: DESTINATION ${package_dir})
endforeach()
set(TERN_CONFIG_LIBRARIES "")
set(TERN_PC_LIBRARIES "")
if(TERN_HAVE_HWLOC)
  string(APPEND TERN_CONFIG_LIBRARIES " hwloc")
  string(APPEND TERN_PC_LIBRARIES " -lhwloc")
endif()
if(TERN_HAVE_CUDA)
  string(APPEND TERN_CONFIG_LIBRARIES " cudart_static")
  string(APPEND TERN_PC_LIBRARIES " -lcudart_static -lrt -ldl")
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/ternConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/package/ternConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/ternConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/ternConfig.cmake ${PROJECT_BINARY_DIR}/package/ternConfigVersion.cmake
        DESTINATION ${package_dir})

# pkg-config: tern.pc names the prefix relative to its own folder.
file(RELATIVE_PATH TERN_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" TERN_PC_PREFIX "${TERN_PC_PREFIX}")
configure_file(cmake/tern.pc.in ${PROJECT_BINARY_DIR}/package/tern.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/tern.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE-MIT ${PROJECT_SOURCE_DIR}/LICENSE-APACHE
        DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The command links the archive, so it needs no rpath.
if(TARGET tern_cli)
  install(TARGETS tern_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
