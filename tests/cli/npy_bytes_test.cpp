// Writes and reads .npy files by hand, and tests that both agree with the library's reader.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "npy_bytes.h"
#include "tern/io.h"

namespace tern::cli_test {

std::string npy_header(const std::string& descr, bool fortran_order, const std::string& shape) {
  std::string dictionary = "{'descr': '" + descr + "', 'fortran_order': " + (fortran_order ? "True" : "False") +
                           ", 'shape': " + shape + ", }";
  while ((10 + dictionary.size() + 1) % 64 != 0) dictionary += ' ';
  dictionary += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(dictionary.size() & 0xff);
  bytes += static_cast<char>(dictionary.size() >> 8);
  return bytes + dictionary;
}

void write_bytes(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

void write_npy(const std::string& path, const std::string& shape, const std::vector<float>& values) {
  std::string data(values.size() * sizeof(float), '\0');
  if (!values.empty()) std::memcpy(data.data(), values.data(), data.size());
  write_bytes(path, npy_header("<f4", false, shape) + data);
}

std::vector<float> read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (bytes.size() < 10 || bytes.substr(0, 7) != "\x93NUMPY\x01") return {};
  const auto low = static_cast<unsigned char>(bytes[8]);
  const auto high = static_cast<unsigned char>(bytes[9]);
  const std::size_t start = 10 + low + 256u * high;
  if (bytes.size() < start || bytes.find("'<f4'") > start) return {};
  std::vector<float> values((bytes.size() - start) / sizeof(float));
  std::memcpy(values.data(), bytes.data() + start, values.size() * sizeof(float));
  return values;
}

std::vector<float> random_weights(std::size_t count, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

namespace {

TEST(NpyBytes, AreWhatTheLibraryReads) {
  const auto folder = std::filesystem::temp_directory_path();
  const std::string path = (folder / ("tern-npy-" + std::to_string(::getpid()) + ".npy")).string();
  const std::vector<float> values = random_weights(6, 1);
  write_npy(path, "(2, 3)", values);
  EXPECT_EQ(read_npy(path), values);
  const Result<NpyFile> file = NpyFile::open(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(file.ok()) << file.error().str();
  EXPECT_EQ(file->view().shape, (Shape{2, 3}));
  EXPECT_EQ(std::memcmp(file->view().data, values.data(), 6 * sizeof(float)), 0);
}

}  // namespace
}  // namespace tern::cli_test
