// An outside C program: quantizes a few floats through the installed C ABI, checks every code, and prints one line.
#include <stdio.h>
#include <string.h>
#include <tern/tern_c.h>

static int fail(const char* what) {
  fprintf(stderr, "consumer: %s: %s\n", what, tern_last_error()->text);
  return 1;
}

// max abs is 4, so weights above 2 in magnitude become +-1. code = trit + 1, the first trit in the lowest bits.
static int check_codes(const tern_context* context) {
  float x[8] = {4, -3, 2, 0, -0.5F, 2.5F, -4, -2};
  const uint8_t expected[2] = {0x52, 0x49};  // 01'01'00'10 and 01'00'10'01
  tern_tensor_view view = TERN_TENSOR_VIEW_INIT;
  view.data = x;
  view.rank = 2;
  view.shape[0] = 2;
  view.shape[1] = 4;
  tern_quantize_options options = TERN_QUANTIZE_OPTIONS_INIT;
  options.scheme = TERN_SCHEME_ABSMAX;
  tern_quantized* quantized = NULL;
  if (tern_quantize(context, &view, &options, &quantized) != TERN_OK) return fail("quantize");
  const tern_quantized_info* info = NULL;
  int wrong = 0;
  if (tern_quantized_get_info(quantized, &info) != TERN_OK)
    wrong = fail("info");
  else if (info->codes_bytes != sizeof expected || memcmp(info->codes.data, expected, sizeof expected) != 0)
    wrong = fail("wrong codes");
  tern_quantized_destroy(quantized);
  return wrong;
}

int main(void) {
  if (strcmp(tern_version(), TERN_VERSION) != 0) return fail("headers and library are of different versions");
  tern_context* context = NULL;
  if (tern_context_open(NULL, &context) != TERN_OK) return fail("context");
  if (tern_quantize(context, NULL, NULL, NULL) != TERN_INVALID_ARGUMENT) return fail("a null tensor was taken");
  const int wrong = check_codes(context);
  tern_context_close(context);
  if (!wrong) printf("tern %s: codes as expected\n", tern_version());
  return wrong;
}
