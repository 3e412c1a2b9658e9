// Makes linear problems with data of chosen patterns, and runs kernels on them without a plan, between guard pages.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/half.h"
#include "format/format.h"
#include "lab/weights.h"
#include "ops/activation_quantize/activation_quantize.h"
#include "ops/linear/linear.h"
#include "tests/support/guarded.h"
#include "tests/support/quantize_runner.h"

namespace tern::test {

using lab::Random;

enum class X : std::uint8_t { random, top, bottom, large, alternating };
enum class W : std::uint8_t { random, plus, minus };

// A problem with its data. A run uses x_bytes, or x_floats rounded to x_dtype.
struct LinearCase {
  Linear::Problem problem;
  std::int64_t m = 1;
  std::vector<std::int8_t> x_bytes;
  std::vector<float> x_floats, x_scales;
  std::vector<PackedWeights> weights;
  std::vector<std::vector<std::uint8_t>> codes;  // canonical, for tests that check them
  std::vector<std::vector<float>> scales, bias, residual;
  std::int64_t x_gap = 0, y_gap = 0;  // elements between rows
};

// A random scale whose products are hardly ever exact.
inline float odd_scale(Random& random) { return 0.001F + static_cast<float>(random.below(1'000'003)) / 997'001.0F; }

inline PackedWeights pack_for_test(const std::vector<std::uint8_t>& codes, const std::vector<float>& scales,
                                   std::int64_t n, std::int64_t k, const Granularity& granularity,
                                   Format format = Format::i2) {
  const auto bytes = packed_weights_bytes(n, k, granularity, format);
  auto memory = Tensor::allocate(host_memory(), DType::u8, {static_cast<std::int64_t>(*bytes)});
  auto state = pack_weights({codes.data(), row_bytes(format, k), scales.data(), n, k, granularity, format}, pool_of(1),
                            memory->as<std::byte>());
  if (!state.ok()) return {};
  state->memory = *std::move(memory);
  return PackedWeights(std::make_shared<const PackedWeights::State>(*std::move(state)));
}

// Fills a case's activations with a pattern.
inline void fill_activations(LinearCase& c, Random& random, X x) {
  c.x_bytes.clear();
  c.x_floats.clear();
  for (std::int64_t i = 0; i < c.m * c.problem.k; ++i) {
    int v = static_cast<int>(random.below(256)) - 128;
    if (x == X::top) v = 127;
    if (x == X::bottom) v = -128;
    if (x == X::large) v = 96 + static_cast<int>(random.below(32));
    if (x == X::alternating) v = i % 2 == 0 ? 127 : -128;
    c.x_bytes.push_back(static_cast<std::int8_t>(v));
    c.x_floats.push_back(static_cast<float>(v) * 0.0137F * static_cast<float>(1 + random.below(3)));
  }
}

// A weight of a format: random, the largest or the smallest.
inline std::int8_t make_weight(Random& random, Format format, W w) {
  const CodeRange range = is_trits(format) ? CodeRange{-1, 1} : code_range(format);
  if (w != W::random) return static_cast<std::int8_t>(w == W::plus ? range.max : range.min);
  return static_cast<std::int8_t>(range.min + static_cast<int>(random.below(range.max - range.min + 1)));
}

inline LinearCase make_case(const Linear::Problem& problem, Random& random, X x = X::random, W w = W::random) {
  LinearCase c{.problem = problem, .m = problem.m_max};
  const std::int64_t k = problem.k;
  fill_activations(c, random, x);
  for (std::int64_t i = 0; i < c.m; ++i) c.x_scales.push_back(odd_scale(random) * 40);
  for (const Linear::Matrix& matrix : problem.matrices) {
    const std::int64_t code_bytes = row_bytes(problem.format, k);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(matrix.n * code_bytes));
    std::vector<std::int8_t> row(static_cast<std::size_t>(k));
    for (std::int64_t n = 0; n < matrix.n; ++n) {
      for (std::int8_t& weight : row) weight = make_weight(random, problem.format, w);
      pack_row(problem.format, row.data(), k, codes.data() + n * code_bytes);
    }
    std::vector<float> scales, bias, residual;
    for (std::int64_t i = 0; i < make_ranges(matrix.n, k, matrix.granularity).total; ++i)
      scales.push_back(odd_scale(random) * (is_trits(problem.format) || i % 3 > 0 ? 1.0F : -1.0F));
    for (std::int64_t i = 0; i < matrix.n; ++i) bias.push_back(odd_scale(random) * 100 - 50);
    for (std::int64_t i = 0; i < c.m * matrix.n; ++i) residual.push_back(odd_scale(random) * 1000 - 500);
    c.weights.push_back(pack_for_test(codes, scales, matrix.n, k, matrix.granularity, problem.format));
    c.codes.push_back(std::move(codes));
    c.scales.push_back(std::move(scales));
    c.bias.push_back(std::move(bias));
    c.residual.push_back(std::move(residual));
  }
  return c;
}

inline void put(std::byte* at, DType dtype, float v) {
  if (dtype == DType::f32) {
    std::memcpy(at, &v, 4);
  } else if (dtype == DType::i32) {
    const auto i = static_cast<std::int32_t>(v);
    std::memcpy(at, &i, 4);
  } else {
    const std::uint16_t half = dtype == DType::f16 ? half::to_f16(v) : half::to_bf16(v);
    std::memcpy(at, &half, 2);
  }
}

// Rows of elements between guard pages, with a gap between rows.
class GuardedRows {
 public:
  GuardedRows(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t gap)
      : dtype_(dtype), rows_(rows), columns_(columns), stride_(columns + gap), bytes_(size(rows, columns, gap)) {}
  [[nodiscard]] TensorView view() {
    TensorView v(bytes_.data(), dtype_, {rows_, columns_});
    v.strides[0] = stride_;
    return v;
  }
  std::byte* at(std::int64_t row, std::int64_t column) {
    return reinterpret_cast<std::byte*>(bytes_.data()) +
           (row * stride_ + column) * static_cast<std::int64_t>(size_of(dtype_));
  }
  // The elements, without the gaps.
  std::vector<std::byte> elements() {
    std::vector<std::byte> all;
    for (std::int64_t row = 0; row < rows_; ++row)
      if (columns_ > 0)
        all.insert(all.end(), at(row, 0), at(row, 0) + columns_ * static_cast<std::int64_t>(size_of(dtype_)));
    return all;
  }

