// The loops that each instruction set provides for dynamic_quantize: those of choose_qparams and affine_quantize.
#pragma once

#include "ops/affine_quantize/simd_table.h"
#include "ops/choose_qparams/simd_table.h"

namespace tern::dynamic_quantize {

struct SimdTable {
  const choose_qparams::SimdTable* choose;
  const affine_quantize::SimdTable* quantize;
};

}  // namespace tern::dynamic_quantize
