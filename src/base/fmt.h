// fmt with a namespace of our own: compiled once into the library (fmt.cpp) instead of into every file, and never in
// the way of an application's copy.
#pragma once

#define FMT_BEGIN_NAMESPACE \
  namespace fmt {           \
  inline namespace tern_private {
#define FMT_END_NAMESPACE \
  }                       \
  }
#include <fmt/core.h>
