// The C ABI of other projects' layouts of weights, on the host. tern_c.h includes this file.
#pragma once

#include "tern/tern_c.h"

#ifdef __cplusplus
extern "C" {
#endif

// A layout, with the parameters that its bytes do not record.
typedef struct tern_layout_spec {
  size_t struct_size;
  tern_layout layout;
  int64_t tile_rows;     // of tl1 and tl2: bm of bitnet.cpp's kernel_config.ini
  int64_t tile_columns;  // bk
  int64_t block_rows;    // bmm
} tern_layout_spec;
#define TERN_LAYOUT_SPEC_INIT \
  { sizeof(tern_layout_spec), TERN_LAYOUT_I2, 0, 0, 0 }

// The size of n x k weights.
typedef struct tern_layout_size {
  size_t struct_size;
  size_t bytes;         // scales and padding included
  int64_t row_block;    // pieces of rows begin and end at multiples of it
  int64_t scale_count;  // of scales that are stored inside the bytes
} tern_layout_size;
#define TERN_LAYOUT_SIZE_INIT \
  { sizeof(tern_layout_size), 0, 0, 0 }

// What scales lost because the layout cannot hold them exactly.
typedef struct tern_scale_loss {
  size_t struct_size;
  int64_t changed;          // how many of the given scales changed
  double largest_relative;  // the largest change, relative to the scale
  int64_t index;            // the scale with the largest change; -1: none
} tern_scale_loss;
#define TERN_SCALE_LOSS_INIT \
  { sizeof(tern_scale_loss), 0, 0, -1 }

// Which layout the bytes may have.
typedef struct tern_i2_s_evidence {
  size_t struct_size;
  int32_t x86_128_possible;
  int32_t arm_64_possible;
  int32_t one_by_four_possible;
  float scale;  // the one stored after the codes
} tern_i2_s_evidence;
#define TERN_I2_S_EVIDENCE_INIT \
  { sizeof(tern_i2_s_evidence), 0, 0, 0, 0 }

// Which weights share a scale that is stored inside the layout's bytes. *inside is 0 where the scales are a separate
// tensor.
TERN_API tern_status tern_layout_scales_in(tern_layout layout, int32_t* inside, tern_granularity* out);

// A shape that the layout cannot hold, or an invalid tile, is TERN_UNSUPPORTED.
TERN_API tern_status tern_layout_get_size(const tern_layout_spec* spec, int64_t n, int64_t k, tern_layout_size* out);
// The same size, for layouts without tiles.
TERN_API tern_status tern_layout_bytes(tern_layout layout, int64_t n, int64_t k, size_t* out);

// Converts to canonical i2 codes, u8 [n, ceil(k/4)] with rows that may be strided, and scale_count scales, finite and
// above 0. Bits that encode no trit are TERN_INVALID_QUANTIZED_VALUE with the element as the error's index; a scale
// that is not finite and positive is TERN_INVALID_SCALE; after either, codes and scales are unspecified. Blocks of
// zeros without a scale get the scale 1.
TERN_API tern_status tern_import_weights(const tern_layout_spec* spec, const void* bytes, size_t byte_count, int64_t n,
                                         int64_t k, const tern_tensor_view* codes, float* scales, size_t scale_count);
// The same for rows first_row to first_row + rows - 1, with their scales (or the tensor's one). The bytes are those of
// the whole matrix. Several threads may import pieces at once.
TERN_API tern_status tern_import_rows(const tern_layout_spec* spec, const void* bytes, size_t byte_count, int64_t n,
                                      int64_t k, int64_t first_row, int64_t rows, const tern_tensor_view* codes,
                                      float* scales, size_t scale_count);

// Converts scales by granularity to the out_count scales that the layout stores exactly. A scale that it cannot hold is
// TERN_UNSUPPORTED; with lossy it is rounded to the nearest f16, and several that must become one are averaged. `loss`
// may be NULL.
TERN_API tern_status tern_fit_scales(tern_layout layout, const tern_tensor_view* codes, int64_t n, int64_t k,
                                     const float* scales, size_t scale_count, tern_granularity granularity,
                                     int32_t lossy, float* out, size_t out_count, tern_scale_loss* loss);
// Converts from canonical i2 codes and scales by granularity (none if the layout stores none). `loss` may be NULL.
TERN_API tern_status tern_export_weights(const tern_layout_spec* spec, const tern_tensor_view* codes, int64_t n,
                                         int64_t k, const float* scales, size_t scale_count,
                                         tern_granularity granularity, int32_t lossy, void* bytes, size_t byte_count,
                                         tern_scale_loss* loss);
// Some rows, with scales as tern_fit_scales() returns them. The piece with the last row also writes the bytes after the
// codes.
TERN_API tern_status tern_export_rows(const tern_layout_spec* spec, const tern_tensor_view* codes, int64_t n, int64_t k,
                                      int64_t first_row, int64_t rows, const float* scales, size_t scale_count,
                                      void* bytes, size_t byte_count);

// Only codes, for layouts that store no scales.
TERN_API tern_status tern_import_codes(tern_layout layout, const void* bytes, size_t byte_count, int64_t n, int64_t k,
                                       const tern_tensor_view* codes);
TERN_API tern_status tern_export_codes(tern_layout layout, const tern_tensor_view* codes, int64_t n, int64_t k,
                                       void* bytes, size_t byte_count);

// Reads the tiles of n x k from the text of a kernel_config.ini into the spec; its layout is left as it is.
TERN_API tern_status tern_kernel_config_tiles(const char* text, size_t text_bytes, int64_t n, int64_t k,
                                              tern_layout_spec* spec);

// Which i2_s layouts the bytes may have. The reasons go into the buffer, one a line.
TERN_API tern_status tern_weigh_i2_s(const void* bytes, size_t byte_count, int64_t n, int64_t k,
                                     tern_i2_s_evidence* out, char* buffer, size_t buffer_bytes, size_t* length);
// The only possible layout. If there is none, TERN_CORRUPT_FILE; if there are several, TERN_INVALID_ARGUMENT.
TERN_API tern_status tern_detect_i2_s(const void* bytes, size_t byte_count, int64_t n, int64_t k, tern_layout* out);

// What the weight_scale beside hf_packed weights does, according to the text of config.json: 1 if it divides, 0 if it
// multiplies. TERN_UNSUPPORTED if the text does not say.
TERN_API tern_status tern_weight_scale_divides(const char* config_json, size_t text_bytes, int32_t* out);

// Packs weights from a layout, by way of i2; in pieces on a CPU. Give scales and granularity only for layouts that
// store no scales; for the others NULL and 0. The memory is as in tern_packed_weights_create().
TERN_API tern_status tern_packed_weights_create_from_layout(const tern_context* context, const tern_layout_spec* spec,
                                                            const void* bytes, size_t byte_count, int64_t n, int64_t k,
                                                            const float* scales, size_t scale_count,
                                                            tern_granularity granularity, void* memory,
                                                            size_t memory_bytes, tern_packed_weights** out);

#ifdef __cplusplus
}  // extern "C"
#endif
