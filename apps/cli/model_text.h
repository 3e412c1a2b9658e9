// Plans and reports of models as people and programs read them.
#pragma once

#include <string>

#include "json.h"
#include "tern/model.h"

namespace tern::cli {

std::string shape_text(std::span<const std::int64_t> shape);  // "[2560, 6912]"
std::string short_name(std::string_view name);                // "layers.3.mlp.up_proj" of its .weight, escaped
std::string layers_together(std::string_view name);           // "blk.*.attn_q", the same for every layer

// One line for tensors of all layers that go the same way.
std::string plan_text(const Model& model, const ModelPlan& plan);
Json plan_json(const Model& model, const ModelPlan& plan);

struct Written {
  const Model& model;
  const ModelPlan& plan;
  const ModelReport& report;
  const Context& context;
  std::string output;
  bool per_tensor_twice = false;  // the input was read twice, as rates count it
  [[nodiscard]] double gb_per_s() const;
};
std::string summary_text(const Written& written);
Json summary_json(const Written& written);

// Weighted by elements: what the whole model has.
struct Overall {
  std::optional<double> worst_sqnr_db, mean_sqnr_db, mean_cosine;
  double zero_fraction = 0;
};
Overall overall(const Written& written);

}  // namespace tern::cli
