// Converts a tuning to and from text, as in threads=256,split=4.
#include <algorithm>
#include <charconv>

#include "base/errors.h"
#include "base/words.h"
#include "tern/plan.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "tuning";
constexpr WordTable<GridStrategy, 3> kGrids = {
    {{GridStrategy::automatic, "auto"}, {GridStrategy::fixed, "fixed"}, {GridStrategy::occupancy, "occupancy"}}};

Result<int> parse_count(std::string_view key, std::string_view text) {
  int value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < 0)
    return error(Code::invalid_argument, kWhere, "{} is '{}', which is not a number from 0 on", key, printable(text));
  return value;
}

Status set(Tuning& tuning, std::string_view key, std::string_view value) {
  if (key == "threads" || key == "split" || key == "streams") {
    TERN_ASSIGN(count, parse_count(key, value));
    (key == "threads" ? tuning.threads : key == "split" ? tuning.split : tuning.streams) = count;
    return {};
  }
  if (key == "ahead") {
    TERN_ASSIGN(count, parse_count(key, value));
    tuning.ahead_bytes = count;
    return {};
  }
  if (key == "grid") {
    TERN_ASSIGN(grid, parse_grid_strategy(value));
    tuning.grid = grid;
    return {};
  }
  if (key != "dependent")
    return error(Code::invalid_argument, kWhere, "'{}' is not one of threads, grid, split, dependent, streams, ahead",
                 printable(key));
  if (value != "on" && value != "off")
    return error(Code::invalid_argument, kWhere, "dependent is '{}', which is not on or off", printable(value));
  tuning.dependent_launch = value == "on";
  return {};
}

}  // namespace

std::string_view name(GridStrategy grid) { return word_of(kGrids, grid); }
Result<GridStrategy> parse_grid_strategy(std::string_view word) { return parse_word(kGrids, "grid", word); }

std::string name(const Tuning& tuning) {
  std::string words;
  const auto add = [&](std::string_view key, const auto& value) {
    words += fmt::format("{}{}={}", words.empty() ? "" : ",", key, value);
  };
  if (tuning.threads != 0) add("threads", tuning.threads);
  if (tuning.grid != GridStrategy::automatic) add("grid", name(tuning.grid));
  if (tuning.split != 0) add("split", tuning.split);
  if (tuning.dependent_launch) add("dependent", *tuning.dependent_launch ? "on" : "off");
  if (tuning.streams != 0) add("streams", tuning.streams);
  if (tuning.ahead_bytes) add("ahead", *tuning.ahead_bytes);
  return words;
}

Result<Tuning> parse_tuning(std::string_view text) {
  Tuning tuning;
  std::vector<std::string_view> keys;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    const auto equals = item.find('=');
    if (equals == std::string_view::npos || item.size() + 1 == text.size())
      return error(Code::invalid_argument, kWhere,
                   "'{}' is not key=value, as in threads=256,grid=fixed,split=4,dependent=off or streams=2,ahead=2048",
                   escaped(text, 100));
    const std::string_view key = item.substr(0, equals);
    if (std::ranges::find(keys, key) != keys.end())
      return error(Code::invalid_argument, kWhere, "{} is given twice", key);
    keys.push_back(key);
    TERN_RETURN_IF_ERROR(set(tuning, key, item.substr(equals + 1)));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
  }
  return tuning;
}

}  // namespace tern
