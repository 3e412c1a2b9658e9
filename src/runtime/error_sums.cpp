// Sixteen lanes of f32 that the compiler makes vectors of; everything is scaled so that the trits' scale is near 1.
#include "runtime/error_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ops/elements.h"

namespace tern {
namespace {

constexpr int kLanes = 16;
constexpr int kBlock = 256;  // sixteen adds of a lane

// Magnitudes of up to kBlock elements, the rest zeros.
void magnitudes(const std::uint8_t* x, DType dtype, std::int64_t n, float* out) {
  if (n < kBlock) std::fill(out, out + kBlock, 0.0F);
  if (dtype == DType::f32) {
    std::memcpy(out, x, static_cast<std::size_t>(n) * sizeof(float));
    for (int i = 0; i < kBlock; ++i) out[i] = std::fabs(out[i]);
    return;
  }
  std::uint16_t bits[kBlock] = {};
  std::memcpy(bits, x, static_cast<std::size_t>(n) * sizeof(std::uint16_t));
  if (dtype == DType::bf16) {
    for (int i = 0; i < kBlock; ++i) out[i] = std::bit_cast<float>(std::uint32_t{bits[i]} << 16 & 0x7FFF'FFFFU);
  } else {  // finite f16: with the exponent's bits in place, 2^-112 of what is meant
    for (int i = 0; i < kBlock; ++i) out[i] = std::bit_cast<float>((std::uint32_t{bits[i]} & 0x7FFFU) << 13) * 0x1p112F;
  }
}

ErrorSums sums_f64(const void* x, std::int64_t n, double threshold, double scale) {
  ErrorSums sums;
  for (std::int64_t i = 0; i < n; ++i) {
    const double a = std::fabs(load_element<double>(x, i)), y = a > threshold ? scale : 0;
    sums.xx += a * a;
    sums.ee += (a - y) * (a - y);
    sums.xy += a * y;
  }
  return sums;
}

}  // namespace

ErrorSums error_sums(const void* x, DType dtype, std::int64_t n, double threshold, float scale) {
  if (dtype == DType::f64) return sums_f64(x, n, threshold, static_cast<double>(scale));
  const int exponent = std::clamp(std::ilogb(scale), -100, 100);
  const float factor = std::ldexp(1.0F, -exponent);  // exact, and so is every product that is not tiny
  const float h = static_cast<float>(threshold) * factor, s = scale * factor;
  const auto* bytes = static_cast<const std::uint8_t*>(x);
  const auto step = static_cast<std::int64_t>(size_of(dtype));
  ErrorSums sums;
  float a[kBlock];
  for (std::int64_t at = 0; at < n; at += kBlock) {
    magnitudes(bytes + at * step, dtype, std::min<std::int64_t>(kBlock, n - at), a);
    float xx[kLanes] = {}, ee[kLanes] = {}, xy[kLanes] = {};
    for (int i = 0; i < kBlock; i += kLanes)
      for (int l = 0; l < kLanes; ++l) {
        const float v = a[i + l] * factor;
        const float on = v > h ? v : 0.0F, y = v > h ? s : 0.0F;
        xx[l] += v * v;
        ee[l] += (v - y) * (v - y);
        xy[l] += on;
      }
    double block[3] = {};
    for (int l = 0; l < kLanes; ++l) {
      block[0] += static_cast<double>(xx[l]);
      block[1] += static_cast<double>(ee[l]);
      block[2] += static_cast<double>(xy[l]);
    }
    sums.xx += block[0];
    sums.ee += block[1];
    sums.xy += block[2];
  }
  const double unit = std::ldexp(1.0, exponent);
  return {sums.xx * unit * unit, sums.ee * unit * unit, sums.xy * unit * static_cast<double>(scale)};
}

}  // namespace tern
