// Prints JSON for the commands: keys in the order they were set, one document on standard output.
#pragma once

#include <nlohmann/json.hpp>

#include "tern/quantize.h"
#include "tern/status.h"
#include "tern/tensor.h"

namespace tern::cli {

using Json = nlohmann::ordered_json;

void print_json(const Json& document);
std::string to_text(const Json& document);  // bytes that are not UTF-8 (a path may hold some) are replaced

// Prints one document to standard output piece by piece, in the form in which print_json() would print the whole: an
// object whose members are values, lists of values or objects of values.
class JsonPrinter {
 public:
  JsonPrinter();
  void add(const std::string& key, const Json& value);  // to the innermost open object
  void add(const Json& value);                          // to the innermost open list
  void begin(const std::string& key, char bracket);     // '[' or '{'
  void end();                                           // closes the innermost; at the end, the document

 private:
  void print(const std::string& key, const std::string& text);
  std::string closing_ = "}";  // the closing brackets still to print, the innermost last
  bool empty_ = true;          // whether the innermost has no member yet
};

Json to_json(const Error& error);  // {"error": {...}}; no index is null
Json to_json(const Shape& shape);
Json to_json(const Quality& quality);  // undefined is null; an infinite SQNR is null and "lossless": true

}  // namespace tern::cli
