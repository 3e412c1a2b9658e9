// Quantization as BitNet's own converter does it: in the type of the weights T, every step rounded to T,
//
//   m = max(mean |w|, 1e-5)    inv = 1 / m    q = clip(rne(w * inv), -1, 1)    stored scale = bf16(1 / inv)
//
// It differs from absmean only where |w| is within an ulp or so of half the scale. The mean is ours (the exact order of
// torch's sum is not fixed), rounded to T.
#pragma once

#include "tern/status.h"
#include "tern/types.h"

namespace tern {

class BitnetMatch {
 public:
  // For weights in f32, f16 or bf16 whose absmean scale (one per tensor) is `scale`.
  static Result<BitnetMatch> of(DType dtype, float scale);

  [[nodiscard]] float stored_scale() const { return stored_; }
  [[nodiscard]] double threshold() const { return threshold_; }  // q is 0 up to this |w|
  // Corrects the i2 codes that absmean computed for a row of k dense elements.
  void mend(const std::uint8_t* x, std::int64_t k, std::uint8_t* codes) const;

 private:
  std::uint32_t sign_bit_ = 0;
  std::uint32_t low_ = 0, high_ = 0;  // magnitudes with bits in [low_, high_) get another code:
  bool on_ = false;                   // their sign if true, otherwise 0
  float stored_ = 1;
  double threshold_ = 0;
};

}  // namespace tern
