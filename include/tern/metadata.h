// The metadata of a checkpoint: an ordered list of keys, each with a value of one of GGUF's types.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/export.h"
#include "tern/status.h"

namespace tern {

// The numbers are those of GGUF.
enum class MetaKind : std::uint8_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

TERN_API std::string_view name(MetaKind);          // "u32", "bool", "string", "array"
TERN_API std::size_t scalar_bytes(MetaKind kind);  // of a value in a file; 0 for string and array

struct MetaArray;

// One value; immutable, and cheap to copy (arrays are shared). Two values are equal when their kinds and bits are.
class MetaValue {
 public:
  MetaValue() : MetaValue(std::string()) {}
  explicit MetaValue(bool v) : MetaValue(MetaKind::boolean, v ? 1 : 0) {}
  explicit MetaValue(std::uint8_t v) : MetaValue(MetaKind::u8, v) {}
  explicit MetaValue(std::int8_t v) : MetaValue(MetaKind::i8, static_cast<std::uint64_t>(v)) {}
  explicit MetaValue(std::uint16_t v) : MetaValue(MetaKind::u16, v) {}
  explicit MetaValue(std::int16_t v) : MetaValue(MetaKind::i16, static_cast<std::uint64_t>(v)) {}
  explicit MetaValue(std::uint32_t v) : MetaValue(MetaKind::u32, v) {}
  explicit MetaValue(std::int32_t v) : MetaValue(MetaKind::i32, static_cast<std::uint64_t>(v)) {}
  explicit MetaValue(std::uint64_t v) : MetaValue(MetaKind::u64, v) {}
  explicit MetaValue(std::int64_t v) : MetaValue(MetaKind::i64, static_cast<std::uint64_t>(v)) {}
  TERN_API explicit MetaValue(float v);
  TERN_API explicit MetaValue(double v);
  explicit MetaValue(std::string v) : kind_(MetaKind::string), text_(std::move(v)) {}
  explicit MetaValue(std::string_view v) : MetaValue(std::string(v)) {}
  explicit MetaValue(const char* v) : MetaValue(std::string(v)) {}  // or a literal would become a bool
  explicit MetaValue(MetaArray v);

  [[nodiscard]] MetaKind kind() const { return kind_; }
  // The value, if it has that kind; an integer only when it fits into 64 signed bits.
  [[nodiscard]] TERN_API std::optional<std::int64_t> integer() const;
  [[nodiscard]] TERN_API std::optional<double> number() const;  // integers too, rounded above 2^53
  [[nodiscard]] TERN_API std::optional<bool> boolean() const;
  [[nodiscard]] const std::string* text() const { return kind_ == MetaKind::string ? &text_ : nullptr; }
  [[nodiscard]] const MetaArray* array() const { return array_.get(); }  // null for other kinds
  // The bits of a scalar, as in a file, in the low bytes.
  [[nodiscard]] std::uint64_t bits() const { return bits_; }
  static TERN_API MetaValue from_bits(MetaKind scalar, std::uint64_t bits);

  // One line of ASCII JSON. An array shows at most `max_elements` elements, and its length; bytes that are not UTF-8
  // become U+FFFD, infinities and NaN become strings.
  [[nodiscard]] TERN_API std::string to_json(std::size_t max_elements = SIZE_MAX) const;

  friend TERN_API bool operator==(const MetaValue&, const MetaValue&);

 private:
  MetaValue(MetaKind kind, std::uint64_t bits) : kind_(kind), bits_(bits) {}
  MetaKind kind_ = MetaKind::string;
  std::uint64_t bits_ = 0;
  std::string text_;
  std::shared_ptr<const MetaArray> array_;
};

// Elements of one kind. Scalars are stored as densely as in a file, because a tokenizer has hundreds of thousands.
struct MetaArray {
  MetaKind element = MetaKind::u8;
  std::vector<std::uint8_t> scalars;  // little-endian
  std::vector<std::string> texts;     // element == string
  std::vector<MetaArray> arrays;      // element == array; each has an element kind of its own

  [[nodiscard]] TERN_API std::size_t size() const;
  [[nodiscard]] TERN_API MetaValue operator[](std::size_t i) const;
  friend bool operator==(const MetaArray&, const MetaArray&) = default;

  static TERN_API MetaArray of(std::vector<std::string> texts);
  static TERN_API MetaArray of(std::vector<MetaArray> arrays);
  template <class T>
  requires std::integral<T> || std::floating_point<T>
  static MetaArray of(std::span<const T> values) {
    MetaArray array;
    array.element = MetaValue(T()).kind();
    array.scalars.resize(values.size_bytes());
    if (!values.empty()) std::memcpy(array.scalars.data(), values.data(), values.size_bytes());
    return array;
  }
};

inline MetaValue::MetaValue(MetaArray v)
    : kind_(MetaKind::array), array_(std::make_shared<const MetaArray>(std::move(v))) {}

struct MetaEntry {
  std::string key;
  MetaValue value;
  friend bool operator==(const MetaEntry&, const MetaEntry&) = default;
};
using Metadata = std::vector<MetaEntry>;

TERN_API const MetaValue* find_key(const Metadata&, std::string_view key);  // null if there is no such key
// Replaces the value of an existing key, or appends a new one.
TERN_API void set_key(Metadata&, std::string_view key, MetaValue value);

}  // namespace tern
