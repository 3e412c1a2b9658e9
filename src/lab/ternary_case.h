// What the benches of ternary_quantize and ternary_dequantize share: weights, codes and scales in rotating copies.
#pragma once

#include <cstdint>

#include "lab/bench.h"
#include "lab/rotation.h"
#include "tern/quantize.h"

namespace tern::lab {

// The quantization of a request, on the op's default shape if it names none. Refuses an m and an empty shape.
Result<TernaryQuantize::Problem> ternary_problem(const BenchRequest& request);

// rows, cols, dtype, scheme, granularity and format of a record.
nlohmann::ordered_json problem_json(const TernaryQuantize::Problem& problem);

class TernaryCopies {
 public:
  // Fills every copy with random weights. Codes and scales are zeros, so that their pages exist. The problem must be
  // one that a plan accepts.
  static Result<TernaryCopies> make(const BenchRequest& request, const Context& context,
                                    const TernaryQuantize::Problem& problem);

  [[nodiscard]] std::int64_t copies() const { return rotation_.copies(); }
  [[nodiscard]] TensorView weights(std::int64_t copy) const;
  [[nodiscard]] TensorView codes(std::int64_t copy) const;
  [[nodiscard]] TensorView scales(std::int64_t copy) const;
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }  // of one copy: weights + codes + scales
  [[nodiscard]] const std::string& note() const { return rotation_.note(); }

 private:
  TernaryQuantize::Problem problem_;
  std::int64_t scale_count_ = 0;
  std::int64_t bytes_ = 0;
  Rotation rotation_;
};

}  // namespace tern::lab
