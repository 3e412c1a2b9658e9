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

// Prints one document to standard output, piece by piece, as print_json() would print it whole: an object with members
// that are values, lists of values or objects of values.
class JsonPrinter {
 public:
  JsonPrinter();
  void add(const std::string& key, const Json& value);  // to the object that was begun last
  void add(const Json& value);                          // to the list
  void begin(const std::string& key, char bracket);     // '[' or '{'
  void end();                                           // of what was begun last, at last of the document

 private:
  void print(const std::string& key, const std::string& text);
  std::string closing_ = "}";  // the brackets that are open, the innermost last
  bool empty_ = true;          // nothing is in the innermost
};

Json to_json(const Error& error);  // {"error": {...}}; no index is null
Json to_json(const Shape& shape);
Json to_json(const Quality& quality);  // undefined is null; an infinite SQNR is null and "lossless": true

}  // namespace tern::cli
