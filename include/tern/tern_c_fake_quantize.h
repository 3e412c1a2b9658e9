// The C ABI of training with affine quantization: problems, arguments and plans of fake_quantize and its backward.
// tern_c_affine.h, whose words it needs, includes this file, and tern_c.h that one.
#pragma once

#include "tern/tern_c_affine.h"

#ifdef __cplusplus
extern "C" {
#endif

// y = float(clamp(rne(x/s) + zp, q_min, q_max) - zp) * s, and a mask: 1 where q_min <= rne(x/s) + zp <= q_max
typedef struct tern_fake_quantize_problem {
  size_t struct_size;
  int32_t rank;
  int64_t shape[8];
  tern_affine_granularity granularity;
  tern_dtype dtype;        // of x and y
  tern_format format;      // whose codes: S8, U8, S4, U4, S2 or U2
  tern_dtype scale_dtype;  // f32, or that of x
  int32_t zero_points;     // 1: given; 0: they are 0
  int32_t q_min, q_max;    // as those of tern_affine_quantize_problem
  tern_affine_math math;
  tern_non_finite non_finite;
  int32_t even_groups;  // 1: refuse a last group that is shorter than the others
  int32_t mask;         // 1: write it
  int32_t strict;       // 1: a mask without its ends
  int64_t q_given;
} tern_fake_quantize_problem;

typedef struct tern_fake_quantize_args {
  size_t struct_size;
  tern_tensor_view x;            // any strides
  tern_tensor_view scales;       // dense, finite and above 0
  tern_tensor_view zero_points;  // i32, dense, one for each scale
  tern_tensor_view y;            // written: any strides that do not overlap
  tern_tensor_view mask;         // written if requested: u8; rows may be strided
} tern_fake_quantize_args;

// grad_x = grad_y where the mask is 1, else 0 with its sign; with qparam_gradients also
//   grad_scale      = grad_factor * sum(grad_y * (mask ? rne(x/s) - x/s : q - zp))
//   grad_zero_point = -grad_factor * s * sum(mask ? 0 : grad_y)
typedef struct tern_fake_quantize_backward_problem {
  size_t struct_size;
  int32_t rank;
  int64_t shape[8];
  tern_affine_granularity granularity;
  tern_dtype dtype;  // of x, grad_y and grad_x
  tern_format format;
  tern_dtype scale_dtype;  // of scales and their gradients
  int32_t zero_points;
  int32_t q_min, q_max;
  tern_affine_math math;
  tern_non_finite non_finite;  // of x; gradients may be anything
  int32_t even_groups;
  int32_t strict;
  int32_t from_mask;         // 1: the mask is given, and neither x nor scales are read
  int32_t qparam_gradients;  // 1: of scales and zero points as well; not from a mask
  double grad_factor;        // what these are multiplied by
  int64_t q_given;
} tern_fake_quantize_backward_problem;

typedef struct tern_fake_quantize_backward_args {
  size_t struct_size;
  tern_tensor_view grad_y;
  tern_tensor_view x;
  tern_tensor_view scales;
  tern_tensor_view zero_points;
  tern_tensor_view mask;              // u8, 0 or 1
  tern_tensor_view grad_x;            // written: any strides that do not overlap
  tern_tensor_view grad_scales;       // written if requested: dense, as is the next
  tern_tensor_view grad_zero_points;  // also where zero points are not given
} tern_fake_quantize_backward_args;

TERN_DECLARE_PLAN(fake_quantize);
TERN_DECLARE_PLAN(fake_quantize_backward);

// clang-format off
#define TERN_FAKE_QUANTIZE_PROBLEM_INIT \
  {sizeof(tern_fake_quantize_problem), 0, {0}, {TERN_AFFINE_TENSOR, -1, 0}, TERN_DTYPE_F32, TERN_FORMAT_S8, \
   TERN_DTYPE_F32, 0, 0, 0, TERN_AFFINE_MATH_DIVISION, TERN_NON_FINITE_REJECT, 0, 0, 0, 0}
#define TERN_FAKE_QUANTIZE_ARGS_INIT \
  {sizeof(tern_fake_quantize_args), TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, \
   TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT}
#define TERN_FAKE_QUANTIZE_BACKWARD_PROBLEM_INIT \
  {sizeof(tern_fake_quantize_backward_problem), 0, {0}, {TERN_AFFINE_TENSOR, -1, 0}, TERN_DTYPE_F32, TERN_FORMAT_S8, \
   TERN_DTYPE_F32, 0, 0, 0, TERN_AFFINE_MATH_DIVISION, TERN_NON_FINITE_REJECT, 0, 0, 0, 0, 1.0, 0}
#define TERN_FAKE_QUANTIZE_BACKWARD_ARGS_INIT \
  {sizeof(tern_fake_quantize_backward_args), TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, \
   TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT}
// clang-format on

#ifdef __cplusplus
}  // extern "C"
#endif
