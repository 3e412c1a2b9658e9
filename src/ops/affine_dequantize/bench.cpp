// affine_dequantize for the bench: writes floats, so its limit is the non-temporal write.
#include "lab/affine_case.h"
#include "lab/bench_ops.h"

namespace tern::lab {

Result<OpCase> bench_affine_dequantize(const BenchRequest& request, const Context& context) {
  TERN_ASSIGN(op_case, affine_case<AffineDequantize>(
                           request, context, {}, Limit::non_temporal_write, {},
                           [](const AffineCopies& of, std::int64_t i) -> AffineDequantize::Args {
                             return {
                                 .codes = of.codes(i), .scales = of.scales(i), .zero_points = {}, .y = of.floats(i)};
                           }));
  op_case.notes.emplace_back("codes and scales are read beside what the limit writes, so the share can be above 100 %");
  return op_case;
}

}  // namespace tern::lab
