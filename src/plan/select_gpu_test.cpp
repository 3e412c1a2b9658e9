// Selection of linear's GPU kernels on invented machines: a plan names the kernel that really runs.
#include <gtest/gtest.h>

#include <map>

#include "device/isa.h"
#include "ops/linear/cuda_serves.h"
#include "plan/select.h"

#include "build_config.h"

namespace tern {
namespace {

struct Gpu {
  Machine machine;
  std::string isa;  // of its tensor-core kernels
};
Gpu gpu(int major, int minor, std::string isa) {
  return {{.device = {DeviceKind::cuda, 0}, .capabilities = cuda_capabilities(major, minor)}, std::move(isa)};
}
const std::vector<Gpu>& gpus() {
  static const std::vector<Gpu> all = {gpu(7, 5, "cuda_sm75"), gpu(8, 9, "cuda_sm80"), gpu(9, 0, "cuda_sm90a"),
                                       gpu(12, 0, "cuda_sm80")};
  return all;
}

Selection select_on(const Gpu& gpu, const Linear::Problem& problem) {
  const auto facts = OpTraits<Linear>::facts(problem);
  EXPECT_TRUE(facts.ok()) << facts.error().str();
  auto selection = select_kernel(kernel_list(), *facts, gpu.machine, {}, {});
  EXPECT_TRUE(selection.ok());
  return *std::move(selection);
}
std::string reason_of(const Selection& s, const std::string& kernel) {
  for (const Rejection& r : s.explanation.rejections)
    if (r.kernel == kernel) return r.reason;
  return {};
}
// Expects that the plain kernel is chosen and the tensor-core kernel gives this reason.
void expect_plain(const Gpu& gpu, const Linear::Problem& problem, const std::string& reason) {
  const Selection s = select_on(gpu, problem);
  const std::string linear = "linear." + std::string(name(problem.format)) + '.';
  EXPECT_EQ(reason_of(s, linear + gpu.isa), reason);
  if (TERN_HAVE_CUDA == 1) {
    EXPECT_EQ(s.explanation.chosen, linear + "cuda_simple");
  }
}
// Expects that the tensor-core kernel runs the whole problem.
void expect_tensor_cores(const Gpu& gpu, const Linear::Problem& problem) {
  const Selection s = select_on(gpu, problem);
  const std::string kernel = "linear." + std::string(name(problem.format)) + '.' + gpu.isa;
  EXPECT_EQ(reason_of(s, kernel), TERN_HAVE_CUDA == 1 ? "" : "is not in this build");
  EXPECT_TRUE(s.explanation.notes.empty());
  if (TERN_HAVE_CUDA == 1) {
    EXPECT_EQ(s.explanation.chosen, kernel);
  }
}

Linear::Problem problem_of(std::int64_t k, const Granularity& granularity, Format format = Format::i2,
                           LinearMath math = LinearMath::w2a8, DType dtype = DType::bf16) {
  return {.m_max = 4,
          .k = k,
          .x_dtype = dtype,
          .math = math,
          .format = format,
          .matrices = {{.n = 64, .granularity = granularity}}};
}

TEST(SelectOnGpus, TensorCoresTakeWhatIsFastThere) {
  for (const Gpu& on : gpus())
    for (const Format format : {Format::i2, Format::b3, Format::s8, Format::s4})
      for (const Granularity& granularity :
           {Granularity::tensor(), Granularity::row(), Granularity::group(32), Granularity::group(128)})
        for (const std::int64_t k : {1, 100, 2560, 6912}) expect_tensor_cores(on, problem_of(k, granularity, format));
  for (const Gpu& on : gpus())
    for (const std::int64_t k : {2560, 6912})
      expect_tensor_cores(on, problem_of(k, Granularity::group(128), Format::i2, LinearMath::w2_float, DType::f16));
}

TEST(SelectOnGpus, ThePlainKernelGoesByItsOwnName) {
  for (const Gpu& on : gpus()) {
    SCOPED_TRACE(on.isa);
    expect_plain(on, problem_of(1000, Granularity::group(100)), "groups of 100 are not a multiple of 32");
    expect_tensor_cores(on, problem_of(100, Granularity::group(100)));  // one group
    expect_plain(on, problem_of(0, Granularity::row()), "k is 0: there is nothing to multiply");
    const std::int64_t most = linear::max_mma_k(Format::i2), most_4 = linear::max_mma_k(Format::s4);
    EXPECT_EQ(most, (1 << 18) - 1);
    EXPECT_EQ(most_4, (1 << 17) - 1);
    expect_tensor_cores(on, problem_of(most, Granularity::row()));
    expect_plain(on, problem_of(most + 1, Granularity::row()), "k is 262144, above its 262143 for i2 weights");
    expect_tensor_cores(on, problem_of(most_4, Granularity::row(), Format::s4));
    expect_plain(on, problem_of(most_4 + 1, Granularity::row(), Format::s4),
                 "k is 131072, above its 131071 for s4 weights");
    expect_plain(on, problem_of(most + 1, Granularity::group(128)), "k is 262144, above its 262143 for group scales");
  }
}

TEST(SelectOnGpus, FloatTokensByGeneration) {
  const auto floats = [](DType dtype, std::int64_t k) {
    return problem_of(k, Granularity::row(), Format::i2, LinearMath::w2_float, dtype);
  };
  for (const Gpu& on : gpus()) {
    SCOPED_TRACE(on.isa);
    const bool turing = on.isa == "cuda_sm75";
    expect_tensor_cores(on, floats(DType::f16, 2560));
    for (const DType dtype : {DType::bf16, DType::f32}) {
      if (turing)
        expect_plain(on, floats(dtype, 2560), "has no tensor cores for " + std::string(name(dtype)) + " tokens");
      else
        expect_tensor_cores(on, floats(dtype, 2560));
    }
    expect_plain(on, floats(DType::f16, 262'144), "k is 262144, above its 262143 for float tokens");
  }
  expect_plain(gpus()[1], floats(DType::f32, 100'000),
               "rows of 100000 lose more than its f32 sums may (docs/numerics.md)");
}

// The limit applies to m_max, so that every call of a plan uses the same kernel.
TEST(SelectOnGpus, SoManyResultsThatTheyAreNotCounted) {
  Linear::Problem many = problem_of(128, Granularity::group(128));
  many.matrices[0].n = 1 << 20;
  many.m_max = 1 << 17;
  for (const Gpu& on : gpus()) {
    expect_tensor_cores(on, many);
    Linear::Problem more = many;
    more.m_max += 8;
    expect_plain(on, more, "m is 131080: more results than it counts in 32 bits; give the tokens to several runs");
  }
}

// With several matrices, tensor cores keep those that they can take; a note lists those that the plain kernel runs.
TEST(SelectOnGpus, APartForThePlainKernelIsNoted) {
  Linear::Problem mixed = problem_of(1000, Granularity::row());
  mixed.matrices.push_back({.n = 0, .granularity = Granularity::group(100)});  // nothing to do
  for (const Gpu& on : gpus()) expect_tensor_cores(on, mixed);
  mixed.matrices.push_back({.n = 8, .granularity = Granularity::group(100)});
  mixed.matrices.push_back({.n = 8, .granularity = Granularity::group(32)});  // runs together with the one before
  for (const Gpu& on : gpus()) {
    const Selection s = select_on(on, mixed);
    EXPECT_EQ(reason_of(s, "linear.i2." + on.isa), TERN_HAVE_CUDA == 1 ? "" : "is not in this build");
    if (TERN_HAVE_CUDA != 1) continue;
    EXPECT_EQ(s.explanation.chosen, "linear.i2." + on.isa);
    EXPECT_EQ(s.explanation.notes,
              std::vector<std::string>{"linear.i2.cuda_simple multiplies matrices[2], matrices[3]: groups of 100 are "
                                       "not a multiple of 32"});
  }
}

}  // namespace
}  // namespace tern
