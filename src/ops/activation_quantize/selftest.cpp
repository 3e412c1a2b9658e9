// Compares an activation_quantize kernel with the reference on tokens of every pattern, and on one that is not finite.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/errors.h"
#include "base/half.h"
#include "lab/op_selftest.h"
#include "lab/weights.h"
#include "plan/run_once.h"
#include "tern/linear.h"

namespace tern::lab {
namespace {

// x converted to dtype, as bytes.
std::vector<std::byte> stored(const std::vector<float>& x, DType dtype) {
  std::vector<std::byte> bytes(x.size() * size_of(dtype));
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (dtype == DType::f32) {
      std::memcpy(bytes.data() + 4 * i, &x[i], 4);
      continue;
    }
    const std::uint16_t half = dtype == DType::f16 ? half::to_f16(x[i]) : half::to_bf16(x[i]);
    std::memcpy(bytes.data() + 2 * i, &half, 2);
  }
  return bytes;
}

// Runs a kernel. Returns q, then scales, then sums.
Result<std::vector<std::byte>> run(const Context& context, const std::string& kernel,
                                   const ActivationQuantize::Problem& p, const std::vector<std::byte>& x) {
  TERN_ASSIGN(plan, ActivationQuantizePlan::select(context, p, {.kernel = kernel, .strict = true}));
  const auto q_bytes = static_cast<std::size_t>(p.m * p.k), token_bytes = static_cast<std::size_t>(p.m) * 4;
  std::vector<std::byte> q(q_bytes, std::byte{0xEE}), scales(token_bytes), sums(token_bytes);
  TERN_ASSIGN(x_there, upload(context, x.data(), p.dtype, {p.m, p.k}));
  TERN_ASSIGN(q_there, upload(context, q.data(), DType::i8, {p.m, p.k}));
  TERN_ASSIGN(scales_there, upload(context, scales.data(), DType::f32, {p.m}));
  TERN_ASSIGN(sums_there, upload(context, sums.data(), DType::i32, {p.m}));
  TERN_RETURN_IF_ERROR(
      run_once(context, plan,
               {.x = x_there.view(), .q = q_there.view(), .scales = scales_there.view(), .sums = sums_there.view()}));
  TERN_RETURN_IF_ERROR(download(context, q_there, q.data()));
  TERN_RETURN_IF_ERROR(download(context, scales_there, scales.data()));
  TERN_RETURN_IF_ERROR(download(context, sums_there, sums.data()));
  q.insert(q.end(), scales.begin(), scales.end());
  q.insert(q.end(), sums.begin(), sums.end());
  return q;
}

}  // namespace

Result<Comparison> selftest_activation_quantize(const Context& context, const KernelDescription& kernel) {
  constexpr std::int64_t kSizes[] = {1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000, 2560};
  const Context cpu = reference_context();
  Comparison comparison;
  Random random(20240302);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const Pattern pattern : kPatterns)
      for (int repetition = 0; repetition < 10; ++repetition) {
        const ActivationQuantize::Problem p{.m = 1 + random.below(5), .k = kSizes[random.below(14)], .dtype = dtype};
        std::vector<float> x(static_cast<std::size_t>(p.m * p.k));
        fill_weights(pattern, random, x.data(), p.m * p.k);
        for (float& v : x) v = dtype == DType::f16 && std::fabs(v) > 65000.0F ? 65000.0F : v;
        std::vector<std::byte> bytes = stored(x, dtype);
        TERN_ASSIGN(want, run(cpu, reference_of(kernel), p, bytes));
        TERN_ASSIGN(got, run(context, kernel.name, p, bytes));
        ++comparison.problems;
        const auto [at, expected] = std::ranges::mismatch(got, want);
        std::string what;
        if (at != got.end()) what = fmt::format("byte {} of q, scales and sums differs", at - got.begin());
        if (what.empty()) {
          const auto broken = static_cast<std::size_t>(random.below(p.m * p.k));
          x[broken] = std::numeric_limits<float>::infinity();
          const auto refused = run(context, kernel.name, p, stored(x, dtype));
          if (refused.ok() || refused.error().index != static_cast<std::int64_t>(broken))
            what = fmt::format("an infinity at element {} was not named", broken);
        }
        if (what.empty()) continue;
        comparison.difference = fmt::format("{} tokens of {} {}, {}: {}", p.m, p.k, name(dtype), name(pattern), what);
        return comparison;
      }
  return comparison;
}

}  // namespace tern::lab
