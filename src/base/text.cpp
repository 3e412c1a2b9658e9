// Escapes untrusted text, such as file names, into one line that contains no terminal commands.
#include "tern/text.h"

#include <algorithm>
#include <cstdint>

#include "base/fmt.h"

namespace tern {
namespace {

struct Character {
  std::size_t bytes = 0;  // 0: the text does not begin with well-formed UTF-8
  std::uint32_t point = 0;
};

// Decodes the first UTF-8 character of the text.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  std::uint32_t point = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    point = point << 6 | (byte(i) & 0x3FU);
  }
  constexpr std::uint32_t kLeast[] = {0x80, 0x800, 0x10000};  // the smallest that need 2, 3 and 4 bytes
  const bool surrogate = point >= 0xD800 && point < 0xE000;
  if (point < kLeast[bytes - 2] || point > 0x10FFFF || surrogate) return {};
  return {bytes, point};
}

// Whether a terminal acts on the character instead of showing it: moves the cursor, changes the colour, breaks the line
// or reverses the direction.
bool is_command(std::uint32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0x61C || point == 0x200E || point == 0x200F ||
         (point >= 0x2028 && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069) || point == 0xFEFF;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const Character character = first_character(text);
    const std::string_view bytes = text.substr(0, std::max<std::size_t>(1, character.bytes));
    if (character.bytes > 0 && !is_command(character.point))
      shown += bytes;
    else
      for (const char c : bytes) shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    text.remove_prefix(bytes.size());
  }
  return shown;
}

}  // namespace tern
