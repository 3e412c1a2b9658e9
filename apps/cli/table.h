// Aligned columns of text, no wider than a page: the last column wraps.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tern::cli {

inline constexpr std::size_t kTextColumns = 80;   // of sentences and of facts, which are tables without a header
inline constexpr std::size_t kPageColumns = 100;  // of tables with a header, whose rows would rarely fit 80

class Table {
 public:
  enum class Align { left, right };

  // An empty header prints no header line; `indent` spaces precede every line.
  explicit Table(std::vector<std::string> header = {}, std::size_t indent = 0);
  void align(std::size_t column, Align align);
  void add(std::vector<std::string> cells);  // as many cells as the first row
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  [[nodiscard]] std::string str() const;  // lines that each end in '\n', without trailing spaces

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<Align> align_;
  std::size_t indent_;
};

// `text` in lines of at most `columns` characters, broken at spaces; a longer word gets a line of its own.
std::vector<std::string> wrap(const std::string& text, std::size_t columns);

}  // namespace tern::cli
