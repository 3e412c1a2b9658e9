// Formats plans and reports of models as text and as JSON.
#pragma once

#include <string>

#include "json.h"
#include "tern/model.h"

namespace tern::cli {

std::string shape_text(std::span<const std::int64_t> shape);  // "[2560, 6912]"
std::string short_name(std::string_view name);                // "layers.3.mlp.up_proj", without .weight; escaped
std::string layers_together(std::string_view name);           // "blk.*.attn_q", the same for every layer

// One line for tensors of all layers that are treated alike.
std::string plan_text(const Model& model, const ModelPlan& plan);
Json plan_json(const Model& model, const ModelPlan& plan);

struct Written {
  const Model& model;
  const ModelPlan& plan;
  const ModelReport& report;
  const Context& context;
  std::string output;
  bool per_tensor_twice = false;  // the input was read twice; rates count both
  [[nodiscard]] double gb_per_s() const;
};
std::string summary_text(const Written& written);
Json summary_json(const Written& written);

// Figures of the whole model, weighted by elements.
struct Overall {
  std::optional<double> worst_sqnr_db, mean_sqnr_db, mean_cosine;
  double zero_fraction = 0;
};
Overall overall(const Written& written);

}  // namespace tern::cli
