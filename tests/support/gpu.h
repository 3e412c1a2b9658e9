// Runs CUDA kernels in tests written for the host: copies a kernel's inputs and outputs to a GPU, between guard bytes,
// and the results back. Without a GPU these kernels are left out, and one test says so.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <vector>

#include "format/format.h"
#include "ops/activation_quantize/activation_quantize.h"
#include "ops/affine_dequantize/affine_dequantize.h"
#include "ops/affine_quantize/affine_quantize.h"
#include "ops/choose_qparams/choose_qparams.h"
#include "ops/dynamic_quantize/dynamic_quantize.h"
#include "ops/fake_quantize/fake_quantize.h"
#include "ops/fake_quantize_backward/fake_quantize_backward.h"
#include "ops/kernel.h"
#include "ops/linear/linear.h"
#include "ops/ternary_dequantize/ternary_dequantize.h"
#include "ops/ternary_quantize/ternary_quantize.h"
#include "plan/context_state.h"
#include "tests/support/no_gpu.h"

namespace tern::test {

// The first GPU, or null if there is none. If it cannot be used, the calling test fails.
inline const Context* gpu() {
  static const auto context = Context::open(DeviceId{DeviceKind::cuda, 0});
  if (!context.ok() && !no_gpu(context.error())) ADD_FAILURE() << "the GPU cannot be used: " << context.error().str();
  return context.ok() ? &*context : nullptr;
}

// The tuning of kernels that run through the GPU; null for the default.
inline const Tuning* asked_tuning = nullptr;

// A copy of host bytes on the GPU with the same alignment, between poisoned bytes.
class OnGpu {
 public:
  static constexpr std::size_t kGuard = 256;
  static constexpr std::uint8_t kPoison = 0xA7;

  // The copy begins at a multiple of `element`, because a GPU needs aligned elements.
  OnGpu(const void* host, std::int64_t bytes, std::size_t element = 1)
      : host_(host), bytes_(static_cast<std::size_t>(bytes)) {
    image_.assign(bytes_ + 3 * kGuard, kPoison);
    begin_ = kGuard + reinterpret_cast<std::uintptr_t>(host) % kGuard / element * element;
    if (bytes_ > 0) std::memcpy(image_.data() + begin_, host, bytes_);
    memory_ = *Tensor::allocate(gpu()->memory(), DType::u8, {static_cast<std::int64_t>(image_.size())}, "test");
    EXPECT_TRUE(gpu()->copy(memory_.view(), {image_.data(), DType::u8, memory_.shape()}, gpu()->stream()).ok());
  }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(memory_.as<std::uint8_t>().data() + begin_);
  }
  // The current bytes; fails the test if a guard byte changed.
  const std::vector<std::uint8_t>& read() {
    std::vector<std::uint8_t> now(image_.size());
    EXPECT_TRUE(gpu()->copy({now.data(), DType::u8, memory_.shape()}, memory_.view(), gpu()->stream()).ok());
    EXPECT_TRUE(cuda::synchronize(static_cast<cuda::Stream*>(gpu()->stream().cuda_stream())).ok());
    for (std::size_t i = 0; i < now.size(); ++i)
      if (i < begin_ || i >= begin_ + bytes_)
        if (now[i] != kPoison) {
          ADD_FAILURE() << "a kernel wrote " << static_cast<std::int64_t>(i - begin_) << " of " << bytes_ << " bytes";
          break;
        }
    bytes_now_.assign(now.begin() + static_cast<std::ptrdiff_t>(begin_),
                      now.begin() + static_cast<std::ptrdiff_t>(begin_ + bytes_));
    return bytes_now_;
  }
  // Copies the result to the host.
  void bring(void* to) {
    if (bytes_ > 0) std::memcpy(to, read().data(), bytes_);
  }
  // Fails the test if the kernel changed its input.
  void expect_unchanged() {
    EXPECT_TRUE(bytes_ == 0 || std::memcmp(read().data(), host_, bytes_) == 0) << "a kernel wrote its input";
  }

 private:
  const void* host_;
  std::size_t bytes_, begin_ = 0;
  std::vector<std::uint8_t> image_, bytes_now_;
  Tensor memory_;
};

inline std::int64_t reach(std::int64_t rows, std::int64_t k, std::int64_t stride, std::int64_t size = 1) {
  return rows == 0 || k == 0 ? 0 : ((rows - 1) * stride + k) * size;
}

