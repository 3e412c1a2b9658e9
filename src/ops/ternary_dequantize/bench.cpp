// ternary_dequantize for the bench: mostly writes floats. Its codes and scales come from quantizing random weights.
#include "lab/op_bench.h"
#include "plan/run_once.h"

namespace tern::lab {
namespace {

Status fill(const Context& context, const TernaryDequantize::Problem& p, const TernaryDequantize::Args& args) {
  TERN_RETURN_IF_ERROR(fill_random_weights(context, 0, p.dtype, args.y.data, p.rows * p.k));
  TERN_ASSIGN(plan, TernaryQuantizePlan::select(context, {.rows = p.rows,
                                                          .k = p.k,
                                                          .dtype = p.dtype,
                                                          .scheme = p.scheme,
                                                          .granularity = p.granularity,
                                                          .format = p.format}));
  const auto writable = [](const ConstTensorView& view) {
    return TensorView{const_cast<void*>(view.data), view.dtype, view.shape, view.device};
  };
  return run_once(context, plan,
                  {.x = args.y, .codes = writable(args.codes), .scales = writable(args.scales), .given_scale = {}});
}

}  // namespace

template <>
BenchFacts<TernaryDequantize> bench_facts() {
  return {.limit = Limit::non_temporal_write, .fill = fill};
}

}  // namespace tern::lab
