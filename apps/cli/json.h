// JSON as the commands print it: keys in the order they were set, one document on standard output.
#pragma once

#include <nlohmann/json.hpp>

#include "tern/quantize.h"
#include "tern/status.h"
#include "tern/tensor.h"

namespace tern::cli {

using Json = nlohmann::ordered_json;

void print_json(const Json& document);
std::string to_text(const Json& document);  // bytes that are not UTF-8 (a path may hold some) are replaced

Json to_json(const Error& error);  // {"error": {...}}; no index is null
Json to_json(const Shape& shape);
Json to_json(const Quality& quality);  // undefined is null; an infinite SQNR is null and "lossless": true

}  // namespace tern::cli
