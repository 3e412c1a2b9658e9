// Quantizes a tensor of more than 2^31 elements: indices, extra memory, and equality with the same data in pieces.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "tern/tern.h"

namespace tern {
namespace {

constexpr std::int64_t kElements = (std::int64_t{1} << 31) + 4;

// Reserved, not touched: pages that are only read stay the shared zero page.
class BigInput {
 public:
  BigInput()
      : data_(static_cast<float*>(
            mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  ~BigInput() { munmap(data_, bytes()); }
  BigInput(const BigInput&) = delete;
  BigInput& operator=(const BigInput&) = delete;
  [[nodiscard]] float* data() const { return data_; }

  void fill() const {
    std::uint32_t state = 12345;
    for (std::int64_t i = 0; i < kElements; ++i) {
      state = state * 1664525U + 1013904223U;
      data_[i] = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
    }
  }

 private:
  static std::size_t bytes() { return static_cast<std::size_t>(kElements) * sizeof(float); }
  float* data_;
};

TEST(BigTensor, MoreThanTwoToThe31Elements) {
  auto inventory = devices();
  ASSERT_TRUE(inventory.ok());
  if (inventory->devices[0].memory_available_bytes < (std::size_t{12} << 30))
    GTEST_SKIP() << "needs 12 GiB of free memory";
  const BigInput x;
  ASSERT_NE(x.data(), MAP_FAILED);
  x.fill();

  const auto memory = with_statistics(host_memory());
  auto context = Context::open({.memory = memory});
  ASSERT_TRUE(context.ok());
  const ConstTensorView whole(x.data(), DType::f32, {kElements});

  // With groups of 2^20 + 4 the last group is the tail beyond 2^31; it must equal the tail quantized alone.
  const std::int64_t group = (std::int64_t{1} << 20) + 4;
  const std::int64_t last = kElements / group * group, tail = kElements - last;
  {
    auto q = quantize(*context, whole, {.scheme = Scheme::absmean, .granularity = Granularity::group(group)});
    ASSERT_TRUE(q.ok()) << q.error().str();
    auto alone = quantize(*context, {x.data() + last, DType::f32, {tail}});
    ASSERT_TRUE(alone.ok());
    EXPECT_EQ(q->scale_values().back(), alone->scale_values()[0]);
    EXPECT_EQ(std::memcmp(q->quantized_data().data() + last / 4, alone->quantized_data().data(), alone->codes.bytes()),
              0);
    const std::size_t output = q->codes.bytes() + q->scales.bytes() + alone->codes.bytes() + alone->scales.bytes();
    EXPECT_LT(memory->statistics().peak_bytes, output + (1U << 20));
  }
  memory->reset_peak();

  // One scale for the whole tensor: thread counts agree, and the extra memory stays small.
  std::uint64_t checksums[2] = {};
  for (const int threads : {1, 2}) {
    auto counted = Context::open({.threads = threads, .memory = memory});
    auto q = quantize(*counted, whole);
    ASSERT_TRUE(q.ok()) << q.error().str();
    checksums[threads - 1] = q->checksum();
    EXPECT_LT(memory->statistics().peak_bytes, q->codes.bytes() + q->scales.bytes() + (1U << 20));
  }
  EXPECT_EQ(checksums[0], checksums[1]);

  // The error has the full index of a bad value beyond 2^31.
  x.data()[kElements - 2] = __builtin_inff();
  auto refused = quantize(*context, whole, {.scheme = Scheme::absmax, .granularity = Granularity::group(128)});
  ASSERT_EQ(refused.code(), Code::non_finite);
  EXPECT_EQ(refused.error().index, kElements - 2);
}

}  // namespace
}  // namespace tern
