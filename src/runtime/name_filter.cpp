// std::regex in its polynomial mode, where the standard library has one.
#include "runtime/name_filter.h"

// g++ 12 thinks, with sanitizers on, that <regex> copies what was never set.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <regex>

#include "base/errors.h"
#include "tern/checkpoint.h"

namespace tern {
namespace {

constexpr std::size_t kMaxName = 512;      // matching recurses by character
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
};

Result<NameFilter> NameFilter::compile(const std::string& expression, std::string_view option) {
  NameFilter filter;
  if (expression.empty()) return filter;
  if (expression.size() > kMaxPattern)
    return error(Code::invalid_argument, option, "the expression has {} characters; {} are allowed", expression.size(),
                 kMaxPattern);
  try {
    filter.impl_ = std::make_shared<const Impl>(Impl{std::regex(expression, flags())});
  } catch (const std::regex_error& mistake) {
    return error(Code::invalid_argument, option, "'{}' is no regular expression: {}", escaped(expression, 100),
                 mistake.code() == std::regex_constants::error_complexity
                     ? "back-references are not supported, matching them may take forever"
                     : mistake.what());
  }
  return filter;
}

bool NameFilter::matches(const std::string& name) const {
  if (impl_ == nullptr || name.size() > kMaxName) return false;
  try {
    return std::regex_search(name, impl_->expression);
  } catch (const std::regex_error&) {  // out of its own limits: no match that could be relied on
    return false;
  }
}

}  // namespace tern
