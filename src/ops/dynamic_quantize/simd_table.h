// What an instruction set gives to dynamic_quantize: the loops of the two ops it consists of.
#pragma once

#include "ops/affine_quantize/simd_table.h"
#include "ops/choose_qparams/simd_table.h"

namespace tern::dynamic_quantize {

struct SimdTable {
  const choose_qparams::SimdTable* choose;
  const affine_quantize::SimdTable* quantize;
};

}  // namespace tern::dynamic_quantize
