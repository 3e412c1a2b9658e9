// Quantizes a small weight matrix to 2 bits a weight, and puts it back. quantize.c is its C twin.
//
//   c++ -std=c++20 quantize.cpp $(pkg-config --cflags --libs tern) -o quantize && ./quantize
#include <tern/tern.h>

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <vector>

namespace {

constexpr int kRows = 4;
constexpr int kColumns = 256;

int failed(const char* what, const tern::Error& error) {
  std::fprintf(stderr, "%s: %s\n", what, error.str().c_str());
  return 1;
}

}  // namespace

int main() {
  std::vector<float> weights(kRows * kColumns);
  for (int i = 0; i < kRows * kColumns; ++i) weights[i] = static_cast<float>(i * 37 % 201 - 100) / 64;

  // A context is a device with its threads and memory: by default the CPU with all threads this process may use.
  const auto context = tern::Context::open();
  if (!context) return failed("open", context.error());

  // A view does not copy the weights.
  const tern::ConstTensorView x(weights.data(), tern::DType::f32, {kRows, kColumns});

  // One scale per row; the default scheme, absmean, is BitNet's.
  tern::QuantizeOptions options;
  options.granularity = tern::Granularity::row();
  options.measure_quality = true;
  const auto quantized = tern::quantize(*context, x, options);
  if (!quantized) return failed("quantize", quantized.error());

  std::printf("%zu bytes became %zu bytes of codes and %zu scales\n", weights.size() * sizeof(float),
              quantized->codes.bytes(), quantized->scale_values().size());
  std::printf("kernel:   %s\n", quantized->kernel.c_str());  // depends on the machine; the result does not
  std::printf("checksum: %016" PRIx64 "\n", quantized->checksum());
  std::printf("quality:  SQNR %.2f dB, cosine %.4f, %.1f %% zeros\n", quantized->quality->sqnr_db.value_or(NAN),
              quantized->quality->cosine.value_or(NAN), 100 * quantized->quality->zero_fraction);

  // Back to floats: each is -scale, 0 or +scale.
  const auto restored = tern::dequantize(*context, *quantized);
  if (!restored) return failed("dequantize", restored.error());
  for (int i = 0; i < 5; ++i) std::printf("%+.4f -> %+.4f\n", weights[i], restored->as<const float>()[i]);

  // Bad input is refused, with the place and the reason.
  weights[300] = NAN;
  const auto never = tern::quantize(*context, x, options);
  if (never.code() != tern::Code::non_finite) return 1;
  std::printf("element %" PRId64 " is refused: %s\n", never.error().index, never.error().str().c_str());
  return 0;
}
