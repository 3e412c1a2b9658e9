// BitLinear and linear plans as a user calls them.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <thread>

#include "tests/support/linear_weights.h"

namespace {
std::atomic<std::size_t> allocations{0};
}

// Counts allocations that do not come from the context, such as a std::vector in run(). Not inlined, so that the
// compiler does not see memory from new passed to free.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* data = std::malloc(bytes > 0 ? bytes : 1)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes > 0 ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept { std::free(data); }

namespace tern::test {
namespace {

// A layer of 21 x 130 with bias and squared ReLU, up to three tokens at a time.
class Layer : public ::testing::Test {
 protected:
  Weights w = make_weights(21, 130);
  std::vector<float> bias = std::vector<float>(21);
  std::vector<float> x = whole_numbers(3, 130), y = std::vector<float>(std::size_t{3} * 21, NAN);
  PackedWeights packed;
  void SetUp() override {
    for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = 8 - static_cast<float>(i);
    auto made = w.pack();
    ASSERT_TRUE(made.ok()) << message(made);
    packed = *made;
  }
  [[nodiscard]] BitLinearOptions options() const {
    return {.m_max = 3, .activation = Activation::squared_relu, .bias = bias};
  }
};

TEST_F(Layer, IsWhatItsDefinitionSaysAndWhatAPlanComputes) {
  const Context context = open();
  auto layer = BitLinear::make(context, packed, options());
  ASSERT_TRUE(layer.ok()) << message(layer);
  Memory memory(layer->workspace_bytes());
  ASSERT_TRUE(layer->forward(rows(x, 130), rows(y, 21), memory.span()).ok());
  EXPECT_EQ(y, expected(w, x, bias, true));
  EXPECT_TRUE(memory.edges_untouched());

  Linear::Problem problem{.m_max = 3, .k = 130, .x_dtype = DType::f32};
  problem.matrices = {
      {.n = 21, .granularity = Granularity::row(), .bias = true, .activation = Activation::squared_relu}};
  auto plan = LinearPlan::select(context, problem);
  ASSERT_TRUE(plan.ok()) << message(plan);
  EXPECT_EQ(plan->workspace_bytes(), layer->workspace_bytes());
  EXPECT_EQ(plan->id().str(), layer->plan().id().str());
  std::vector<float> by_plan(y.size(), NAN);
  const Linear::Output output{.weights = packed, .y = rows(by_plan, 21), .bias = {bias.data(), DType::f32, {21}}};
  ASSERT_TRUE(plan->run(context.stream(), memory.span(), {.x = rows(x, 130), .outputs = {&output, 1}}).ok());
  EXPECT_EQ(std::memcmp(by_plan.data(), y.data(), y.size() * sizeof(float)), 0);
}

TEST_F(Layer, CopiesItsBias) {
  const std::vector<float> want = expected(w, x, bias, true);
  auto layer = BitLinear::make(open(), packed, options());
  ASSERT_TRUE(layer.ok());
  std::ranges::fill(bias, NAN);
  ASSERT_TRUE(layer->forward(rows(x, 130), rows(y, 21)).ok());
  EXPECT_EQ(y, want);
}

TEST_F(Layer, AllocatesAWorkspaceForACallWithoutOne) {
  const auto memory = with_statistics(host_memory());
  auto layer = BitLinear::make(open({.memory = memory}), packed, options());
  ASSERT_TRUE(layer.ok());
  const std::size_t bias_bytes = 21 * sizeof(float);
  EXPECT_EQ(memory->statistics().allocations, 1U);  // its copy of the bias
  ASSERT_TRUE(layer->forward(rows(x, 130), rows(y, 21)).ok());
  EXPECT_EQ(y, expected(w, x, bias, true));
  EXPECT_EQ(memory->statistics().allocations, 2U);
  EXPECT_EQ(memory->statistics().peak_bytes, layer->workspace_bytes() + bias_bytes);
  EXPECT_EQ(memory->statistics().bytes_in_use, bias_bytes);
}

TEST_F(Layer, RefusesWhatItCannotTake) {
  const auto make = [this](auto change) {
    BitLinearOptions o = options();
    change(o);
    return message(BitLinear::make(open(), packed, o));
  };
  EXPECT_EQ(make([](BitLinearOptions& o) { o.bias = o.bias.first(20); }),
            "invalid_argument: 20 bias values for 21 outputs (BitLinear)");
  EXPECT_EQ(make([](BitLinearOptions& o) { o.x_dtype = DType::i8; }),
            "invalid_argument: x is i8, which comes with scales of its own; use a LinearPlan, or f32, f16 or bf16 "
            "(BitLinear)");
  EXPECT_EQ(make([](BitLinearOptions& o) { o.m_max = -1; }).find("invalid_argument: "), 0U);
  EXPECT_EQ(make([](BitLinearOptions& o) { o.preference = {.kernel = "linear.i2.no", .strict = true}; }).find("ok"),
            std::string::npos);
  EXPECT_EQ(message(BitLinear::make(open(), {})),
            "invalid_argument: the weights are empty; PackedWeights::pack makes them (BitLinear)");

  auto layer = BitLinear::make(open(), packed, options());
  ASSERT_TRUE(layer.ok());
  const std::size_t needed = layer->workspace_bytes();
  ASSERT_GT(needed, 0U);
  const Memory memory(needed + 64);
  EXPECT_EQ(message(layer->forward(rows(x, 130), rows(y, 21), memory.span().first(needed - 1))),
            "invalid_argument: the workspace has " + std::to_string(needed - 1) + " bytes, " + std::to_string(needed) +
                " are needed (linear)");
  EXPECT_EQ(message(layer->forward(rows(x, 130), rows(y, 21), memory.span().subspan(4))),
            "invalid_argument: the workspace is not aligned to 64 bytes (linear)");
  EXPECT_EQ(layer->forward(rows(x, 129), rows(y, 21)).code(), Code::invalid_argument);
  std::vector<float> four = whole_numbers(4, 130), y4(std::size_t{4} * 21);
  EXPECT_EQ(message(layer->forward(rows(four, 130), rows(y4, 21))),
            "invalid_argument: x has 4 tokens, the plan was made for up to 3: m_max of its problem (linear)");
  x[131] = NAN;
  EXPECT_EQ(layer->forward(rows(x, 130), rows(y, 21)).code(), Code::non_finite);
}

TEST_F(Layer, CopiesShareTheWeights) {
  const auto memory = with_statistics(host_memory());
  auto own = PackedWeights::pack(open({.memory = memory}), w.code_view(), w.scale_view(), w.n, w.k, w.granularity);
  ASSERT_TRUE(own.ok());
  {
    auto layer = BitLinear::make(open(), *own, options());
    ASSERT_TRUE(layer.ok());
    const BitLinear copy = *layer;
    EXPECT_EQ(copy.weights().state(), own->state());
    EXPECT_EQ(memory->statistics().allocations, 1U);
    layer = BitLinear::make(open(), packed);
    *own = {};
    EXPECT_EQ(memory->live().size(), 1U);  // the copy still has them
    ASSERT_TRUE(copy.forward(rows(x, 130), rows(y, 21)).ok());
    EXPECT_EQ(y, expected(w, x, bias, true));
  }
  EXPECT_TRUE(memory->live().empty());
}

TEST_F(Layer, TwoThreadsCallItAtOnce) {
  auto layer = BitLinear::make(open({.threads = 2}), packed, options());
  ASSERT_TRUE(layer.ok());
  const std::vector<float> want = expected(w, x, bias, true);
  std::vector<int> equal(2);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      const Memory memory(layer->workspace_bytes());
      std::vector<float> own(want.size());
      for (int repetition = 0; repetition < 200; ++repetition) {
        std::ranges::fill(own, NAN);
        equal[t] += layer->forward(rows(x, 130), rows(own, 21), memory.span()).ok() && own == want ? 1 : 0;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(equal, std::vector<int>(2, 200));
}

Linear::Problem problem_of(std::vector<Linear::Matrix> matrices, std::int64_t k = 128) {
  Linear::Problem p{.m_max = 2, .k = k, .x_dtype = DType::f32};
  p.matrices = std::move(matrices);
  return p;
}

TEST(LinearPlan, SaysWhatItPromises) {
  const Context context = open();
  auto exact = LinearPlan::select(context, problem_of({{.n = 4}, {.n = 8, .granularity = Granularity::row()}}));
  ASSERT_TRUE(exact.ok()) << message(exact);
  EXPECT_EQ(exact->guarantee().math, "int8");
  EXPECT_EQ(exact->guarantee().accumulator, "int32");
  EXPECT_TRUE(exact->guarantee().deterministic);
  EXPECT_TRUE(exact->guarantee().bit_stable);
  EXPECT_EQ(exact->id().op, "linear");
  EXPECT_EQ(exact->id().element, "f32");
  EXPECT_EQ(exact->id().layout, "i2");
  EXPECT_EQ(exact->id().backend, "cpu");
  EXPECT_EQ(exact->id().kernel, "linear.i2." + exact->id().arch);

  // One matrix with group scales is enough for f32 sums, which every CPU adds up in the same order.
  auto grouped = LinearPlan::select(context, problem_of({{.n = 4}, {.n = 4, .granularity = Granularity::group(32)}}));
  ASSERT_TRUE(grouped.ok()) << message(grouped);
  EXPECT_TRUE(grouped->guarantee().bit_stable);
  EXPECT_EQ(grouped->guarantee().math, "int8");
  EXPECT_EQ(grouped->guarantee().accumulator, "f32");

  auto floats = problem_of({{.n = 4}});
  floats.math = LinearMath::w2_float;
  auto plan = LinearPlan::select(context, floats);
  ASSERT_TRUE(plan.ok()) << message(plan);
  EXPECT_FALSE(plan->guarantee().bit_stable);
  EXPECT_TRUE(plan->guarantee().deterministic);
  EXPECT_EQ(plan->guarantee().math, "f32");
  EXPECT_EQ(plan->guarantee().accumulator, "f64");
}

TEST(LinearPlan, NamesItsEpilogue) {
  const Context context = open();
  const auto epilogue = [&](std::vector<Linear::Matrix> matrices) {
    auto plan = LinearPlan::select(context, problem_of(std::move(matrices)));
    return plan.ok() ? plan->id().epilogue : message(plan);
  };
  const Linear::Matrix none{.n = 4}, bias{.n = 4, .bias = true}, residual{.n = 4, .residual = true};
  const Linear::Matrix relu{.n = 4, .activation = Activation::squared_relu};
  const Linear::Matrix all{.n = 4, .bias = true, .activation = Activation::squared_relu, .residual = true};
  EXPECT_EQ(epilogue({none}), "none");
  EXPECT_EQ(epilogue({bias}), "bias");
  EXPECT_EQ(epilogue({residual}), "residual");
  EXPECT_EQ(epilogue({all}), "bias+squared_relu+residual");
  EXPECT_EQ(epilogue({relu, none}), "squared_relu,none");
}

TEST(LinearPlan, ARowTooLongIsRefusedByEveryKernelWithItsLength) {
  const Context context = open();
  const Linear::Problem p = problem_of({{.n = 1}}, std::int64_t{1} << 24);
  auto why = LinearPlan::explain(context, p);
  ASSERT_TRUE(why.ok()) << message(why);
  EXPECT_TRUE(why->chosen.empty());
  std::size_t count = 0;
  const auto list = kernels(context);
  ASSERT_TRUE(list.ok()) << message(list);
  for (const KernelDescription& kernel : *list) count += kernel.op == "linear" ? 1 : 0;
  EXPECT_GE(count, 2U);
  EXPECT_EQ(why->rejections.size(), count);
  for (const Rejection& r : why->rejections)
    EXPECT_TRUE(!r.kernel.starts_with("linear.i2") || r.reason.find("k is 16777216, above 16777215") != r.reason.npos)
        << r.kernel << ' ' << r.reason;
  const auto refused = LinearPlan::select(context, p);
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_NE(message(refused).find("k is 16777216"), std::string::npos) << message(refused);
}

// The reference kernels are exempt: they are written to be read.
TEST(LinearPlan, RunAllocatesNothing) {
  constexpr std::int64_t kMost = 16;  // as many tokens as any kernel asks for
  std::vector<float> x = whole_numbers(kMost, 300), y(std::size_t{kMost} * 40);
  for (const int threads : {1, 2}) {
    const auto memory = with_statistics(host_memory());
    const Context context = open({.threads = threads, .memory = memory});
    const auto list = kernels(context);
    ASSERT_TRUE(list.ok()) << message(list);
    for (const KernelDescription& kernel : *list) {
      if (kernel.op != "linear" || !kernel.refused.empty() || kernel.name.ends_with("reference")) continue;
      const Weights w = make_weights(40, 300, Granularity::row(), *parse_format(kernel.format));
      const PackedWeights packed = *w.pack();
      auto layer =
          BitLinear::make(context, packed, {.m_max = kMost, .preference = {.kernel = kernel.name, .strict = true}});
      ASSERT_TRUE(layer.ok()) << message(layer);
      const Memory workspace(layer->workspace_bytes());
      ASSERT_TRUE(layer->forward(rows(x, 300), rows(y, 40), workspace.span()).ok());  // starts the pool of threads
      const std::size_t before = allocations;
      ASSERT_GT(before, 0U);  // it counts
      for (const std::int64_t m : {std::int64_t{1}, std::int64_t{2}, std::int64_t{5}, kMost})
        ASSERT_TRUE(
            layer->forward({x.data(), DType::f32, {m, 300}}, {y.data(), DType::f32, {m, 40}}, workspace.span()).ok());
      EXPECT_EQ(allocations - before, 0U) << kernel.name << ' ' << threads << " threads";
      EXPECT_EQ(y, expected(w, x)) << kernel.name;
    }
    EXPECT_EQ(memory->statistics().allocations, 0U);
  }
}

TEST(W2a8Gemv, GivesTheBareSumsOfOneToken) {
  for (const Granularity& g : {Granularity::row(), Granularity::tensor()})
    for (const Format format : {Format::i2, Format::b3}) {
      const Weights w = make_weights(21, 130, g, format);
      const auto packed = w.pack();
      ASSERT_TRUE(packed.ok()) << message(packed);
      std::vector<std::int8_t> a(130);
      std::vector<std::int32_t> out(21, 7), want(21);
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::int8_t>(i * 37);
      for (std::size_t i = 0; i < out.size() * a.size(); ++i) want[i / 130] += a[i % 130] * w.trits[i];
      const Status status =
          w2a8_gemv(open(), *packed, {a.data(), DType::i8, {130}}, TensorView(out.data(), DType::i32, {21}), 21, 130);
      ASSERT_TRUE(status.ok()) << message(status);
      EXPECT_EQ(out, want);
    }
}

TEST(W2a8Gemv, RefusesWhatDoesNotFit) {
  const Weights w = make_weights(21, 130);
  const auto packed = w.pack();
  ASSERT_TRUE(packed.ok());
  std::vector<std::int8_t> a(130);
  std::vector<std::int32_t> out(21);
  const ConstTensorView from(a.data(), DType::i8, {130});
  const TensorView to(out.data(), DType::i32, {21});
  const auto says = [&](std::string_view part, const PackedWeights& weights, const ConstTensorView& x,
                        const TensorView& y, std::int64_t m, int stream = 0) {
    const std::string text = message(w2a8_gemv(open(), weights, x, y, m, 130, stream));
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says("w is 21 x 130, m and k are 20 x 130", *packed, from, to, 20);
  says("w is 0 x 0", {}, from, to, 21);
  says("a ", *packed, {a.data(), DType::i8, {129}}, to, 21);
  says("out ", *packed, from, {out.data(), DType::f32, {21}}, 21);
  says("there is no stream -1", *packed, from, to, 21, -1);
}

}  // namespace
}  // namespace tern::test
