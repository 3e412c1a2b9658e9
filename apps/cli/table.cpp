// Aligned columns of text, no wider than a page: the last column wraps.
#include "table.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace tern::cli {
namespace {

constexpr std::size_t kGapColumns = 2;
constexpr std::size_t kNarrowestColumns = 20;  // below this a wrapped column is harder to read than a long line

std::size_t width_of(const std::vector<const std::vector<std::string>*>& rows, std::size_t column) {
  std::size_t width = 0;
  for (const auto* row : rows)
    if (column < row->size()) width = std::max(width, (*row)[column].size());
  return width;
}

void end_line(std::string& text) {
  while (!text.empty() && text.back() == ' ') text.pop_back();
  text += '\n';
}

}  // namespace

std::vector<std::string> wrap(const std::string& text, std::size_t columns) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > columns) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

Table::Table(std::vector<std::string> header, std::size_t indent) : header_(std::move(header)), indent_(indent) {}

void Table::align(std::size_t column, Align align) {
  if (align_.size() <= column) align_.resize(column + 1, Align::left);
  align_[column] = align;
}

void Table::add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string Table::str() const {
  std::vector<const std::vector<std::string>*> rows;  // there may be a million of them
  if (!header_.empty()) rows.push_back(&header_);
  for (const auto& row : rows_) rows.push_back(&row);
  if (rows.empty()) return {};

  const std::size_t last = rows.front()->size() - 1;
  std::vector<std::size_t> widths;
  std::size_t before_last = indent_;
  for (std::size_t c = 0; c < last; ++c) {
    widths.push_back(width_of(rows, c));
    before_last += widths.back() + kGapColumns;
  }
  const std::size_t page = header_.empty() ? kTextColumns : kPageColumns;
  const std::size_t room = before_last + kNarrowestColumns < page ? page - before_last : kNarrowestColumns;
  widths.push_back(std::min(width_of(rows, last), room));

  std::string text;
  for (const auto* cells : rows) {
    const std::vector<std::string>& row = *cells;
    text.append(indent_, ' ');
    for (std::size_t c = 0; c < last; ++c) {
      const bool right = c < align_.size() && align_[c] == Align::right;
      text += right ? fmt::format("{:>{}}", row[c], widths[c]) : fmt::format("{:<{}}", row[c], widths[c]);
      text.append(kGapColumns, ' ');
    }
    const bool right = last < align_.size() && align_[last] == Align::right;
    bool first = true;
    for (const std::string& line : wrap(row[last], room)) {
      if (!first) text.append(before_last, ' ');
      text += right ? fmt::format("{:>{}}", line, widths[last]) : line;
      end_line(text);
      first = false;
    }
  }
  return text;
}

}  // namespace tern::cli
