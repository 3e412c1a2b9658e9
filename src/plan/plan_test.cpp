// Plans as a caller uses them: environment overrides, workspace, streams, observers, rounding modes, empty problems.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "base/elements.h"
#include "device/topology.h"
#include "lab/weights.h"
#include "ops/ops.h"
#include "plan/context_state.h"
#include "tern/linear.h"
#include "tern/quantize.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tern {
namespace {

using Problem = TernaryQuantize::Problem;

// Sets a variable for one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

Context open(ContextConfig config = {}) {
  auto context = Context::open(std::move(config));
  EXPECT_TRUE(context.ok()) << context.error().str();
  return *context;
}

struct Buffers {
  std::vector<float> x;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  explicit Buffers(const Problem& p)
      : x(static_cast<std::size_t>(p.rows * p.k)),
        codes(static_cast<std::size_t>(p.rows * ((p.k + 3) / 4)), 0xEE),
        scales(1, -1.0F) {
    lab::Random random(1);
    lab::fill_weights(lab::Pattern::gaussian, random, x.data(), p.rows * p.k);
  }
  TernaryQuantize::Args args(const Problem& p) {
    return {.x = {x.data(), DType::f32, {p.rows, p.k}},
            .codes = {codes.data(), DType::u8, {p.rows, (p.k + 3) / 4}},
            .scales = {scales.data(), DType::f32, {1}}};
  }
};

const Problem kProblem{.rows = 4, .k = 1000};

std::string chosen(const Context& context) {
  auto plan = TernaryQuantizePlan::select(context, kProblem);
  return plan.ok() ? plan->id().kernel : plan.error().str();
}

TEST(Plan, MaxIsaTakes) {
  const Context context = open();
  const Variable v("TERN_MAX_ISA", "scalar");
  EXPECT_EQ(chosen(context), "ternary_quantize.i2.scalar");
}

TEST(Plan, MaxIsaHasALevelForEachKindOfDevice) {
  const Context context = open();
  const Variable v("TERN_MAX_ISA", "sm_80,scalar");
  EXPECT_EQ(chosen(context), "ternary_quantize.i2.scalar");
  const Variable gpus("TERN_MAX_ISA", "sm_80");
  const auto list = kernels(context);
  ASSERT_FALSE(list.ok());
  EXPECT_EQ(list.error().where, "TERN_MAX_ISA");
  // It does not apply to the CPU reference of a GPU's selftest either.
  const ActivationQuantize::Problem problem{.m = 1, .k = 8};
  EXPECT_TRUE(ActivationQuantizePlan::select(detail::ContextState::cpu_beside(1), problem).ok());
}

// Containers and scripts unset a variable by making it empty.
TEST(Plan, EmptyOverridesAreNotSet) {
  const std::string usual = chosen(open());
  for (const char* name : {"TERN_MAX_ISA", "TERN_FORCE_KERNEL", "TERN_DEVICE", "TERN_STRICT", "TERN_THREADS"}) {
    const Variable v(name, "");
    EXPECT_EQ(chosen(open()), usual) << name;
    EXPECT_EQ(open().threads(), usable_threads()) << name;
  }
}

TEST(Plan, ForceKernelTakes) {
  const Context context = open();
  const Variable v("TERN_FORCE_KERNEL", "ternary_dequantize.i2.scalar,ternary_quantize.i2.reference");
  EXPECT_EQ(chosen(context), "ternary_quantize.i2.reference");
}

TEST(Plan, StrictTakes) {
  const Context context = open();
  const Preference other{.kernel = "ternary_quantize.s2.scalar"};
  EXPECT_TRUE(TernaryQuantizePlan::select(context, kProblem, other).ok());
  const Variable v("TERN_STRICT", "1");
  EXPECT_EQ(TernaryQuantizePlan::select(context, kProblem, other).code(), Code::unsupported);
}

TEST(Plan, DeviceTakes) {
  const Context context = open();
  const Variable v("TERN_DEVICE", "cuda:99");
  EXPECT_EQ(TernaryQuantizePlan::select(context, kProblem).code(), Code::invalid_argument);
  EXPECT_EQ(Context::open().code(), Code::gpu_not_available);
}

TEST(Plan, ThreadsTake) {
  EXPECT_EQ(open().threads(), usable_threads());
  const Variable v("TERN_THREADS", "7");
  EXPECT_EQ(open().threads(), 7);
  EXPECT_EQ(open({.threads = 3}).threads(), 3);  // the caller's value wins
}

TEST(Plan, MalformedOverridesAreErrorsOfSelect) {
  const Context context = open();
  const std::pair<const char*, const char*> bad[] = {{"TERN_MAX_ISA", "x86_avx9"},
                                                     {"TERN_MAX_ISA", "AVX2"},
                                                     {"TERN_FORCE_KERNEL", "nonsense"},
                                                     {"TERN_MAX_ISA", "sm_75"},
                                                     {"TERN_MAX_ISA", "scalar,x86_avx2"},
                                                     {"TERN_MAX_ISA", ","},
                                                     {"TERN_FORCE_KERNEL", "a,,b"},
                                                     {"TERN_DEVICE", "gpu"},
                                                     {"TERN_DEVICE", "cuda:x"},
                                                     {"TERN_STRICT", "yes"},
                                                     {"TERN_THREADS", "0"},
                                                     {"TERN_THREADS", "-1"},
                                                     {"TERN_THREADS", "two"},
                                                     {"TERN_THREADS", "9999999999"}};
  for (const auto& [name, value] : bad) {
    const Variable v(name, value);
    auto plan = TernaryQuantizePlan::select(context, kProblem);
    ASSERT_FALSE(plan.ok()) << name << '=' << value;
    EXPECT_EQ(plan.code(), Code::invalid_argument) << plan.error().str();
    EXPECT_EQ(plan.error().where, name) << plan.error().str();
    EXPECT_NE(plan.error().message.find(value), std::string::npos) << plan.error().str();
  }
}

TEST(Plan, WorkspaceAndStreamAreChecked) {
  const Context context = open(), other = open();
  auto plan = TernaryQuantizePlan::select(context, kProblem, {.kernel = "ternary_quantize.i2.scalar"});
  ASSERT_TRUE(plan.ok());
  Buffers b(kProblem);
  std::vector<std::byte> memory(plan->workspace_bytes() + 128);
  auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 63) / 64 * 64);
  const auto args = b.args(kProblem);
  EXPECT_TRUE(plan->can_implement(args).ok());
  EXPECT_TRUE(plan->run(context.stream(), {aligned, plan->workspace_bytes()}, args).ok());
  EXPECT_EQ(plan->run(context.stream(), {aligned, plan->workspace_bytes() - 1}, args).code(), Code::invalid_argument);
  EXPECT_EQ(plan->run(context.stream(), {aligned + 1, plan->workspace_bytes()}, args).code(), Code::invalid_argument);
  EXPECT_EQ(plan->run(other.stream(), {aligned, plan->workspace_bytes()}, args).code(), Code::invalid_argument);
  auto broken = args;
  broken.x.data = nullptr;
  EXPECT_EQ(plan->can_implement(broken).code(), Code::invalid_argument);
  EXPECT_EQ(plan->run(context.stream(), {aligned, plan->workspace_bytes()}, broken).code(), Code::invalid_argument);
}

