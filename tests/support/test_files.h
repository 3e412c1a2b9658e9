// Shared by tests of files: a temporary folder, whole files as strings, and checks of errors.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "io/little_endian.h"
#include "tern/status.h"

namespace tern {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tern_test_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no temporary folder at " << name;
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] std::string operator/(std::string_view name) const { return (path_ / name).string(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // The number of entries, including hidden files.
  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

inline void write_text(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  EXPECT_TRUE(out.flush()) << path;
}

// tests/ of the source tree, or an empty path if only the test programs were copied here.
inline std::filesystem::path source_tests() {
  const std::filesystem::path path = TERN_TESTS_DIR;
  return std::filesystem::exists(path / "corpus") ? path : std::filesystem::path();
}

template <class T>
void expect_error(const T& result, Code code, std::string_view part) {
  ASSERT_FALSE(result.ok()) << "expected: " << part;
  EXPECT_EQ(result.code(), code) << result.error().str();
  EXPECT_NE(result.error().message.find(part), std::string::npos)
      << "'" << part << "' is not in: " << result.error().message;
}

}  // namespace tern
