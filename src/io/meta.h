// The JSON text that says what the codes and scales of an .npz mean.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tern/status.h"
#include "tern/tensor.h"
#include "tern/types.h"

namespace tern {

struct Meta {
  Scheme scheme = Scheme::absmean;
  Granularity granularity;
  Format format = Format::i2;
  Shape shape;
  std::uint64_t checksum = 0;
};

inline constexpr std::size_t kMaxMetaBytes = 64 * 1024;  // ours have about 200

// {"checksum":"0123456789abcdef","format":"i2","granularity":"group:128","scheme":"absmax","shape":[2,3],
//  "tern":"0.1.0","version":1}
std::string to_json(const Meta& meta);

// Every key must be present with its type and a known value; other keys are ignored.
Result<Meta> parse_meta(std::string_view text);

}  // namespace tern
