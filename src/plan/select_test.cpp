// Selection on invented machines: what is chosen, and the text of every refusal.
#include <gtest/gtest.h>

#include <map>

#include "device/isa.h"
#include "ops/linear/linear.h"
#include "plan/select.h"

#include "build_config.h"

namespace tern {
namespace {

using Caps = Capabilities;
using C = Capability;

const Machine kNothing{.device = {}, .capabilities = {}};
const Machine kLaptop{.device = {}, .capabilities = Caps::of(C::x86_sse41, C::x86_avx2)};
const Machine kXeon{.device = {},
                    .capabilities = Caps::of(C::x86_sse41, C::x86_avx2, C::x86_avx_vnni, C::x86_avx512,
                                             C::x86_avx512vnni, C::x86_avx512vbmi, C::x86_amx_int8)};
const Machine kZen4{
    .device = {},
    .capabilities = Caps::of(C::x86_sse41, C::x86_avx2, C::x86_avx512, C::x86_avx512vnni, C::x86_avx512vbmi),
    .cpu = {"AuthenticAMD", 25, 17}};
const Machine kArmServer{.device = {}, .capabilities = Caps::of(C::arm_neon, C::arm_dotprod, C::arm_i8mm)};
const Machine kTuring{.device = {DeviceKind::cuda, 0}, .capabilities = cuda_capabilities(7, 5)};
const Machine kHopper{.device = {DeviceKind::cuda, 0}, .capabilities = cuda_capabilities(9, 0)};
const Machine kBlackwell{.device = {DeviceKind::cuda, 0}, .capabilities = cuda_capabilities(12, 0)};

ProblemFacts quantize_i2() { return {.op = "ternary_quantize", .format = Format::i2, .k = 4096}; }

ProblemFacts linear_i2() { return {.op = "linear", .dtype = DType::i8, .format = Format::i2, .k = 64}; }

// Reasons by kernel.
std::map<std::string, std::string> reasons(const Selection& s) {
  std::map<std::string, std::string> map;
  for (const Rejection& r : s.explanation.rejections) map[r.kernel] = r.reason;
  return map;
}

Selection choose(const Machine& machine, const Options& options = {}, const Preference& preference = {},
                 ProblemFacts problem = quantize_i2(), std::span<const Kernel> list = kernel_list()) {
  auto selection = select_kernel(list, problem, machine, options, preference);
  EXPECT_TRUE(selection.ok()) << selection.error().str();
  return selection.ok() ? *std::move(selection) : Selection{};
}

constexpr const char* kNoGpu = "needs a CUDA device, this is a CPU";
const std::map<std::string, std::string> kOthers = {
    {"ternary_quantize.i2.x86_avx512", "does not know scheme absmean"},
    {"ternary_quantize.s2.x86_avx2", "is for s2, the problem is i2"},
    {"ternary_quantize.i8.x86_avx2", "is for i8, the problem is i2"},
    {"ternary_quantize.s2.x86_sse41", "is for s2, the problem is i2"},
    {"ternary_quantize.i8.x86_sse41", "is for i8, the problem is i2"},
    {"ternary_quantize.s2.arm_neon", "is for s2, the problem is i2"},
    {"ternary_quantize.i8.arm_neon", "is for i8, the problem is i2"},
    {"ternary_quantize.s2.scalar", "is for s2, the problem is i2"},
    {"ternary_quantize.i8.scalar", "is for i8, the problem is i2"},
    {"ternary_quantize.s2.reference", "is for s2, the problem is i2"},
    {"ternary_quantize.i8.reference", "is for i8, the problem is i2"},
    {"ternary_quantize.b3.x86_avx2", "is for b3, the problem is i2"},
    {"ternary_quantize.b3.scalar", "is for b3, the problem is i2"},
    {"ternary_quantize.b3.reference", "is for b3, the problem is i2"},
    {"ternary_quantize.i2.cuda_sm75", kNoGpu},
    {"ternary_quantize.i2.cuda_simple", kNoGpu},
    {"ternary_quantize.s2.cuda_sm75", "is for s2, the problem is i2"},
    {"ternary_quantize.s2.cuda_simple", "is for s2, the problem is i2"},
    {"ternary_quantize.i8.cuda_sm75", "is for i8, the problem is i2"},
    {"ternary_quantize.i8.cuda_simple", "is for i8, the problem is i2"},
    {"ternary_quantize.b3.cuda_sm75", "is for b3, the problem is i2"},
    {"ternary_quantize.b3.cuda_simple", "is for b3, the problem is i2"}};

std::map<std::string, std::string> with_i2(const std::string& avx2, const std::string& sse41, const std::string& neon,
                                           const std::string& scalar, const std::string& reference) {
  auto all = kOthers;
  if (!avx2.empty()) all["ternary_quantize.i2.x86_avx2"] = avx2;
  if (!sse41.empty()) all["ternary_quantize.i2.x86_sse41"] = sse41;
  if (!neon.empty()) all["ternary_quantize.i2.arm_neon"] = neon;
  if (!scalar.empty()) all["ternary_quantize.i2.scalar"] = scalar;
  if (!reference.empty()) all["ternary_quantize.i2.reference"] = reference;
  return all;
}

const std::string kNoNeon = "needs arm_neon, which this machine does not have";

#if defined(__x86_64__)
TEST(Select, Avx2Laptop) {
  const auto s = choose(kLaptop);
  EXPECT_EQ(s.explanation.chosen, "ternary_quantize.i2.x86_avx2");
  const std::string other = "could do it; ternary_quantize.i2.x86_avx2 was chosen";
  EXPECT_EQ(reasons(s), with_i2("", other, kNoNeon, other, other));
}

TEST(Select, XeonWithAmx) {
  EXPECT_EQ(choose(kXeon).explanation.chosen, "ternary_quantize.i2.x86_avx2");
  ProblemFacts mse = quantize_i2();
  mse.scheme = Scheme::mse;
  EXPECT_EQ(choose(kXeon, {}, {}, mse).explanation.chosen, "ternary_quantize.i2.x86_avx512");
}

TEST(Select, PromptsGoToAmxAndTokensToAvx512) {
  for (const Format format : {Format::i2, Format::b3, Format::s8, Format::s4}) {
    ProblemFacts problem = linear_i2();
    problem.format = format;
    const std::string linear = "linear." + std::string(name(format)) + '.';
    const std::int64_t least = format == Format::i2 || format == Format::b3 ? 4 : 16;
    problem.m = least;
    EXPECT_EQ(choose(kXeon, {}, {}, problem).explanation.chosen, linear + "x86_amx_int8");
    problem.m = least - 1;
    const auto s = choose(kXeon, {}, {}, problem);
    EXPECT_EQ(s.explanation.chosen, linear + (format == Format::b3 ? "x86_avx512vbmi" : "x86_avx512vnni"));
    EXPECT_EQ(reasons(s).at(linear + "x86_amx_int8"),
              "m is " + std::to_string(least - 1) + ", below its " + std::to_string(least));
  }
}
// How weights are read depends on the processor model, not on its instruction set.
TEST(Select, WeightsAreReadAsSuitsTheProcessor) {
  const auto on = [](const Machine& machine, const Tuning& asked = {}) {
    const Selection s = choose(machine, {}, {.tuning = asked}, linear_i2());
    return s.tuning ? name(*s.tuning) : "";
  };
  Machine intel = kZen4, zen5 = kZen4, zen3 = kLaptop;
  intel.cpu = {"GenuineIntel", 6, 207};
  zen5.cpu = {"AuthenticAMD", 26, 2};
  zen3.cpu = {"AuthenticAMD", 25, 1};
  EXPECT_EQ(on(kZen4), "streams=1,ahead=4096");
  EXPECT_EQ(on(intel), "streams=2,ahead=2048");
  EXPECT_EQ(on(zen5), "streams=1,ahead=16384");
  EXPECT_EQ(on(zen3), "streams=2,ahead=2048");
  EXPECT_EQ(on(kZen4, {.streams = 2}), "streams=2,ahead=2048");
  EXPECT_EQ(on(kZen4, {.ahead_bytes = 0}), "streams=1,ahead=0");
  EXPECT_EQ(on(zen3, {.streams = 4}), "streams=2,ahead=2048");  // AVX2 has registers for two streams
  EXPECT_FALSE(choose(kZen4).tuning);                           // ternary_quantize has no such choice
}

#endif

TEST(Select, MachineWithNothing) {
  const auto s = choose(kNothing);
  EXPECT_EQ(s.explanation.chosen, "ternary_quantize.i2.scalar");
  EXPECT_EQ(reasons(s), with_i2("needs x86_avx2, which this machine does not have",
                                "needs x86_sse41, which this machine does not have", kNoNeon, "",
                                "could do it; ternary_quantize.i2.scalar was chosen"));
}

#if defined(__aarch64__)
TEST(Select, ArmServer) {
  const auto s = choose(kArmServer);
  EXPECT_EQ(s.explanation.chosen, "ternary_quantize.i2.arm_neon");
  EXPECT_EQ(reasons(s).at("ternary_quantize.i2.x86_avx2"), "needs x86_avx2, which this machine does not have");
  EXPECT_EQ(choose(kArmServer, {}, {}, linear_i2()).explanation.chosen, "linear.i2.arm_i8mm");
}

TEST(Select, EveryLevelOfArm) {
  Options options;
  options.max_isa = Options::MaxIsa{C::arm_dotprod};
  EXPECT_EQ(choose(kArmServer, options, {}, linear_i2()).explanation.chosen, "linear.i2.arm_dotprod");
  options.max_isa = Options::MaxIsa{C::arm_neon};
  const auto s = choose(kArmServer, options, {}, linear_i2());
  EXPECT_EQ(s.explanation.chosen, "linear.i2.arm_neon");
  EXPECT_EQ(reasons(s).at("linear.i2.arm_dotprod"), "needs arm_dotprod, above TERN_MAX_ISA");
  options.max_isa = Options::MaxIsa{};
  EXPECT_EQ(choose(kArmServer, options, {}, linear_i2()).explanation.chosen, "linear.i2.scalar");
}
#else
TEST(Select, ArmServer) {
  const auto s = choose(kArmServer);
  EXPECT_EQ(s.explanation.chosen, "ternary_quantize.i2.scalar");
  EXPECT_EQ(reasons(s).at("ternary_quantize.i2.x86_avx2"), "needs x86_avx2, which this machine does not have");
  EXPECT_EQ(reasons(s).at("ternary_quantize.i2.arm_neon"), "is not in this build");
  EXPECT_EQ(choose(kArmServer, {}, {}, linear_i2()).explanation.chosen, "linear.i2.scalar");
}
#endif

TEST(Select, GpusHaveTheirOwnKernelsAndNothingFallsBackToTheCpu) {
  const std::string why = "needs a CPU, this is a CUDA device";
  for (const Machine& gpu : {kTuring, kHopper, kBlackwell}) {
    const auto s = choose(gpu);
    EXPECT_EQ(s.explanation.chosen, TERN_HAVE_CUDA == 1 ? "ternary_quantize.i2.cuda_sm75" : "");
    for (const char* isa : {"x86_avx2", "x86_sse41", "arm_neon", "scalar", "reference"})
      EXPECT_EQ(reasons(s).at(std::string("ternary_quantize.i2.") + isa), why);
    for (const auto& [kernel, reason] : reasons(choose(gpu, {}, {}, linear_i2())))
      EXPECT_TRUE(reason == why || kernel.find(".cuda_") != kernel.npos || !kernel.starts_with("linear.i2.") ||
                  kernel.find("amx") != kernel.npos)
          << kernel;
  }
#if TERN_HAVE_CUDA == 1
  const auto linear_on = [](const Machine& gpu) { return choose(gpu, {}, {}, linear_i2()).explanation.chosen; };
  EXPECT_EQ(linear_on(kTuring), "linear.i2.cuda_sm75");
  EXPECT_EQ(linear_on(kHopper), "linear.i2.cuda_sm90a");
  EXPECT_EQ(linear_on(kBlackwell), "linear.i2.cuda_sm80");  // through its PTX; sm_90a runs only on Hopper
#endif
  const Machine old{.device = {DeviceKind::cuda, 0}, .capabilities = {}};  // a Pascal
  EXPECT_EQ(reasons(choose(old)).at("ternary_quantize.i2.cuda_sm75"), "needs sm_75, which this machine does not have");
}

// A made-up list, to test the function with requirements that no real kernel has.
std::vector<Kernel> made_up_list() {
  static const int kTable = 0;
  const auto line = [](std::string_view kernel, std::string_view isa, DeviceKind device, Caps needs,
                       std::int64_t m_min = 0, std::int64_t m_max = 1 << 30, std::int64_t k_multiple = 1,
                       bool built = true) {
    return Kernel{{.name = kernel,
                   .op = "linear",
                   .format = Format::i2,
                   .isa = isa,
                   .device = device,
                   .needs = needs,
                   .dtypes = EnumSet<DType>::of(DType::f32, DType::bf16),
                   .schemes = EnumSet<Scheme>::of(Scheme::absmean),
                   .m_min = m_min,
                   .m_max = m_max,
                   .k_multiple = k_multiple},
                  {.table = built ? &kTable : nullptr}};
  };
  constexpr auto cpu = DeviceKind::cpu, gpu = DeviceKind::cuda;
  return {line("linear.i2.sm_120", "sm_120", gpu, Caps::of(C::sm_120), 65),
          line("linear.i2.sm_90a.prefill", "sm_90a", gpu, Caps::of(C::sm_90a), 65),
          line("linear.i2.sm_75", "sm_75", gpu, Caps::of(C::sm_75)),
          line("linear.i2.x86_amx", "x86_amx", cpu, Caps::of(C::x86_amx_int8), 16, 1 << 30, 64),
          line("linear.i2.x86_avx512vnni", "x86_avx512vnni", cpu, Caps::of(C::x86_avx512vnni), 0, 1 << 30, 1, false),
          line("linear.i2.x86_avx2", "x86_avx2", cpu, Caps::of(C::x86_avx2)),
          line("linear.i2.arm_i8mm", "arm_i8mm", cpu, Caps::of(C::arm_i8mm), 2),
          line("linear.i2.arm_neon", "arm_neon", cpu, Caps::of(C::arm_neon)),
          line("linear.i2.reference", "reference", cpu, {})};
}

TEST(SelectMadeUp, EachMachineGetsItsBestKernel) {
  const auto list = made_up_list();
  const auto pick = [&](const Machine& machine, std::int64_t m, std::int64_t k = 2560) {
    return choose(machine, {}, {}, {.op = "linear", .m = m, .k = k}, list);
  };
  EXPECT_EQ(pick(kTuring, 512).explanation.chosen, "linear.i2.sm_75");
  EXPECT_EQ(pick(kHopper, 512).explanation.chosen, "linear.i2.sm_90a.prefill");
  EXPECT_EQ(pick(kHopper, 1).explanation.chosen, "linear.i2.sm_75");
  EXPECT_EQ(pick(kBlackwell, 512).explanation.chosen, "linear.i2.sm_120");
  // Newer than 9.0: the sm_90a kernel does not run there, the one that embeds PTX does.
  EXPECT_EQ(pick(kBlackwell, 1).explanation.chosen, "linear.i2.sm_75");
  EXPECT_EQ(reasons(pick(kBlackwell, 512)).at("linear.i2.sm_90a.prefill"),
            "needs sm_90a, which this machine does not have");
  EXPECT_EQ(pick(kXeon, 32).explanation.chosen, "linear.i2.x86_amx");
  EXPECT_EQ(pick(kXeon, 1).explanation.chosen, "linear.i2.x86_avx2");
  EXPECT_EQ(pick(kArmServer, 1).explanation.chosen, "linear.i2.arm_neon");
  EXPECT_EQ(pick(kArmServer, 8).explanation.chosen, "linear.i2.arm_i8mm");
  EXPECT_EQ(pick(kNothing, 8).explanation.chosen, "linear.i2.reference");

  const auto why = reasons(pick(kXeon, 1, 100));
  EXPECT_EQ(why.at("linear.i2.x86_amx"), "m is 1, below its 16");
  EXPECT_EQ(why.at("linear.i2.x86_avx512vnni"), "is not in this build");
  EXPECT_EQ(why.at("linear.i2.sm_75"), "needs a CUDA device, this is a CPU");
  EXPECT_EQ(reasons(pick(kXeon, 32, 100)).at("linear.i2.x86_amx"), "k is 100, not a multiple of 64");
  const auto f16 = choose(kXeon, {}, {}, {.op = "linear", .dtype = DType::f16, .k = 64}, list);
  EXPECT_EQ(f16.kernel, nullptr);
  EXPECT_EQ(reasons(f16).at("linear.i2.x86_avx2"), "does not take f16");
  const auto mse = choose(kXeon, {}, {}, {.op = "linear", .scheme = Scheme::mse, .k = 64}, list);
  EXPECT_EQ(reasons(mse).at("linear.i2.reference"), "does not know scheme mse");
}

TEST(SelectMadeUp, MaxIsaTakesEffectAndIsNamed) {
  const auto list = made_up_list();
  Options options;
  options.max_isa = Options::MaxIsa{C::x86_avx2};
  const auto s = choose(kXeon, options, {}, {.op = "linear", .m = 32, .k = 64}, list);
  EXPECT_EQ(s.explanation.chosen, "linear.i2.x86_avx2");
  EXPECT_EQ(reasons(s).at("linear.i2.x86_amx"), "needs x86_amx_int8, above TERN_MAX_ISA");
  EXPECT_EQ(s.explanation.notes, std::vector<std::string>{"TERN_MAX_ISA=x86_avx2"});
  options.max_isa = Options::MaxIsa{};  // scalar
  EXPECT_EQ(choose(kXeon, options, {}, {.op = "linear", .m = 32, .k = 64}, list).explanation.chosen,
            "linear.i2.reference");
  // A level of another processor family cannot apply.
  options.max_isa = Options::MaxIsa{C::arm_neon};
  EXPECT_EQ(select_kernel(list, {.op = "linear", .k = 64}, kXeon, options, {}).code(), Code::invalid_argument);
}

// A level of GPUs is an error on a CPU and the reverse. To use both, give one of each.
TEST(SelectMadeUp, MaxIsaOfTheOtherKindOfDeviceIsAnError) {
  const auto list = made_up_list();
  const ProblemFacts problem{.op = "linear", .m = 512, .k = 64};
  Options cpu, gpu, both;
  cpu.max_isa = both.max_isa = Options::MaxIsa{C::x86_avx2};
  gpu.max_gpu = both.max_gpu = C::sm_80;
  const auto on_gpu = select_kernel(list, problem, kHopper, cpu, {});
  ASSERT_EQ(on_gpu.code(), Code::invalid_argument);
  EXPECT_EQ(on_gpu.error().where, "TERN_MAX_ISA");
  EXPECT_EQ(
      on_gpu.error().message,
      "x86_avx2 is a level of CPUs, and this context is on a GPU; give one of sm_75, sm_80, sm_90, sm_90a, or one "
      "of each, as in x86_avx2,sm_80");
  const auto on_cpu = select_kernel(list, problem, kXeon, gpu, {});
  ASSERT_EQ(on_cpu.code(), Code::invalid_argument);
  EXPECT_TRUE(on_cpu.error().message.starts_with(
      "sm_80 is a level of GPUs, and this context is on a CPU; give one of scalar, x86_sse41, x86_avx2, "))
      << on_cpu.error().message;
  cpu.max_isa = Options::MaxIsa{};
  EXPECT_EQ(select_kernel(list, problem, kHopper, cpu, {}).code(), Code::invalid_argument);
  EXPECT_EQ(choose(kHopper, gpu, {}, problem, list).explanation.chosen, "linear.i2.sm_75");
  const auto s = choose(kXeon, both, {}, problem, list);
  EXPECT_EQ(s.explanation.chosen, "linear.i2.x86_avx2");
  EXPECT_EQ(s.explanation.notes, std::vector<std::string>{"TERN_MAX_ISA=x86_avx2,sm_80"});
  EXPECT_EQ(choose(kHopper, both, {}, problem, list).explanation.chosen, "linear.i2.sm_75");
  // The tests of every op ask refused_by_machine() before they run a kernel: no answer means that it can run.
  EXPECT_FALSE(refused_by_machine(list.back(), kXeon, both));
  EXPECT_EQ(refused_by_machine(list.back(), kXeon, gpu), on_cpu.error().message);
}

TEST(SelectMadeUp, ForcedKernelsBindTheirOwnOp) {
  const auto list = made_up_list();
  const ProblemFacts problem{.op = "linear", .m = 32, .k = 64};
  Options options;
  options.force_kernels = {"linear.i2.reference"};
  const auto s = choose(kXeon, options, {}, problem, list);
  EXPECT_EQ(s.explanation.chosen, "linear.i2.reference");
  EXPECT_EQ(s.explanation.chosen_because, "TERN_FORCE_KERNEL");

  options.force_kernels = {"linear.i2.arm_neon"};
  auto refused = select_kernel(list, problem, kXeon, options, {});
  ASSERT_EQ(refused.code(), Code::unsupported);
  EXPECT_EQ(refused.error().message, "linear.i2.arm_neon needs arm_neon, which this machine does not have");
  options.force_kernels = {"linear.i2.arm_neon", "linear.i2.x86_avx2"};  // one of them takes it
  EXPECT_EQ(choose(kXeon, options, {}, problem, list).explanation.chosen, "linear.i2.x86_avx2");
  options.force_kernels = {"linear.i2.typo"};
  refused = select_kernel(list, problem, kXeon, options, {});
  ASSERT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.error().message.find("there is no kernel 'linear.i2.typo'"), std::string::npos);
  // A kernel of another op does not affect this one.
  options.force_kernels = {"ternary_dequantize.i2.scalar"};
  EXPECT_NE(choose(kXeon, options, {}, quantize_i2()).explanation.chosen_because, "TERN_FORCE_KERNEL");
}

TEST(SelectMadeUp, APreferenceFallsBackOnlyWhereItMay) {
  const auto list = made_up_list();
  const ProblemFacts problem{.op = "linear", .m = 1, .k = 64};
  const Preference soft{.kernel = "linear.i2.x86_amx"}, strict{.kernel = "linear.i2.x86_amx", .strict = true};
  const auto s = choose(kXeon, {}, soft, problem, list);
  EXPECT_EQ(s.explanation.chosen, "linear.i2.x86_avx2");
  EXPECT_EQ(s.explanation.notes,
            std::vector<std::string>{"preferred linear.i2.x86_amx m is 1, below its 16; fell back"});
  EXPECT_EQ(select_kernel(list, problem, kXeon, {}, strict).error().message, "linear.i2.x86_amx m is 1, below its 16");
  Options options;
  options.strict = true;
  EXPECT_EQ(select_kernel(list, problem, kXeon, options, soft).code(), Code::unsupported);
  EXPECT_EQ(choose(kXeon, {}, {.kernel = "linear.i2.reference"}, problem, list).explanation.chosen,
            "linear.i2.reference");
  EXPECT_EQ(select_kernel(list, problem, kXeon, {}, {.kernel = "nonsense"}).code(), Code::invalid_argument);
}

TEST(SelectMadeUp, ADeviceOverrideThatDoesNotApplyIsAnError) {
  Options options;
  options.device = DeviceId{DeviceKind::cuda, 1};
  auto refused = select_kernel(made_up_list(), {.op = "linear", .k = 64}, kXeon, options, {});
  ASSERT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_EQ(refused.error().message,
            "cuda:1 is set, but this context is on cpu; unset it, or open the context on that device");
}

TEST(Capabilities, OfGpus) {
  EXPECT_TRUE(cuda_capabilities(7, 0).empty());
  EXPECT_EQ(cuda_capabilities(7, 5), Caps::of(C::sm_75));
  EXPECT_EQ(cuda_capabilities(8, 9), Caps::of(C::sm_75, C::sm_80));
  EXPECT_EQ(cuda_capabilities(9, 0), Caps::of(C::sm_75, C::sm_80, C::sm_90, C::sm_90a));
  EXPECT_EQ(cuda_capabilities(12, 0), Caps::of(C::sm_75, C::sm_80, C::sm_90, C::sm_100, C::sm_120));
}

// Tensor cores accumulate floats in f32, the plain GPU kernel and CPUs in f64. CPUs accumulate int8 sums with group
// scales in f32, with the same bits on every CPU. Exact sums are the same everywhere.
TEST(TheList, SaysInWhatFloatModesAddUp) {
  Linear::Problem exact{.m_max = 2, .k = 128, .x_dtype = DType::f32}, grouped = exact, floats = exact;
  exact.matrices = floats.matrices = {{.n = 4}};
  grouped.matrices = {{.n = 4}, {.n = 4, .granularity = Granularity::group(32)}};
  floats.math = LinearMath::w2_float;
  int on_tensor_cores = 0;
  for (const Kernel& kernel : kernel_list()) {
    if (kernel.info.op != "linear") continue;
    const bool cores = kernel.info.isa.starts_with("cuda_sm");
    on_tensor_cores += cores ? 1 : 0;
    for (const Linear::Problem& p : {grouped, floats}) {
      const Guarantee g = guarantee_of(*OpTraits<Linear>::facts(p), kernel.info);
      const bool chains = kernel.info.device == DeviceKind::cpu && p.math == LinearMath::w2a8;
      EXPECT_EQ(g.accumulator, cores || chains ? "f32" : "f64") << kernel.info.name;
      EXPECT_EQ(g.math, chains ? "int8" : "f32");
      EXPECT_EQ(g.bit_stable, chains);
    }
    const Guarantee g = guarantee_of(*OpTraits<Linear>::facts(exact), kernel.info);
    EXPECT_EQ(g.accumulator, "int32") << kernel.info.name;
    EXPECT_TRUE(g.bit_stable);
  }
  EXPECT_EQ(on_tensor_cores, 12);  // i2, b3, s8 and s4 of three generations
}

TEST(TheList, NamesAreTheirPartsAndReferencesComeLast) {
  std::map<std::string, std::string> last;  // of each op and format
  for (const Kernel& kernel : kernel_list()) {
    const auto& i = kernel.info;
    EXPECT_EQ(i.name, std::string(i.op) + "." + std::string(name(i.format)) + "." + std::string(i.isa));
    last[std::string(i.op) + std::string(name(i.format))] = i.isa;
  }
  for (const auto& [key, isa] : last) EXPECT_EQ(isa, "reference") << key;
}

}  // namespace
}  // namespace tern