TEST(Plan, NoElementsWriteNothing) {
  const Context context = open();
  for (const auto& [rows, k] : {std::pair<std::int64_t, std::int64_t>{0, 5}, {5, 0}, {0, 0}}) {
    const Problem p{.rows = rows, .k = k};
    auto plan = TernaryQuantizePlan::select(context, p, {.kernel = "ternary_quantize.i2.reference"});
    ASSERT_TRUE(plan.ok());
    float scale = 7;
    EXPECT_TRUE(plan->run(context.stream(), {},
                          {.x = {nullptr, DType::f32, {rows, k}},
                           .codes = {nullptr, DType::u8, {rows, (k + 3) / 4}},
                           .scales = {&scale, DType::f32, {0}}})
                    .ok());
    EXPECT_EQ(scale, 7);
  }
}

TEST(Plan, IdentityAndGuarantee) {
  auto plan = TernaryQuantizePlan::select(open(), kProblem, {.kernel = "ternary_quantize.i2.scalar"});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->id().str(),
            "ternary_quantize|ternary_quantize.i2.scalar|f32|f32|i2|none|scalar|cpu|math=f32,acc=f64,det,bitstable");
  EXPECT_TRUE(plan->guarantee().deterministic);
  EXPECT_TRUE(plan->guarantee().bit_stable);
  auto f64 = TernaryQuantizePlan::select(open(), {.rows = 1, .k = 4, .dtype = DType::f64});
  ASSERT_TRUE(f64.ok());
  EXPECT_EQ(f64->guarantee().math, "f64");
  EXPECT_EQ(plan->explain().chosen, plan->id().kernel);
}

