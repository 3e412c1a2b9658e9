// The C ABI around linear: one call for one token, and precisions. tern_c.h includes this file.
#pragma once

#include "tern/tern_c.h"

#ifdef __cplusplus
extern "C" {
#endif

// out = w a, the plain sums of one token: w of m x k, a i8 [k], out i32 [m]. On a GPU the call returns before the work
// is done; the stream's index is taken modulo their number. For many calls make a plan of linear.
TERN_API tern_status tern_w2a8_gemv(const tern_context* context, const tern_packed_weights* weights,
                                    const tern_tensor_view* a, const tern_tensor_view* out, int64_t m, int64_t k,
                                    int32_t stream_index);

// Precisions: the float type of a layer's tokens and results.

// Chooses the float type for a device. A precision that the device lacks becomes f32 and sets *fell_back to 1, or, with
// strict, is TERN_UNSUPPORTED. The reason goes into the buffer, as texts do.
TERN_API tern_status tern_resolve_precision(const tern_context* context, tern_precision asked, int32_t strict,
                                            tern_dtype* used, int32_t* fell_back, char* buffer, size_t buffer_bytes,
                                            size_t* length);

// One precision for one layer: y = x w with tokens rounded to it, w2_float math, and results in it.
typedef struct tern_precision_report {
  size_t struct_size;
  tern_precision asked;
  tern_dtype used;
  int32_t fell_back;    // 1: f32, because the device lacks what was asked for
  const char* because;  // one line
  const char* kernel;
  double sqnr_db;  // against f64 with tokens that were not rounded; NAN: undefined
  double cosine;   // likewise
  double max_error;
  double microseconds;  // median time of a run with tokens and weights in place
  const char* refused;  // in a comparison: why there are no figures, such as a token beyond f16; else ""
} tern_precision_report;

typedef struct tern_precision_reports tern_precision_reports;

// One report. Weights are trits on the host, [n, k]; tokens are f32 on the host, [m, k].
TERN_API tern_status tern_validate_precision_accuracy(const tern_context* context, const tern_quantized* weights,
                                                      const tern_tensor_view* x, tern_precision precision,
                                                      tern_precision_reports** out);
// Reports of f32, f16 and bf16. The optimal one is the fastest whose SQNR is at least min_sqnr_db; f32 when none is.
TERN_API tern_status tern_benchmark_precision_modes(const tern_context* context, const tern_quantized* weights,
                                                    const tern_tensor_view* x, double min_sqnr_db,
                                                    tern_precision_reports** out);
TERN_API tern_status tern_precision_reports_count(const tern_precision_reports* reports, size_t* out);
TERN_API tern_status tern_precision_reports_get(const tern_precision_reports* reports, size_t index,
                                                const tern_precision_report** out);
TERN_API tern_status tern_precision_reports_optimal(const tern_precision_reports* reports, size_t* index);
TERN_API void tern_precision_reports_destroy(tern_precision_reports* reports);

#ifdef __cplusplus
}  // extern "C"
#endif
