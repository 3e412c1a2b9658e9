# What the build needs from the system. Compiled in: fmt. Headers only: nlohmann-json, xxhash. Linked: hwloc (optional).
find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)

function(tern_require variable what package)
  if(NOT ${variable})
    message(FATAL_ERROR "${what} was not found. On Debian: apt-get install ${package} (scripts/setup does it).")
  endif()
endfunction()

if(CMAKE_CROSSCOMPILING)
  include(cmake/cross.cmake)
else()
  find_package(fmt REQUIRED)
endif()

find_path(TERN_XXHASH_INCLUDE xxhash.h)
tern_require(TERN_XXHASH_INCLUDE "xxhash.h" libxxhash-dev)

set(TERN_HAVE_HWLOC 0)
if(TERN_HWLOC)
  find_path(TERN_HWLOC_INCLUDE hwloc.h)
  find_library(TERN_HWLOC_LIBRARY hwloc)
  if(TERN_HWLOC_INCLUDE AND TERN_HWLOC_LIBRARY)
    set(TERN_HAVE_HWLOC 1)
  endif()
endif()
