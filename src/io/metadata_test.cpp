// Metadata values: every kind, its bits, its JSON; and hostile text made printable.
#include "tern/metadata.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "tern/checkpoint.h"

namespace tern {
namespace {

TEST(Metadata, EveryScalarKindKeepsItsValue) {
  const struct {
    MetaValue value;
    MetaKind kind;
    std::string_view name;
    std::size_t bytes;
    std::optional<std::int64_t> integer;
    std::string json;
  } cases[] = {
      {MetaValue(std::uint8_t{255}), MetaKind::u8, "u8", 1, 255, "255"},
      {MetaValue(std::int8_t{-128}), MetaKind::i8, "i8", 1, -128, "-128"},
      {MetaValue(std::uint16_t{65535}), MetaKind::u16, "u16", 2, 65535, "65535"},
      {MetaValue(std::int16_t{-2}), MetaKind::i16, "i16", 2, -2, "-2"},
      {MetaValue(std::uint32_t{4294967295U}), MetaKind::u32, "u32", 4, 4294967295, "4294967295"},
      {MetaValue(std::int32_t{-7}), MetaKind::i32, "i32", 4, -7, "-7"},
      {MetaValue(std::int64_t{INT64_MIN}), MetaKind::i64, "i64", 8, INT64_MIN, "-9223372036854775808"},
      {MetaValue(std::uint64_t{5}), MetaKind::u64, "u64", 8, 5, "5"},
      {MetaValue(std::uint64_t{UINT64_MAX}), MetaKind::u64, "u64", 8, std::nullopt, "18446744073709551615"},
      {MetaValue(true), MetaKind::boolean, "bool", 1, std::nullopt, "true"},
      {MetaValue(1e-5F), MetaKind::f32, "f32", 4, std::nullopt, "1e-05"},
      {MetaValue(500000.0F), MetaKind::f32, "f32", 4, std::nullopt, "500000.0"},
      {MetaValue(0.1), MetaKind::f64, "f64", 8, std::nullopt, "0.1"},
      {MetaValue("text"), MetaKind::string, "string", 0, std::nullopt, "\"text\""},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.json);
    EXPECT_EQ(c.value.kind(), c.kind);
    EXPECT_EQ(name(c.kind), c.name);
    EXPECT_EQ(scalar_bytes(c.kind), c.bytes);
    EXPECT_EQ(c.value.integer(), c.integer);
    EXPECT_EQ(c.value.to_json(), c.json);
    if (c.bytes > 0) {
      EXPECT_EQ(MetaValue::from_bits(c.kind, c.value.bits()), c.value);
      // Bits above the value's own do not count.
      EXPECT_EQ(MetaValue::from_bits(c.kind, c.bytes == 8 ? c.value.bits() : c.value.bits() ^ (1ULL << 40)), c.value);
    }
  }
  EXPECT_EQ(MetaValue(1e-5F).number(), static_cast<double>(1e-5F));
  EXPECT_EQ(MetaValue(std::int8_t{-3}).number(), -3.0);
  EXPECT_EQ(MetaValue(std::uint64_t{UINT64_MAX}).number(), 0x1p64);
  EXPECT_EQ(MetaValue("1").number(), std::nullopt);
  EXPECT_EQ(MetaValue(false).boolean(), false);
  EXPECT_EQ(MetaValue(std::uint8_t{0}).boolean(), std::nullopt);
  EXPECT_NE(MetaValue(std::uint8_t{1}), MetaValue(std::uint16_t{1}));
  EXPECT_NE(MetaValue(0.0), MetaValue(-0.0));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(MetaValue(nan), MetaValue(nan));
}

TEST(Metadata, ArraysAreDenseAndNest) {
  const std::array<std::int16_t, 3> numbers = {1, -2, 3};
  const MetaArray scalars = MetaArray::of(std::span<const std::int16_t>(numbers));
  EXPECT_EQ(scalars.element, MetaKind::i16);
  EXPECT_EQ(scalars.scalars, (std::vector<std::uint8_t>{1, 0, 0xFE, 0xFF, 3, 0}));
  EXPECT_EQ(scalars.size(), 3U);
  EXPECT_EQ(scalars[1], MetaValue(std::int16_t{-2}));
  const MetaArray texts = MetaArray::of(std::vector<std::string>{"a", "b\x1b[2J"});
  const MetaValue nested(MetaArray::of(std::vector<MetaArray>{scalars, texts}));
  ASSERT_NE(nested.array(), nullptr);
  EXPECT_EQ(nested.array()->size(), 2U);
  EXPECT_EQ((*nested.array())[0], MetaValue(scalars));
  EXPECT_EQ(nested.to_json(), R"([[1,-2,3],["a","b\u001b[2J"]])");
  EXPECT_EQ(MetaValue(scalars).to_json(2), R"([1,-2,"... 3 in all"])");
  EXPECT_EQ(nested, MetaValue(*nested.array()));
  EXPECT_NE(nested, MetaValue(texts));
  const std::array<bool, 2> flags = {true, false};
  EXPECT_EQ(MetaValue(MetaArray::of(std::span<const bool>(flags))).to_json(), "[true,false]");
}

TEST(Metadata, JsonHoldsWhatItHasNoWordFor) {
  EXPECT_EQ(MetaValue(std::numeric_limits<float>::infinity()).to_json(), "\"Infinity\"");
  EXPECT_EQ(MetaValue(-std::numeric_limits<double>::infinity()).to_json(), "\"-Infinity\"");
  EXPECT_EQ(MetaValue(std::nanf("")).to_json(), "\"NaN\"");
  EXPECT_EQ(MetaValue(std::string("\xFF\0x", 3)).to_json(), "\"\\ufffd\\u0000x\"");
  EXPECT_EQ(MetaValue("\xC3\xA9").to_json(), "\"\\u00e9\"");
}

TEST(Metadata, KeysAreFoundReplacedAndAdded) {
  Metadata metadata = {{"a", MetaValue("1")}, {"b", MetaValue("2")}};
  set_key(metadata, "a", MetaValue(3.0));
  set_key(metadata, "c", MetaValue(true));
  ASSERT_EQ(metadata.size(), 3U);
  EXPECT_EQ(metadata[0].key, "a");
  EXPECT_EQ(*find_key(metadata, "a"), MetaValue(3.0));
  EXPECT_EQ(*find_key(metadata, "c"), MetaValue(true));
  EXPECT_EQ(find_key(metadata, "d"), nullptr);
}

}  // namespace
}  // namespace tern
