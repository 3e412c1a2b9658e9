// Converts Meta to JSON and back. The text is untrusted, so every value is checked.
#include "io/meta.h"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "io/file_error.h"
#include "tern/version.h"

namespace tern {
namespace {

using nlohmann::json;

constexpr std::int64_t kVersion = 1;  // of this layout of codes, scales and meta
constexpr std::size_t kChecksumDigits = 16;

Error wrong(std::string_view key, const json& value, std::string_view expected) {
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return error(Code::corrupt_file, "meta", "meta: {} is {}, not {}", key, printable(text), expected);
}

Result<const json*> find(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return error(Code::corrupt_file, "meta", "meta: there is no '{}'", key);
  return &*found;
}

// A whole number of 0 or more. The parser stores these as unsigned, and those that do not fit 64 bits as floats.
Result<std::int64_t> read_number(std::string_view key, const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number <= static_cast<std::uint64_t>(INT64_MAX)) return static_cast<std::int64_t>(number);
  }
  return wrong(key, value, "a whole number from 0 to 2^63 - 1");
}

Result<std::string> read_text(const json& object, const char* key) {
  TERN_ASSIGN(value, find(object, key));
  if (!value->is_string()) return wrong(key, *value, "a text");
  return value->get<std::string>();
}

template <class T>
Result<T> read_word(const json& object, const char* key, Result<T> (*parse)(std::string_view)) {
  TERN_ASSIGN(word, read_text(object, key));
  auto parsed = parse(word);
  if (parsed.ok()) return parsed;
  // The parser's message lists the known words, but quotes the unknown one without escaping it.
  const std::string shown = printable(word);
  return error(Code::corrupt_file, "meta", "meta: {}: {}", key,
               shown == word ? parsed.error().message : fmt::format("'{}' is not a known word", shown));
}

Result<Shape> read_shape(const json& object) {
  TERN_ASSIGN(value, find(object, "shape"));
  if (!value->is_array() || value->size() > Shape::kMaxRank)
    return wrong("shape", *value, fmt::format("a list of at most {} sizes", Shape::kMaxRank));
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  std::size_t rank = 0;
  for (const json& size : *value) {
    TERN_ASSIGN(number, read_number("a size of shape", size));
    sizes[rank++] = number;
  }
  return Shape(std::span<const std::int64_t>(sizes.data(), rank));
}

Result<std::uint64_t> read_checksum(const json& object) {
  TERN_ASSIGN(text, read_text(object, "checksum"));
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != kChecksumDigits || failure != std::errc() || end != text.data() + text.size())
    return wrong("checksum", json(text), "16 hexadecimal digits");
  return value;
}

}  // namespace

std::string to_json(const Meta& meta) {
  json object = {{"version", kVersion},
                 {"tern", TERN_VERSION},
                 {"scheme", name(meta.scheme)},
                 {"granularity", name(meta.granularity)},
                 {"format", name(meta.format)},
                 {"shape", json::array()},
                 {"checksum", fmt::format("{:016x}", meta.checksum)}};
  for (const std::int64_t size : meta.shape.sizes()) object["shape"].push_back(size);
  return object.dump();
}

Result<Meta> parse_meta(std::string_view text) {
  if (text.size() > kMaxMetaBytes)
    return error(Code::corrupt_file, "meta", "meta: it has {} bytes; more than {} is refused", text.size(),
                 kMaxMetaBytes);
  const json object = json::parse(text, nullptr, false);
  if (object.is_discarded()) return error(Code::corrupt_file, "meta", "meta: '{}' is not JSON", printable(text));
  if (!object.is_object()) return wrong("the text", object, "a JSON object");
  TERN_ASSIGN(version_value, find(object, "version"));
  TERN_ASSIGN(version, read_number("version", *version_value));
  if (version != kVersion)
    return error(Code::unsupported, "meta", "meta: version is {}; tern {} reads version {}", version, TERN_VERSION,
                 kVersion);
  TERN_RETURN_IF_ERROR(read_text(object, "tern"));
  TERN_ASSIGN(scheme, read_word(object, "scheme", parse_scheme));
  TERN_ASSIGN(granularity, read_word(object, "granularity", parse_granularity));
  TERN_ASSIGN(format, read_word(object, "format", parse_format));
  TERN_ASSIGN(shape, read_shape(object));
  TERN_ASSIGN(checksum, read_checksum(object));
  return Meta{scheme, granularity, format, shape, checksum};
}

}  // namespace tern
