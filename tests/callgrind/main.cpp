// Runs one kernel on fixed data, for callgrind to count the instructions of measured(): KERNEL SCHEME GRANULARITY.
// In place of SCHEME, ops with tokens take a type and a number of tokens, as in i8x13, and affine ops a type.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/callgrind/measured.h"

using tern::callgrind::kColumns;
using tern::callgrind::kRows;
using tern::callgrind::run;

namespace {

// Weights in [-1, 1), the same on every machine.
std::vector<float> weights() {
  std::vector<float> values(static_cast<std::size_t>(kRows * kColumns));
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
  }
  return values;
}

int fail(const tern::Error& error) {
  std::fprintf(stderr, "callgrind_cases: %s\n", error.str().c_str());
  return error.code == tern::Code::unsupported ? 77 : 1;  // 77: this machine cannot run the kernel
}

}  // namespace

tern::Result<tern::PackedWeights> pack_trits(const tern::Context& context, const tern::Granularity& granularity,
                                             const std::vector<float>& x) {
  const auto weights =
      tern::quantize(context, {x.data(), tern::DType::f32, {kRows, kColumns}}, {.granularity = granularity});
  if (!weights.ok()) return weights.error();
  return tern::PackedWeights::pack(context, *weights);
}

// Weights of 8 or 4 bits. The instruction count does not depend on the codes.
tern::Result<tern::PackedWeights> pack_bytes(const tern::Context& context, const std::string& kernel,
                                             const tern::Granularity& granularity, const std::vector<float>& x) {
  const bool eight = kernel.find(".s8.") != std::string::npos;
  const std::int64_t line = eight ? kColumns : kColumns / 2;
  return tern::PackedWeights::pack(context, {x.data(), eight ? tern::DType::i8 : tern::DType::u8, {kRows, line}},
                                   {x.data(), tern::DType::f32, {kRows}}, kRows, kColumns, granularity, {},
                                   eight ? tern::Format::s8 : tern::Format::s4);
}

// Runs an op with tokens on packed weights; `words` is the type and number of tokens, as in i8x13.
tern::Status run_tokens(const tern::Context& context, const std::string& kernel, const std::string& words,
                        const tern::Granularity& granularity, std::vector<float>& x) {
  const auto times = words.find('x');
  const auto dtype = tern::parse_dtype(words.substr(0, times));
  if (!dtype.ok()) return dtype.error();
  const std::int64_t m = std::stoll(words.substr(times + 1));
  const bool floats = *dtype == tern::DType::f32;
  std::vector<std::int8_t> q(static_cast<std::size_t>(m * kColumns), 3);
  std::vector<float> scales(static_cast<std::size_t>(m), 3.0F), y(static_cast<std::size_t>(m * kRows));
  std::vector<std::int32_t> sums(static_cast<std::size_t>(m));
  if (kernel.starts_with("activation_quantize."))
    return run<tern::ActivationQuantize>(context, {.m = m, .k = kColumns}, kernel,
                                         {.x = {x.data(), *dtype, {m, kColumns}},
                                          .q = {q.data(), tern::DType::i8, {m, kColumns}},
                                          .scales = {scales.data(), tern::DType::f32, {m}},
                                          .sums = {sums.data(), tern::DType::i32, {m}}});
  const bool ternary = kernel.find(".i2.") != std::string::npos;
  const auto packed = ternary ? pack_trits(context, granularity, x) : pack_bytes(context, kernel, granularity, x);
  if (!packed.ok()) return packed.error();
  tern::Linear::Problem problem{.m_max = m, .k = kColumns, .x_dtype = *dtype};
  if (floats) problem.math = tern::LinearMath::w2_float;
  problem.matrices = {{.n = kRows, .granularity = granularity}};
  problem.format = packed->format();
  const tern::Linear::Output output{.weights = *packed, .y = {y.data(), tern::DType::f32, {m, kRows}}};
  tern::Linear::Args args{.x = {floats ? static_cast<const void*>(x.data()) : q.data(), *dtype, {m, kColumns}},
                          .outputs = {&output, 1}};
  if (!floats) args.x_scales = {scales.data(), tern::DType::f32, {m}};
  return run<tern::Linear>(context, problem, kernel, args);
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: callgrind_cases KERNEL SCHEME GRANULARITY\n");
    return 2;
  }
  const std::string kernel = argv[1];
  const auto op_end = kernel.find('.');
  const auto format = tern::parse_format(kernel.substr(op_end + 1, kernel.find('.', op_end + 1) - op_end - 1));
  const auto granularity = tern::parse_granularity(argv[3]);
  const auto context = tern::Context::open({.threads = 1});
  if (!format.ok()) return fail(format.error());
  if (!granularity.ok() && !tern::callgrind::is_affine(kernel)) return fail(granularity.error());
  if (!context.ok()) return fail(context.error());
  std::vector<float> x = weights();
  if (tern::callgrind::is_affine(kernel)) {
    const tern::Status status = tern::callgrind::run_affine(*context, kernel, argv[2], argv[3], x);
    return status.ok() ? 0 : fail(status.error());
  }
  if (!kernel.starts_with("ternary_")) {
    const tern::Status status = run_tokens(*context, kernel, argv[2], *granularity, x);
    return status.ok() ? 0 : fail(status.error());
  }

  const auto scheme = tern::parse_scheme(argv[2]);
  if (!scheme.ok()) return fail(scheme.error());
  auto q = tern::quantize(*context, {x.data(), tern::DType::f32, {kRows, kColumns}},
                          {.scheme = *scheme, .granularity = *granularity, .format = *format});
  if (!q.ok()) return fail(q.error());
  tern::Status status;
  if (kernel.starts_with("ternary_quantize.")) {
    status = run<tern::TernaryQuantize>(
        *context, {.rows = kRows, .k = kColumns, .scheme = *scheme, .granularity = *granularity, .format = *format},
        kernel,
        {.x = {x.data(), tern::DType::f32, {kRows, kColumns}},
         .codes = q->codes.view(),
         .scales = q->scales.view(),
         .given_scale = {}});
  } else {
    status = run<tern::TernaryDequantize>(
        *context, {.rows = kRows, .k = kColumns, .scheme = *scheme, .granularity = *granularity, .format = *format},
        kernel,
        {.codes = q->codes.view(), .scales = q->scales.view(), .y = {x.data(), tern::DType::f32, {kRows, kColumns}}});
  }
  return status.ok() ? 0 : fail(status.error());
}
