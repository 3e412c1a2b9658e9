// An outside program: quantizes a few floats through the installed API, checks every code, and prints one line.
#include <tern/tern.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

int fail(const std::string& what) {
  std::fprintf(stderr, "consumer: %s\n", what.c_str());
  return 1;
}

// max abs is 4, so weights above 2 in magnitude become +-1, and 2 itself becomes 0.
int check_codes(const tern::Context& context) {
  const std::array<float, 8> x{4.0F, -3.0F, 2.0F, 0.0F, -0.5F, 2.5F, -4.0F, -2.0F};
  const std::array<std::int8_t, 8> expected{1, -1, 0, 0, 0, 1, -1, 0};
  const tern::ConstTensorView view(x.data(), tern::DType::f32, {2, 4});
  tern::QuantizeOptions options;
  options.scheme = tern::Scheme::absmax;
  options.format = tern::Format::i8;
  const auto plain = tern::quantize(context, view, options);
  if (!plain.ok()) return fail(plain.error().str());
  const auto codes = plain->codes.as<const std::int8_t>();
  if (!std::equal(expected.begin(), expected.end(), codes.begin(), codes.end())) return fail("wrong i8 codes");
  if (plain->scale_values()[0] != 4.0F) return fail("wrong scale");

  options.format = tern::Format::i2;
  const auto packed = tern::quantize(context, view, options);
  if (!packed.ok()) return fail(packed.error().str());
  const auto bytes = packed->quantized_data();  // code = trit + 1, the first trit in the lowest bits
  if (bytes.size() != 2 || bytes[0] != 0b01'01'00'10 || bytes[1] != 0b01'00'10'01) return fail("wrong i2 bytes");

  const auto back = tern::dequantize(context, *packed);
  if (!back.ok()) return fail(back.error().str());
  for (std::size_t i = 0; i < x.size(); ++i)
    if (back->as<const float>()[i] != 4.0F * static_cast<float>(expected[i]))
      return fail("wrong value after the way back");
  return 0;
}

// Fast-math of the outer project must not affect the library: NaN is found, denormals are kept.
int check_arithmetic(const tern::Context& context) {
  const std::array<std::uint32_t, 4> bits{0x3f800000, 0x7fc00000, 0, 0};  // 1, NaN, 0, 0
  const auto refused = tern::quantize(context, {bits.data(), tern::DType::f32, {1, 4}});
  if (refused.ok() || refused.code() != tern::Code::non_finite || refused.error().index != 1)
    return fail("a NaN at index 1 was not refused");

  const std::array<std::uint32_t, 4> denormals{512, 0x80000400, 0, 0x80000200};  // 1, -2, 0 and -1 times 2^-140
  const auto scale = std::bit_cast<float>(std::uint32_t{512});
  tern::QuantizeOptions options;
  options.scheme = tern::Scheme::int2;
  options.format = tern::Format::i8;
  options.scale = {&scale, 1};
  const auto kept = tern::quantize(context, {denormals.data(), tern::DType::f32, {1, 4}}, options);
  if (!kept.ok()) return fail(kept.error().str());
  const std::array<std::int8_t, 4> expected{1, -2, 0, -1};
  if (std::memcmp(kept->codes.data(), expected.data(), 4) != 0) return fail("denormals were flushed");
  return 0;
}

// Plans are templates; a shared library offers only the instances that it exports.
int check_plans(const tern::Context& context) {
  tern::TernaryQuantize::Problem there;
  tern::TernaryDequantize::Problem back;
  there.k = back.k = 4;
  tern::Linear::Problem linear;
  linear.matrices.resize(1);
  if (!tern::TernaryQuantizePlan::select(context, there).ok()) return fail("no plan to quantize");
  if (!tern::TernaryDequantizePlan::select(context, back).ok()) return fail("no plan to dequantize");
  if (!tern::ActivationQuantizePlan::select(context, {}).ok()) return fail("no plan for activations");
  if (!tern::LinearPlan::select(context, linear).ok()) return fail("no plan for linear");
  return 0;
}

}  // namespace

int main() {
  if (std::string(tern::version()) != TERN_VERSION) return fail("headers and library are of different versions");
  const auto context = tern::Context::open();
  if (!context.ok()) return fail(context.error().str());
  if (check_codes(*context) != 0 || check_arithmetic(*context) != 0 || check_plans(*context) != 0) return 1;
  std::printf("tern %s: codes as expected\n", tern::version());
  return 0;
}
