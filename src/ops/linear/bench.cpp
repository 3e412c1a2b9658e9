// linear for the bench: with few tokens the limit is the streaming read of the weights, with many it is arithmetic.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/errors.h"
#include "format/format.h"
#include "format/ranges.h"
#include "lab/blas_baselines.h"
#include "lab/cublas_baselines.h"
#include "lab/models.h"
#include "lab/op_bench.h"
#include "lab/ternary_problems.h"
#include "ops/dot/packed_weights.h"
#include "tern/linear.h"

namespace tern::lab {
namespace {

constexpr std::int64_t kComputeBound = 8, kGpuComputeBound = 64;  // from this many tokens on, arithmetic is the limit

// Activations, outputs, and copies of the weights that are used in turn.
struct Buffers {
  Tensor x, x_scales;
  std::vector<Tensor> y;
  Rotation memory;
  std::vector<std::vector<Linear::Output>> outputs;  // of each copy
};

nlohmann::ordered_json json_of(const Linear::Problem& p) {
  nlohmann::ordered_json n = nlohmann::ordered_json::array();
  std::int64_t rows = 0;
  for (const Linear::Matrix& matrix : p.matrices) {
    n.push_back(matrix.n);
    rows += matrix.n;
  }
  return {{"rows", rows},
          {"cols", p.k},
          {"n", n},
          {"m", p.m_max},
          {"dtype", name(p.x_dtype)},
          {"math", name(p.math)},
          {"granularity", name(p.matrices.front().granularity)},
          {"format", name(p.format)},
          {"y", name(p.matrices.front().y_dtype)}};
}

// Random activations, on the device of the context.
Result<Tensor> random_x(const Context& context, Random& random, DType dtype, std::int64_t m, std::int64_t k) {
  TERN_ASSIGN(host, Tensor::allocate(host_memory(), dtype, {m, k}, "bench"));
  for (std::int64_t i = 0; i < m * k; ++i) {
    const float v = random.gaussian();
    const auto q = static_cast<std::int8_t>(static_cast<int>(random.below(255)) - 127);
    const auto bf16 = static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, v) >> 16);
    const auto f16 = static_cast<std::uint16_t>(0x3000 + random.below(0x800));  // positive halves between 1/8 and 1/2
    std::byte* at = host.as<std::byte>().data() + i * static_cast<std::int64_t>(size_of(dtype));
    if (dtype == DType::i8) std::memcpy(at, &q, 1);
    if (dtype == DType::f32) std::memcpy(at, &v, 4);
    if (dtype == DType::bf16) std::memcpy(at, &bf16, 2);
    if (dtype == DType::f16) std::memcpy(at, &f16, 2);
  }
  return host.to(context);
}

}  // namespace

template <>
Result<OpCase> bench_problem<Linear>(const BenchRequest& request, const Context& context, const Linear::Problem& p) {
  TERN_RETURN_IF_ERROR(check_kernels<Linear>(request, context, p));
  const auto buffers = std::make_shared<Buffers>();
  Random random(1);
  std::vector<std::size_t> part_bytes;
  OpCase op_case;
  op_case.problem = json_of(p);
  double products = 0;
  op_case.bytes = p.m_max * p.k * static_cast<std::int64_t>(size_of(p.x_dtype));
  for (const Linear::Matrix& matrix : p.matrices) {
    TERN_ASSIGN(bytes, PackedWeights::packed_bytes(context, matrix.n, p.k, matrix.granularity, p.format));
    part_bytes.push_back(bytes);
    const std::int64_t scales = make_ranges(matrix.n, p.k, matrix.granularity).total;
    op_case.bytes += matrix.n * row_bytes(p.format, p.k) + 4 * scales +
                     p.m_max * matrix.n * static_cast<std::int64_t>(size_of(matrix.y_dtype));
    products += static_cast<double>(p.m_max) * static_cast<double>(matrix.n) * static_cast<double>(p.k);
    TERN_ASSIGN(y, Tensor::allocate(context.memory(), matrix.y_dtype, {p.m_max, matrix.n}, "bench"));
    buffers->y.push_back(std::move(y));
  }
  TERN_ASSIGN(memory, Rotation::make(request, context, part_bytes));
  buffers->memory = std::move(memory);
  buffers->outputs.resize(static_cast<std::size_t>(buffers->memory.copies()));
  for (std::size_t i = 0; i < p.matrices.size(); ++i) {
    const Linear::Matrix& matrix = p.matrices[i];
    const auto codes = random_codes(random, p.format, matrix.n, p.k, weight_range(p.format));
    std::vector<float> scales(static_cast<std::size_t>(make_ranges(matrix.n, p.k, matrix.granularity).total));
    for (float& s : scales) s = 0.01F + std::fabs(random.gaussian());
    for (std::int64_t copy = 0; copy < buffers->memory.copies(); ++copy) {
      TERN_ASSIGN(weights, PackedWeights::pack(
                               context, {codes.data(), code_dtype(p.format), {matrix.n, row_bytes(p.format, p.k)}},
                               {scales.data(), DType::f32, {static_cast<std::int64_t>(scales.size())}}, matrix.n, p.k,
                               matrix.granularity,
                               {static_cast<std::byte*>(buffers->memory.part(i, copy)), part_bytes[i]}, p.format));
      buffers->outputs[static_cast<std::size_t>(copy)].push_back({.weights = weights, .y = buffers->y[i].view()});
    }
  }
  TERN_ASSIGN(x, random_x(context, random, p.x_dtype, p.m_max, p.k));
  buffers->x = std::move(x);
  TERN_ASSIGN(x_scales, Tensor::allocate(host_memory(), DType::f32, {p.m_max}, "bench"));
  std::ranges::fill(x_scales.as<float>(), 50.0F);
  TERN_ASSIGN(scales_there, x_scales.to(context));
  buffers->x_scales = std::move(scales_there);

  std::vector<Linear::Args> args;
  for (const auto& outputs : buffers->outputs) {
    args.push_back({.x = std::as_const(buffers->x).view(), .outputs = outputs});
    if (p.x_dtype == DType::i8) args.back().x_scales = std::as_const(buffers->x_scales).view();
  }
  op_case.operations = 2 * products;
  const bool on_gpu = context.device().id.kind == DeviceKind::cuda;
  if (p.m_max < (on_gpu ? kGpuComputeBound : kComputeBound))
    op_case.limit = Limit::streaming_read;
  else if (p.math == LinearMath::w2_float)
    op_case.limit = on_gpu ? Limit::gpu_bf16_peak : Limit::f32_peak;
  else
    op_case.limit = Limit::int8_peak;
  if (!buffers->memory.note().empty()) op_case.notes.push_back(buffers->memory.note());
  op_case.ready = [buffers, p, args](const Context& on, const Preference& preference) {
    return plan_subject<Linear>(on, p, preference, args, buffers);
  };
  if (request.baselines)
    op_case.baselines = on_gpu ? cublas_baselines(request, context, p) : blas_baselines(request, context, p);
  return op_case;
}

template <>
Result<OpCase> own_bench<Linear>(const BenchRequest& request, const Context& context) {
  TERN_ASSIGN(words, words_of(request, OpTraits<Linear>::kWords, 2560, 2560));
  const Linear::Problem p = OpTraits<Linear>::problem(words);
  if (p.m_max < 1) return error(Code::invalid_argument, request.op, "{} tokens leave nothing to measure", p.m_max);
  return bench_problem<Linear>(request, context, p);
}

}  // namespace tern::lab
