// A fixture with the first GPU and a CPU to compare it with; skips the test if there is no GPU.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "tern/context.h"
#include "tests/support/no_gpu.h"

namespace tern::test {

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto context = Context::open(DeviceId{DeviceKind::cuda, 0});
    TERN_SKIP_WITHOUT_GPU(context);
    gpu_ = *std::move(context);
    cpu_ = *Context::open(DeviceId{});
  }

  std::optional<Context> gpu_, cpu_;
};

}  // namespace tern::test
