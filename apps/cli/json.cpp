// Prints JSON for the commands: keys in the order they were set, one document on standard output.
#include "json.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "tern/text.h"

namespace tern::cli {
namespace {

Json finite_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

// JSON has no such numbers, so they become words: "nan", "inf", "-inf".
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value)); }

Json details_of(const Error& error) {
  if (const auto* shortage = error.as<MemoryShortage>())
    return {{"needed_bytes", shortage->needed_bytes}, {"free_bytes", shortage->free_bytes}};
  if (const auto* failure = error.as<CudaFailure>()) return {{"kernel", failure->kernel}, {"cuda_code", failure->code}};
  if (const auto* invalid = error.as<InvalidValue>())
    return {
        {"value", number(invalid->value)}, {"lowest", number(invalid->lowest)}, {"highest", number(invalid->highest)}};
  return nullptr;
}

}  // namespace

// In ASCII: names of files may hold bytes that steer a terminal.
std::string to_text(const Json& document) { return document.dump(2, ' ', true, Json::error_handler_t::replace); }

void print_json(const Json& document) { fmt::print("{}\n", to_text(document)); }

JsonPrinter::JsonPrinter() { fmt::print("{{"); }

void JsonPrinter::print(const std::string& key, const std::string& text) {
  const std::string margin(2 * closing_.size(), ' ');
  std::string out = empty_ ? "\n" : ",\n";
  out += margin + key;
  for (const char c : text) {
    out += c;
    if (c == '\n') out += margin;
  }
  fmt::print("{}", out);
  empty_ = false;
}

void JsonPrinter::add(const std::string& key, const Json& value) { print(to_text(key) + ": ", to_text(value)); }
void JsonPrinter::add(const Json& value) { print("", to_text(value)); }

void JsonPrinter::begin(const std::string& key, char bracket) {
  print(to_text(key) + ": ", std::string(1, bracket));
  closing_ += bracket == '[' ? ']' : '}';
  empty_ = true;
}

void JsonPrinter::end() {
  const char bracket = closing_.back();
  closing_.pop_back();
  fmt::print("{}{}{}", empty_ ? "" : "\n" + std::string(2 * closing_.size(), ' '), bracket,
             closing_.empty() ? "\n" : "");
  empty_ = false;
}

Json to_json(const Error& error) {
  Json inner = {{"code", name(error.code)}, {"message", one_line(error.message)}, {"where", error.where}};
  inner["index"] = error.index >= 0 ? Json(error.index) : Json(nullptr);
  inner["details"] = details_of(error);
  return {{"error", std::move(inner)}};
}

Json to_json(const Shape& shape) {
  Json sizes = Json::array();
  for (const std::int64_t size : shape.sizes()) sizes.push_back(size);
  return sizes;
}

Json to_json(const Quality& quality) {
  const bool lossless = quality.sqnr_db && std::isinf(*quality.sqnr_db) && *quality.sqnr_db > 0;
  return {{"sqnr_db", finite_or_null(quality.sqnr_db)},
          {"lossless", lossless},
          {"cosine", finite_or_null(quality.cosine)},
          {"zero_fraction", finite_or_null(quality.zero_fraction)}};
}

}  // namespace tern::cli
