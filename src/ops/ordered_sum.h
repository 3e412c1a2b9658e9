// A sum in the order of docs/numerics.md, in its plainest form: the reference kernels use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tern {

// The sum of term(i) for i < n.
template <class Term>
double ordered_sum(std::int64_t n, Term term) {
  std::vector<double> level;
  for (std::int64_t block = 0; block < n; block += 1024) {
    double lane[32] = {};
    for (std::int64_t quad = 0; quad < 256; ++quad) {
      double a[4] = {};
      for (std::int64_t j = 0; j < 4; ++j)
        if (const std::int64_t i = block + 4 * quad + j; i < n) a[j] = term(i);
      lane[quad % 32] += (a[0] + a[1]) + (a[2] + a[3]);
    }
    for (int half = 16; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
    level.push_back(lane[0]);
  }
  while (level.size() > 1) {
    std::vector<double> next;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(level[i] + level[i + 1]);
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = std::move(next);
  }
  return level.empty() ? 0.0 : level[0];
}

}  // namespace tern
