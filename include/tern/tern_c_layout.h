// The C ABI of other projects' layouts of weights, on the host. tern_c.h includes this file.
#pragma once

#include "tern/tern_c.h"

#ifdef __cplusplus
extern "C" {
#endif

// A layout with what its bytes do not say.
typedef struct tern_layout_spec {
  size_t struct_size;
  tern_layout layout;
  int64_t tile_rows;     // of tl1 and tl2: bm of bitnet.cpp's kernel_config.ini
  int64_t tile_columns;  // bk
  int64_t block_rows;    // bmm
} tern_layout_spec;
#define TERN_LAYOUT_SPEC_INIT \
  { sizeof(tern_layout_spec), TERN_LAYOUT_I2, 0, 0, 0 }

// What n x k weights take.
typedef struct tern_layout_size {
  size_t struct_size;
  size_t bytes;         // scales and padding included
  int64_t row_block;    // pieces of rows begin and end at multiples of it
  int64_t scale_count;  // of scales that lie in the bytes
} tern_layout_size;
#define TERN_LAYOUT_SIZE_INIT \
  { sizeof(tern_layout_size), 0, 0, 0 }

// What scales lost that a layout cannot hold exactly.
typedef struct tern_scale_loss {
  size_t struct_size;
  int64_t changed;          // of the scales given
  double largest_relative;  // change of one, as a share of it
  int64_t index;            // of that scale; -1: none
} tern_scale_loss;
#define TERN_SCALE_LOSS_INIT \
  { sizeof(tern_scale_loss), 0, 0, -1 }

// What bytes say of the order they are in.
typedef struct tern_i2_s_evidence {
  size_t struct_size;
  int32_t x86_128_possible;
  int32_t arm_64_possible;
  int32_t one_by_four_possible;
  float scale;  // as it lies behind the codes
} tern_i2_s_evidence;
#define TERN_I2_S_EVIDENCE_INIT \
  { sizeof(tern_i2_s_evidence), 0, 0, 0, 0 }

// Who shares a scale in the layout's bytes. *inside is 0 where scales are a tensor of their own.
TERN_API tern_status tern_layout_scales_in(tern_layout layout, int32_t* inside, tern_granularity* out);

// A shape that the layout cannot hold, or tiles that it cannot have, are TERN_UNSUPPORTED.
TERN_API tern_status tern_layout_get_size(const tern_layout_spec* spec, int64_t n, int64_t k, tern_layout_size* out);
// The bytes of a layout without tiles.
TERN_API tern_status tern_layout_bytes(tern_layout layout, int64_t n, int64_t k, size_t* out);

// To canonical i2 codes, u8 [n, ceil(k/4)], whose rows may be strided, and scale_count scales, finite and above 0. Bits
// that no trit gives are TERN_INVALID_QUANTIZED_VALUE with their element as the error's index, a scale that is none
// TERN_INVALID_SCALE; codes and scales are then unspecified. Blocks of zeros without a scale get 1.
TERN_API tern_status tern_import_weights(const tern_layout_spec* spec, const void* bytes, size_t byte_count, int64_t n,
                                         int64_t k, const tern_tensor_view* codes, float* scales, size_t scale_count);
// The same for rows first_row .. first_row + rows - 1, with their scales (of a tensor: the one). The bytes are those of
// the whole matrix. Pieces may be imported by several threads at once.
TERN_API tern_status tern_import_rows(const tern_layout_spec* spec, const void* bytes, size_t byte_count, int64_t n,
                                      int64_t k, int64_t first_row, int64_t rows, const tern_tensor_view* codes,
                                      float* scales, size_t scale_count);

// Scales by granularity as the layout has them: out_count of them, which it holds exactly. Those it cannot hold are
// TERN_UNSUPPORTED, or with lossy the nearest f16 and the mean of those that share one. `loss` may be NULL.
TERN_API tern_status tern_fit_scales(tern_layout layout, const tern_tensor_view* codes, int64_t n, int64_t k,
                                     const float* scales, size_t scale_count, tern_granularity granularity,
                                     int32_t lossy, float* out, size_t out_count, tern_scale_loss* loss);
// From canonical i2 codes and scales by granularity, none where the layout has none. `loss` may be NULL.
TERN_API tern_status tern_export_weights(const tern_layout_spec* spec, const tern_tensor_view* codes, int64_t n,
                                         int64_t k, const float* scales, size_t scale_count,
                                         tern_granularity granularity, int32_t lossy, void* bytes, size_t byte_count,
                                         tern_scale_loss* loss);
// Some rows, with scales as tern_fit_scales() gives them. The piece with the last row writes what lies behind the
// codes.
TERN_API tern_status tern_export_rows(const tern_layout_spec* spec, const tern_tensor_view* codes, int64_t n, int64_t k,
                                      int64_t first_row, int64_t rows, const float* scales, size_t scale_count,
                                      void* bytes, size_t byte_count);

// Codes alone, of layouts that have no scales in their bytes.
TERN_API tern_status tern_import_codes(tern_layout layout, const void* bytes, size_t byte_count, int64_t n, int64_t k,
                                       const tern_tensor_view* codes);
TERN_API tern_status tern_export_codes(tern_layout layout, const tern_tensor_view* codes, int64_t n, int64_t k,
                                       void* bytes, size_t byte_count);

// The tiles of n x k in the text of a kernel_config.ini, into the spec's fields; its layout stays.
TERN_API tern_status tern_kernel_config_tiles(const char* text, size_t text_bytes, int64_t n, int64_t k,
                                              tern_layout_spec* spec);

// Which orders of i2_s bytes may be in. The reasons go into the buffer, a line each, as texts do.
TERN_API tern_status tern_weigh_i2_s(const void* bytes, size_t byte_count, int64_t n, int64_t k,
                                     tern_i2_s_evidence* out, char* buffer, size_t buffer_bytes, size_t* length);
// The only order that is possible. None is TERN_CORRUPT_FILE; several are TERN_INVALID_ARGUMENT.
TERN_API tern_status tern_detect_i2_s(const void* bytes, size_t byte_count, int64_t n, int64_t k, tern_layout* out);

// What the weight_scale beside hf_packed weights does, by the text of config.json: 1 where it divides, 0 where it
// multiplies. TERN_UNSUPPORTED where the text does not say.
TERN_API tern_status tern_weight_scale_divides(const char* config_json, size_t text_bytes, int32_t* out);

// Packed weights from a layout, through i2; in pieces on a CPU. Scales by granularity are those of layouts that have
// none in their bytes; for the others NULL and 0. Memory as in tern_packed_weights_create().
TERN_API tern_status tern_packed_weights_create_from_layout(const tern_context* context, const tern_layout_spec* spec,
                                                            const void* bytes, size_t byte_count, int64_t n, int64_t k,
                                                            const float* scales, size_t scale_count,
                                                            tern_granularity granularity, void* memory,
                                                            size_t memory_bytes, tern_packed_weights** out);

#ifdef __cplusplus
}  // extern "C"
#endif
