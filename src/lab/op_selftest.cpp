// Describes in which element two results differ.
#include "lab/op_selftest.h"

namespace tern::lab {
namespace {

std::string element_text(const Written& written, std::int64_t at) {
  const std::byte* bytes = written.bytes.data();
  if (size_of(written.dtype) == 1) return fmt::format("{:#04x}", static_cast<int>(bytes[at]));
  if (written.dtype != DType::i32) return fmt::format("{}", read_element(bytes, written.dtype, at));
  std::int32_t value = 0;
  std::memcpy(&value, bytes + 4 * at, sizeof value);
  return fmt::format("{}", value);
}

}  // namespace

std::string difference(const std::vector<Written>& got, const std::vector<Written>& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto& bytes = want[i].bytes;
    const auto [at, expected] = std::ranges::mismatch(got[i].bytes, bytes);
    if (expected == bytes.end()) continue;
    const auto element = (expected - bytes.begin()) / static_cast<std::int64_t>(size_of(want[i].dtype));
    return fmt::format("{}: element {} is {}, the reference has {}", want[i].name, element,
                       element_text(got[i], element), element_text(want[i], element));
  }
  return {};
}

}  // namespace tern::lab
