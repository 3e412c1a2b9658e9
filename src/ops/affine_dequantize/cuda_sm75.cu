// affine_dequantize for GPUs from sm_75 on: memory-bound, for every granularity, format, layout and alignment.
#include "ops/affine/cuda_flat.h"
#include "ops/affine_dequantize/affine_dequantize.h"

namespace tern::affine_dequantize {
namespace {

using affine::kElems;
using affine::kThreads;
using affine::kVectors;

struct Job {
  affine::Walk walk;
  affine::Flat flat;
  const std::uint8_t* codes;
  void* y;
  unsigned signs;  // the sign bits of four codes; 0 if codes are unsigned
  int sign;        // the sign bit of one code
};

// A byte in the lowest mantissa bits of 2^23 is the float 2^23 + byte. Subtracting `zero`, which is 2^23 + sign + zp,
// gives code - zp exactly.
template <class E>
__device__ typename E::Math value_of(unsigned bytes, int j, float zero, typename E::Math scale) {
  const float above = __uint_as_float(__byte_perm(bytes, 0x4B000000U, 0x7650U + static_cast<unsigned>(j)));
  return static_cast<typename E::Math>(above - zero) * scale;
}

template <class E>
__global__ void __launch_bounds__(kThreads, 4) dequantize(const Job job) {
  using Math = typename E::Math;
  using Qparam = affine::Qparam<E, Math>;
  const affine::Walk& walk = job.walk;
  const affine::Tile<E> tile(walk);
  if (tile.rest == 0) return;
  void* y = affine::line_of(walk, tile, job.y, 0);
  const std::uint8_t* codes = job.codes + tile.line * walk.lines.code_bytes;

  affine::Codes<E> vectors[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
    vectors[i].read(codes, walk.codes, tile.first_column + tile.column(i), tile.count(tile.column(i)));
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = tile.column(i), n = tile.count(column);
    if (n == 0) return;
      // Flipping the sign bit turns a signed code into code + sign, which is not negative.
#pragma unroll
    for (unsigned& word : vectors[i].w) word ^= job.signs;
    const auto zero_of = [&](const Qparam& by) { return 0x1p23F + static_cast<float>(job.sign + by.zero); };
    Math v[kElems<E>] = {};
    if (walk.one_each) {
      const Qparam by(walk, tile.scale_of(walk, column));
      const float zero = zero_of(by);
#pragma unroll
      for (int j = 0; j < kElems<E>; ++j) v[j] = value_of<E>(vectors[i].w[j / 4], j % 4, zero, by.scale);
    } else {
#pragma unroll
      for (int j = 0; j < kElems<E>; ++j) {
        if (j >= n) continue;
        const Qparam by(walk, tile.scale_of(walk, column + j));
        v[j] = value_of<E>(vectors[i].w[j / 4], j % 4, zero_of(by), by.scale);
      }
    }
    affine::Vector<E> out;
    out.round(v);
    out.write(y, walk.access[0], tile.first_column + column, n);
  }
}

template <class E, int kBits, bool kPlain>
__global__ void __launch_bounds__(kThreads) dequantize_flat(const Job job) {
  using Word = typename affine::FlatCodes<E, kBits>::Word;
  const affine::Walk& walk = job.walk;
  Word words[kVectors] = {};
  affine::FlatGiven<E, kPlain> given[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const std::uint32_t at = affine::flat_vector(i);
    if (at >= job.flat.vectors) break;
    words[i] = __ldcs(reinterpret_cast<const Word*>(job.codes) + at);
    given[i].read(walk, job.flat.scale_of(at));
  }
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const std::uint32_t at = affine::flat_vector(i);
    if (at >= job.flat.vectors) return;
    const float scale = given[i].scale(walk), zero = 0x1p23F + static_cast<float>(job.sign + given[i].zero);
    if (!(scale > 0) || !cuda::finite(scale) || !given[i].zero_is_code(walk))
      affine::Qparam<E, float>(walk, job.flat.scale_of(at));  // reports the invalid scale or zero point
    const affine::Codes<E> codes = affine::FlatCodes<E, kBits>::widen(words[i]);
    float v[kElems<E>];
#pragma unroll
    for (int j = 0; j < kElems<E>; ++j) v[j] = value_of<E>(codes.w[j / 4] ^ job.signs, j % 4, zero, scale);
    affine::Vector<E> out;
    out.round(v);
    affine::flat_write(job.y, at, out);
  }
}

std::size_t workspace_bytes(const AffineDequantize::Problem&) { return 0; }

int launch(const Params& params, std::byte*, const cuda::Launch& launch) {
  const auto& p = params.problem;
  return cuda::with_element(p.dtype, [&]<class E>() -> int {
    const auto lines = affine::make_lines(affine::words_of(p), params.y.strides, params.code_row_bytes);
    const CodeRange q = code_range(p.format);
    const int sign = q.min < 0 ? -q.min : 0;
    Job job{.walk = affine::make_walk<E>(lines, {params.y.data}, p.format, params.codes, launch),
            .flat = {},
            .codes = params.codes,
            .y = params.y.data,
            .signs = static_cast<unsigned>(sign) * 0x01010101U,
            .sign = sign};
    affine::give_qparams(job.walk, params.qparams, q);
    auto* stream = static_cast<cudaStream_t>(launch.stream);
    if constexpr (sizeof(typename E::Math) == 4) {
      job.flat = affine::flat_of<E>(job.walk, 1, true);
      const int bits = job.walk.codes.bits;
      if (job.flat.vectors != 0 && bits >= 4) {
        const auto kernel = job.flat.plain ? (bits == 8 ? dequantize_flat<E, 8, true> : dequantize_flat<E, 4, true>)
                                           : (bits == 8 ? dequantize_flat<E, 8, false> : dequantize_flat<E, 4, false>);
        kernel<<<job.flat.blocks(), kThreads, 0, stream>>>(job);
        return cudaGetLastError();
      }
    }
    dequantize<E><<<job.walk.blocks(), kThreads, 0, stream>>>(job);
    return cudaGetLastError();
  });
}

}  // namespace

extern const Cuda cuda_sm75;
const Cuda cuda_sm75{workspace_bytes, launch};

}  // namespace tern::affine_dequantize
