# Compiler flags of our own targets. The numerics flags come last, so that no fast-math of an outer project survives.
add_library(tern_flags INTERFACE)
target_compile_features(tern_flags INTERFACE cxx_std_20)
function(tern_cxx_options)
  target_compile_options(tern_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>")
endfunction()
tern_cxx_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -Wno-missing-field-initializers)  # designated initialisers leave the defaults alone
if(TERN_WERROR)
  tern_cxx_options(-Werror)
endif()
if(TERN_SANITIZE)
  tern_cxx_options(-fsanitize=${TERN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE})
endif()
tern_cxx_options(-fno-fast-math -ffp-contract=off)

set(TERN_SYSTEM_INCLUDES ${TERN_XXHASH_INCLUDE})
if(TERN_HAVE_HWLOC)
  list(APPEND TERN_SYSTEM_INCLUDES ${TERN_HWLOC_INCLUDE})
endif()
