// Random weights: the same for every thread count, with the promised moments.
#include "lab/random_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tern::lab {
namespace {

TEST(RandomWeights, DependOnSeedAndIndexAlone) {
  constexpr std::int64_t kCount = (std::int64_t{1} << 21) + 5;  // more than one piece per thread, and a short one
  std::vector<float> one(kCount), three(kCount);
  fill_random_weights(Threads(1), 7, DType::f32, one.data(), kCount);
  fill_random_weights(Threads(3), 7, DType::f32, three.data(), kCount);
  EXPECT_EQ(one, three);
  for (const std::int64_t i : {std::int64_t{0}, std::int64_t{1}, kCount - 1})
    EXPECT_EQ(one[static_cast<std::size_t>(i)], random_weight(7, i));
  EXPECT_NE(random_weight(7, 0), random_weight(8, 0));
  EXPECT_NE(random_weight(7, 0), random_weight(7, 1));
}

TEST(RandomWeights, HaveTheMomentsOfANetwork) {
  constexpr std::int64_t kCount = 1 << 20;
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    const double w = random_weight(1, i);
    ASSERT_LT(std::abs(w), 0.07);
    sum += w;
    squares += w * w;
  }
  EXPECT_NEAR(sum / kCount, 0, 1e-4);  // five standard errors of 0.02/1024
  EXPECT_NEAR(std::sqrt(squares / kCount), 0.02, 2e-4);
}

}  // namespace
}  // namespace tern::lab
