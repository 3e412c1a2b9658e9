// inspect_tensor(): shares of trits and extremes of scales.
#include <algorithm>

#include "base/errors.h"
#include "plan/context_state.h"
#include "runtime/encode_weights.h"
#include "runtime/read_weights.h"
#include "tern/model.h"

namespace tern {

Result<TensorReport> inspect_tensor(const Context& context, const Model& model, std::size_t index) {
  if (index >= model.tensors().size())
    return error(Code::invalid_argument, "inspect_tensor", "there is no tensor {} among {}", index,
                 model.tensors().size());
  TensorReport report;
  ModelTensor tensor = model.tensors()[index];
  if (!tensor.ternary) {
    TERN_RETURN_IF_ERROR(check_bytes(model.checkpoint(), tensor));
    if (tensor.checksum) model.checkpoint().release(tensor.index, 0, tensor.bytes);
    report.checksum = tensor.checksum;
    return report;
  }
  const bool guessed = !tensor.layout && tensor.type == StoredType::i2_s;
  if (guessed) {  // any order that the shape allows has the same codes
    for (const Layout layout : {Layout::i2_s_x86_128, Layout::i2_s_arm_64, Layout::i2_s_1x4})
      if (layout_bytes(layout, tensor.n(), tensor.k()).ok()) tensor.layout = layout;
    tensor.checksum.reset();
  }
  auto weights = read_weights(context, model.checkpoint(), tensor);
  if (!weights.ok()) {
    Error why = std::move(weights).error();
    why.message = fmt::format("'{}': {}", escaped(tensor.name), why.message);
    return why;
  }
  report.trits = count_trits(context.state().threads, *weights);
  const auto scales = weights->scale_values();
  if (!scales.empty()) {
    const auto [least, most] = std::minmax_element(scales.begin(), scales.end());
    report.smallest_scale = *least;
    report.largest_scale = *most;
  }
  if (!guessed) report.checksum = weights->checksum();
  model.checkpoint().release(tensor.index, 0, model.checkpoint().data(tensor.index).size());
  return report;
}

}  // namespace tern
