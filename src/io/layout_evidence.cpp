// What can be concluded from bytes that have no format mark, and from the text files that come with them: the order of
// i2_s, the tiles of tl1 and tl2, the direction of a weight_scale.
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/words.h"
#include "format/i2.h"
#include "format/layout.h"
#include "format/ranges.h"
#include "io/file_error.h"
#include "tern/layout.h"

namespace tern {
namespace {

constexpr float kLargestScale = 1e4F;  // above the scale of any trained model; a wrong offset gives any float

// Counts the two-bit codes that are 3, which no order of i2_s has.
std::int64_t count_code3(std::span<const std::uint8_t> bytes) {
  std::int64_t count = 0;
  for (const std::uint8_t byte : bytes) count += std::popcount(static_cast<unsigned>(byte & byte >> 1 & 0x55));
  return count;
}

std::string implausible(float scale) {
  const auto bits = std::bit_cast<std::uint32_t>(scale);
  const std::uint32_t exponent = bits >> 23 & 0xFF;
  if (exponent == 0xFF) return "is not finite";
  if ((bits & 0x7FFF'FFFFU) == 0) return "is 0";
  if (bits >> 31 != 0) return "is negative";
  if (exponent == 0) return "is denormal";
  return scale < kLargestScale ? "" : "is above 1e4";
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Reads the sections of a kernel_config.ini: five numbers each, in any order. As in Python's parser, the case of keys
// does not matter.
class ConfigReader {
 public:
  Result<std::vector<KernelTiles>> read(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      ++line_;
      TERN_RETURN_IF_ERROR(read_line(trimmed(text.substr(at, end - at))));
      at = end + 1;
    }
    TERN_RETURN_IF_ERROR(finish_section());
    if (all_.empty()) return error(Code::corrupt_file, kWhere, "there is no section with m, k, bm, bk and bmm");
    return std::move(all_);
  }

 private:
  static constexpr std::string_view kWhere = "kernel_config";
  static constexpr std::array<std::string_view, 5> kKeys = {"m", "k", "bm", "bk", "bmm"};

  Status read_line(std::string_view line) {
    if (line.empty() || line[0] == '#' || line[0] == ';') return {};
    if (line[0] == '[') {
      TERN_RETURN_IF_ERROR(finish_section());
      in_section_ = true;
      return {};
    }
    const std::size_t split = line.find_first_of("=:");
    if (split == std::string_view::npos || !in_section_)
      return error(Code::corrupt_file, kWhere, "line {} is '{}', not a [section] or key = value", line_,
                   printable(line));
    std::string key(trimmed(line.substr(0, split)));
    for (char& c : key) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const auto known = std::find(kKeys.begin(), kKeys.end(), key);
    if (known == kKeys.end()) return {};  // other tools' keys
    const std::string_view value = trimmed(line.substr(split + 1));
    std::int64_t number = 0;
    const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (failure != std::errc() || end != value.data() + value.size() || number < 1)
      return error(Code::corrupt_file, kWhere, "line {}: {} is '{}', not a whole number above 0", line_, key,
                   printable(value));
    auto& field = values_[static_cast<std::size_t>(known - kKeys.begin())];
    if (field != 0) return error(Code::corrupt_file, kWhere, "line {}: {} is given twice", line_, key);
    field = number;
    return {};
  }

  Status finish_section() {
    if (!in_section_) return {};
    for (std::size_t i = 0; i < kKeys.size(); ++i)
      if (values_[i] == 0)
        return error(Code::corrupt_file, kWhere, "the section that ends before line {} has no {}", line_, kKeys[i]);
    const KernelTiles tiles{values_[0], values_[1], {values_[2], values_[3], values_[4]}};
    for (const KernelTiles& other : all_)
      if (other.n == tiles.n && other.k == tiles.k)
        return error(Code::corrupt_file, kWhere, "{} x {} is given twice", tiles.n, tiles.k);
    all_.push_back(tiles);
    values_ = {};
    return {};
  }

  std::vector<KernelTiles> all_;
  std::array<std::int64_t, 5> values_{};
  bool in_section_ = false;
  int line_ = 0;
};

constexpr WordTable<WeightScale, 2> kWeightScales = {
    {{WeightScale::multiplies, "multiplies"}, {WeightScale::divides, "divides"}}};

}  // namespace

Result<std::vector<KernelTiles>> parse_kernel_config(std::string_view text) { return ConfigReader().read(text); }

Result<LutTiles> tiles_for(std::span<const KernelTiles> config, std::int64_t n, std::int64_t k) {
  std::vector<std::string> known;
  for (const KernelTiles& tiles : config) {
    if (tiles.n == n && tiles.k == k) return tiles.tiles;
    known.push_back(fmt::format("{} x {}", tiles.n, tiles.k));
  }
  return error(Code::unsupported, "kernel_config", "there are no tiles of {} x {}, only of {}", n, k, listed(known));
}

Result<I2sEvidence> weigh_i2_s(std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k) {
  constexpr std::string_view kWhere = "i2_s";
  TERN_RETURN_IF_ERROR(check_extent(kWhere, n, k, DType::u8, Granularity::row()));
  if (bytes.data() == nullptr && !bytes.empty()) return error(Code::invalid_argument, kWhere, "the bytes are null");
  I2sEvidence evidence;
  for (const LayoutRow& order : layouts_of(StoredType::i2_s)) {
    I2sReading reading{.layout = order.layout};
    const auto shape = shape_of(order.layout, n, k);
    if (!shape.ok())
      reading.why = shape.error().message;
    else if (bytes.size() != static_cast<std::size_t>(shape->bytes))
      reading.why = fmt::format("{} x {} are {} bytes, not {}", n, k, shape->bytes, bytes.size());
    else
      reading.possible = true;
    evidence.readings.push_back(std::move(reading));
  }
  const auto forbid = [&evidence](const std::string& why) {
    for (I2sReading& reading : evidence.readings)
      if (reading.possible) reading = {.layout = reading.layout, .possible = false, .why = why};
  };
  if (n == 0 || k == 0) return evidence;
  const std::size_t code_bytes = static_cast<std::size_t>(n) * static_cast<std::size_t>(k) / 4;
  if (bytes.size() < code_bytes + sizeof(float)) return evidence;
  std::memcpy(&evidence.scale, bytes.data() + code_bytes, sizeof(float));
  if (const std::int64_t wrong = count_code3(bytes.first(code_bytes)); wrong > 0)
    forbid(fmt::format("{} of {} codes are 3, which no order has", wrong, 4 * code_bytes));
  else if (const std::string why = implausible(evidence.scale); !why.empty())
    forbid(fmt::format("the scale behind the codes, {}, {}", evidence.scale, why));
  for (I2sReading& reading : evidence.readings)
    if (reading.possible) reading.why = fmt::format("no code is 3, and the scale is {}", evidence.scale);
  return evidence;
}

Result<Layout> detect_i2_s(std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k) {
  constexpr std::string_view kWhere = "i2_s";
  TERN_ASSIGN(evidence, weigh_i2_s(bytes, n, k));
  std::vector<std::string> possible, impossible;
  std::string flag;
  Layout found{};
  for (const I2sReading& reading : evidence.readings) {
    if (!reading.possible) {
      impossible.push_back(fmt::format("{}: {}", name(reading.layout), reading.why));
      continue;
    }
    found = reading.layout;
    possible.emplace_back(name(reading.layout));
    flag += flag.empty() ? "" : "|";
    flag += possible.back().substr(std::string_view("i2_s.").size());
  }
  if (possible.size() == 1) return found;
  if (possible.empty()) return error(Code::corrupt_file, kWhere, "the bytes are no i2_s: {}", listed(impossible));
  return error(Code::invalid_argument, kWhere,
               "{} x {} weights may be {}: the bytes do not show the order of their codes; give ReadOptions::i2_s {} "
               "(bitnet.cpp's converter writes x86_128)",
               n, k, listed(possible), flag);
}

std::string_view name(WeightScale meaning) { return word_of(kWeightScales, meaning); }

Result<WeightScale> weight_scale_of(std::string_view linear_class) {
  constexpr std::string_view kWhere = "weight_scale";
  if (linear_class == "autobitlinear") return WeightScale::multiplies;
  if (linear_class == "bitlinear") return WeightScale::divides;
  const std::string what = linear_class.empty() ? "config.json names no quantization_config.linear_class"
                                                : fmt::format(
                                                      "quantization_config.linear_class is '{}', not "
                                                      "autobitlinear or bitlinear",
                                                      printable(linear_class));
  return error(Code::unsupported, kWhere, "{}: give ReadOptions::weight_scale multiplies|divides", what);
}

Result<WeightScale> weight_scale_of_config(std::string_view config_json) {
  const auto config = nlohmann::json::parse(config_json, nullptr, false);
  if (config.is_discarded() || !config.is_object())
    return error(Code::corrupt_file, "weight_scale", "config.json is no JSON object");
  const auto quantization = config.find("quantization_config");
  if (quantization == config.end() || !quantization->is_object()) return weight_scale_of("");
  const auto linear_class = quantization->find("linear_class");
  if (linear_class == quantization->end() || !linear_class->is_string()) return weight_scale_of("");
  return weight_scale_of(linear_class->get_ref<const std::string&>());
}

}  // namespace tern
