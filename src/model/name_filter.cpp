// Uses std::regex, in its polynomial mode where the standard library has one.
#include "model/name_filter.h"

// With sanitizers on, g++ 12 wrongly warns that <regex> copies uninitialised memory.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <regex>

#include "base/errors.h"
#include "tern/checkpoint.h"

namespace tern {
namespace {

constexpr std::size_t kMaxName = 512;      // matching recurses once per character
constexpr std::size_t kMaxPattern = 4096;  // compiling recurses, too

std::regex::flag_type flags() {
#ifdef __GLIBCXX__
  return std::regex::ECMAScript | std::regex_constants::__polynomial;
#else
  return std::regex::ECMAScript;
#endif
}

}  // namespace

struct NameFilter::Impl {
  std::regex expression;
  std::string text;
  std::string option;
};

Result<NameFilter> NameFilter::compile(const std::string& expression, std::string_view option) {
  NameFilter filter;
  if (expression.empty()) return filter;
  if (expression.size() > kMaxPattern)
    return error(Code::invalid_argument, option, "the expression '{}' has {} characters; {} are allowed",
                 printable(expression), expression.size(), kMaxPattern);
  try {
    filter.impl_ = std::make_shared<const Impl>(Impl{std::regex(expression, flags()), expression, std::string(option)});
  } catch (const std::regex_error& mistake) {
    return error(Code::invalid_argument, option, "'{}' is no regular expression: {}", escaped(expression, 100),
                 mistake.code() == std::regex_constants::error_complexity
                     ? "back-references are not supported, matching them may take forever"
                     : mistake.what());
  }
  return filter;
}

Result<bool> NameFilter::matches(const std::string& name) const {
  if (impl_ == nullptr) return false;
  if (name.size() > kMaxName)
    return error(Code::unsupported, impl_->option,
                 "'{}' cannot be searched for in the name '{}' of {} characters; names of at most {} can, so leave the "
                 "expression out or give the tensor a shorter name",
                 escaped(impl_->text, 100), printable(name), name.size(), kMaxName);
  try {
    return std::regex_search(name, impl_->expression);
  } catch (const std::regex_error& failure) {  // beyond the library's own limits
    return error(Code::unsupported, impl_->option, "'{}' cannot be searched for in the name '{}': {}; simplify it",
                 escaped(impl_->text, 100), printable(name), failure.what());
  }
}

}  // namespace tern
