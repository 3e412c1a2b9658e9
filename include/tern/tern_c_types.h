// The words of the C ABI: enums with fixed values, and the small structs that never grow.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tern/export.h"

#ifdef __cplusplus
extern "C" {
#define TERN_ENUM_TYPE : int32_t  // so that a wrong number from C stays a value that can be refused
#else
#define TERN_ENUM_TYPE
#endif

// The values are those of the C++ enums and never change.

typedef enum tern_status TERN_ENUM_TYPE {
  TERN_OK = 0,
  TERN_INVALID_ARGUMENT = 1,         // the caller's mistake: the message names the value and the remedy
  TERN_EMPTY_INPUT = 2,              // a high-level call was given nothing to do
  TERN_UNSUPPORTED = 3,              // valid, but no kernel here can do it: explain lists why
  TERN_NON_FINITE = 4,               // NaN or infinity; the error's index is the first one
  TERN_INVALID_QUANTIZED_VALUE = 5,  // a code outside its format or scheme; the error's index is its element
  TERN_INVALID_SCALE = 6,            // a scale that is not finite and positive; the error's index is its range
  TERN_QUALITY_BELOW_LIMIT = 7,      // the result misses the limits the caller set
  TERN_MEMORY_ALLOCATION = 8,        // an allocation failed
  TERN_INSUFFICIENT_MEMORY = 9,      // found before the attempt
  TERN_GPU_NOT_AVAILABLE = 10,
  TERN_KERNEL_LAUNCH = 11,
  TERN_IO_ERROR = 12,      // the operating system refused
  TERN_CORRUPT_FILE = 13,  // a file's bytes violate its format
  TERN_INTERNAL = 14       // a bug in the library
} tern_status;

typedef enum tern_dtype TERN_ENUM_TYPE {
  TERN_DTYPE_F32 = 0,
  TERN_DTYPE_F64 = 1,
  TERN_DTYPE_F16 = 2,
  TERN_DTYPE_BF16 = 3,
  TERN_DTYPE_I8 = 4,
  TERN_DTYPE_U8 = 5,
  TERN_DTYPE_I32 = 6
} tern_dtype;

typedef enum tern_scheme TERN_ENUM_TYPE {
  TERN_SCHEME_ABSMEAN = 0,
  TERN_SCHEME_ABSMAX = 1,
  TERN_SCHEME_MSE = 2,
  TERN_SCHEME_INT2 = 3
} tern_scheme;

typedef enum tern_format TERN_ENUM_TYPE {
  TERN_FORMAT_DEFAULT = -1,  // only in tern_quantize_options: that of the scheme
  TERN_FORMAT_I2 = 0,
  TERN_FORMAT_S2 = 1,
  TERN_FORMAT_I8 = 2,
  TERN_FORMAT_B3 = 3,
  TERN_FORMAT_S8 = 4,  // for affine quantization, like the following ones and S2
  TERN_FORMAT_U8 = 5,
  TERN_FORMAT_S4 = 6,
  TERN_FORMAT_U4 = 7,
  TERN_FORMAT_U2 = 8
} tern_format;

typedef enum tern_non_finite TERN_ENUM_TYPE {
  TERN_NON_FINITE_REJECT = 0,
  TERN_NON_FINITE_SATURATE = 1
} tern_non_finite;

typedef enum tern_granularity_kind TERN_ENUM_TYPE {
  TERN_GRANULARITY_TENSOR = 0,
  TERN_GRANULARITY_ROW = 1,
  TERN_GRANULARITY_GROUP = 2
} tern_granularity_kind;

typedef struct tern_granularity {
  tern_granularity_kind kind;
  int64_t group_size;  // elements along the last axis; only for TERN_GRANULARITY_GROUP
} tern_granularity;

// The function that linear applies to a sum.
typedef enum tern_activation TERN_ENUM_TYPE {
  TERN_ACTIVATION_NONE = 0,
  TERN_ACTIVATION_SQUARED_RELU = 1
} tern_activation;

// How activations and weights are multiplied.
typedef enum tern_linear_math TERN_ENUM_TYPE {
  TERN_LINEAR_MATH_W2A8 = 0,     // int8 activations, exact int32 sums; float activations are quantized first
  TERN_LINEAR_MATH_W2_FLOAT = 1  // activations stay floats and sums are f32
} tern_linear_math;

// Layouts of packed ternary weights, Tern's and other projects'.
typedef enum tern_layout TERN_ENUM_TYPE {
  TERN_LAYOUT_DEFAULT = -1,      // only in options of reading and writing models
  TERN_LAYOUT_MS_GPU = 0,        // Microsoft's BitNet GPU kernels: tiles of 16 rows by 32 columns
  TERN_LAYOUT_I2 = 1,            // Tern's own rows, four trits a byte
  TERN_LAYOUT_B3 = 2,            // Tern's own rows, five trits a byte
  TERN_LAYOUT_HF_PACKED = 3,     // Hugging Face checkpoints
  TERN_LAYOUT_I2_S_X86_128 = 4,  // bitnet.cpp's, runs of 128 columns
  TERN_LAYOUT_I2_S_ARM_64 = 5,   // bitnet.cpp's on ARM, runs of 64 columns
  TERN_LAYOUT_I2_S_1X4 = 6,      // bitnet.cpp's, four rows side by side
  TERN_LAYOUT_TL1 = 7,           // bitnet.cpp's for look-up tables on ARM
  TERN_LAYOUT_TL2 = 8,           // bitnet.cpp's for look-up tables on x86
  TERN_LAYOUT_TQ1_0 = 9,         // ggml's, five trits a byte in blocks of 256
  TERN_LAYOUT_TQ2_0 = 10         // ggml's, four trits a byte in blocks of 256
} tern_layout;

// The float type of a layer's tokens and results.
typedef enum tern_precision TERN_ENUM_TYPE {
  TERN_PRECISION_AUTO = 0,  // the narrowest that the device multiplies natively
  TERN_PRECISION_F32 = 1,
  TERN_PRECISION_F16 = 2,
  TERN_PRECISION_BF16 = 3
} tern_precision;

// How many blocks a GPU's kernel is launched with.
typedef enum tern_grid_strategy TERN_ENUM_TYPE {
  TERN_GRID_AUTO = 0,
  TERN_GRID_FIXED = 1,     // one block for each piece of work
  TERN_GRID_OCCUPANCY = 2  // as many blocks as can run at once, each doing several pieces
} tern_grid_strategy;

typedef enum tern_device_kind TERN_ENUM_TYPE { TERN_DEVICE_CPU = 0, TERN_DEVICE_CUDA = 1 } tern_device_kind;

typedef struct tern_device_id {
  tern_device_kind kind;
  int32_t index;
} tern_device_id;

// Bit numbers in a mask of capabilities: (mask >> TERN_CAPABILITY_X86_AVX2) & 1.
typedef enum tern_capability TERN_ENUM_TYPE {
  TERN_CAPABILITY_X86_SSE41 = 0,
  TERN_CAPABILITY_X86_AVX2 = 1,
  TERN_CAPABILITY_X86_AVX_VNNI = 2,
  TERN_CAPABILITY_X86_AVX512 = 3,
  TERN_CAPABILITY_X86_AVX512VNNI = 4,
  TERN_CAPABILITY_X86_AMX_INT8 = 5,
  TERN_CAPABILITY_ARM_NEON = 6,
  TERN_CAPABILITY_ARM_DOTPROD = 7,
  TERN_CAPABILITY_ARM_I8MM = 8,
  TERN_CAPABILITY_SM_75 = 9,
  TERN_CAPABILITY_SM_80 = 10,
  TERN_CAPABILITY_SM_90 = 11,
  TERN_CAPABILITY_SM_90A = 12,
  TERN_CAPABILITY_SM_100 = 13,
  TERN_CAPABILITY_SM_120 = 14,
  TERN_CAPABILITY_X86_AVX512VBMI = 15
} tern_capability;

// The name of a value; "unknown" for a number that has none.
TERN_API const char* tern_status_name(tern_status status);
TERN_API const char* tern_dtype_name(tern_dtype dtype);
TERN_API const char* tern_scheme_name(tern_scheme scheme);
TERN_API const char* tern_format_name(tern_format format);
TERN_API const char* tern_non_finite_name(tern_non_finite policy);
TERN_API const char* tern_activation_name(tern_activation activation);
TERN_API const char* tern_linear_math_name(tern_linear_math math);
TERN_API const char* tern_layout_name(tern_layout layout);
TERN_API const char* tern_precision_name(tern_precision precision);
TERN_API const char* tern_grid_strategy_name(tern_grid_strategy grid);
TERN_API const char* tern_capability_name(tern_capability capability);

// The value of a name; an unknown name is an error that lists the known ones.
TERN_API tern_status tern_dtype_parse(const char* text, tern_dtype* out);
TERN_API tern_status tern_scheme_parse(const char* text, tern_scheme* out);
TERN_API tern_status tern_format_parse(const char* text, tern_format* out);
TERN_API tern_status tern_non_finite_parse(const char* text, tern_non_finite* out);
TERN_API tern_status tern_activation_parse(const char* text, tern_activation* out);
TERN_API tern_status tern_linear_math_parse(const char* text, tern_linear_math* out);
TERN_API tern_status tern_layout_parse(const char* text, tern_layout* out);
TERN_API tern_status tern_precision_parse(const char* text, tern_precision* out);
TERN_API tern_status tern_grid_strategy_parse(const char* text, tern_grid_strategy* out);
TERN_API tern_status tern_granularity_parse(const char* text, tern_granularity* out);  // "tensor", "row", "group:128"
TERN_API tern_status tern_device_parse(const char* text, tern_device_id* out);         // "cpu", "cuda:0"
TERN_API tern_status tern_capability_parse(const char* text, tern_capability* out);

TERN_API size_t tern_dtype_bytes(tern_dtype dtype);  // of one element; 0 for a number that is no dtype

// A view of elements that the caller owns; inputs are never written. A plain struct that will not grow: {0} is an empty
// view.
typedef struct tern_tensor_view {
  void* data;
  tern_dtype dtype;
  int32_t rank;
  int64_t shape[8];    // slowest axis first
  int64_t strides[8];  // in elements; all zero: dense, row-major
  tern_device_id device;
} tern_tensor_view;

#ifdef __cplusplus
}  // extern "C"
#endif
