// Type ids that mean several types: what decides, and what is refused.
#include <gtest/gtest.h>

#include "io/gguf.h"
#include "io/gguf_bytes.h"
#include "tests/support/test_files.h"

namespace tern::gguf {
namespace {

Result<ParsedContainer> parse_with(const std::string& bytes, const OpenOptions& options = {}) {
  const std::vector<std::uint8_t> exact(bytes.begin(), bytes.end());
  return parse(exact, options);
}

// A file of one tensor [n, k] with this type id, and `data_bytes` bytes for it.
std::string one(std::uint32_t id, std::uint64_t n, std::uint64_t k, std::size_t data_bytes,
                const std::vector<std::string>& keys = {}) {
  return file(keys, {tensor("w", {k, n}, id, 0)}, data_bytes);
}

void expect_type(const Result<ParsedContainer>& parsed, StoredType type, std::size_t bytes) {
  ASSERT_TRUE(parsed.ok()) << parsed.error().str();
  EXPECT_EQ(name(parsed->tensors[0].type), name(type));
  EXPECT_EQ(parsed->tensors[0].bytes, bytes);
}

TEST(GgufTypes, TheRoomTellsThemApart) {
  expect_type(parse_with(one(39, 32, 512, 32 * 16 * 17)), StoredType::mxfp4, 32 * 16 * 17);
  const std::size_t tl2 = *stored_bytes(StoredType::tl2, std::vector<std::int64_t>{32, 512});
  expect_type(parse_with(one(39, 32, 512, tl2)), StoredType::tl2, tl2);
  expect_type(parse_with(one(42, 32, 512, tl2)), StoredType::tl2, tl2);
  expect_type(parse_with(one(42, 32, 512, 32 * 8 * 18)), StoredType::q2_0, 32 * 8 * 18);
  expect_type(parse_with(one(42, 32, 512, 32 * 4 * 34)), StoredType::q2_0_g128, 32 * 4 * 34);
  expect_error(parse_with(one(42, 32, 512, 9999)), Code::corrupt_file,
               "type id 42, which is Q2_0 (4608 bytes) or Q2_0_G128 (4352 bytes) or TL2");
  expect_error(parse_with(one(42, 32, 100, 9999)), Code::corrupt_file, "not a multiple of 64");
}

TEST(GgufTypes, AmbiguityIsAnErrorThatNamesBoth) {
  // [512] has 144 bytes as Q2_0 and 136 as Q2_0_G128: both leave less than 32 of the 160 bytes.
  const std::string both = file({}, {tensor("w", {512}, 42, 0)}, 160);
  expect_error(parse_with(both), Code::invalid_argument, "Q2_0 (144 bytes) or Q2_0_G128 (136 bytes)");
  expect_error(parse_with(both), Code::invalid_argument, "give OpenOptions::gguf_types Q2_0 or Q2_0_G128");
  expect_type(parse_with(both, {.gguf_types = {StoredType::q2_0_g128}}), StoredType::q2_0_g128, 136);
  expect_type(parse_with(both, {.gguf_types = {StoredType::mxfp4, StoredType::q2_0}}), StoredType::q2_0, 144);
  // If two types are named, the one that fits is chosen; the other may be meant for another id.
  expect_type(parse_with(both, {.gguf_types = {StoredType::tl2, StoredType::q2_0}}), StoredType::q2_0, 144);
  expect_error(parse_with(both, {.gguf_types = {StoredType::q2_0_g128, StoredType::q2_0}}), Code::invalid_argument,
               "bytes of room fit each of them");
  // The choice must fit as well.
  expect_error(parse_with(both, {.gguf_types = {StoredType::tl2}}), Code::corrupt_file, "TL2 holds matrices");
  // Another tensor with the same id decides for both.
  const std::string decided = file({}, {tensor("w", {512}, 42, 0), tensor("v", {512, 32}, 42, 160)}, 160 + 32 * 4 * 34);
  expect_type(parse_with(decided), StoredType::q2_0_g128, 136);
}

// The smallest matrices that fit TL2 and another type.
TEST(GgufTypes, MetadataDecideWhereTheRoomDoesNot) {
  const std::vector<std::int64_t> shape = {1, 320};
  const std::size_t tl2 = *stored_bytes(StoredType::tl2, shape);    // 96 and a trailer of 32
  const std::size_t q2_0 = *stored_bytes(StoredType::q2_0, shape);  // 90
  const std::size_t room = 96;
  ASSERT_EQ(tl2, 128U);
  ASSERT_EQ(q2_0, 90U);
  // As TL2 without its trailer it has 96 bytes.
  expect_error(parse_with(one(42, 1, 320, room)), Code::invalid_argument, "Q2_0 (90 bytes) or TL2 (128 bytes)");
  const std::string bitnet = key("general.architecture", 8, text("bitnet-b1.58"));
  const std::string llama = key("general.architecture", 8, text("llama"));
  expect_type(parse_with(one(42, 1, 320, room, {bitnet})), StoredType::tl2, 96);
  expect_error(parse_with(one(42, 1, 320, room, {llama})), Code::invalid_argument,
               "give OpenOptions::gguf_types Q2_0 or TL2");
  expect_type(parse_with(one(42, 1, 320, room, {llama, key("general.file_type", 4, u32(41))})), StoredType::q2_0, 90);
  // File type 40 is I2_S for bitnet.cpp and Q1_0 for llama.cpp; it says nothing about id 42.
  expect_error(parse_with(one(42, 1, 320, room, {key("general.file_type", 4, u32(40))})), Code::invalid_argument,
               "metadata do not say");
}

TEST(GgufTypes, FileTypesOfTwoProgramsDecideForId39) {
  // The alignment is so large that 128 and 170 bytes both fit.
  const auto with = [](const std::vector<std::string>& more) {
    std::vector<std::string> keys = {key("general.alignment", 4, u32(256))};
    keys.insert(keys.end(), more.begin(), more.end());
    return file(keys, {tensor("w", {320, 1}, 39, 0)}, 256, 256);
  };
  expect_error(parse_with(with({})), Code::invalid_argument, "MXFP4 (170 bytes) or TL2 (128 bytes)");
  expect_type(parse_with(with({key("general.file_type", 4, u32(38))})), StoredType::mxfp4, 170);
  expect_type(parse_with(with({key("general.file_type", 4, u32(39))})), StoredType::tl2, 128);
  expect_type(parse_with(with({key("general.architecture", 8, text("bitnet"))})), StoredType::tl2, 128);
}

TEST(GgufTypes, ScalesMayFollowAsTensors) {
  // bitnet.cpp's converter writes TL1 without its trailer and the scale as the next tensor.
  const std::string bytes = file({}, {tensor("w", {128, 64}, 38, 0), tensor("w_scale", {1}, 0, 2048)}, 2080);
  const auto parsed = parse_with(bytes);
  expect_type(parsed, StoredType::tl1, 2048);
  expect_type(parse_with(file({}, {tensor("w", {128, 64}, 38, 0), tensor("x", {8}, 0, 2080)}, 2112)), StoredType::tl1,
              2080);
  expect_type(parse_with(one(36, 64, 128, 2080)), StoredType::i2_s, 2080);
  expect_error(parse_with(one(36, 64, 128, 2047)), Code::corrupt_file,
               "need 2144 bytes at least, the file has 2143: it is truncated");
}

}  // namespace
}  // namespace tern::gguf
