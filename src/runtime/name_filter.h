// Regular expressions over names of tensors, which a hostile file chooses.
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
  // Whether the expression occurs in the name. Names beyond 512 characters are in no model and match nothing.
  [[nodiscard]] bool matches(const std::string& name) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace tern