// For each op: calls `run` with Params that point to the GPU, and copies the results back.
template <class Run>
Status staged(const ternary_quantize::Params& p, Run run) {
  const auto size = static_cast<std::int64_t>(size_of(p.problem.dtype));
  const std::int64_t code_bytes = row_bytes(p.problem.format, p.problem.k);
  OnGpu x(p.x, reach(p.problem.rows, p.problem.k, p.x_stride, size), size_of(p.problem.dtype));
  OnGpu codes(p.codes, reach(p.problem.rows, code_bytes, p.codes_stride));
  OnGpu scales(p.scales, p.ranges.total * 4, 4);
  OnGpu given(p.given, p.given == nullptr ? 0 : (p.given_step == 0 ? 1 : p.ranges.total) * 4, 4);
  ternary_quantize::Params there = p;
  there.x = x.as<void>();
  there.codes = codes.as<std::uint8_t>();
  there.scales = scales.as<float>();
  if (p.given != nullptr) there.given = given.as<float>();
  Status status = run(there);
  x.expect_unchanged();
  codes.bring(p.codes);
  scales.bring(p.scales);
  return status;
}

template <class Run>
Status staged(const ternary_dequantize::Params& p, Run run) {
  const auto size = static_cast<std::int64_t>(size_of(p.problem.dtype));
  OnGpu codes(p.codes, reach(p.problem.rows, row_bytes(p.problem.format, p.problem.k), p.codes_stride));
  OnGpu scales(p.scales, p.ranges.total * 4, 4);
  OnGpu y(p.y, reach(p.problem.rows, p.problem.k, p.y_stride, size), size_of(p.problem.dtype));
  ternary_dequantize::Params there = p;
  there.codes = codes.as<std::uint8_t>();
  there.scales = scales.as<float>();
  there.y = y.as<void>();
  Status status = run(there);
  codes.expect_unchanged();
  y.bring(p.y);
  return status;
}

template <class Run>
Status staged(const activation_quantize::Params& p, Run run) {
  const auto size = static_cast<std::int64_t>(size_of(p.problem.dtype));
  OnGpu x(p.x, reach(p.problem.m, p.problem.k, p.x_stride, size), size_of(p.problem.dtype));
  OnGpu q(p.q, reach(p.problem.m, p.problem.k, p.q_stride));
  OnGpu scales(p.scales, p.problem.m * 4, 4);
  OnGpu sums(p.sums, p.problem.m * 4, 4);
  activation_quantize::Params there = p;
  there.x = x.as<void>();
  there.q = q.as<std::int8_t>();
  there.scales = scales.as<float>();
  there.sums = sums.as<std::int32_t>();
  Status status = run(there);
  x.expect_unchanged();
  q.bring(p.q);
  scales.bring(p.scales);
  sums.bring(p.sums);
  return status;
}

// Copies all bytes that a strided view spans, and gives the view of the copy.
class ViewOnGpu {
 public:
  explicit ViewOnGpu(const ConstTensorView& view)
      : view_(view),
        span_(bytes_of(view)),
        copy_(reinterpret_cast<const void*>(span_.begin), static_cast<std::int64_t>(span_.end - span_.begin),
              size_of(view.dtype)) {
    view_.data = copy_.as<std::byte>() + (reinterpret_cast<std::uintptr_t>(view.data) - span_.begin);
  }
  [[nodiscard]] const ConstTensorView& view() const { return view_; }
  void expect_unchanged() { copy_.expect_unchanged(); }
  void bring() { copy_.bring(reinterpret_cast<void*>(span_.begin)); }

 private:
  ConstTensorView view_;
  ByteSpan span_;
  OnGpu copy_;
};

class QparamsOnGpu {
 public:
  explicit QparamsOnGpu(const affine::Qparams& q)
      : there_(q),
        scales_(q.scales, q.count * static_cast<std::int64_t>(size_of(q.scale_dtype)), size_of(q.scale_dtype)),
        zero_points_(q.zero_points, q.zero_points == nullptr ? 0 : q.count * 4, 4) {
    there_.scales = scales_.as<void>();
    if (q.zero_points != nullptr) there_.zero_points = zero_points_.as<std::int32_t>();
  }
  [[nodiscard]] const affine::Qparams& there() const { return there_; }
  void expect_unchanged() {
    scales_.expect_unchanged();
    zero_points_.expect_unchanged();
  }

 private:
  affine::Qparams there_;
  OnGpu scales_, zero_points_;
};

