// Loads packed weights from checkpoints.
#include <vector>

#include "base/errors.h"
#include "format/ranges.h"
#include "model/coded_weights.h"
#include "model/read_weights.h"
#include "plan/pack.h"
#include "tern/linear.h"
#include "tern/model.h"
#include "tern/text.h"

namespace tern {
namespace {

// Loads weights of 8 or 4 bits in pieces, so that there is never a full copy in canonical order.
Result<PackedWeights> load_coded(const Context& context, const Model& model, const ModelTensor& tensor) {
  TERN_RETURN_IF_ERROR(check_bytes(model.checkpoint(), tensor));
  TERN_ASSIGN(coded, CodedWeights::of(model.checkpoint(), tensor));
  TERN_ASSIGN(bytes, PackedWeights::packed_bytes(context, coded.n, coded.k, coded.granularity, coded.format));
  const Ranges ranges = make_ranges(coded.n, coded.k, coded.granularity);
  std::vector<float> scales(static_cast<std::size_t>(ranges.total));
  CanonicalWeights weights{.codes = nullptr,
                           .stride_bytes = 0,
                           .scales = scales.data(),
                           .n = coded.n,
                           .k = coded.k,
                           .granularity = coded.granularity,
                           .format = coded.format};
  if (ranges.per_row == 0 && ranges.total > 0) {
    scales[0] = coded.scale_at(0, 0);
    TERN_RETURN_IF_ERROR(check_weight_scales(weights));
  }
  TERN_ASSIGN(place, PackedPlace::make(context, bytes, {}));
  RowReader reader{1, [&](std::int64_t first, std::int64_t count, std::uint8_t* codes) {
                     return coded.read_rows(first, count, codes, scales.data() + first * ranges.per_row);
                   }};
  return pack(context, {.weights = weights, .reader = std::move(reader)}, std::move(place));
}

}  // namespace

Result<PackedWeights> load_weights(const Context& context, const Model& model, std::string_view tensor) {
  const auto index = model.find(tensor);
  if (!index)
    return error(Code::invalid_argument, "load_weights", "there is no tensor '{}' in '{}'", escaped(tensor, 100),
                 one_line(model.checkpoint().path()));
  if (const ModelTensor& coded = model.tensors()[*index]; coded.codes) {
    auto weights = load_coded(context, model, coded);
    if (weights.ok()) return weights;
    Error why = std::move(weights).error();
    why.message = fmt::format("'{}': {}", escaped(coded.name), why.message);
    return why;
  }
  TERN_ASSIGN(weights, model.read(context, *index));
  return PackedWeights::pack(context, weights);
}

}  // namespace tern
