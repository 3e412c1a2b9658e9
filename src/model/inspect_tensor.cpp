// inspect_tensor(): counts of trits and extremes of scales.
#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "format/invalid_value.h"
#include "format/layout.h"
#include "format/ranges.h"
#include "model/coded_weights.h"
#include "model/read_weights.h"
#include "plan/context_state.h"
#include "plan/count_trits.h"
#include "tern/model.h"

namespace tern {
namespace {

// The extremes of the scales of 8- or 4-bit codes.
Status inspect_scales(const Model& model, const ModelTensor& tensor, TensorReport& report) {
  TERN_ASSIGN(coded, CodedWeights::of(model.checkpoint(), tensor));
  const Ranges ranges = make_ranges(coded.n, coded.k, coded.granularity);
  for (std::int64_t i = 0; i < ranges.total; ++i) {
    const float scale = ranges.per_row == 0 ? coded.scale_at(0, 0)
                                            : coded.scale_at(i / ranges.per_row, i % ranges.per_row * ranges.len);
    if (!std::isfinite(scale))
      return with(infinite_scale(scale),
                  error_at(i, Code::invalid_scale, "inspect_tensor", "'{}': scales[{}] is {}; it must be finite",
                           escaped(tensor.name), i, scale));
    report.smallest_scale = i == 0 ? scale : std::min(report.smallest_scale, scale);
    report.largest_scale = i == 0 ? scale : std::max(report.largest_scale, scale);
  }
  return {};
}

}  // namespace

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
    if (tensor.codes) TERN_RETURN_IF_ERROR(inspect_scales(model, tensor, report));
    return report;
  }
  const bool guessed = !tensor.layout && layouts_of(tensor.type).size() > 1;
  if (guessed) {  // counts and scales are the same for any order that the shape allows
    for (const LayoutRow& row : layouts_of(tensor.type))
      if (layout_bytes(row.layout, tensor.n(), tensor.k()).ok()) tensor.layout = row.layout;
    tensor.checksum.reset();
  }
  auto weights = read_weights(context, model.checkpoint(), tensor);
  if (!weights.ok()) {
    Error why = std::move(weights).error();
    why.message = fmt::format("'{}': {}", escaped(tensor.name), why.message);
    return why;
  }
  report.trits = count_trits(weights->quantized_data().data(), weights->rows(), weights->k());
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