inline std::int64_t code_reach(const Shape& shape, Format format, std::int64_t stride) {
  return reach(affine::rows_of(shape), row_bytes(format, affine::last_of(shape)), stride);
}

template <class Run>
Status staged(const affine_quantize::Params& p, Run run) {
  ViewOnGpu x(p.x);
  QparamsOnGpu qparams(p.qparams);
  OnGpu codes(p.codes, code_reach(p.problem.shape, p.problem.format, p.code_row_bytes));
  affine_quantize::Params there = p;
  there.x = x.view();
  there.qparams = qparams.there();
  there.codes = codes.as<std::uint8_t>();
  Status status = run(there);
  x.expect_unchanged();
  qparams.expect_unchanged();
  codes.bring(p.codes);
  return status;
}

template <class Run>
Status staged(const affine_dequantize::Params& p, Run run) {
  OnGpu codes(p.codes, code_reach(p.problem.shape, p.problem.format, p.code_row_bytes));
  QparamsOnGpu qparams(p.qparams);
  ViewOnGpu y(p.y);
  affine_dequantize::Params there = p;
  there.codes = codes.as<std::uint8_t>();
  there.qparams = qparams.there();
  there.y.data = const_cast<void*>(y.view().data);
  Status status = run(there);
  codes.expect_unchanged();
  qparams.expect_unchanged();
  y.bring();
  return status;
}

template <class Run>
Status staged(const fake_quantize::Params& p, Run run) {
  ViewOnGpu x(p.x), y(p.y);
  QparamsOnGpu qparams(p.qparams);
  OnGpu mask(p.mask, p.mask == nullptr ? 0 : code_reach(p.problem.shape, Format::u8, p.mask_row_bytes));
  fake_quantize::Params there = p;
  there.x = x.view();
  there.qparams = qparams.there();
  there.y.data = const_cast<void*>(y.view().data);
  if (p.mask != nullptr) there.mask = mask.as<std::uint8_t>();
  Status status = run(there);
  x.expect_unchanged();
  qparams.expect_unchanged();
  y.bring();
  if (p.mask != nullptr) mask.bring(p.mask);
  return status;
}

template <class Run>
Status staged(const fake_quantize_backward::Params& p, Run run) {
  const auto bytes = static_cast<std::int64_t>(size_of(p.problem.scale_dtype)) * p.qparams.count;
  const auto asked = [&](const void* output) { return output == nullptr ? 0 : bytes; };
  ViewOnGpu grad_y(p.grad_y), grad_x(p.grad_x);
  std::optional<ViewOnGpu> x;
  QparamsOnGpu qparams(p.qparams);
  OnGpu mask(p.mask, p.mask == nullptr ? 0 : code_reach(p.problem.shape, Format::u8, p.mask_row_bytes));
  OnGpu grad_scales(p.grad_scales, asked(p.grad_scales), size_of(p.problem.scale_dtype));
  OnGpu grad_zero_points(p.grad_zero_points, asked(p.grad_zero_points), size_of(p.problem.scale_dtype));
  fake_quantize_backward::Params there = p;
  there.grad_y = grad_y.view();
  there.grad_x.data = const_cast<void*>(grad_x.view().data);
  if (p.mask == nullptr) there.x = x.emplace(p.x).view();
  if (p.mask == nullptr) there.qparams = qparams.there();
  if (p.mask != nullptr) there.mask = mask.as<std::uint8_t>();
  if (p.grad_scales != nullptr) there.grad_scales = grad_scales.as<void>();
  if (p.grad_zero_points != nullptr) there.grad_zero_points = grad_zero_points.as<void>();
  Status status = run(there);
  grad_y.expect_unchanged();
  if (x) x->expect_unchanged();
  qparams.expect_unchanged();
  mask.expect_unchanged();
  grad_x.bring();
  if (p.grad_scales != nullptr) grad_scales.bring(p.grad_scales);
  if (p.grad_zero_points != nullptr) grad_zero_points.bring(p.grad_zero_points);
  return status;
}

// The tensors of choose_qparams on the GPU.
class ChosenOnGpu {
 public:
  explicit ChosenOnGpu(const choose_qparams::Params& p)
      : there_(p),
        x_(p.x),
        scales_(p.scales, p.count * static_cast<std::int64_t>(size_of(p.problem.scale_dtype)),
                size_of(p.problem.scale_dtype)),
        zero_points_(p.zero_points, p.zero_points == nullptr ? 0 : p.count * 4, 4) {
    there_.x = x_.view();
    there_.scales = scales_.as<void>();
    if (p.zero_points != nullptr) there_.zero_points = zero_points_.as<void>();
  }
  [[nodiscard]] const choose_qparams::Params& there() const { return there_; }
  void bring(const choose_qparams::Params& to) {
    x_.expect_unchanged();
    scales_.bring(to.scales);
    if (to.zero_points != nullptr) zero_points_.bring(to.zero_points);
  }

