# libtern: every .cpp below src/ but the laboratory and the leaves (test, bench, selftest, fuzz) is part of it.
file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cpp)
list(FILTER sources EXCLUDE REGEX "/src/lab/|/(test|bench|selftest)\\.cpp$|_(test|fuzz)\\.cpp$")

# What talks to GPUs has a second file for builds without CUDA.
if(TERN_HAVE_CUDA)
  file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/*.cu)
  tern_cuda_architectures(${cuda_sources})
  list(APPEND sources ${cuda_sources})
  list(FILTER sources EXCLUDE REGEX "_absent\\.cpp$")
else()
  list(FILTER sources EXCLUDE REGEX "/src/device/(cuda|cuda_devices|nvml)\\.cpp$")
endif()

foreach(isa IN LISTS TERN_ISA_NAMES)
  set(isa_sources ${sources})
  list(FILTER isa_sources INCLUDE REGEX "/src/ops/[^/]+/${isa}\\.cpp$")
  if(NOT TERN_ISA_BUILT_${isa})
    list(REMOVE_ITEM sources ${isa_sources})
  elseif(TERN_ISA_FLAGS_${isa} AND isa_sources)
    set_source_files_properties(${isa_sources} PROPERTIES COMPILE_OPTIONS "${TERN_ISA_FLAGS_${isa}}")
  endif()
endforeach()

add_library(tern_objects OBJECT ${sources})
set_target_properties(tern_objects PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                      VISIBILITY_INLINES_HIDDEN ON
                      UNITY_BUILD OFF)  # its files have names of their own, for themselves; those of tests can meet
target_include_directories(tern_objects
  PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/generated
  PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_include_directories(tern_objects SYSTEM PRIVATE ${TERN_SYSTEM_INCLUDES})
target_compile_definitions(tern_objects PRIVATE TERN_BUILDING)
target_link_libraries(tern_objects PRIVATE tern_flags nlohmann_json::nlohmann_json)

# By target name and not by path: the installed package makes the same targets from what its user's machine has.
function(tern_system_library name path)
  add_library(tern::${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(tern::${name} PROPERTIES IMPORTED_LOCATION ${path})
endfunction()
set(TERN_PRIVATE_LIBRARIES Threads::Threads)
if(TERN_HAVE_CUDA)
  target_include_directories(tern_objects SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(tern_objects PRIVATE tern_cuda_flags)
  set_target_properties(tern_objects PROPERTIES CUDA_VISIBILITY_PRESET hidden
                        CUDA_SEPARABLE_COMPILATION OFF)
  tern_system_library(cudart_static ${CUDA_cudart_static_LIBRARY})
  list(APPEND TERN_PRIVATE_LIBRARIES tern::cudart_static rt ${CMAKE_DL_LIBS})
endif()
if(TERN_HAVE_HWLOC)
  tern_system_library(hwloc ${TERN_HWLOC_LIBRARY})
  list(APPEND TERN_PRIVATE_LIBRARIES tern::hwloc)
endif()

# The same objects as a shared library (tern::tern) and as an archive (tern::tern_static).
add_library(tern SHARED $<TARGET_OBJECTS:tern_objects>)
add_library(tern_static STATIC $<TARGET_OBJECTS:tern_objects>)
set_target_properties(tern PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
set_target_properties(tern_static PROPERTIES OUTPUT_NAME tern)
set_target_properties(tern PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
target_link_options(tern PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
if(TERN_SANITIZE)
  target_link_options(tern PRIVATE -fsanitize=${TERN_SANITIZE})
endif()
foreach(library tern tern_static)
  add_library(tern::${library} ALIAS ${library})
  target_compile_features(${library} PUBLIC cxx_std_20)
  target_include_directories(${library} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${library} PRIVATE ${TERN_PRIVATE_LIBRARIES})
endforeach()
set_target_properties(tern tern_static PROPERTIES LINKER_LANGUAGE CXX)

# What our own tools and tests see: the archive and the rooms behind it.
add_library(tern_internal INTERFACE)
target_link_libraries(tern_internal INTERFACE tern_static tern_flags nlohmann_json::nlohmann_json)
target_include_directories(tern_internal INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_include_directories(tern_internal SYSTEM INTERFACE ${TERN_SYSTEM_INCLUDES})
