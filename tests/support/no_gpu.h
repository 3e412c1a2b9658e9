// Decides whether a GPU test may be skipped: only if there is no GPU. A GPU that cannot be used is a failure.
#pragma once

#include <array>
#include <string_view>

#include "tern/status.h"

namespace tern::test {

// Compares the text, because the code gpu_not_available also means that a GPU fails or its driver is too old.
inline bool says_no_gpu(std::string_view message) {
  constexpr std::array<std::string_view, 3> kReasons = {"this build has no CUDA", "no NVIDIA driver is installed",
                                                        "the driver shows no GPU"};
  for (const std::string_view reason : kReasons)
    if (message.find(reason) != message.npos) return true;
  return false;
}
inline bool no_gpu(const Error& why) { return why.code == Code::gpu_not_available && says_no_gpu(why.message); }

}  // namespace tern::test

// For SetUp() or a test: skips it if `result`, a Result from a GPU, is an error because there is no GPU. Any other
// error fails the test.
#define TERN_SKIP_WITHOUT_GPU(result)                                                   \
  do {                                                                                  \
    if (!(result).ok() && ::tern::test::no_gpu((result).error()))                       \
      GTEST_SKIP() << "no CUDA device: " << (result).error().message;                   \
    ASSERT_TRUE((result).ok()) << "the GPU cannot be used: " << (result).error().str(); \
  } while (false)
