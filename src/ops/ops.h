// THE OPS: their contracts, and a line for each in TERN_OPS. Plans, the list of kernels, the laboratory and tests are
// made from it: nothing else lists the ops.
#pragma once

#include "ops/activation_quantize/activation_quantize.h"
#include "ops/affine_dequantize/affine_dequantize.h"
#include "ops/affine_quantize/affine_quantize.h"
#include "ops/choose_qparams/choose_qparams.h"
#include "ops/conv2d/conv2d.h"
#include "ops/dynamic_quantize/dynamic_quantize.h"
#include "ops/fake_quantize/fake_quantize.h"
#include "ops/fake_quantize_backward/fake_quantize_backward.h"
#include "ops/linear/linear.h"
#include "ops/ternary_dequantize/ternary_dequantize.h"
#include "ops/ternary_quantize/ternary_quantize.h"

// OP(its name, which is its folder's; its type in tern/)
#define TERN_OPS(OP)                               \
  OP(ternary_quantize, TernaryQuantize)            \
  OP(ternary_dequantize, TernaryDequantize)        \
  OP(activation_quantize, ActivationQuantize)      \
  OP(linear, Linear)                               \
  OP(conv2d, Conv2d)                               \
  OP(affine_quantize, AffineQuantize)              \
  OP(affine_dequantize, AffineDequantize)          \
  OP(fake_quantize, FakeQuantize)                  \
  OP(fake_quantize_backward, FakeQuantizeBackward) \
  OP(choose_qparams, ChooseQparams)                \
  OP(dynamic_quantize, DynamicQuantize)
