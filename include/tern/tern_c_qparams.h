// The C ABI of scales and zero points chosen from the data: problems, arguments and plans.
// tern_c.h includes this file.
#pragma once

#include "tern/tern_c.h"
#include "tern/tern_c_affine.h"

#ifdef __cplusplus
extern "C" {
#endif

// Which range of values the codes cover.
typedef enum tern_qparams_method TERN_ENUM_TYPE {
  TERN_QPARAMS_MINMAX = 0,      // all values; only with zero points
  TERN_QPARAMS_ABSMAX = 1,      // all values; only without zero points
  TERN_QPARAMS_PERCENTILE = 2,  // all but a share of the largest magnitudes, or of the lowest and highest values
  TERN_QPARAMS_MSE = 3          // the range with the smallest sum of squared errors
} tern_qparams_method;

TERN_API tern_status tern_qparams_method_parse(const char* text, tern_qparams_method* out);

// The scale, and the zero point, of every range of a tensor
typedef struct tern_choose_qparams_problem {
  size_t struct_size;
  int32_t rank;
  int64_t shape[8];
  tern_affine_granularity granularity;
  tern_dtype dtype;        // of x
  tern_format format;      // the format of the codes: S8, U8, S4, U4, S2 or U2
  tern_dtype scale_dtype;  // f32, or the type of x
  tern_qparams_method method;
  int32_t zero_points;   // 1: chosen; 0: they are 0
  int32_t q_min, q_max;  // as those of tern_affine_quantize_problem
  double percentile;     // of its method: above 50, at most 100
  float eps;             // the smallest scale, at least 2^-126
  tern_non_finite non_finite;
  int32_t even_groups;  // 1: refuse a last group that is short
  int64_t q_given;
} tern_choose_qparams_problem;

typedef struct tern_choose_qparams_args {
  size_t struct_size;
  tern_tensor_view x;            // any strides
  tern_tensor_view scales;       // written: dense, tern_affine_scale_count() of them
  tern_tensor_view zero_points;  // written: i32, dense, one for each scale
} tern_choose_qparams_args;

// The same bits as tern_choose_qparams by minmax or absmax followed by tern_affine_quantize
typedef struct tern_dynamic_quantize_problem {
  size_t struct_size;
  int32_t rank;
  int64_t shape[8];
  tern_affine_granularity granularity;
  tern_dtype dtype;
  tern_format format;
  tern_dtype scale_dtype;
  tern_qparams_method method;  // minmax or absmax
  int32_t zero_points;
  int32_t q_min, q_max;
  float eps;
  tern_affine_math math;
  tern_non_finite non_finite;
  int32_t even_groups;
  int64_t q_given;
} tern_dynamic_quantize_problem;

typedef struct tern_dynamic_quantize_args {
  size_t struct_size;
  tern_tensor_view x;
  tern_tensor_view codes;        // written: as those of tern_affine_quantize
  tern_tensor_view scales;       // written
  tern_tensor_view zero_points;  // written
} tern_dynamic_quantize_args;

TERN_DECLARE_PLAN(choose_qparams);
TERN_DECLARE_PLAN(dynamic_quantize);

// clang-format off
#define TERN_CHOOSE_QPARAMS_PROBLEM_INIT \
  {sizeof(tern_choose_qparams_problem), 0, {0}, {TERN_AFFINE_TENSOR, -1, 0}, TERN_DTYPE_F32, TERN_FORMAT_S8, \
   TERN_DTYPE_F32, TERN_QPARAMS_ABSMAX, 0, 0, 0, 99.99, 1.1920928955078125e-07F, TERN_NON_FINITE_REJECT, 0, 0}
#define TERN_CHOOSE_QPARAMS_ARGS_INIT \
  {sizeof(tern_choose_qparams_args), TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT}
#define TERN_DYNAMIC_QUANTIZE_PROBLEM_INIT \
  {sizeof(tern_dynamic_quantize_problem), 0, {0}, {TERN_AFFINE_TOKEN, -1, 0}, TERN_DTYPE_F32, TERN_FORMAT_S8, \
   TERN_DTYPE_F32, TERN_QPARAMS_ABSMAX, 0, 0, 0, 1.1920928955078125e-07F, TERN_AFFINE_MATH_DIVISION, \
   TERN_NON_FINITE_REJECT, 0, 0}
#define TERN_DYNAMIC_QUANTIZE_ARGS_INIT \
  {sizeof(tern_dynamic_quantize_args), TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, \
   TERN_TENSOR_VIEW_INIT}
// clang-format on

#ifdef __cplusplus
}  // extern "C"
#endif
