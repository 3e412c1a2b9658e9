// fmt in a private namespace, so that it cannot clash with an application's copy. It is compiled once, in fmt.cpp,
// instead of in every file.
#pragma once

#define FMT_BEGIN_NAMESPACE \
  namespace fmt {           \
  inline namespace tern_private {
#define FMT_END_NAMESPACE \
  }                       \
  }
#include <fmt/core.h>
