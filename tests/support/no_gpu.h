// Whether a test of a GPU may be skipped: only where there is none. A GPU that cannot be used is a failure.
#pragma once

#include <array>
#include <string_view>

#include "tern/status.h"

namespace tern::test {

// By the text, because a GPU that does not answer, or whose driver is too old, is gpu_not_available as well.
inline bool says_no_gpu(std::string_view message) {
  constexpr std::array<std::string_view, 3> kReasons = {"this build has no CUDA", "no NVIDIA driver is installed",
                                                        "the driver shows no GPU"};
  for (const std::string_view reason : kReasons)
    if (message.find(reason) != message.npos) return true;
  return false;
}
inline bool no_gpu(const Error& why) { return why.code == Code::gpu_not_available && says_no_gpu(why.message); }

}  // namespace tern::test

// In SetUp() or a test: skips it when `result`, a Result of something on a GPU, is an error because there is none; any
// other error fails it.
#define TERN_SKIP_WITHOUT_GPU(result)                                                   \
  do {                                                                                  \
    if (!(result).ok() && ::tern::test::no_gpu((result).error()))                       \
      GTEST_SKIP() << "no CUDA device: " << (result).error().message;                   \
    ASSERT_TRUE((result).ok()) << "the GPU cannot be used: " << (result).error().str(); \
  } while (false)
