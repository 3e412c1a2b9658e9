# libtern: every .cpp below src/ but the laboratory and the leaves (test, bench, selftest, fuzz) is part of it.
file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cpp)
list(FILTER sources EXCLUDE REGEX "/src/lab/|/(test|bench|selftest)\\.cpp$|_(test|fuzz)\\.cpp$")

# The files that talk to GPUs have stand-ins (*_absent.cpp) for builds without CUDA.
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
  set_source_files_properties(${isa_sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(NOT TERN_ISA_BUILT_${isa})
    list(REMOVE_ITEM sources ${isa_sources})
  elseif(TERN_ISA_FLAGS_${isa} AND isa_sources)
    set_source_files_properties(${isa_sources} PROPERTIES COMPILE_OPTIONS "${TERN_ISA_FLAGS_${isa}}")
  endif()
endforeach()

# Where CMAKE_UNITY_BUILD is on (the presets), up to eight files of a folder are one translation unit, because most of
# the compile time goes into headers. Files of different folders are never combined, so a name in an anonymous namespace
# must be unique in its folder. Only kWhere may be in every file: a macro renames it in each. Kernel files are compiled
# alone, because each has its own flags and must define a single global symbol (tools/check_symbols.py).
function(tern_unity_by_folder)
  foreach(source IN LISTS ARGN)
    get_source_file_property(alone ${source} SKIP_UNITY_BUILD_INCLUSION)
    if(NOT alone AND source MATCHES "/src/(ops/)?([a-z_]+)/[^/]+\\.cpp$")
      set(folder ${CMAKE_MATCH_2})
      list(APPEND files_${folder} ${source})
      list(LENGTH files_${folder} count)
      math(EXPR group "(${count} - 1) / 8")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
    endif()
  endforeach()
endfunction()

# Two sets of objects, so that sanitizers spend their time on the loops: the ops and formats, whose lines TERN_COVERAGE
# counts, and the other rooms, which a build with sanitizers compiles without optimization.
function(tern_object_library name)
  add_library(${name} OBJECT ${ARGN})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON UNITY_BUILD_MODE GROUP UNITY_BUILD_UNIQUE_ID TERN_UNITY
                        UNITY_BUILD_CODE_BEFORE_INCLUDE "#define kWhere TERN_UNITY")
  tern_unity_by_folder(${ARGN})
  if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # In a unity build g++ takes each file for a header, and reports names of one file as shadowed in the next.
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage;-Wno-shadow>)
  endif()
  target_include_directories(${name}
    PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/generated
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(${name} SYSTEM PRIVATE ${TERN_SYSTEM_INCLUDES})
  target_compile_definitions(${name} PRIVATE TERN_BUILDING)
  target_link_libraries(${name} PRIVATE tern_flags nlohmann_json::nlohmann_json)
  if(TERN_HAVE_CUDA)
    target_include_directories(${name} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(${name} PRIVATE tern_cuda_flags)
    set_target_properties(${name} PROPERTIES CUDA_VISIBILITY_PRESET hidden CUDA_SEPARABLE_COMPILATION OFF)
  endif()
endfunction()

set(loops ${sources})
list(FILTER loops INCLUDE REGEX "/src/(ops|format)/")
set(others ${sources})
list(REMOVE_ITEM others ${loops})
tern_object_library(tern_loops ${loops})
tern_object_library(tern_rooms ${others})
if(TERN_SANITIZE)
  target_compile_options(tern_rooms PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
endif()
if(TERN_COVERAGE)
  target_compile_options(tern_loops PRIVATE --coverage)
  target_link_options(tern_flags INTERFACE --coverage)
endif()

# Linked by target name, not by path: the installed package defines the same targets with its user's libraries.
function(tern_system_library name path)
  add_library(tern::${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(tern::${name} PROPERTIES IMPORTED_LOCATION ${path})
endfunction()
set(TERN_PRIVATE_LIBRARIES Threads::Threads)
if(TERN_HAVE_CUDA)
  tern_system_library(cudart_static ${CUDA_cudart_static_LIBRARY})
  list(APPEND TERN_PRIVATE_LIBRARIES tern::cudart_static rt ${CMAKE_DL_LIBS})
endif()
if(TERN_HAVE_HWLOC)
  tern_system_library(hwloc ${TERN_HWLOC_LIBRARY})
  list(APPEND TERN_PRIVATE_LIBRARIES tern::hwloc)
endif()

# The same objects as a shared library (tern::tern) and as an archive (tern::tern_static).
add_library(tern SHARED $<TARGET_OBJECTS:tern_loops> $<TARGET_OBJECTS:tern_rooms>)
add_library(tern_static STATIC $<TARGET_OBJECTS:tern_loops> $<TARGET_OBJECTS:tern_rooms>)
set_target_properties(tern PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
set_target_properties(tern_static PROPERTIES OUTPUT_NAME tern)
set_target_properties(tern PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
target_link_options(tern PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
if(TERN_SANITIZE)
  target_link_options(tern PRIVATE -fsanitize=${TERN_SANITIZE})
endif()
if(TERN_COVERAGE)
  target_link_options(tern PRIVATE --coverage)
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