 private:
  choose_qparams::Params there_;
  ViewOnGpu x_;
  OnGpu scales_, zero_points_;
};

template <class Run>
Status staged(const choose_qparams::Params& p, Run run) {
  ChosenOnGpu chosen(p);
  Status status = run(chosen.there());
  chosen.bring(p);
  return status;
}

template <class Run>
Status staged(const dynamic_quantize::Params& p, Run run) {
  ChosenOnGpu chosen(p.choose);
  const auto& problem = p.quantize.problem;
  OnGpu codes(p.quantize.codes, code_reach(problem.shape, problem.format, p.quantize.code_row_bytes));
  dynamic_quantize::Params there{chosen.there(), p.quantize};
  there.quantize.x = there.choose.x;
  there.quantize.codes = codes.as<std::uint8_t>();
  there.quantize.qparams.scales = there.choose.scales;
  there.quantize.qparams.zero_points = static_cast<const std::int32_t*>(there.choose.zero_points);
  Status status = run(there);
  chosen.bring(p.choose);
  codes.bring(p.quantize.codes);
  return status;
}

// Weights in the GPU's layout, converted from the CPU's element by element.
class WeightsOnGpu {
 public:
  explicit WeightsOnGpu(const PackedWeights::State& w)
      : tiles_(tiles_of(w)),
        codes_(tiles_.data(), static_cast<std::int64_t>(tiles_.size())),
        arranged_(scales_of(w)),
        scales_(arranged_.data(), static_cast<std::int64_t>(arranged_.size()) * 4, 16),
        state_{.n = w.n, .k = w.k, .format = w.format, .granularity = w.granularity, .device = gpu()->device().id} {
    state_.codes = codes_.as<std::uint8_t>();
    state_.scales = scales_.as<float>();
  }
  [[nodiscard]] const PackedWeights::State* state() const { return &state_; }
  void expect_unchanged() {
    codes_.expect_unchanged();
    scales_.expect_unchanged();
  }

 private:
  // On an address that a GPU's allocation would have.
  static std::vector<std::uint8_t> tiles_of(const PackedWeights::State& w) {
    const TileMma tile = TileMma::of(w.n, w.k, mma_bits(w.format));
    std::vector<std::uint8_t> tiles(static_cast<std::size_t>(tile.bytes()));
    for (std::int64_t n = 0; n < w.n; ++n)
      for (std::int64_t k = 0; k < w.k; ++k) {
        const TileMma::Place at = tile.place(n, k);
        tiles[static_cast<std::size_t>(at.byte)] |=
            static_cast<std::uint8_t>((w.tile.value(w.codes, n, k) & ((1 << tile.bits) - 1)) << at.bit);
      }
    return tiles;
  }
  static std::vector<float> scales_of(const PackedWeights::State& w) {
    return {w.scales, w.scales + PackedScales::of(w.n, w.k, w.granularity).count};
  }
  std::vector<std::uint8_t> tiles_;
  OnGpu codes_;
  std::vector<float> arranged_;
  OnGpu scales_;
  PackedWeights::State state_;
};

template <class Run>
Status staged(const linear::Params& p, Run run) {
  OnGpu x(p.x, reach(p.m, p.k, p.x_stride, static_cast<std::int64_t>(size_of(p.x_dtype))), size_of(p.x_dtype));
  OnGpu x_scales(p.x_scales, p.x_scales == nullptr ? 0 : p.m * 4, 4);
  linear::Params there = p;
  there.x = x.as<void>();
  if (p.x_scales != nullptr) there.x_scales = x_scales.as<float>();
  std::deque<WeightsOnGpu> weights;
  std::deque<OnGpu> y, bias, residual;
  for (std::size_t i = 0; i < p.count; ++i) {
    const linear::Matrix& from = p.matrices[i];
    const std::size_t size = size_of(from.spec.y_dtype);
    const auto bytes = [&](std::int64_t stride) {
      return reach(p.m, from.spec.n, stride, static_cast<std::int64_t>(size));
    };
    weights.emplace_back(*from.weights);
    y.emplace_back(from.y, bytes(from.y_stride), size);
    bias.emplace_back(from.bias, from.bias == nullptr ? 0 : from.spec.n * 4, 4);
    residual.emplace_back(from.residual, from.residual == nullptr ? 0 : bytes(from.residual_stride), size);
    linear::Matrix& to = there.matrices[i];
    to.weights = weights.back().state();
    to.y = y.back().as<std::byte>();
    if (from.bias != nullptr) to.bias = bias.back().as<float>();
    if (from.residual != nullptr) to.residual = from.residual == from.y ? to.y : residual.back().as<const std::byte>();
  }
  Status status = run(there);
  x.expect_unchanged();
  x_scales.expect_unchanged();
  for (std::size_t i = 0; i < p.count; ++i) {
    weights[i].expect_unchanged();
    bias[i].expect_unchanged();
    residual[i].expect_unchanged();
    y[i].bring(p.matrices[i].y);
  }
  return status;
}

