// JSON as the commands print it: keys in the order they were set, one document on standard output.
#include "json.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

namespace tern::cli {
namespace {

Json finite_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

}  // namespace

std::string to_text(const Json& document) { return document.dump(2, ' ', false, Json::error_handler_t::replace); }

void print_json(const Json& document) { fmt::print("{}\n", to_text(document)); }

Json to_json(const Error& error) {
  Json inner = {{"code", name(error.code)}, {"message", error.message}, {"where", error.where}};
  inner["index"] = error.index >= 0 ? Json(error.index) : Json(nullptr);
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
