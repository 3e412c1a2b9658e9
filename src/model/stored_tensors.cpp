// The tensors of a plan as their container stores them: shapes of packed bytes, separate scales.
#include "format/format.h"
#include "format/layout.h"
#include "format/ranges.h"
#include "model/model_plan.h"

namespace tern {

std::vector<StoredTensor> stored_tensors(const ModelPlan& plan, std::span<const ModelTensor> tensors) {
  std::vector<StoredTensor> stored;
  for (const TensorPlan& tensor : plan.tensors) {
    if (tensor.action == Action::drop) continue;
    const ModelTensor& input = tensors[tensor.input];
    StoredTensor out{.name = tensor.name, .type = tensor.type, .shape = input.stored_shape};
    if (tensor.action == Action::quantize || tensor.action == Action::repack) {
      const std::int64_t n = input.n(), k = input.k();
      out.shape = {n, k};
      if (const LayoutRow& row = row_of(tensor.layout.layout); row.container() == Container::safetensors)
        out.shape = {n / row.runs, row.shape(tensor.layout.tiles, row.runs, k).bytes};  // bytes of the rows in a line
      if (plan.container == Container::gguf && input.ternary && input.type != StoredType::u8)
        out.shape = input.stored_shape;  // stacked experts keep their shape
    }
    if (tensor.codes && plan.container == Container::safetensors)
      out.shape = {input.n(), row_bytes(*tensor.codes, input.k())};
    else if (tensor.codes)
      out.shape = {input.n(), input.k()};
    out.gguf_id = tensor.action == Action::copy ? input.gguf_id : tensor.gguf_id;
    stored.push_back(std::move(out));
    if (tensor.scale_name.empty()) continue;
    const Ranges ranges = make_ranges(input.n(), input.k(), tensor.granularity);
    std::vector<std::int64_t> shape{ranges.total};
    if (ranges.per_row > 0) shape = {input.n(), ranges.per_row};
    stored.push_back({.name = tensor.scale_name, .type = tensor.scale_type, .shape = shape});
  }
  return stored;
}

}  // namespace tern
