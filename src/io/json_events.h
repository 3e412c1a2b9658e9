// Reads JSON as a stream of events: this builds no tree, reports duplicate keys, and lets the reader limit the depth.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "io/file_error.h"

namespace tern {

// Derived classes override the events that they accept; all others are refused. fail() keeps the first error.
class JsonEvents {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  explicit JsonEvents(std::string_view where) : where_(where) {}
  virtual ~JsonEvents() = default;

  virtual bool on_null() { return unexpected("null"); }
  virtual bool on_number(std::uint64_t value) { return unexpected(fmt::format("the number {}", value)); }
  virtual bool on_other_number(std::string_view text) { return unexpected(fmt::format("{}", printable(text))); }
  virtual bool on_boolean(bool value) { return unexpected(value ? "true" : "false"); }
  virtual bool on_text(std::string& text) { return unexpected(fmt::format("the text '{}'", printable(text))); }
  virtual bool on_key(std::string& key) = 0;
  virtual bool on_start(bool object) = 0;  // an object or an array
  virtual bool on_end(bool object) = 0;
  virtual bool unexpected(const std::string& what) = 0;  // a value that is not allowed here

  // Parses the text; ok if all of it is JSON and every event was accepted.
  Status run(std::string_view text) {
    // The parser takes a NUL for the end and would ignore what follows.
    if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
      fail(fmt::format("it is not JSON: there is a NUL at byte {}", nul));
      return *std::move(error_);
    }
    if (nlohmann::json::sax_parse(text, this) && !error_) return {};
    if (!error_) fail("it is not JSON");
    return *std::move(error_);
  }

  // The parser calls these.
  bool null() { return on_null(); }
  bool boolean(bool value) { return on_boolean(value); }
  bool number_integer(number_integer_t value) { return on_other_number(fmt::format("{}", value)); }  // below 0
  bool number_unsigned(number_unsigned_t value) { return on_number(value); }
  bool number_float(number_float_t, const string_t& text) { return on_other_number(text); }
  bool string(string_t& text) { return on_text(text); }
  bool binary(binary_t&) { return unexpected("bytes"); }
  bool key(string_t& text) { return on_key(text); }
  bool start_object(std::size_t) { return on_start(true); }
  bool end_object() { return on_end(true); }
  bool start_array(std::size_t) { return on_start(false); }
  bool end_array() { return on_end(false); }
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception&) {
    return fail(fmt::format("it is not JSON at byte {}, near '{}'", position, printable(token)));
  }

 protected:
  bool fail(std::string message) {
    if (!error_) error_ = Error{Code::corrupt_file, std::move(message), std::string(where_)};
    return false;
  }

 private:
  std::string_view where_;
  std::optional<Error> error_;
};

// The text as a quoted JSON string in ASCII; nullopt if it is not UTF-8, because JSON cannot hold that.
inline std::optional<std::string> json_text(const std::string& text) {
  std::string quoted = nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (nlohmann::json::parse(quoted) != text) return std::nullopt;  // something was replaced
  return quoted;
}

}  // namespace tern
