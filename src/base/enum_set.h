// A set of enumerators as bits.
#pragma once

#include <cstdint>

namespace tern {

template <class Enum>
class EnumSet {
 public:
  constexpr EnumSet() = default;
  template <class... E>
  static constexpr EnumSet of(E... members) {
    EnumSet set;
    (set.add(members), ...);
    return set;
  }
  constexpr void add(Enum e) { bits_ |= std::uint32_t{1} << static_cast<unsigned>(e); }
  [[nodiscard]] constexpr bool has(Enum e) const { return ((bits_ >> static_cast<unsigned>(e)) & 1U) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }

 private:
  std::uint32_t bits_ = 0;
};

}  // namespace tern
