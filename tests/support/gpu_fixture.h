// Tests of the first GPU with a CPU beside it to compare with; skipped where there is no GPU.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "tern/context.h"

namespace tern::test {

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto context = Context::open(DeviceId{DeviceKind::cuda, 0});
    if (!context.ok()) GTEST_SKIP() << "no CUDA device: " << context.error().message;
    gpu_ = *std::move(context);
    cpu_ = *Context::open(DeviceId{});
  }

  std::optional<Context> gpu_, cpu_;
};

}  // namespace tern::test
