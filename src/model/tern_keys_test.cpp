// The metadata keys by which files describe themselves: every tensor name finds its own keys.
#include "model/tern_keys.h"

#include <gtest/gtest.h>

#include "tern/model.h"
#include "tests/support/test_files.h"

namespace tern {
namespace {

TEST(TernKeys, NumbersAreAsManyAsAskedForAndNothingElse) {
  std::int64_t n[3] = {};
  ASSERT_TRUE(keys::parse_numbers("160,96,32", ',', n, 3));
  EXPECT_EQ(n[0], 160);
  EXPECT_EQ(n[1], 96);
  EXPECT_EQ(n[2], 32);
  ASSERT_TRUE(keys::parse_numbers("999999999999999999x0", 'x', n, 2)) << "18 digits";
  EXPECT_EQ(n[0], 999'999'999'999'999'999);
  for (const char* text : {"", "x", "1", "1x", "x1", "1x2x", "1x2x3", "1,2", " 1x2", "1x2 ", "-1x2", "+1x2", "1xx2",
                           "1000000000000000000x1", "0x10x1", "1\0x2"})
    EXPECT_FALSE(keys::parse_numbers(text, 'x', n, 2)) << text;
  EXPECT_EQ(keys::checksum_text(0xABC), "0000000000000abc");
}

// Names that are prefixes or suffixes of others, that have dots, are empty or long, or look like keys.
std::vector<std::string> odd_names() {
  std::vector<std::string> names = {
      "w", "w.w", ".w", "w.", "", "tern.shape.w", "shape.w", "\x1b[2J", "\xC3\xA9", std::string(60'000, 'w')};
  for (int i = 0; i < 500; ++i) names.push_back("model.layers." + std::to_string(i) + ".weight");
  return names;
}

// Every tensor has its own keys with different values; none may get those of a neighbour.
TEST(TernKeys, EveryNameFindsItsOwn) {
  const std::vector<std::string> names = odd_names();
  Metadata metadata = {{std::string(keys::kFormat), MetaValue("i2")},
                       {std::string(keys::kGranularity), MetaValue("row")}};
  std::vector<StoredTensor> tensors;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::int64_t n = static_cast<std::int64_t>(i % 3) + 1, k = static_cast<std::int64_t>(i) + 1;
    metadata.push_back({keys::shape_of(names[i]), MetaValue(std::to_string(n) + "x" + std::to_string(k))});
    metadata.push_back({keys::checksum_of(names[i]), MetaValue(keys::checksum_text(i * 0x9E3779B97F4A7C15U))});
    if (i % 2 == 0) metadata.push_back({keys::granularity_of(names[i]), MetaValue("group:" + std::to_string(i + 1))});
    tensors.push_back({.name = names[i], .type = StoredType::u8, .shape = {n, (k + 3) / 4}});
    tensors.push_back({.name = names[i] + ".scales", .type = StoredType::f32, .shape = {n, 1}});
  }
  const TempFolder folder;
  auto writer = CheckpointWriter::create(folder / "m.safetensors", Container::safetensors, metadata, tensors);
  ASSERT_TRUE(writer.ok()) << writer.error().str();
  for (const StoredTensor& tensor : writer->tensors())
    ASSERT_TRUE(writer->write(std::vector<std::uint8_t>(tensor.bytes)).ok());
  ASSERT_TRUE(writer->finish().ok());
  const auto model = Model::open(folder / "m.safetensors");
  ASSERT_TRUE(model.ok()) << model.error().str();
  EXPECT_EQ(model->tensors().size(), names.size()) << "scales belong to their weights";
  for (std::size_t i = 0; i < names.size(); ++i) {
    SCOPED_TRACE(escaped(names[i], 40));
    const auto index = model->find(names[i]);
    ASSERT_TRUE(index);
    const ModelTensor& tensor = model->tensors()[*index];
    EXPECT_EQ(tensor.name, names[i]);
    EXPECT_EQ(tensor.n(), static_cast<std::int64_t>(i % 3) + 1);
    EXPECT_EQ(tensor.k(), static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(tensor.checksum, i * 0x9E3779B97F4A7C15U);
    EXPECT_EQ(tensor.granularity,
              i % 2 == 0 ? Granularity::group(static_cast<std::int64_t>(i) + 1) : Granularity::row());
    ASSERT_TRUE(tensor.scales_index);
    EXPECT_EQ(model->checkpoint().tensors()[*tensor.scales_index].name, names[i] + ".scales");
  }
}

}  // namespace
}  // namespace tern
