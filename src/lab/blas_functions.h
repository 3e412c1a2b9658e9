// The C functions of OpenBLAS and oneDNN that baselines call, found with dlopen so that Tern does not link to them.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <functional>

#include "base/errors.h"

namespace tern::lab {

inline constexpr const char* kOpenBlas = "libopenblas.so.0";
inline constexpr const char* kOneDnn = "libdnnl.so.2";

using SetThreads = void(int);
using Sgemm = void(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                   const float* b, int ldb, float beta, float* c, int ldc);
inline constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;  // of Sgemm

using BaselineRun = std::function<Status(std::int64_t turn)>;

inline Result<void*> open_library(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return error(Code::unsupported, "bench", "{} is not installed", name);
  return library;
}

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace tern::lab
