// Counts the trits of each kind in canonical codes.
#pragma once

#include <array>
#include <cstdint>

namespace tern {

// How many trits are -1, 0 and +1 in rows of i2 that have no gaps between them.
std::array<std::int64_t, 3> count_trits(const std::uint8_t* codes, std::int64_t rows, std::int64_t k);

// How many of n codes of a row in i2, starting at `first`, are -1 or +1.
std::int64_t count_signs(const std::uint8_t* row, std::int64_t first, std::int64_t n);

}  // namespace tern
