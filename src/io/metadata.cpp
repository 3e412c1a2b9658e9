// MetaValue and MetaArray: their contents as numbers, bits and JSON.
#include "tern/metadata.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/fmt.h"
#include "base/words.h"
#include "io/little_endian.h"
#include "tern/checkpoint.h"

namespace tern {
namespace {

using nlohmann::json;

constexpr WordTable<MetaKind, 13> kKinds = {{{MetaKind::u8, "u8"},
                                             {MetaKind::i8, "i8"},
                                             {MetaKind::u16, "u16"},
                                             {MetaKind::i16, "i16"},
                                             {MetaKind::u32, "u32"},
                                             {MetaKind::i32, "i32"},
                                             {MetaKind::f32, "f32"},
                                             {MetaKind::boolean, "bool"},
                                             {MetaKind::string, "string"},
                                             {MetaKind::array, "array"},
                                             {MetaKind::u64, "u64"},
                                             {MetaKind::i64, "i64"},
                                             {MetaKind::f64, "f64"}}};

bool is_signed(MetaKind kind) {
  return kind == MetaKind::i8 || kind == MetaKind::i16 || kind == MetaKind::i32 || kind == MetaKind::i64;
}

// JSON has no infinities and no NaN.
json json_number(double v) {
  if (std::isfinite(v)) return v;
  return std::isnan(v) ? "NaN" : (v > 0 ? "Infinity" : "-Infinity");
}

json json_of(const MetaArray& array, std::size_t max_elements);

json json_of(const MetaValue& value, std::size_t max_elements) {
  switch (value.kind()) {
    case MetaKind::boolean: return *value.boolean();
    case MetaKind::f32: {
      // The shortest digits that give the same float; those of the equal double would be more.
      const auto v = std::bit_cast<float>(static_cast<std::uint32_t>(value.bits()));
      if (!std::isfinite(v)) return json_number(v);
      const std::string digits = fmt::format("{}", v);
      return json::parse(digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits);
    }
    case MetaKind::f64: return json_number(*value.number());
    case MetaKind::string: return *value.text();
    case MetaKind::array: return json_of(*value.array(), max_elements);
    case MetaKind::u64: return value.bits();
    default: return *value.integer();
  }
}

json json_of(const MetaArray& array, std::size_t max_elements) {
  json list = json::array();
  for (std::size_t i = 0; i < std::min(array.size(), max_elements); ++i)
    list.push_back(array.element == MetaKind::array ? json_of(array.arrays[i], max_elements)
                                                    : json_of(array[i], max_elements));
  if (array.size() > max_elements) list.push_back(fmt::format("... {} in all", array.size()));
  return list;
}

}  // namespace

std::string_view name(MetaKind kind) { return word_of(kKinds, kind); }

std::size_t scalar_bytes(MetaKind kind) {
  switch (kind) {
    case MetaKind::u8:
    case MetaKind::i8:
    case MetaKind::boolean: return 1;
    case MetaKind::u16:
    case MetaKind::i16: return 2;
    case MetaKind::u32:
    case MetaKind::i32:
    case MetaKind::f32: return 4;
    case MetaKind::u64:
    case MetaKind::i64:
    case MetaKind::f64: return 8;
    case MetaKind::string:
    case MetaKind::array: return 0;
  }
  return 0;
}

MetaValue::MetaValue(float v) : MetaValue(MetaKind::f32, std::bit_cast<std::uint32_t>(v)) {}
MetaValue::MetaValue(double v) : MetaValue(MetaKind::f64, std::bit_cast<std::uint64_t>(v)) {}

MetaValue MetaValue::from_bits(MetaKind scalar, std::uint64_t bits) {
  const std::size_t spare = 64 - 8 * scalar_bytes(scalar);
  if (spare == 64) return {};  // not a scalar
  bits = bits << spare >> spare;
  if (is_signed(scalar)) bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << spare) >> spare);
  return {scalar, bits};
}

std::optional<std::int64_t> MetaValue::integer() const {
  if (is_signed(kind_)) return static_cast<std::int64_t>(bits_);
  switch (kind_) {
    case MetaKind::u8:
    case MetaKind::u16:
    case MetaKind::u32: return static_cast<std::int64_t>(bits_);
    case MetaKind::u64:
      if (bits_ <= static_cast<std::uint64_t>(INT64_MAX)) return static_cast<std::int64_t>(bits_);
      return std::nullopt;
    default: return std::nullopt;
  }
}

std::optional<double> MetaValue::number() const {
  if (kind_ == MetaKind::f32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits_));
  if (kind_ == MetaKind::f64) return std::bit_cast<double>(bits_);
  if (kind_ == MetaKind::u64) return static_cast<double>(bits_);
  const auto whole = integer();
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

std::optional<bool> MetaValue::boolean() const {
  return kind_ == MetaKind::boolean ? std::optional(bits_ != 0) : std::nullopt;
}

std::string MetaValue::to_json(std::size_t max_elements) const {
  return json_of(*this, max_elements).dump(-1, ' ', true, json::error_handler_t::replace);
}

bool operator==(const MetaValue& a, const MetaValue& b) {
  if (a.kind_ != b.kind_ || a.bits_ != b.bits_ || a.text_ != b.text_) return false;
  return a.array_ == b.array_ || (a.array_ != nullptr && b.array_ != nullptr && *a.array_ == *b.array_);
}

std::size_t MetaArray::size() const {
  if (element == MetaKind::string) return texts.size();
  if (element == MetaKind::array) return arrays.size();
  return scalars.size() / scalar_bytes(element);
}

MetaValue MetaArray::operator[](std::size_t i) const {
  if (element == MetaKind::string) return MetaValue(texts[i]);
  if (element == MetaKind::array) return MetaValue(arrays[i]);
  std::uint64_t bits = 0;
  const std::size_t bytes = scalar_bytes(element);
  for (std::size_t b = 0; b < bytes; ++b) bits |= std::uint64_t{scalars[i * bytes + b]} << (8 * b);
  return MetaValue::from_bits(element, bits);
}

MetaArray MetaArray::of(std::vector<std::string> texts) {
  return {.element = MetaKind::string, .texts = std::move(texts)};
}

MetaArray MetaArray::of(std::vector<MetaArray> arrays) {
  return {.element = MetaKind::array, .arrays = std::move(arrays)};
}

const MetaValue* find_key(const Metadata& metadata, std::string_view key) {
  for (const MetaEntry& entry : metadata)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

void set_key(Metadata& metadata, std::string_view key, MetaValue value) {
  for (MetaEntry& entry : metadata)
    if (entry.key == key) {
      entry.value = std::move(value);
      return;
    }
  metadata.push_back({std::string(key), std::move(value)});
}

}  // namespace tern
