// The C ABI of affine quantization: its words, problems, arguments and plans.
// tern_c.h includes this file.
#pragma once

#include "tern/tern_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tern_affine_granularity_kind TERN_ENUM_TYPE {
  TERN_AFFINE_TENSOR = 0,   // one scale
  TERN_AFFINE_CHANNEL = 1,  // one for each index of an axis
  TERN_AFFINE_TOKEN = 2,    // one for each row along the last axis
  TERN_AFFINE_GROUP = 3     // one for each group_size elements along an axis; the last group may be short
} tern_affine_granularity_kind;

typedef struct tern_affine_granularity {
  tern_affine_granularity_kind kind;
  int32_t axis;        // of a channel or group: from 0, or backward from the last, -1
  int64_t group_size;  // of a group
} tern_affine_granularity;

// How x/s is computed.
typedef enum tern_affine_math TERN_ENUM_TYPE {
  TERN_AFFINE_MATH_DIVISION = 0,    // x/s, one rounding
  TERN_AFFINE_MATH_RECIPROCAL = 1,  // x * (1/s), as PyTorch on a CPU
  TERN_AFFINE_MATH_TORCH_CUDA = 2   // x/s in f64, as PyTorch on a GPU
} tern_affine_math;

// "tensor", "channel:0", "token", "group:128", "group:128:0"
TERN_API tern_status tern_affine_granularity_parse(const char* text, tern_affine_granularity* out);
TERN_API tern_status tern_affine_math_parse(const char* text, tern_affine_math* out);
// The number of scales of a tensor.
TERN_API tern_status tern_affine_scale_count(int32_t rank, const int64_t* shape, tern_affine_granularity granularity,
                                             int64_t* out);

// codes = clamp(rne(x/s) + zp, q_min, q_max)
typedef struct tern_affine_quantize_problem {
  size_t struct_size;
  int32_t rank;
  int64_t shape[8];
  tern_affine_granularity granularity;
  tern_dtype dtype;        // of x
  tern_format format;      // S8, U8, S4, U4, S2 or U2
  tern_dtype scale_dtype;  // f32, or that of x
  int32_t zero_points;     // 1: given; 0: they are 0
  int32_t q_min, q_max;    // what codes are clamped to; both 0 is all that the format holds, unless q_given is 1
  tern_affine_math math;
  tern_non_finite non_finite;
  int32_t even_groups;  // 1: refuse a last group that is short
  int64_t q_given;      // 1: q_min and q_max hold as given, even both 0. 64 bits: what was padding is never read
} tern_affine_quantize_problem;

typedef struct tern_affine_quantize_args {
  size_t struct_size;
  tern_tensor_view x;            // any strides
  tern_tensor_view scales;       // dense, finite and above 0
  tern_tensor_view zero_points;  // i32, dense, one for each scale
  tern_tensor_view codes;  // written: x's shape, its last axis divided by the codes a byte holds; i8 for S8, else u8
} tern_affine_quantize_args;

// y = float(code - zp) * s
typedef struct tern_affine_dequantize_problem {
  size_t struct_size;
  int32_t rank;
  int64_t shape[8];
  tern_affine_granularity granularity;
  tern_dtype dtype;  // of y
  tern_format format;
  tern_dtype scale_dtype;  // f32, or the type of y
  int32_t zero_points;     // 1: given as an argument; 0: all 0
  int32_t even_groups;     // 1: refuse a last group that is shorter than the others
} tern_affine_dequantize_problem;

typedef struct tern_affine_dequantize_args {
  size_t struct_size;
  tern_tensor_view codes;
  tern_tensor_view scales;
  tern_tensor_view zero_points;
  tern_tensor_view y;  // written: any strides that do not overlap
} tern_affine_dequantize_args;

TERN_DECLARE_PLAN(affine_quantize);
TERN_DECLARE_PLAN(affine_dequantize);

// clang-format off
#define TERN_AFFINE_QUANTIZE_PROBLEM_INIT \
  {sizeof(tern_affine_quantize_problem), 0, {0}, {TERN_AFFINE_TENSOR, -1, 0}, TERN_DTYPE_F32, TERN_FORMAT_S8, \
   TERN_DTYPE_F32, 0, 0, 0, TERN_AFFINE_MATH_DIVISION, TERN_NON_FINITE_REJECT, 0, 0}
#define TERN_AFFINE_QUANTIZE_ARGS_INIT \
  {sizeof(tern_affine_quantize_args), TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, \
   TERN_TENSOR_VIEW_INIT}
#define TERN_AFFINE_DEQUANTIZE_PROBLEM_INIT \
  {sizeof(tern_affine_dequantize_problem), 0, {0}, {TERN_AFFINE_TENSOR, -1, 0}, TERN_DTYPE_F32, TERN_FORMAT_S8, \
   TERN_DTYPE_F32, 0, 0}
#define TERN_AFFINE_DEQUANTIZE_ARGS_INIT \
  {sizeof(tern_affine_dequantize_args), TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, \
   TERN_TENSOR_VIEW_INIT}
// clang-format on

#ifdef __cplusplus
}  // extern "C"
#endif

#include "tern/tern_c_fake_quantize.h"
