// affine_dequantize: y = float(code - zp) * s, with a given s and zp for each range; rounded once, then once more if y
// is f16 or bf16.
#pragma once

#include "ops/affine/affine.h"
#include "ops/affine_dequantize/simd_table.h"
#include "ops/op.h"
#include "tern/affine.h"

namespace tern {
namespace affine_dequantize {

// What a kernel gets: checked arguments.
struct Params {
  AffineDequantize::Problem problem;
  const std::uint8_t* codes = nullptr;
  std::int64_t code_row_bytes = 0;  // from one row of y to the next
  affine::Qparams qparams;
  TensorView y;
};

struct ReferenceTable {};

std::size_t reference_workspace(const ReferenceTable&, const AffineDequantize::Problem&, int threads);
Status reference_run(const ReferenceTable&, const Params&, const Exec&);
std::size_t cpu_workspace(const SimdTable&, const AffineDequantize::Problem&, int threads);
Status cpu_run(const SimdTable&, const Params&, const Exec&);

}  // namespace affine_dequantize

template <>
struct OpTraits<AffineDequantize> {
  using Params = affine_dequantize::Params;
  static constexpr std::string_view kName = "affine_dequantize";

  static Result<ProblemFacts> facts(const AffineDequantize::Problem& problem);
  static Result<Params> bind(const AffineDequantize::Problem& problem, const AffineDequantize::Args& args,
                             DeviceId device = {});
  static bool empty(const Params& params) { return affine::is_empty(params.problem.shape); }
  static std::int64_t operations(const Params& p) { return affine::elements_of(p.problem.shape); }

  static constexpr Words kWords = Words::of(Word::granularity, Word::format);
  static constexpr std::string_view kScheme = "affine";
  static AffineDequantize::Problem problem(const ProblemWords& words) {
    return affine::problem_of_words<AffineDequantize>(words);
  }
  template <class Args, class See>
  static void operands(const AffineDequantize::Problem& p, Args& args, See&& see) {
    see("codes", args.codes, code_dtype(p.format), affine::code_shape(p.shape, p.format));
    affine::see_qparams(p, args, see);
    see("y", args.y, p.dtype, p.shape);
  }
  template <class P, class See>
  static void memory(P& p, See&& see) {
    see(p.codes, affine::code_area(p.problem.shape, p.problem.format, p.code_row_bytes));
    affine::see_memory(p.qparams, see);
    see(p.y);
  }
};

namespace affine_dequantize {

constexpr KernelEntry entry(const SimdTable* table) {
  return bind_kernel<AffineDequantize, cpu_workspace, cpu_run>(table);
}
using Cuda = CudaTable<AffineDequantize>;
constexpr KernelEntry entry(const Cuda* table) { return bind_cuda(table); }
constexpr KernelEntry entry(const ReferenceTable* table) {
  return bind_kernel<AffineDequantize, reference_workspace, reference_run>(table);
}

}  // namespace affine_dequantize
}  // namespace tern
