// GGUF directories: golden bytes, round trips of every kind and type, and every kind of error.
#include "io/gguf.h"

#include <gtest/gtest.h>

#include <array>

#include "io/gguf_bytes.h"
#include "tests/support/test_files.h"

namespace tern::gguf {
namespace {

// Parses from memory that ends with the file.
Result<ParsedContainer> parse_gguf(const std::string& bytes) {
  const std::vector<std::uint8_t> exact(bytes.begin(), bytes.end());
  return parse(exact);
}

MetaArray nest(std::size_t depth) {
  MetaArray array = MetaArray::of(std::vector<std::string>{"leaf"});
  for (std::size_t i = 1; i < depth; ++i) array = MetaArray::of(std::vector<MetaArray>{array});
  return array;
}

Metadata every_kind() {
  const std::array<float, 2> floats = {1.5F, -0.0F};
  const std::array<bool, 3> flags = {true, false, true};
  return {{"general.architecture", MetaValue("bitnet-b1.58")},
          {"u8", MetaValue(std::uint8_t{200})},
          {"i8", MetaValue(std::int8_t{-3})},
          {"u16", MetaValue(std::uint16_t{60000})},
          {"i16", MetaValue(std::int16_t{-300})},
          {"u32", MetaValue(std::uint32_t{4000000000U})},
          {"i32", MetaValue(std::int32_t{-70000})},
          {"f32", MetaValue(1e-5F)},
          {"yes", MetaValue(true)},
          {"u64", MetaValue(std::uint64_t{UINT64_MAX})},
          {"i64", MetaValue(std::int64_t{INT64_MIN})},
          {"f64", MetaValue(0.1)},
          {"", MetaValue(std::string("a\0\x1b[2J\xFF", 7))},
          {"floats", MetaValue(MetaArray::of(std::span<const float>(floats)))},
          {"flags", MetaValue(MetaArray::of(std::span<const bool>(flags)))},
          {"none", MetaValue(MetaArray::of(std::span<const std::int64_t>()))},
          {"words", MetaValue(MetaArray::of(std::vector<std::string>{"", "\xE2\x96\x81the"}))},
          {"nested", MetaValue(nest(kMaxNesting))}};
}

TEST(Gguf, WritesTheseBytes) {
  std::vector<StoredTensor> tensors = {{.name = "w", .type = StoredType::f16, .shape = {2, 3}},
                                       {.name = "n", .type = StoredType::f32, .shape = {5}}};
  const auto planned = plan({{"general.name", MetaValue("x")}, {"n", MetaValue(std::uint32_t{7})}}, tensors);
  ASSERT_TRUE(planned.ok()) << planned.error().str();
  const std::string want = file({key("general.name", 8, text("x")), key("n", 4, u32(7))},
                                {tensor("w", {3, 2}, 1, 0), tensor("n", {5}, 0, 32)}, 0);
  EXPECT_EQ(planned->header, want);
  EXPECT_EQ(planned->offsets, (std::vector<std::size_t>{want.size(), want.size() + 32}));
  EXPECT_EQ(planned->file_bytes, want.size() + 64);
  EXPECT_EQ(tensors[0].bytes, 12U);
  EXPECT_EQ(tensors[0].gguf_id, 1);
}

TEST(Gguf, EveryKindOfMetadataRoundTrips) {
  std::vector<StoredTensor> none;
  const auto planned = plan(every_kind(), none);
  ASSERT_TRUE(planned.ok()) << planned.error().str();
  const auto parsed = parse_gguf(planned->header);
  ASSERT_TRUE(parsed.ok()) << parsed.error().str();
  EXPECT_EQ(parsed->metadata, every_kind());
  std::string version_2 = planned->header;
  version_2[4] = 2;
  EXPECT_EQ(parse_gguf(version_2)->metadata, every_kind());
}

TEST(Gguf, EveryTypeRoundTrips) {
  for (const std::uint32_t alignment : {1U, 8U, 32U, 64U}) {
    std::vector<StoredTensor> tensors;
    for (const StoredTypeInfo& row : stored_types())
      if (row.gguf_id >= 0)
        tensors.push_back({.name = std::string(row.name), .type = row.type, .shape = {2, 1, 3, 512}});
    EXPECT_EQ(tensors.size(), 43U);
    for (StoredTensor& t : tensors)
      if (t.type == StoredType::tl2) t.shape = {6, 512};
    std::erase_if(tensors, [](const StoredTensor& t) { return t.type == StoredType::q2_0_g128; });
    std::erase_if(tensors, [](const StoredTensor& t) { return t.type == StoredType::q2_0; });
    const auto planned = plan({{"general.alignment", MetaValue(alignment)}}, tensors);
    ASSERT_TRUE(planned.ok()) << planned.error().str();
    const auto parsed = parse_gguf(planned->header + std::string(planned->file_bytes - planned->header.size(), 'x'));
    ASSERT_TRUE(parsed.ok()) << parsed.error().str();
    EXPECT_EQ(parsed->offsets, planned->offsets);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(name(parsed->tensors[i].type), tensors[i].name);
      EXPECT_EQ(parsed->tensors[i].shape, tensors[i].shape);
      EXPECT_EQ(parsed->tensors[i].bytes, tensors[i].bytes);
      EXPECT_EQ(parsed->offsets[i] % alignment, 0U);
    }
  }
}

TEST(Gguf, ReadsWhatOthersMayWrite) {
  // No tensors and no padding; a last tensor without padding; tensors out of order; empty ones; scalars.
  EXPECT_TRUE(parse_gguf(file({key("k", 7, std::string(1, '\1'))}, {}, 0, 1)).ok());
  EXPECT_TRUE(parse_gguf(file({}, {tensor("a", {3}, 24, 0)}, 3)).ok());
  EXPECT_TRUE(parse_gguf(file({}, {tensor("a", {3}, 24, 0)}, 32)).ok());
  const auto parsed = parse_gguf(
      file({}, {tensor("b", {40}, 24, 32), tensor("e", {0, 7}, 0, 32), tensor("a", {}, 0, 0), tensor("z", {0}, 36, 96)},
           96));
  ASSERT_TRUE(parsed.ok()) << parsed.error().str();
  EXPECT_EQ(parsed->tensors[0].name, "a");
  EXPECT_EQ(parsed->tensors[0].shape, std::vector<std::int64_t>{});
  EXPECT_EQ(parsed->tensors[1].bytes, 40U);
  EXPECT_EQ(parsed->tensors[2].shape, (std::vector<std::int64_t>{7, 0}));
  EXPECT_EQ(parsed->tensors[3].bytes, 0U);
}

TEST(Gguf, WrongBeginningsAreRefused) {
  expect_error(parse_gguf(""), Code::corrupt_file, "empty");
  expect_error(parse_gguf("GG"), Code::corrupt_file, "ends after 2 bytes, inside the magic 'GGUF': it is truncated");
  expect_error(parse_gguf("PK\x03\x04..."), Code::corrupt_file,
               "begins with 'PK\\x03\\x04', where a GGUF file has 'GGUF'");
  expect_error(parse_gguf("GGUF\3"), Code::corrupt_file, "ends after 5 bytes, inside the version");
  for (const std::uint32_t version : {0U, 1U, 4U})
    expect_error(parse_gguf("GGUF" + u32(version) + u64(0) + u64(0)), Code::unsupported,
                 "version is " + std::to_string(version));
  expect_error(parse_gguf("GGUF" + u32(0x03000000) + u64(0) + u64(0)), Code::unsupported, "big-endian");
  expect_error(parse_gguf("GGUF" + u32(3) + u64(UINT64_MAX) + u64(0)), Code::corrupt_file,
               "has 18446744073709551615 tensors; the 0 bytes");
  expect_error(parse_gguf("GGUF" + u32(3) + u64(0) + u64(1ULL << 40) + std::string(100, '\0')), Code::corrupt_file,
               "has 1099511627776 keys; the 100 bytes");
}

TEST(Gguf, WrongKeysAreRefused) {
  const struct {
    std::string key;
    std::string_view part;
  } cases[] = {
      {u64(UINT64_MAX) + std::string(20, 'x'), "the name of key 0 has 18446744073709551615 bytes by its length"},
      {text(std::string(65536, 'n')) + u32(0) + "1", "the name of key 0 has 65536 bytes; more than 65535"},
      {key("k\x1b[2J", 13, std::string(16, '\0')), "the kind of 'k\\x1b[2J' is 13"},
      {key("k", 0xFFFFFFFF, std::string(16, '\0')), "the kind of 'k' is 4294967295"},
      {key("k", 7, std::string(1, '\2')), "'k' is a bool of 2"},
      {key("k", 8, u64(1000) + "x"), "'k' has 1000 bytes by its length, the file has"},
      {key("k", 10, "1234"), "'k' has 8 bytes by its length"},
      {key("k", 9, u32(99) + u64(0)), "the kind of 'k' (an array) is 99"},
      {key("k", 9, u32(10) + u64(1ULL << 61)), "array of 2305843009213693952 of u64"},
      {key("k", 9, u32(8) + u64(UINT64_MAX)), "array of 18446744073709551615 of string"},
      {key("k", 9, u32(9) + u64(1ULL << 60)), "of array"},
      {key("k", 9, u32(7) + u64(2) + "\1\3"), "'k' is a bool of 3"},
      {key("k", 9, u32(8) + u64(2) + text("a") + u64(99)), "'k' has 99 bytes by its length"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.part);
    expect_error(parse_gguf(file({c.key}, {}, 0, 1)), Code::corrupt_file, c.part);
  }
  const std::string one = key("k", 0, "1");
  expect_error(parse_gguf(file({one, one}, {}, 0)), Code::corrupt_file, "two keys 'k'");
  std::string deep;
  for (int i = 0; i < 50000; ++i) deep += u32(9) + u64(1);
  expect_error(parse_gguf(file({key("k", 9, deep)}, {}, 0)), Code::corrupt_file, "nested more than 16 deep");
  for (const std::string& value : {key("general.alignment", 4, u32(0)), key("general.alignment", 4, u32(24)),
                                   key("general.alignment", 4, u32(1U << 31)), key("general.alignment", 10, u64(32)),
                                   key("general.alignment", 8, text("32"))})
    expect_error(parse_gguf(file({value}, {}, 0)), Code::corrupt_file, "general.alignment is");
}

TEST(Gguf, WrongTensorsAreRefused) {
  const struct {
    std::vector<std::string> tensors;
    std::size_t data_bytes;
    std::string_view part;
  } cases[] = {
      {{tensor("a\x1b", {1, 1, 1, 1, 1}, 0, 0)}, 4, "tensor 'a\\x1b' has 5 axes; GGUF has at most 4"},
      {{tensor("a", {1ULL << 63}, 0, 0)}, 4, "an axis of 9223372036854775808 elements"},
      {{tensor("a", {1ULL << 40, 1ULL << 40}, 0, 0)}, 4, "more elements than 2^53"},
      {{tensor("a", {8}, 0, 0)}, 31, "bytes at least, the file has 95: it is truncated"},
      {{tensor("a", {8}, 0, 0)}, 64, "'a' of F32 has 32 bytes; the 32 behind it belong to no tensor"},
      {{tensor("a", {8}, 0, 16)}, 64, "offset 16, which is not a multiple of the alignment 32"},
      {{tensor("a", {8}, 0, 32)}, 64, "32 bytes behind the directory belong to no tensor"},
      {{tensor("a", {8}, 0, 96)}, 64, "need 192 bytes at least, the file has 128: it is truncated"},
      {{tensor("a", {8}, 0, UINT64_MAX - 31)}, 64, "offset 18446744073709551584"},
      {{tensor("a", {0}, 0, 96)}, 64, "offset 96, but 64 bytes follow"},
      {{tensor("a", {8}, 0, 0), tensor("b", {8}, 0, 0)}, 32, "'a' of F32 has 32 bytes, but only 0 from its offset 0"},
      {{tensor("a", {16}, 0, 0), tensor("b", {8}, 0, 32)}, 64, "'a' of F32 has 64 bytes, but only 32"},
      {{tensor("a", {8}, 0, 0), tensor("b", {8}, 0, 96)}, 128, "the 64 behind it belong to no tensor"},
      {{tensor("a", {8}, 0, 0), tensor("a", {8}, 0, 32)}, 64, "two tensors 'a'"},
      {{tensor("a", {128}, 35, 0)}, 66, "the last size 128 is not a multiple of 256"},
      {{tensor("a", {0}, 0, 0)}, 32, "32 bytes behind the directory belong to no tensor"},
      {{}, 64, "64 bytes behind the directory belong to no tensor"},
      {{tensor(std::string(65536, 'n'), {1}, 0, 0)}, 4, "the name of tensor 0 has 65536 bytes"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.part);
    expect_error(parse_gguf(file({}, c.tensors, c.data_bytes)), Code::corrupt_file, c.part);
  }
  for (const std::uint32_t id : {4U, 43U, 0xFFFFFFFFU})
    expect_error(parse_gguf(file({}, {tensor("a", {8}, id, 0)}, 32)), Code::unsupported,
                 "type id " + std::to_string(id) + ", whose size is not known");
}

TEST(Gguf, EveryTruncationIsRefused) {
  std::vector<StoredTensor> tensors = {{.name = "w", .type = StoredType::i2_s, .shape = {4, 128}},
                                       {.name = "n", .type = StoredType::f32, .shape = {8}}};
  const auto planned = plan(every_kind(), tensors);
  ASSERT_TRUE(planned.ok());
  const std::string whole = planned->header + std::string(planned->file_bytes - planned->header.size(), 'x');
  ASSERT_TRUE(parse_gguf(whole).ok());
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_EQ(parse_gguf(whole.substr(0, n)).code(), Code::corrupt_file) << n;
  EXPECT_EQ(parse_gguf(whole + std::string(32, 'x')).code(), Code::corrupt_file);
}

TEST(Gguf, WhatItCannotHoldIsNotWritten) {
  const auto refuse = [](StoredTensor t, std::string_view part) {
    std::vector<StoredTensor> tensors = {std::move(t)};
    expect_error(plan({}, tensors), Code::invalid_argument, part);
  };
  refuse({.name = "w", .type = StoredType::u8, .shape = {1}}, "'w' is U8, a type that GGUF does not have");
  refuse({.name = "w", .type = StoredType::f32, .shape = {1, 1, 1, 1, 1}}, "has 5 axes");
  refuse({.name = std::string(64, 'n'), .type = StoredType::f32, .shape = {1}}, "a name of 64 bytes");
  refuse({.name = "w", .type = StoredType::f32, .shape = {1}, .gguf_id = 1}, "not what type id 1 means");
  refuse({.name = "w", .type = StoredType::q4_0, .shape = {31}}, "tensor 'w': shape [31] of Q4_0");
  std::vector<StoredTensor> none;
  expect_error(plan({{"general.alignment", MetaValue(std::uint32_t{3})}}, none), Code::invalid_argument,
               "power of two");
  expect_error(plan({{"k", MetaValue(nest(kMaxNesting + 1))}}, none), Code::invalid_argument, "nested more than 16");
  expect_error(plan({{std::string(65536, 'k'), MetaValue(true)}}, none), Code::invalid_argument, "65536 bytes");
  for (const MetaArray& unsound :
       {MetaArray{.element = MetaKind::u16, .scalars = {1}}, MetaArray{.element = MetaKind::boolean, .scalars = {2}},
        MetaArray{.element = MetaKind::string, .scalars = {2}}, MetaArray{.element = MetaKind::u8, .texts = {"a"}},
        MetaArray{.element = MetaKind::u8, .arrays = {MetaArray()}}, MetaArray{.element = static_cast<MetaKind>(77)}})
    expect_error(plan({{"k", MetaValue(unsound)}}, none), Code::invalid_argument,
                 "holds elements that do not match its kind");
  std::vector<StoredTensor> huge;
  for (int i = 0; i < 1025; ++i)
    huge.push_back({.name = std::to_string(i), .type = StoredType::f64, .shape = {1LL << 53}});
  expect_error(plan({}, huge), Code::invalid_argument, "more bytes than 2^63 - 1");
}

}  // namespace
}  // namespace tern::gguf
