// Sizes, times and rates as people read them.
#include "units.h"

#include <fmt/format.h>

#include <array>

namespace tern::cli {

std::string human_bytes(std::size_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 1023.95 would print as "1024.0".
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string size_change(std::size_t before, std::size_t after) {
  std::string text = fmt::format("{} -> {}", human_bytes(before), human_bytes(after));
  if (before == 0 || after == 0) return text;
  const double ratio = static_cast<double>(before) / static_cast<double>(after);
  if (ratio > 0.995 && ratio < 1.005) return text + ", about the same";
  return text +
         (ratio > 1 ? fmt::format(", {:.3g} times smaller", ratio) : fmt::format(", {:.3g} times larger", 1 / ratio));
}

std::string counted(long long count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string human_seconds(double seconds) {
  if (seconds < 999.5e-9) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (seconds < 999.95e-6) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 999.5e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string gigabytes_per_second(double rate) { return fmt::format("{:.{}f} GB/s", rate, rate < 10 ? 2 : 1); }

}  // namespace tern::cli