TEST(Plan, ATypeThatNoKernelTakesIsOneLine) {
  auto plan = TernaryQuantizePlan::select(open(), {.rows = 1, .k = 4, .dtype = DType::i32});
  ASSERT_EQ(plan.code(), Code::unsupported);
  EXPECT_EQ(plan.error().message, "ternary_quantize takes f32, f64, f16, bf16, not i32");
  auto why = TernaryQuantizePlan::explain(open(), {.rows = 1, .k = 4, .dtype = DType::i32});
  ASSERT_TRUE(why.ok());
  EXPECT_TRUE(why->chosen.empty());
}

class Recorder : public Observer {
 public:
  std::atomic<int> selected{0}, started{0}, failed{0}, succeeded{0};
  void plan_selected(std::string_view, std::string_view) override { ++selected; }
  void run_started(const RunEvent& e) override { started += e.kernel == "ternary_quantize.i2.scalar" ? 1 : 0; }
  void run_finished(const RunEvent&, const Status& s) override { ++(s.ok() ? succeeded : failed); }
};

TEST(Plan, ObserversSeeSelectionRunsAndFailures) {
  const auto recorder = std::make_shared<Recorder>();
  const Context context = open({.observer = recorder});
  auto plan = TernaryQuantizePlan::select(context, kProblem, {.kernel = "ternary_quantize.i2.scalar"});
  ASSERT_TRUE(plan.ok());
  Buffers b(kProblem);
  auto workspace = Tensor::allocate(host_memory(), DType::u8, {static_cast<std::int64_t>(plan->workspace_bytes())});
  EXPECT_TRUE(plan->run(context.stream(), workspace->as<std::byte>(), b.args(kProblem)).ok());
  b.x[17] = HUGE_VALF;
  EXPECT_EQ(plan->run(context.stream(), workspace->as<std::byte>(), b.args(kProblem)).code(), Code::non_finite);
  EXPECT_EQ(recorder->selected, 1);
  EXPECT_EQ(recorder->started, 2);
  EXPECT_EQ(recorder->succeeded, 1);
  EXPECT_EQ(recorder->failed, 1);
}

// Keeps what it is told of each run.
class Diary : public Observer {
 public:
  struct Entry {
    std::string what, plan;
    int stream;
    std::int64_t bytes, operations;
    std::optional<double> milliseconds;
  };
  std::vector<Entry> entries;
  void run_started(const RunEvent& e) override { add("started", e); }
  void run_finished(const RunEvent& e, const Status&) override { add("finished", e); }
  void run_timed(const RunEvent& e) override { add("timed", e); }

 private:
  void add(const char* what, const RunEvent& e) {
    entries.push_back({what, std::string(e.plan), e.stream, e.bytes, e.operations, e.milliseconds});
  }
};

TEST(Plan, EveryObserverLearnsPlanBytesOperationsAndTime) {
  const Problem p{.rows = 3, .k = 101};
  for (const bool profiling : {false, true}) {
    const auto first = std::make_shared<Diary>(), second = std::make_shared<Diary>(), third = std::make_shared<Diary>();
    const Context context = open({.observer = first, .profiling = profiling, .observers = {second, nullptr, third}});
    auto plan = TernaryQuantizePlan::select(context, p);
    ASSERT_TRUE(plan.ok());
    Buffers b(p);
    auto workspace = Tensor::allocate(host_memory(), DType::u8, {static_cast<std::int64_t>(plan->workspace_bytes())});
    ASSERT_TRUE(plan->run(context.stream(), workspace->as<std::byte>(), b.args(p)).ok());
    b.x[17] = HUGE_VALF;
    ASSERT_FALSE(plan->run(context.stream(), workspace->as<std::byte>(), b.args(p)).ok());  // has no time
    std::vector<std::string> order = {"started", "finished", "started", "finished"};
    if (profiling) order.insert(order.begin() + 2, "timed");
    for (const auto& diary : {first, second, third}) {
      std::vector<std::string> got;
      for (const Diary::Entry& entry : diary->entries) {
        got.push_back(entry.what);
        EXPECT_EQ(entry.plan, plan->id().str());
        EXPECT_EQ(entry.stream, 0);
        EXPECT_EQ(entry.bytes, 3 * 101 * 4 + 3 * 26 + 4);
        EXPECT_EQ(entry.operations, 3 * 101);
        EXPECT_EQ(entry.milliseconds.has_value(), entry.what == "timed");
        EXPECT_GT(entry.milliseconds.value_or(1), 0);
      }
      EXPECT_EQ(got, order);
    }
    if (profiling) {
      EXPECT_EQ(context.profile()->front().runs, 2);
    }
  }
}

