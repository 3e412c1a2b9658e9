// Every candidate loop reads or writes all bytes of its buffer and no others; limits are positive.
#include "lab/limits.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "device/isa.h"

namespace tern::lab {
namespace {

constexpr std::size_t kWords = 3 * kLoopMultipleBytes / 8;

struct alignas(64) Buffer {
  std::uint64_t words[kWords + 16] = {};  // 128 bytes behind the part that a loop is given
};

TEST(Limits, EveryReadLoopReadsEveryWordAndNoneBehind) {
  for (const ReadLoop& loop : read_loops(detect_cpu_capabilities())) {
    Buffer buffer;
    const auto read = [&] { return loop.run(reinterpret_cast<const std::byte*>(buffer.words), kWords * 8); };
    std::fill(buffer.words + kWords, std::end(buffer.words), ~std::uint64_t{0});
    EXPECT_EQ(read(), 0U) << loop.name;
    for (std::size_t i = 0; i < kWords; ++i) {
      buffer.words[i] = std::uint64_t{1} << (i % 64);
      EXPECT_EQ(read(), buffer.words[i]) << loop.name << " word " << i;
      buffer.words[i] = 0;
    }
  }
}

TEST(Limits, EveryWriteLoopWritesEveryWordAndNoneBehind) {
  for (const WriteLoop& loop : write_loops(detect_cpu_capabilities())) {
    Buffer buffer;
    loop.run(reinterpret_cast<std::byte*>(buffer.words), kWords * 8, 0x0123456789ABCDEFU);
    for (std::size_t i = 0; i < kWords; ++i) ASSERT_EQ(buffer.words[i], 0x0123456789ABCDEFU) << loop.name << " " << i;
    for (std::size_t i = kWords; i < std::size(buffer.words); ++i) ASSERT_EQ(buffer.words[i], 0U) << loop.name;
  }
}

TEST(Limits, WiderProcessorsHaveMoreLoops) {
  const std::size_t none = read_loops({}).size();
  EXPECT_GT(none, 0U);
  EXPECT_GT(write_loops({}).size(), 0U);
#if defined(__x86_64__)
  const std::size_t avx2 = read_loops(Capabilities::of(Capability::x86_avx2)).size();
  EXPECT_GT(avx2, none);
  EXPECT_GT(read_loops(Capabilities::of(Capability::x86_avx2, Capability::x86_avx512)).size(), avx2);
#endif
}

// Every copy loop moves every byte, and no more.
TEST(Limits, CopiesAreWhole) {
  constexpr std::size_t kBytes = 4 * kLoopMultipleBytes;
  alignas(64) static std::byte from[kBytes], to[kBytes + 64];
  for (std::size_t i = 0; i < kBytes; ++i) from[i] = static_cast<std::byte>(i * 7 + i / 251);
  const auto loops = copy_loops(detect_cpu_capabilities());
  ASSERT_GT(loops.size(), 0U);
  for (const CopyLoop& loop : loops) {
    std::ranges::fill(to, std::byte{0xEE});
    loop.run(from, kBytes, to);
    EXPECT_TRUE(std::ranges::equal(from, std::span(to).first(kBytes))) << loop.name;
    EXPECT_TRUE(std::ranges::all_of(std::span(to).last(64), [](std::byte b) { return b == std::byte{0xEE}; }));
  }
}

TEST(Limits, AreMeasuredOnAnyThreadCountAndTheWritePassFillsTheBuffer) {
  auto limits = Limits::make(host_memory(), (std::size_t{1} << 20) + 1);
  ASSERT_TRUE(limits.ok());
  EXPECT_GE(limits->words().size_bytes(), (std::size_t{1} << 20) + 1);
  for (const int count : {1, 2, 3}) {
    const Threads threads(count);
    EXPECT_GT(limits->measure(Limit::streaming_read, threads), 0);
    EXPECT_GT(limits->measure(Limit::non_temporal_write, threads), 0);
    const std::uint64_t expected = limits->last_word();
    EXPECT_NE(expected, 0U);
    EXPECT_TRUE(std::ranges::all_of(limits->words(), [&](std::uint64_t word) { return word == expected; }));
    EXPECT_GT(limits->measure(Limit::copy, threads), 0);
  }
}

TEST(Limits, APeakIsMeasuredWhereTheProcessorHasItsInstructions) {
  auto limits = Limits::make(host_memory(), std::size_t{1} << 18);
  ASSERT_TRUE(limits.ok());
  const Capabilities all = detect_cpu_capabilities();
  const Threads two(2);
  const auto peak = [&](Limit limit) { return limits->measure(limit, two); };
  EXPECT_EQ(peak(Limit::int8_peak) > 0, all.has(Capability::x86_avx2));
  EXPECT_EQ(peak(Limit::vnni_peak) > 0, all.has(Capability::x86_avx_vnni) || all.has(Capability::x86_avx512vnni));
  EXPECT_EQ(peak(Limit::amx_peak) > 0, all.has(Capability::x86_amx_int8));
}

TEST(Limits, ALoopIsChosenOncePerLimitAndThreadCount) {
  auto limits = Limits::make(host_memory(), std::size_t{1} << 18);
  ASSERT_TRUE(limits.ok());
  const Threads one(1), two(2);
  for (int i = 0; i < 3; ++i) {
    EXPECT_GT(limits->measure(Limit::streaming_read, one), 0);
    EXPECT_GT(limits->measure(Limit::streaming_read, two), 0);
    EXPECT_GT(limits->measure(Limit::non_temporal_write, one), 0);
  }
  ASSERT_EQ(limits->calibrated().size(), 3U);
  EXPECT_TRUE(limits->calibrated()[0].loop.starts_with("read.")) << limits->calibrated()[0].loop;
  EXPECT_EQ(limits->calibrated()[1].threads, 2);
  EXPECT_TRUE(limits->calibrated()[2].loop.starts_with("write.")) << limits->calibrated()[2].loop;
}

TEST(Limits, ABufferTooSmallIsRefused) {
  const auto limits = Limits::make(host_memory(), 8);
  ASSERT_FALSE(limits.ok());
  EXPECT_EQ(limits.code(), Code::invalid_argument);
  EXPECT_NE(limits.error().message.find("8 bytes"), std::string::npos) << limits.error().str();
}

}  // namespace
}  // namespace tern::lab
