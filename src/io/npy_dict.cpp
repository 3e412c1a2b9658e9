// A recursive-descent parser that needs no recursion, because nothing but the shape is nested.
#include "io/npy_dict.h"

#include <array>
#include <charconv>

#include "io/file_error.h"

namespace tern::npy {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Dict> dict() {
    TERN_RETURN_IF_ERROR(expect('{'));
    while (!peek('}')) {
      TERN_ASSIGN(key, string());
      TERN_RETURN_IF_ERROR(once(key));
      TERN_RETURN_IF_ERROR(expect(':'));
      TERN_RETURN_IF_ERROR(value(key));
      if (dict_.structured) return dict_;
      if (!take(',')) break;
    }
    TERN_RETURN_IF_ERROR(expect('}'));
    skip_space();
    if (at_ < text_.size()) return wrong("the end of the header");
    for (std::size_t i = 0; i < kKeys.size(); ++i)
      if (!seen_[i]) return error(Code::corrupt_file, "npy", "the header has no '{}'", kKeys[i]);
    return dict_;
  }

 private:
  static constexpr std::array<std::string_view, 3> kKeys = {"descr", "fortran_order", "shape"};

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  bool peek(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    if (!peek(c)) return false;
    ++at_;
    return true;
  }

  [[nodiscard]] Error wrong(std::string_view expected) const {
    const std::string_view rest = text_.substr(at_, 1);
    return error_at(static_cast<std::int64_t>(at_), Code::corrupt_file, "npy",
                    "byte {} of the header is {} where {} must be", at_,
                    rest.empty() ? "its end" : fmt::format("'{}'", printable(rest)), expected);
  }
  Status expect(char c) { return take(c) ? Status() : Status(wrong(fmt::format("'{}'", c))); }

  Result<std::string_view> string() {
    if (!peek('\'') && !peek('"')) return wrong("a quoted word");
    const char quote = text_[at_++];
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\\' && text_[at_] != '\n') ++at_;
    if (at_ == text_.size() || text_[at_] != quote) return wrong("a closing quote");
    return text_.substr(begin, at_++ - begin);
  }

  Status once(std::string_view key) {
    for (std::size_t i = 0; i < kKeys.size(); ++i)
      if (kKeys[i] == key) {
        if (seen_[i]) return error(Code::corrupt_file, "npy", "the header has '{}' twice", key);
        seen_[i] = true;
        return {};
      }
    return error(Code::corrupt_file, "npy",
                 "the header has the key '{}'; only descr, fortran_order and shape are allowed", printable(key));
  }

  Status value(std::string_view key) {
    if (key == "shape") return shape();
    if (key == "fortran_order") return boolean();
    if (peek('[')) {
      dict_.structured = true;
      return {};
    }
    TERN_ASSIGN(descr, string());
    dict_.descr = descr;
    return {};
  }

  Status boolean() {
    skip_space();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(at_, word.size()) == word) {
        dict_.fortran_order = word == "True";
        at_ += word.size();
        return {};
      }
    return wrong("True or False");
  }

  // (), (3,), (2, 3), (2, 3,); but (3) is a number, not a tuple.
  Status shape() {
    TERN_RETURN_IF_ERROR(expect('('));
    std::array<std::int64_t, Shape::kMaxRank> sizes{};
    std::size_t rank = 0;
    bool comma = true;
    while (!peek(')')) {
      if (!comma) return wrong("',' or ')'");
      if (rank == sizes.size())
        return error(Code::unsupported, "npy", "the shape has more than {} axes; reshape the array", Shape::kMaxRank);
      TERN_ASSIGN(size, axis_size());
      sizes[rank++] = size;
      comma = take(',');
    }
    if (rank == 1 && !comma) return wrong("',' (a shape of one axis is written (3,))");
    ++at_;
    dict_.shape = Shape(std::span<const std::int64_t>(sizes.data(), rank));
    return {};
  }

  Result<std::int64_t> axis_size() {
    skip_space();
    const std::size_t begin = at_;
    if (at_ < text_.size() && text_[at_] == '-') ++at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    const std::string_view digits = text_.substr(begin, at_ - begin);
    if (digits.empty()) return wrong("the size of an axis");
    if (digits[0] == '-')
      return error(Code::corrupt_file, "npy", "the shape has the negative size {}", printable(digits));
    const auto size = whole_number(digits);
    if (!size) return error(Code::corrupt_file, "npy", "the shape has the size {}, above 2^63 - 1", printable(digits));
    return *size;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::array<bool, 3> seen_{};
  Dict dict_;
};

}  // namespace

Result<Dict> parse_dict(std::string_view text) { return Parser(text).dict(); }

std::optional<std::int64_t> whole_number(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failure != std::errc() || end != digits.data() + digits.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace tern::npy
