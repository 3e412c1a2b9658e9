// The handle of a model, and what calls that work on models share.
#pragma once

#include "api/c_checkpoint.h"

struct tern_model {
  explicit tern_model(tern::Model from);
  tern_model(const tern_model&) = delete;
  tern_model& operator=(const tern_model&) = delete;

  tern::Model model;
  tern_checkpoint checkpoint;
  std::vector<tern_layout_spec> layouts;  // one per tensor; unused if the tensor has none
  std::vector<tern_model_tensor> tensors;
};

namespace tern::c {

Result<std::vector<KernelTiles>> to_tiles(const char* kernel_config);  // NULL: none

}  // namespace tern::c
