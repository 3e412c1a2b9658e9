# Compiler flags of our own targets. The numerics flags come last, so that no fast-math of an outer project survives.
add_library(tern_flags INTERFACE)
target_compile_features(tern_flags INTERFACE cxx_std_20)
target_compile_options(tern_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -Wno-missing-field-initializers)  # designated initialisers leave the defaults alone
if(TERN_WERROR)
  target_compile_options(tern_flags INTERFACE -Werror)
endif()
if(TERN_SANITIZE)
  target_compile_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE})
endif()
target_compile_options(tern_flags INTERFACE -fno-fast-math -ffp-contract=off)

set(TERN_SYSTEM_INCLUDES ${TERN_XXHASH_INCLUDE})
if(TERN_HAVE_HWLOC)
  list(APPEND TERN_SYSTEM_INCLUDES ${TERN_HWLOC_INCLUDE})
endif()
