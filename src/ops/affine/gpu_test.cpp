// What is special to the affine ops on a GPU: kernel selection, and errors that only the kernels can detect.
#include <gtest/gtest.h>

#include <optional>

#include "base/options.h"
#include "ops/affine_dequantize/affine_dequantize.h"
#include "plan/run_once.h"
#include "plan/select.h"
#include "tern/affine.h"
#include "tern/fake_quantize.h"
#include "tern/qparams.h"
#include "tests/support/gpu.h"

namespace tern {
namespace {

Machine turing() { return {.device = {DeviceKind::cuda, 0}, .capabilities = Capabilities::of(Capability::sm_75)}; }

// cuda_sm75 must be selected if this build has it, and no kernel otherwise. The CPU kernels are rejected because they
// need a CPU.
template <class Op>
void expect_own_kernel() {
  const auto facts = OpTraits<Op>::facts({.shape = {4, 4}});
  ASSERT_TRUE(facts.ok());
  const auto selection = select_kernel(kernel_list(), *facts, turing(), Options{}, {});
  ASSERT_TRUE(selection.ok());
  const std::string name = std::string(OpTraits<Op>::kName) + ".s8.cuda_sm75";
  for (const Kernel& kernel : kernel_list())
    if (kernel.info.name == name) {
      EXPECT_EQ(selection->kernel, kernel.entry.table == nullptr ? nullptr : &kernel);
    }
  int cpus = 0;
  for (const Rejection& r : selection->explanation.rejections)
    cpus += r.reason == "needs a CPU, this is a CUDA device" ? 1 : 0;
  EXPECT_GE(cpus, 5) << name;
}
TEST(AffineOnGpu, HasItsOwnKernels) {
  expect_own_kernel<AffineQuantize>();
  expect_own_kernel<AffineDequantize>();
  expect_own_kernel<FakeQuantize>();
  expect_own_kernel<FakeQuantizeBackward>();
  expect_own_kernel<ChooseQparams>();
  expect_own_kernel<DynamicQuantize>();
}

// Methods that scan a range many times are rejected on a GPU, with a reason, when the range is too long; a CPU accepts
// them.
TEST(AffineOnGpu, LongRangesOfSlowMethodsNeedACpu) {
  constexpr std::int64_t kLong = std::int64_t{1} << 21;
  for (const QparamsMethod method : {QparamsMethod::mse, QparamsMethod::percentile, QparamsMethod::absmax})
    for (const std::int64_t k : {kLong, std::int64_t{4096}}) {
      ChooseQparams::Problem p;
      p.shape = {2, k};
      p.granularity = AffineGranularity::token();
      p.method = method;
      const auto facts = OpTraits<ChooseQparams>::facts(p);
      ASSERT_TRUE(facts.ok());
      EXPECT_EQ(facts->refused_on_gpu.empty(), k < kLong || method == QparamsMethod::absmax);
      const auto on_gpu_machine = select_kernel(kernel_list(), *facts, turing(), Options{}, {});
      const auto on_cpu_machine = select_kernel(kernel_list(), *facts, Machine{}, Options{}, {});
      ASSERT_TRUE(on_gpu_machine.ok() && on_cpu_machine.ok());
      EXPECT_NE(on_cpu_machine->kernel, nullptr);
      int matching = 0;
      for (const Rejection& r : on_gpu_machine->explanation.rejections)
        matching += r.kernel == "choose_qparams.s8.cuda_sm75" && r.reason.find("is found on a CPU") != std::string::npos
                        ? 1
                        : 0;
      EXPECT_EQ(matching, facts->refused_on_gpu.empty() ? 0 : 1);
    }
}

constexpr std::int64_t kRows = 300, kGroups = 3, kK = 384;
const AffineGranularity kGranularity = AffineGranularity::group(128);

// Tensors on the GPU: elements of 1, codes of 1, scales of 0.5 and zero points of 3; one scale or zero point may be
// invalid.
struct Data {
  Tensor x, other, codes, scales, zero_points, of_scales, of_zero_points;
  static Tensor on_gpu(const void* data, DType dtype, const Shape& shape) {
    const Context& gpu = *test::gpu();
    Tensor tensor = *gpu.allocate(dtype, shape, "test");
    EXPECT_TRUE(gpu.copy(tensor.view(), {data, dtype, shape}, gpu.stream()).ok());
    EXPECT_TRUE(gpu.stream().synchronize().ok());
    return tensor;
  }
  explicit Data(std::optional<std::int64_t> bad_scale = {}, std::optional<std::int64_t> bad_zero_point = {}) {
    const std::vector<float> ones(kRows * kK, 1.0F);
    const std::vector<std::int8_t> code(kRows * kK, 1);
    std::vector<float> s(kRows * kGroups, 0.5F);
    std::vector<std::int32_t> zp(kRows * kGroups, 3);
    if (bad_scale) s[static_cast<std::size_t>(*bad_scale)] = -0.5F;
    if (bad_zero_point) zp[static_cast<std::size_t>(*bad_zero_point)] = 128;
    x = on_gpu(ones.data(), DType::f32, {kRows, kK});
    other = on_gpu(ones.data(), DType::f32, {kRows, kK});
    codes = on_gpu(code.data(), DType::i8, {kRows, kK});
    scales = on_gpu(s.data(), DType::f32, {kRows * kGroups});
    zero_points = on_gpu(zp.data(), DType::i32, {kRows * kGroups});
    of_scales = on_gpu(s.data(), DType::f32, {kRows * kGroups});
    of_zero_points = on_gpu(s.data(), DType::f32, {kRows * kGroups});
  }
};

template <class Op>
Status run(const std::string& isa, const typename Op::Problem& problem, const typename Op::Args& args) {
  const auto plan = Plan<Op>::select(*test::gpu(), problem,
                                     {.kernel = std::string(OpTraits<Op>::kName) + ".s8." + isa, .strict = true});
  if (!plan.ok()) return plan.error();
  return run_once(*test::gpu(), *plan, args);
}

template <class Op>
typename Op::Problem problem() {
  typename Op::Problem p;
  p.shape = {kRows, kK};
  p.granularity = kGranularity;
  p.zero_points = true;
  return p;
}

// The host cannot check scales and zero points in GPU memory, so the kernels must.
TEST(AffineOnGpu, BadScalesAndZeroPointsAreNamed) {
  if (test::gpu() == nullptr) GTEST_SKIP() << "no CUDA device";
  for (const char* isa : {"cuda_sm75", "cuda_simple"})
    for (const std::int64_t at : {std::int64_t{0}, std::int64_t{451}, kRows * kGroups - 1})
      for (const bool scale : {true, false}) {
        Data d(scale ? std::optional(at) : std::nullopt, scale ? std::nullopt : std::optional(at));
        auto backward = problem<FakeQuantizeBackward>();
        backward.qparam_gradients = at == 451;
        const Status found[] = {run<AffineQuantize>(isa, problem<AffineQuantize>(),
                                                    {.x = d.x.view(),
                                                     .scales = d.scales.view(),
                                                     .zero_points = d.zero_points.view(),
                                                     .codes = d.codes.view()}),
                                run<AffineDequantize>(isa, problem<AffineDequantize>(),
                                                      {.codes = d.codes.view(),
                                                       .scales = d.scales.view(),
                                                       .zero_points = d.zero_points.view(),
                                                       .y = d.other.view()}),
                                run<FakeQuantize>(isa, problem<FakeQuantize>(),
                                                  {.x = d.x.view(),
                                                   .scales = d.scales.view(),
                                                   .zero_points = d.zero_points.view(),
                                                   .y = d.other.view(),
                                                   .mask = {}}),
                                run<FakeQuantizeBackward>(isa, backward,
                                                          {.grad_y = d.x.view(),
                                                           .x = d.x.view(),
                                                           .scales = d.scales.view(),
                                                           .zero_points = d.zero_points.view(),
                                                           .mask = {},
                                                           .grad_x = d.other.view(),
                                                           .grad_scales = d.of_scales.view(),
                                                           .grad_zero_points = d.of_zero_points.view()})};
        for (const Status& status : found) {
          ASSERT_FALSE(status.ok()) << isa;
          EXPECT_EQ(status.code(), scale ? Code::invalid_scale : Code::invalid_argument) << status.error().str();
          EXPECT_EQ(status.error().index, at) << status.error().str();
        }
      }
}

// An error found in one call must not affect the next.
TEST(AffineOnGpu, ChosenScalesServeTheNextCall) {
  if (test::gpu() == nullptr) GTEST_SKIP() << "no CUDA device";
  Data d(7);
  ASSERT_FALSE(
      run<AffineQuantize>(
          "cuda_sm75", problem<AffineQuantize>(),
          {.x = d.x.view(), .scales = d.scales.view(), .zero_points = d.zero_points.view(), .codes = d.codes.view()})
          .ok());
  auto choose = problem<ChooseQparams>();
  choose.method = QparamsMethod::minmax;
  ASSERT_TRUE(run<ChooseQparams>("cuda_sm75", choose,
                                 {.x = d.x.view(), .scales = d.scales.view(), .zero_points = d.zero_points.view()})
                  .ok());
  EXPECT_TRUE(
      run<AffineQuantize>(
          "cuda_sm75", problem<AffineQuantize>(),
          {.x = d.x.view(), .scales = d.scales.view(), .zero_points = d.zero_points.view(), .codes = d.codes.view()})
          .ok());
}

}  // namespace
}  // namespace tern