// Binds a problem's operands, and compares what a run of them moves and computes.
template <class Op>
void expect_work(const typename Op::Problem& problem, std::int64_t bytes, std::int64_t operations) {
  typename Op::Args args;
  std::deque<Tensor> memory;
  OpTraits<Op>::operands(problem, args, [&](const char*, auto& view, DType dtype, const Shape& shape) {
    Tensor& tensor = memory.emplace_back(*Tensor::allocate(host_memory(), dtype, shape));
    std::memset(tensor.data(), 0, tensor.bytes());
    if (dtype == DType::f32)  // scales must be above 0
      for (std::int64_t i = 0; i < tensor.elements(); ++i) write_element(tensor.data(), dtype, i, 1.0);
    view = tensor.view();
  });
  const auto params = OpTraits<Op>::bind(problem, args);
  ASSERT_TRUE(params.ok()) << params.error().str();
  const Work work = work_of<Op>(*params);
  EXPECT_EQ(work.bytes, bytes) << OpTraits<Op>::kName;
  EXPECT_EQ(work.operations, operations) << OpTraits<Op>::kName;
}

TEST(Plan, WorkCountsEveryOperandOnce) {
  constexpr std::int64_t kF32 = 4, kBf16 = 2, kScale = 4, kZeroPoint = 4, kMask = 1;
  const Granularity four = Granularity::group(4);
  expect_work<TernaryQuantize>({.rows = 5, .k = 7, .dtype = DType::bf16, .granularity = four},
                               35 * kBf16 + 5 * 2 + 10 * kScale, 35);
  expect_work<TernaryDequantize>({.rows = 5, .k = 7, .granularity = four}, 5 * 2 + 10 * kScale + 35 * kF32, 35);
  expect_work<ActivationQuantize>({.m = 2, .k = 9, .dtype = DType::bf16}, 2 * (9 * kBf16 + 9 + 4 + 4), 18);
  const Shape shape{6, 7};
  const auto token = AffineGranularity::token();
  expect_work<AffineQuantize>({.shape = {2, 3, 7}, .granularity = token, .format = Format::s4, .zero_points = true},
                              42 * kF32 + 6 * 4 + 6 * (kScale + kZeroPoint), 42);
  expect_work<AffineDequantize>({.shape = shape, .granularity = token, .dtype = DType::bf16, .format = Format::u8},
                                42 + 42 * kBf16 + 6 * kScale, 42);
  expect_work<FakeQuantize>({.shape = shape, .granularity = token, .zero_points = true, .mask = true},
                            42 * (2 * kF32 + kMask) + 6 * (kScale + kZeroPoint), 42);
  expect_work<FakeQuantizeBackward>(
      {.shape = shape, .granularity = token, .zero_points = true, .qparam_gradients = true},
      42 * 3 * kF32 + 6 * (kScale + kZeroPoint) + 2 * 6 * kScale, 42);
  expect_work<FakeQuantizeBackward>({.shape = shape, .granularity = token, .from_mask = true}, 42 * (2 * kF32 + kMask),
                                    42);
  expect_work<ChooseQparams>(
      {.shape = shape, .granularity = token, .method = QparamsMethod::minmax, .zero_points = true},
      42 * kF32 + 6 * (kScale + kZeroPoint), 42);
  expect_work<DynamicQuantize>({.shape = shape}, 42 * kF32 + 42 + 6 * kScale, 42);
}