 private:
  [[nodiscard]] std::size_t size(std::int64_t rows, std::int64_t columns, std::int64_t gap) const {
    return static_cast<std::size_t>(rows == 0 ? 0 : (rows - 1) * (columns + gap) + columns) * size_of(dtype_);
  }
  DType dtype_;
  std::int64_t rows_, columns_, stride_;
  Guarded<std::uint8_t> bytes_;
};

struct LinearResult {
  Status status;
  std::vector<std::vector<std::byte>> y;  // one for each matrix
};

inline LinearResult run_linear(const KernelEntry& entry, const LinearCase& c, int threads = 1,
                               const Tuning* tuning = nullptr) {
  const Linear::Problem& p = c.problem;
  GuardedRows x(p.x_dtype, c.m, p.k, c.x_gap);
  for (std::int64_t m = 0; m < c.m; ++m)
    for (std::int64_t i = 0; i < p.k; ++i) {
      const auto at = static_cast<std::size_t>(m * p.k + i);
      if (p.x_dtype == DType::i8)
        std::memcpy(x.at(m, i), &c.x_bytes[at], 1);
      else
        put(x.at(m, i), p.x_dtype, c.x_floats[at]);
    }
  Guarded<float> x_scales(c.x_scales.size());
  std::ranges::copy(c.x_scales, x_scales.data());
  std::vector<std::unique_ptr<GuardedRows>> y, residual;
  std::vector<std::unique_ptr<Guarded<float>>> bias;
  std::vector<Linear::Output> outputs;
  for (std::size_t i = 0; i < p.matrices.size(); ++i) {
    const Linear::Matrix& matrix = p.matrices[i];
    y.push_back(std::make_unique<GuardedRows>(matrix.y_dtype, c.m, matrix.n, c.y_gap));
    residual.push_back(std::make_unique<GuardedRows>(matrix.y_dtype, c.m, matrix.n, c.y_gap));
    for (std::int64_t m = 0; m < c.m; ++m)
      for (std::int64_t n = 0; n < matrix.n; ++n)
        put(residual[i]->at(m, n), matrix.y_dtype, c.residual[i][static_cast<std::size_t>(m * matrix.n + n)]);
    bias.push_back(std::make_unique<Guarded<float>>(c.bias[i].size()));
    std::ranges::copy(c.bias[i], bias[i]->data());
    outputs.push_back({.weights = c.weights[i], .y = y[i]->view()});
    if (matrix.bias) outputs[i].bias = {bias[i]->data(), DType::f32, {matrix.n}};
    if (matrix.residual) outputs[i].residual = residual[i]->view();
  }
  Linear::Args args{.x = x.view(), .outputs = outputs};
  if (p.x_dtype == DType::i8) args.x_scales = {x_scales.data(), DType::f32, {c.m}};

  LinearResult out;
  auto facts = OpTraits<Linear>::facts(p);
  if (!facts.ok()) {
    out.status = std::move(facts).error();
    return out;
  }
  auto params = OpTraits<Linear>::bind(p, args);
  if (!params.ok()) {
    out.status = std::move(params).error();
    return out;
  }
  if (!OpTraits<Linear>::empty(*params)) out.status = run_entry(entry, p, *params, threads, tuning);
  for (auto& rows : y) out.y.push_back(rows->elements());
  return out;
}

// The kernels that GPU tests compare: the GPU's kernels of a format, best first, and the CPU's best, which other tests
// compare with the reference. `cuda` is empty without a GPU or if it has no kernel of the format.
struct GpuAndCpu {
  std::vector<NamedKernel> cuda;
  NamedKernel cpu;
};
inline GpuAndCpu gpu_and_cpu_kernels(Format format) {
  GpuAndCpu found;
  for (const NamedKernel& kernel : runnable_kernels("linear", format))
    if (kernel.on_gpu)
      found.cuda.push_back(kernel);
    else if (found.cpu.name.empty())
      found.cpu = kernel;
  return found;
}

inline std::string describe(const LinearCase& c) {
  const Linear::Problem& p = c.problem;
  std::string text = std::string(name(p.format)) + " m " + std::to_string(c.m) + " k " + std::to_string(p.k) + " x " +
                     std::string(name(p.x_dtype)) + " " + std::string(name(p.math));
  for (const Linear::Matrix& m : p.matrices)
    text += "; n " + std::to_string(m.n) + " " + name(m.granularity) + " y " + std::string(name(m.y_dtype)) +
            (m.bias ? " bias" : "") + (m.activation == Activation::none ? "" : " squared_relu") +
            (m.residual ? " residual" : "");
  return text;
}

}  // namespace tern::test
