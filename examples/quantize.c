// Quantizes a small weight matrix to 2 bits a weight through the C ABI, and puts it back. quantize.cpp is its C++ twin.
//
//   cc quantize.c $(pkg-config --cflags --libs tern) -o quantize && ./quantize
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <tern/tern_c.h>

enum { kRows = 4, kColumns = 256 };

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tern_last_error()->text);
  return 1;
}

int main(void) {
  static float weights[kRows * kColumns];
  for (int i = 0; i < kRows * kColumns; ++i) weights[i] = (float)(i * 37 % 201 - 100) / 64;

  // A context is a device with its threads and memory. NULL means the CPU with all threads this process may use.
  tern_context* context = NULL;
  if (tern_context_open(NULL, &context) != TERN_OK) return failed("open");

  // A view does not copy the weights. Strides of zero mean a dense tensor.
  tern_tensor_view x = {.data = weights, .dtype = TERN_DTYPE_F32, .rank = 2, .shape = {kRows, kColumns}};

  // One scale per row; the default scheme, absmean, is BitNet's.
  tern_quantize_options options = TERN_QUANTIZE_OPTIONS_INIT;
  options.granularity.kind = TERN_GRANULARITY_ROW;
  options.measure_quality = 1;
  tern_quantized* quantized = NULL;
  if (tern_quantize(context, &x, &options, &quantized) != TERN_OK) return failed("quantize");

  const tern_quantized_info* info = NULL;
  uint64_t checksum = 0;
  if (tern_quantized_get_info(quantized, &info) != TERN_OK) return failed("info");
  if (tern_quantized_checksum(quantized, &checksum) != TERN_OK) return failed("checksum");
  printf("%zu bytes became %zu bytes of codes and %zu scales\n", sizeof(weights), info->codes_bytes, info->scale_count);
  printf("kernel:   %s\n", info->kernel);  // depends on the machine; the result does not
  printf("checksum: %016" PRIx64 "\n", checksum);
  printf("quality:  SQNR %.2f dB, cosine %.4f, %.1f %% zeros\n", info->quality->sqnr_db, info->quality->cosine,
         100 * info->quality->zero_fraction);

  // Back to floats: each is -scale, 0 or +scale.
  tern_tensor* restored = NULL;
  tern_tensor_view y = TERN_TENSOR_VIEW_INIT;
  if (tern_dequantize(context, quantized, TERN_DTYPE_F32, &restored) != TERN_OK) return failed("dequantize");
  if (tern_tensor_get_view(restored, &y) != TERN_OK) return failed("view");
  for (int i = 0; i < 5; ++i) printf("%+.4f -> %+.4f\n", weights[i], ((const float*)y.data)[i]);

  // Bad input is refused, with the place and the reason.
  tern_quantized* never = NULL;
  weights[300] = NAN;
  if (tern_quantize(context, &x, &options, &never) != TERN_NON_FINITE) return failed("a NaN was not refused");
  printf("element %" PRId64 " is refused: %s\n", tern_last_error()->index, tern_last_error()->text);

  tern_tensor_destroy(restored);
  tern_quantized_destroy(quantized);
  tern_context_close(context);
  return 0;
}
