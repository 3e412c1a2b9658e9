// How many copies a cold bench makes, and that they do not overlap.
#include "lab/rotation.h"

#include <gtest/gtest.h>

namespace tern::lab {
namespace {

TEST(Rotation, CoversWhatIsWantedInWholeCopies) {
  EXPECT_EQ(plan_rotation(0, 1000, 1000)->copies, 1);
  EXPECT_EQ(plan_rotation(100, 0, 1000)->copies, 1);
  EXPECT_EQ(plan_rotation(100, 100, 1000)->copies, 1);
  EXPECT_EQ(plan_rotation(100, 101, 1000)->copies, 2);
  EXPECT_EQ(plan_rotation(100, 1000, 1000)->copies, 10);
  EXPECT_EQ(plan_rotation(100, 1000, 1000)->note, "");
}

TEST(Rotation, SaysWhenMemoryIsShort) {
  const auto short_one = plan_rotation(100, 1000, 399);
  ASSERT_TRUE(short_one.ok());
  EXPECT_EQ(short_one->copies, 3);
  EXPECT_EQ(short_one->note, "cold rotation covers 300 of 1000 bytes: memory is short");

  const auto none = plan_rotation(400, 1000, 399);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.code(), Code::insufficient_memory);
  EXPECT_NE(none.error().message.find("400 bytes and 399"), std::string::npos) << none.error().str();
}

TEST(Rotation, IsFourTimesTheLargestCacheOfTheDevice) {
  Device device;
  device.caches = {{.level = 2, .type = "unified", .bytes = 1000, .count = 8},
                   {.level = 3, .type = "unified", .bytes = 9000, .count = 2}};
  EXPECT_EQ(cold_rotation_bytes(device), 4U * 18000U);
  EXPECT_GT(cold_rotation_bytes(Device{}), 0U);  // a machine that hides its caches
}

TEST(Rotation, CopiesAndPartsLieApartAndAligned) {
  const auto context = Context::open(DeviceId{});
  ASSERT_TRUE(context.ok());
  BenchRequest request;
  request.limit_bytes = 0;
  request.cold_bytes = 500;
  const std::size_t parts[] = {100, 1};
  const auto cold = Rotation::make(request, *context, parts);
  ASSERT_TRUE(cold.ok()) << cold.error().str();
  ASSERT_EQ(cold->copies(), 3);  // 500 bytes by copies of 128 + 64
  for (std::int64_t copy = 0; copy < 3; ++copy)
    for (const std::size_t part : {0U, 1U})
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(cold->part(part, copy)) % 64, 0U);
  EXPECT_EQ(static_cast<std::byte*>(cold->part(0, 1)) - static_cast<std::byte*>(cold->part(0, 0)), 128);
  EXPECT_EQ(static_cast<std::byte*>(cold->part(1, 2)) - static_cast<std::byte*>(cold->part(1, 0)), 128);

  request.weights = Weights::warm;
  EXPECT_EQ(Rotation::make(request, *context, parts)->copies(), 1);
}

}  // namespace
}  // namespace tern::lab
