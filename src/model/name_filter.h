// Regular expressions over the names of tensors, which may come from a hostile file.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tern/status.h"

namespace tern {

class NameFilter {
 public:
  NameFilter() = default;
  // Back-references are refused: matching them may take exponential time.
  static Result<NameFilter> compile(const std::string& expression, std::string_view option);
  [[nodiscard]] bool given() const { return impl_ != nullptr; }
  // Whether the expression occurs in the name. A name that is too long to be searched is an error: treated as no match,
  // it would be quantized in spite of --exclude.
  [[nodiscard]] Result<bool> matches(const std::string& name) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace tern
