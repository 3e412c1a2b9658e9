// Errors, words and checked arithmetic.
#include <gtest/gtest.h>

#include <limits>

#include "base/checked.h"
#include "base/errors.h"
#include "tern/types.h"

namespace tern {
namespace {

TEST(Status, IsOkOrAnError) {
  const Status fine;
  EXPECT_TRUE(fine.ok());
  EXPECT_EQ(fine.code(), Code::ok);
  const Status broken = error(Code::invalid_argument, "op", "k is {}", -3);
  EXPECT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().str(), "invalid_argument: k is -3 (op)");
  EXPECT_EQ(error_at(7, Code::non_finite, "op", "x").index, 7);
}

TEST(Error, SaysTheSameInFieldsWhereItHasThem) {
  const Error plain = error(Code::invalid_argument, "op", "x");
  EXPECT_EQ(plain.as<MemoryShortage>(), nullptr);
  const Status status =
      with(MemoryShortage{.needed_bytes = 7, .free_bytes = 3}, error(Code::insufficient_memory, "op", "7 of 3"));
  const Result<int> passed_on = Status(status.error());
  const auto* shortage = passed_on.error().as<MemoryShortage>();
  ASSERT_NE(shortage, nullptr);
  EXPECT_EQ(shortage->needed_bytes, 7U);
  EXPECT_EQ(shortage->free_bytes, 3U);
  EXPECT_EQ(passed_on.error().as<CudaFailure>(), nullptr);
  EXPECT_EQ(passed_on.error().as<InvalidValue>(), nullptr);
  EXPECT_EQ(passed_on.error().str(), "insufficient_memory: 7 of 3 (op)");
}

TEST(Result, CarriesAValueOrAnError) {
  Result<std::string> fine(std::string("yes"));
  ASSERT_TRUE(fine.ok());
  EXPECT_EQ(*fine, "yes");
  const Result<int> broken(error(Code::io_error, "", "no"));
  EXPECT_EQ(broken.code(), Code::io_error);
  EXPECT_EQ(Result<int>(Status()).code(), Code::internal);  // an ok Status is no value
}

TEST(Codes, EveryCodeHasAName) {
  for (int i = 0; i <= static_cast<int>(Code::internal); ++i) EXPECT_NE(name(static_cast<Code>(i)), "unknown");
  EXPECT_EQ(name(Code::invalid_scale), "invalid_scale");
  EXPECT_EQ(name(static_cast<Code>(99)), "unknown");
}

template <class E, class Parse>
void both_ways(std::initializer_list<E> all, Parse parse) {
  for (const E e : all) {
    auto parsed = parse(name(e));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, e);
  }
}

TEST(Words, GoBothWays) {
  both_ways({DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i32}, parse_dtype);
  both_ways({Scheme::absmean, Scheme::absmax, Scheme::mse, Scheme::int2}, parse_scheme);
  both_ways({Format::i2, Format::s2, Format::i8}, parse_format);
  both_ways({NonFinite::reject, NonFinite::saturate}, parse_non_finite);
  both_ways({Granularity::tensor(), Granularity::row(), Granularity::group(100)}, parse_granularity);
  both_ways({DeviceId{}, DeviceId{DeviceKind::cuda, 3}}, parse_device);
}

TEST(Words, UnknownOnesAreErrorsThatListTheKnown) {
  EXPECT_EQ(parse_scheme("absmin").error().message, "'absmin' is not one of absmean, absmax, mse, int2");
  for (const char* bad : {"group:0", "group:-1", "group:", "group:1x", "Row", "", "group:99999999999999999999"})
    EXPECT_EQ(parse_granularity(bad).code(), Code::invalid_argument) << bad;
  EXPECT_EQ(parse_granularity("group").error().message,
            "'group' does not say how many share a scale; give group:128, say");
  for (const char* bad : {"", "gpu", "cuda", "cuda:", "cuda:-1", "cuda:1x", "cpu:0"})
    EXPECT_EQ(parse_device(bad).code(), Code::invalid_argument) << bad;
}

TEST(Words, UntrustedTextIsQuotedAsOnePrintableLine) {
  EXPECT_EQ(escaped(std::string_view("a\0\x1b[31m\n\xC3\xA9~", 11)), "a\\x00\\x1b[31m\\x0a\\xc3\\xa9~");
  EXPECT_EQ(escaped("abcdef", 3), "abc...");
  EXPECT_EQ(escaped("abc", 3), "abc");

  const std::string evil = "\x1b[2J" + std::string(1000, 'x');
  const std::string shown = "'\\x1b[2J" + std::string(36, 'x') + "...'";
  EXPECT_EQ(parse_dtype(evil).error().message, shown + " is not one of f32, f64, f16, bf16, i8, u8, i32");
  EXPECT_EQ(parse_granularity(evil).error().message, shown + " is not one of tensor, row, group:N");
  EXPECT_EQ(parse_granularity("group:" + evil).error().message,
            "group size " + shown + " is not a number above 0, as in group:128");
  EXPECT_EQ(parse_granularity("group:99999999999999999999").error().message,
            "group size '99999999999999999999' is too large; give one of at most 2^63 - 1, as in group:128");
  EXPECT_EQ(parse_device(evil).error().message,
            shown + " is not cpu or cuda:N, as in cuda:0; `tern devices` lists them");
}

TEST(Checked, SaysWhenItOverflows) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(checked_mul(3, 4), 12);
  EXPECT_EQ(checked_mul(kMax, 2), std::nullopt);
  EXPECT_EQ(checked_add(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_add(kMax, 0), kMax);
  EXPECT_EQ(ceil_div(7, 4), 2);
  EXPECT_EQ(ceil_div(8, 4), 2);
  EXPECT_EQ(ceil_div(kMax, 2), kMax / 2 + 1);
}

}  // namespace
}  // namespace tern