TEST(Plan, WorkOfLinearCountsWeightsAsCanonicalRows) {
  float number = 1;
  std::byte byte{0};
  PackedWeights::State rows{.n = 3, .k = 9, .granularity = Granularity::row()};
  PackedWeights::State bytes{.n = 5, .k = 9, .format = Format::s8, .granularity = Granularity::tensor()};
  linear::Params product{.m = 2, .k = 9, .x_dtype = DType::i8, .x = &byte, .x_scales = &number, .count = 2};
  product.matrices[0] = {.spec = {.n = 3, .y_dtype = DType::bf16}, .weights = &rows, .y = &byte};
  product.matrices[1] = {.spec = {.n = 5, .y_dtype = DType::i32}, .weights = &bytes, .y = &byte, .bias = &number};
  product.matrices[1].residual = reinterpret_cast<const std::byte*>(&number);
  const Work work = work_of<Linear>(product);
  EXPECT_EQ(work.bytes, (2 * 9 + 2 * 4) + (3 * 3 + 3 * 4 + 2 * 3 * 2) + (5 * 9 + 4 + 5 * 4 + 2 * 2 * 5 * 4));
  EXPECT_EQ(work.operations, 2 * 2 * 9 * (3 + 5));
  product.matrices[1].residual = product.matrices[1].y;  // added in place: one tensor
  EXPECT_EQ(work_of<Linear>(product).bytes, work.bytes - 2 * 5 * 4);
}

