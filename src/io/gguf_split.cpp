// Reads the keys, and parses the names, of the parts of a model.
#include "io/gguf_split.h"

#include <algorithm>

#include "base/fmt.h"
#include "base/words.h"

namespace tern::gguf {
namespace {

constexpr std::string_view kPart = "split.no";
constexpr std::string_view kCount = "split.count";
constexpr std::string_view kTensors = "split.tensors.count";
constexpr std::size_t kDigits = 5;  // at least; from 100,000 parts on there are more

std::int64_t integer_or(const Metadata& metadata, std::string_view key, std::int64_t otherwise) {
  const MetaValue* value = find_key(metadata, key);
  const auto said = value == nullptr ? std::nullopt : value->integer();
  return std::clamp<std::int64_t>(said.value_or(otherwise), -1, INT32_MAX);  // so that adding 1 cannot overflow
}

}  // namespace

Split split_of(const Metadata& metadata) {
  const Split whole;
  return {integer_or(metadata, kPart, whole.part), integer_or(metadata, kCount, whole.count),
          integer_or(metadata, kTensors, whole.tensors)};
}

bool is_split_key(std::string_view key) { return key == kPart || key == kCount || key == kTensors; }

std::string part_ending(std::int64_t part, std::int64_t count) {
  return fmt::format("-{:0{}}-of-{:0{}}.gguf", part + 1, kDigits, count, kDigits);
}

std::string_view part_prefix(std::string_view path, std::int64_t part, std::int64_t count) {
  const std::string ending = part_ending(part, count);
  return path.ends_with(ending) ? path.substr(0, path.size() - ending.size()) : std::string_view();
}

std::string first_part(std::string_view name) {
  const std::size_t of = name.rfind("-of-");
  if (of == std::string_view::npos || of < kDigits + 1 || !name.ends_with(".gguf")) return {};
  const std::size_t digits = name.rfind('-', of - 1);
  if (digits == std::string_view::npos) return {};
  const auto part = whole_number(name.substr(digits + 1, of - digits - 1));
  const auto count = whole_number(name.substr(of + 4, name.size() - of - 4 - 5));
  if (!part || !count || *part <= 1 || *part > *count) return {};
  const std::string_view prefix = part_prefix(name, *part - 1, *count);
  return prefix.empty() ? std::string() : std::string(prefix) + part_ending(0, *count);
}

}  // namespace tern::gguf
