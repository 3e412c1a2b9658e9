// The reference for dynamic_quantize: the references of choose_qparams and affine_quantize, one after the other.
#include "base/errors.h"
#include "ops/dynamic_quantize/dynamic_quantize.h"

namespace tern::dynamic_quantize {

extern const ReferenceTable reference;
constinit const ReferenceTable reference = {};

std::size_t reference_workspace(const ReferenceTable&, const DynamicQuantize::Problem&, int) { return 0; }

Status reference_run(const ReferenceTable&, const Params& params, const Exec& exec) {
  TERN_RETURN_IF_ERROR(choose_qparams::reference_run({}, params.choose, exec));
  return affine_quantize::reference_run({}, params.quantize, exec);
}

}  // namespace tern::dynamic_quantize