TEST(Plan, TheCallersParallelForIsUsed) {
  std::atomic<int> calls{0};
  const Context context = open({.threads = 4, .parallel_for = [&](int slots, const std::function<void(int)>& task) {
                                  ++calls;
                                  for (int slot = slots - 1; slot >= 0; --slot) task(slot);
                                }});
  const Problem large{.rows = 1, .k = 400'000};
  Buffers b(large), same(large);
  auto plan = TernaryQuantizePlan::select(context, large);
  auto workspace = Tensor::allocate(host_memory(), DType::u8, {static_cast<std::int64_t>(plan->workspace_bytes())});
  ASSERT_TRUE(plan->run(context.stream(), workspace->as<std::byte>(), b.args(large)).ok());
  EXPECT_GT(calls, 0);
  const Context single = open({.threads = 1});
  auto plan1 = TernaryQuantizePlan::select(single, large);
  ASSERT_TRUE(plan1->run(single.stream(), workspace->as<std::byte>(), same.args(large)).ok());
  EXPECT_EQ(b.codes, same.codes);
}

#if defined(__x86_64__)
TEST(Plan, TheCallersRoundingAndFlushModesDoNotMatter) {
  const Problem p{.rows = 3, .k = 50'000, .scheme = Scheme::mse};
  const unsigned saved = _mm_getcsr();
  const unsigned hostile = 0x1F80 | 0x8040 | 0x6000;  // flush to zero, denormals are zero, round towards zero
  for (const char* kernel : {"ternary_quantize.i2.reference", "ternary_quantize.i2.scalar", ""})
    for (const int threads : {1, 3}) {
      const Context context = open({.threads = threads});
      auto plan = TernaryQuantizePlan::select(context, p, {.kernel = kernel});
      ASSERT_TRUE(plan.ok());
      auto workspace = Tensor::allocate(host_memory(), DType::u8, {static_cast<std::int64_t>(plan->workspace_bytes())});
      Buffers want(p), got(p);
      for (Buffers* b : {&want, &got})
        for (float& v : b->x) v = std::ldexp(v, -12);  // around the floor of the scale
      ASSERT_TRUE(plan->run(context.stream(), workspace->as<std::byte>(), want.args(p)).ok());
      _mm_setcsr(hostile);
      const bool ok = plan->run(context.stream(), workspace->as<std::byte>(), got.args(p)).ok();
      const unsigned after = _mm_getcsr();
      _mm_setcsr(saved);
      ASSERT_TRUE(ok);
      EXPECT_EQ(after & ~0x3FU, hostile) << "the caller's modes were not put back";
      EXPECT_EQ(got.codes, want.codes) << kernel;
      EXPECT_EQ(std::memcmp(got.scales.data(), want.scales.data(), 4), 0) << kernel;
    }
}
#endif

// The reference of a selftest runs on a CPU while the environment names a GPU and its kernel.
TEST(Plan, OverridesDoNotBindAContextBesideThem) {
  const Variable device("TERN_DEVICE", "cuda:0"), force("TERN_FORCE_KERNEL", "activation_quantize.i8.cuda_sm75");
  const ActivationQuantize::Problem problem{.m = 1, .k = 8};
  const Preference reference{.kernel = "activation_quantize.i8.reference", .strict = true};
  const auto bound = ActivationQuantizePlan::select(*Context::open(DeviceId{}), problem, reference);
  ASSERT_FALSE(bound.ok());
  EXPECT_EQ(bound.error().where, "TERN_DEVICE");
  const auto beside = ActivationQuantizePlan::select(detail::ContextState::cpu_beside(1), problem, reference);
  ASSERT_TRUE(beside.ok()) << beside.error().str();
  EXPECT_EQ(beside->id().kernel, "activation_quantize.i8.reference");
}

TEST(Tunings, HaveWords) {
  for (const Tuning& tuning :
       {Tuning{}, Tuning{.threads = 128}, Tuning{.grid = GridStrategy::fixed, .split = 3},
        Tuning{.threads = 64, .grid = GridStrategy::occupancy, .split = 2, .dependent_launch = false},
        Tuning{.streams = 4, .ahead_bytes = 0}, Tuning{.ahead_bytes = 8192}}) {
    const auto again = parse_tuning(name(tuning));
    ASSERT_TRUE(again.ok()) << again.error().str();
    EXPECT_EQ(*again, tuning) << name(tuning);
  }
  EXPECT_EQ(name(Tuning{.threads = 128, .dependent_launch = true}), "threads=128,dependent=on");
  EXPECT_EQ(name(Tuning{.streams = 2, .ahead_bytes = 2048}), "streams=2,ahead=2048");
  EXPECT_EQ(*parse_tuning("grid=auto,threads=0"), Tuning{});
  for (const auto& [text, part] :
       {std::pair("threads", "'threads' is not key=value, as in threads=256"),
        {"split=2,", "'split=2,' is not key=value, as in"},
        {"split=-2", "split is '-2'"},
        {"ahead=-1", "ahead is '-1'"},
        {"streams=two", "streams is 'two'"},
        {"threads=12x", "threads is '12x'"},
        {"grid=huge", "'huge' is not one of auto, fixed, occupancy"},
        {"dependent=1", "dependent is '1', which is not on or off"},
        {"split=2,threads=64,split=2", "split is given twice"},
        {"dependent=on,dependent=off", "dependent is given twice"},
        {"blocks=2", "'blocks' is not one of threads, grid, split, dependent, streams, ahead"}}) {
    const auto refused = parse_tuning(text);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  }
}

TEST(Plan, ATuningIsForItsKindOfDevice) {
  const Context context = *Context::open();
  const auto says = [&](const Tuning& tuning) {
    const auto plan = ActivationQuantizePlan::select(context, {.m = 1, .k = 8}, {.tuning = tuning});
    return plan.ok() ? std::string() : plan.error().str();
  };
  EXPECT_EQ(says({}), "");
  EXPECT_FALSE(ActivationQuantizePlan::select(context, {.m = 1, .k = 8})->tuning());
  EXPECT_NE(says({.threads = 256}).find("a tuning of threads=256 is for kernels of a GPU, the context is on cpu"),
            std::string::npos);
  EXPECT_NE(says({.dependent_launch = false}).find("a tuning of dependent=off is for"), std::string::npos);
  EXPECT_NE(says({.streams = 3}).find("a tuning of 3 streams; give 1, 2 or 4"), std::string::npos);
  EXPECT_NE(says({.streams = -1}).find("a tuning of -1 streams"), std::string::npos);
  EXPECT_NE(says({.ahead_bytes = 2 << 20}).find("a tuning of 2097152 bytes ahead; give 0 to 1048576"),
            std::string::npos);
  const auto noted = ActivationQuantizePlan::select(context, {.m = 1, .k = 8}, {.tuning = {.streams = 1}});
  ASSERT_TRUE(noted.ok()) << noted.error().str();
  EXPECT_EQ(noted->explain().notes.back(), "tuning asked for: streams=1; the kernel does not report what it uses");
}

TEST(Plan, APlanTellsHowItReadsWeights) {
  const Context context = *Context::open();
  const Linear::Problem problem{.m_max = 1, .k = 64, .matrices = {{.n = 16}}};
  const auto plan = LinearPlan::select(context, problem);
  ASSERT_TRUE(plan.ok()) << plan.error().str();
  ASSERT_TRUE(plan->tuning());
  const int chosen = plan->tuning()->streams;
  EXPECT_TRUE(chosen == 1 || chosen == 2 || chosen == 4) << chosen;
  EXPECT_GT(plan->tuning()->ahead_bytes, 0);
  const auto asked = LinearPlan::select(context, problem, {.tuning = {.streams = 1, .ahead_bytes = 512}});
  ASSERT_TRUE(asked.ok()) << asked.error().str();
  EXPECT_EQ(name(*asked->tuning()), "streams=1,ahead=512");
  EXPECT_EQ(asked->explain().notes.back(), "tuning asked for: streams=1,ahead=512");
}

}  // namespace
}  // namespace tern
