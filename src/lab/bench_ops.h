// The ops that can be benched: each is a bench.cpp in its op's folder and one line here.
#pragma once

#include "lab/bench.h"

namespace tern::lab {

Result<OpCase> bench_ternary_quantize(const BenchRequest& request, const Context& context);
Result<OpCase> bench_ternary_dequantize(const BenchRequest& request, const Context& context);
Result<OpCase> bench_activation_quantize(const BenchRequest& request, const Context& context);
Result<OpCase> bench_linear(const BenchRequest& request, const Context& context);
Result<OpCase> bench_affine_quantize(const BenchRequest& request, const Context& context);
Result<OpCase> bench_affine_dequantize(const BenchRequest& request, const Context& context);
Result<OpCase> bench_fake_quantize(const BenchRequest& request, const Context& context);
Result<OpCase> bench_fake_quantize_backward(const BenchRequest& request, const Context& context);
Result<OpCase> bench_choose_qparams(const BenchRequest& request, const Context& context);
Result<OpCase> bench_dynamic_quantize(const BenchRequest& request, const Context& context);

struct OpBench {
  std::string_view op;
  Result<OpCase> (*make)(const BenchRequest& request, const Context& context);
};

inline constexpr OpBench kOpBenches[] = {
    {"ternary_quantize", bench_ternary_quantize},
    {"ternary_dequantize", bench_ternary_dequantize},
    {"activation_quantize", bench_activation_quantize},
    {"linear", bench_linear},
    {"affine_quantize", bench_affine_quantize},
    {"affine_dequantize", bench_affine_dequantize},
    {"fake_quantize", bench_fake_quantize},
    {"fake_quantize_backward", bench_fake_quantize_backward},
    {"choose_qparams", bench_choose_qparams},
    {"dynamic_quantize", bench_dynamic_quantize},
};

}  // namespace tern::lab