template <class Params>
const auto& problem_of(const Params& p) {
  return p.problem;
}
inline DynamicQuantize::Problem problem_of(const dynamic_quantize::Params& p) {
  auto problem = affine::problem_of<DynamicQuantize>(p.quantize.problem);
  problem.method = p.choose.problem.method;
  problem.eps = p.choose.problem.eps;
  return problem;
}
inline Linear::Problem problem_of(const linear::Params& p) {
  Linear::Problem problem{
      .m_max = p.m, .k = p.k, .x_dtype = p.x_dtype, .math = p.math, .non_finite = p.non_finite, .format = p.format};
  for (std::size_t i = 0; i < p.count; ++i) problem.matrices.push_back(p.matrices[i].spec);
  return problem;
}

template <class Problem>
std::int64_t k_of(const Problem& problem) {
  if constexpr (requires { problem.k; })
    return problem.k;
  else
    return affine::last_of(problem.shape);
}

// Wraps the entry of a CUDA kernel: copies to the GPU, launches and copies back.
template <class Op>
KernelEntry through_gpu(const Kernel& kernel) {
  using Params = typename OpTraits<Op>::Params;
  return {&kernel, [](const void*, const void*, int) -> std::size_t { return 0; },
          [](const void* table, const void* params, const Exec&) -> Status {
            const auto& of = *static_cast<const Kernel*>(table);
            const auto& host = *static_cast<const Params*>(params);
            return staged(host, [&](const Params& there) -> Status {
              detail::Gpu& device = *gpu()->state().gpu;
              const auto& problem = problem_of(there);
              const std::size_t bytes = of.entry.workspace_bytes(of.entry.table, &problem, 1);
              const std::vector<std::uint8_t> poison(bytes + 256, 0xEE);  // aligned, as is its copy
              const auto skip = (256 - reinterpret_cast<std::uintptr_t>(poison.data()) % 256) % 256;
              OnGpu workspace(poison.data() + skip, static_cast<std::int64_t>(bytes));
              auto run = device.start(0, of.info.op, k_of(problem));
              if (!run.ok()) return std::move(run).error();
              run->launch.tuning = asked_tuning;
              Status launched = of.entry.run(
                  of.entry.table, &there, {gpu()->state().threads, {workspace.as<std::byte>(), bytes}, &run->launch});
              workspace.read();  // its guards
              return launched.ok() ? gpu()->stream().synchronize() : std::move(launched);
            });
          }};
}

inline KernelEntry through_gpu(const Kernel& kernel) {
  if (kernel.info.op == "ternary_quantize") return through_gpu<TernaryQuantize>(kernel);
  if (kernel.info.op == "ternary_dequantize") return through_gpu<TernaryDequantize>(kernel);
  if (kernel.info.op == "linear") return through_gpu<Linear>(kernel);
  if (kernel.info.op == "affine_quantize") return through_gpu<AffineQuantize>(kernel);
  if (kernel.info.op == "affine_dequantize") return through_gpu<AffineDequantize>(kernel);
  if (kernel.info.op == "fake_quantize") return through_gpu<FakeQuantize>(kernel);
  if (kernel.info.op == "fake_quantize_backward") return through_gpu<FakeQuantizeBackward>(kernel);
  if (kernel.info.op == "choose_qparams") return through_gpu<ChooseQparams>(kernel);
  if (kernel.info.op == "dynamic_quantize") return through_gpu<DynamicQuantize>(kernel);
  return through_gpu<ActivationQuantize>(kernel);
}

}  // namespace tern::test
