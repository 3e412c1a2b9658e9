// y[m, n] = epilogue(sum over k of x[m, k] * w[n, k]), w in codes with scales, for matrices that share x.
//
//     w2a8      dot = exact int32 sum; t = float(dot) / s[m] * w_scale          the same bits from every kernel
//     w2_float  t = sum of x * trit, in f32; t * w_scale                        within the bound of docs/numerics.md
//     then      + bias, squared ReLU, + residual, rounded to y's type
// Codes are trits, or have 8 or 4 bits (s8, s4), which w2a8 alone takes.
// Group scales: w2a8 on a CPU computes chains of t = fma(float(dot_g), w_scale[n, g], t), the same bits from every
// kernel. Otherwise it is a float mode: t = sum over g of sum_g * w_scale[n, g].
#pragma once

#include <array>

#include "ops/dot/cpu_tuning.h"
#include "ops/dot/packed_weights.h"
#include "ops/dot/simd_table.h"
#include "ops/op.h"

namespace tern {
namespace linear {

inline constexpr std::int64_t kMaxK = dot::kMaxK;
using dot::max_summed;

// What a kernel gets: checked arguments, as pointers and strides.
struct Matrix {
  Linear::Matrix spec;
  const PackedWeights::State* weights = nullptr;
  std::byte* y = nullptr;
  std::int64_t y_stride = 0;  // elements
  const float* bias = nullptr;
  const std::byte* residual = nullptr;
  std::int64_t residual_stride = 0;
};
struct Params {
  std::int64_t m = 0;
  std::int64_t k = 0;
  DType x_dtype = DType::i8;
  Format format = Format::i2;
  LinearMath math = LinearMath::w2a8;
  NonFinite non_finite = NonFinite::reject;
  const void* x = nullptr;
  std::int64_t x_stride = 0;  // elements
  const float* x_scales = nullptr;
  std::size_t count = 0;
  std::array<Matrix, Linear::kMaxMatrices> matrices = {};
};

// Whether the sums are exact integers, so that every kernel returns the same bits.
inline bool exact(LinearMath math, const Granularity& granularity) {
  return math == LinearMath::w2a8 && granularity.kind != Granularity::Kind::group;
}

using dot::SimdTable;
struct ReferenceTable {};

std::size_t reference_workspace(const ReferenceTable&, const Linear::Problem&, int threads);
Status reference_run(const ReferenceTable&, const Params&, const Exec&);
std::size_t cpu_workspace(const SimdTable&, const Linear::Problem&, int threads);
Status cpu_run(const SimdTable&, const Params&, const Exec&);

}  // namespace linear

template <>
struct OpTraits<Linear> {
  using Params = linear::Params;
  static constexpr std::string_view kName = "linear";

  static Result<ProblemFacts> facts(const Linear::Problem& problem);
  static Result<Params> bind(const Linear::Problem& problem, const Linear::Args& args, DeviceId device = {});
  static bool empty(const Params& params);
  static std::int64_t operations(const Params& params);

  static constexpr Words kWords = Words::of(Word::granularity, Word::format, Word::m, Word::math, Word::y,
                                            Word::precision, Word::tuning, Word::model, Word::baselines);
  static Linear::Problem problem(const ProblemWords& words);
  static std::string text(const ProblemWords& words);
  template <class P, class See>
  static void memory(P& p, See&& see) {
    see(p.x, Area::strided(p.m, p.k, p.x_stride, size_of(p.x_dtype)));
    see(p.x_scales, Area::dense(p.m, 4));
    for (std::size_t i = 0; i < p.count; ++i) {
      auto& matrix = p.matrices[i];
      const std::int64_t n = matrix.spec.n;
      const std::size_t element = size_of(matrix.spec.y_dtype);
      const bool in_place = matrix.residual == matrix.y;
      see(matrix.weights);
      see(matrix.bias, Area::dense(n, 4));
      if (!in_place) see(matrix.residual, Area::strided(p.m, n, matrix.residual_stride, element));
      see(matrix.y, Area::strided(p.m, n, matrix.y_stride, element));
      if constexpr (!std::is_const_v<P>)
        if (in_place) matrix.residual = matrix.y;
    }
  }
};

namespace linear {

constexpr KernelEntry entry(const SimdTable* table) {
  KernelEntry entry = bind_kernel<Linear, cpu_workspace, cpu_run>(table);
  entry.cpu_tuning = [](const void* t, const CpuModel& cpu, const Tuning& asked) {
    return dot::cpu_tuning(cpu, asked, t == nullptr ? 1 : static_cast<const SimdTable*>(t)->i2.max_streams);
  };
  return entry;
}
using Cuda = CudaTable<Linear>;
constexpr KernelEntry entry(const Cuda* table) { return bind_cuda(table); }
constexpr KernelEntry entry(const ReferenceTable* table) {
  return bind_kernel<Linear, reference_workspace, reference_run>(table);
}

}  // namespace linear
}  // namespace tern
