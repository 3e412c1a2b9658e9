// Element types of the containers: names, ids and sizes.
#include <gtest/gtest.h>

#include <algorithm>

#include "io/container.h"
#include "tests/support/test_files.h"

namespace tern {
namespace {

using Sizes = std::vector<std::int64_t>;

TEST(StoredType, NamesAndIdsAreFoundAgain) {
  for (const StoredTypeInfo& row : stored_types()) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(&info(row.type), &row);
    EXPECT_EQ(name(row.type), row.name);
    EXPECT_EQ(*parse_stored_type(row.name), row.type);
    EXPECT_TRUE(row.in_safetensors || row.gguf_id >= 0);
    if (row.dtype) {
      EXPECT_EQ(stored_type(*row.dtype), row.type);
      EXPECT_EQ(static_cast<std::size_t>(row.block_bytes), size_of(*row.dtype));
    }
    if (row.gguf_id >= 0) {
      const auto readings = gguf_readings(static_cast<std::uint32_t>(row.gguf_id));
      EXPECT_NE(std::ranges::find(readings, row.type), readings.end());
    }
  }
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i32})
    EXPECT_EQ(info(stored_type(dtype)).dtype, dtype);
  EXPECT_EQ(*parse_stored_type("tq2_0"), StoredType::tq2_0);
  expect_error(parse_stored_type("F7"), Code::invalid_argument, "'F7' is not one of F64, F32");
  EXPECT_EQ(*parse_container("gguf"), Container::gguf);
  EXPECT_EQ(*parse_container(name(Container::safetensors)), Container::safetensors);
  expect_error(parse_container("zip"), Code::invalid_argument, "zip");
}

TEST(StoredType, IdsWithSeveralMeanings) {
  EXPECT_EQ(gguf_readings(39), (std::vector{StoredType::mxfp4, StoredType::tl2}));
  EXPECT_EQ(gguf_readings(42), (std::vector{StoredType::q2_0, StoredType::q2_0_g128, StoredType::tl2}));
  EXPECT_EQ(gguf_readings(36), std::vector{StoredType::i2_s});
  for (const std::uint32_t id : {4U, 5U, 43U, 0xFFFFFFFFU}) EXPECT_TRUE(gguf_readings(id).empty()) << id;
}

// ggml's block_q8_1: two f16 (the scale, and the scale times the sum) and 32 codes. gguf-py still says 40 bytes, from
// the time when both were f32 on CPUs.
TEST(StoredType, Q8_1IsAsGgmlHasIt) {
  const StoredTypeInfo& q8_1 = info(StoredType::q8_1);
  EXPECT_EQ(q8_1.block_elements, 32);
  EXPECT_EQ(q8_1.block_bytes, 2 * 2 + 32);
  EXPECT_EQ(q8_1.gguf_id, 9);
  EXPECT_EQ(*stored_bytes(StoredType::q8_1, Sizes{3, 64}), 3U * 2 * 36);
}

TEST(StoredType, SizesOfShapes) {
  const struct {
    StoredType type;
    Sizes shape;
    std::size_t bytes;
  } cases[] = {
      {StoredType::f32, {}, 4},
      {StoredType::bf16, {3, 5}, 30},
      {StoredType::f4, {3, 2}, 3},
      {StoredType::f6_e2m3, {2, 2}, 3},
      {StoredType::tq2_0, {2, 512}, 4 * 66},
      {StoredType::q1_0, {128}, 18},
      {StoredType::i2_s, {2560, 2560}, 2560 * 2560 / 4 + 32},
      {StoredType::tl1, {64, 128}, 64 * 128 / 4 + 32},
      {StoredType::i8_s, {3, 3}, 9},
      {StoredType::i2_s, {0, 5}, 0},
      {StoredType::tl2, {0, 256}, 0},
      {StoredType::f64, {INT64_MAX, INT64_MAX, 0}, 0},
      // (k - 256) * n / 3 * 5 / 8 + 256 * n / 2 * 4 / 8, rounded up to a multiple of 32, plus 32
      {StoredType::tl2, {3200, 8640}, (8640LL - 256) * 3200 / 3 * 5 / 8 + 256LL * 3200 / 4 + 11 + 32},
      {StoredType::tl2, {32, 256}, 32 * 64 + 32},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(std::string(name(c.type)) + " " + std::to_string(c.bytes));
    const auto bytes = stored_bytes(c.type, c.shape);
    ASSERT_TRUE(bytes.ok()) << bytes.error().str();
    EXPECT_EQ(*bytes, c.bytes);
  }
}

TEST(StoredType, ShapesWithoutASizeAreRefused) {
  expect_error(stored_bytes(StoredType::tq2_0, Sizes{256, 128}), Code::invalid_argument,
               "[256, 128] of TQ2_0: the last size 128 is not a multiple of 256");
  expect_error(stored_bytes(StoredType::q4_0, Sizes{}), Code::invalid_argument, "the last size 1");
  expect_error(stored_bytes(StoredType::f4, Sizes{3}), Code::invalid_argument, "number of elements 3");
  expect_error(stored_bytes(StoredType::i2_s, Sizes{3, 5}), Code::invalid_argument, "not a multiple of 4");
  expect_error(stored_bytes(StoredType::f32, Sizes{2, -1}), Code::invalid_argument, "a size of -1");
  expect_error(stored_bytes(StoredType::u8, Sizes{INT64_MAX, 2}), Code::invalid_argument, "2^53");
  expect_error(stored_bytes(StoredType::u8, Sizes{(1LL << 53) + 1}), Code::invalid_argument, "2^53");
  EXPECT_TRUE(stored_bytes(StoredType::q8_k, Sizes{1LL << 53}).ok());
  expect_error(stored_bytes(StoredType::tl2, Sizes{256}), Code::invalid_argument, "TL2 holds matrices");
}

TEST(StoredType, SettledBytesAreThoseOfTheShape) {
  StoredTensor tensor{.name = "w", .type = StoredType::tl1, .shape = {64, 128}};
  ASSERT_TRUE(settle_bytes(tensor).ok());
  EXPECT_EQ(tensor.bytes, 2080U);
  tensor.bytes = 2048;  // without the scale
  EXPECT_TRUE(settle_bytes(tensor).ok());
  EXPECT_EQ(tensor.bytes, 2048U);
  tensor.bytes = 2047;
  expect_error(settle_bytes(tensor), Code::invalid_argument, "2047 bytes are not the 2080");
  tensor = {.name = "w", .type = StoredType::f32, .shape = {2}, .bytes = 9};
  expect_error(settle_bytes(tensor), Code::invalid_argument, "9 bytes are not the 8 of shape [2] of F32");
}

TEST(StoredType, TheFirstDuplicateIsFound) {
  EXPECT_EQ(first_duplicate({}), 0U);
  EXPECT_EQ(first_duplicate({"b", "a"}), 2U);
  EXPECT_EQ(first_duplicate({"b", "a", "c", "a", "b"}), 3U);
}

}  // namespace
}  // namespace tern
