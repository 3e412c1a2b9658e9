// conv2d through plans: workspaces, other numbers of images, runs at the same time.
#include <gtest/gtest.h>

#include <thread>

#include "tern/context.h"
#include "tern/plan.h"
#include "tests/support/conv2d_runner.h"

namespace tern {
namespace {

using test::conv_case;
using test::ConvCase;
using test::ConvData;
using test::ConvTruth;
using test::Guarded;
using test::Random;
using test::same_bytes;
using Problem = Conv2d::Problem;

const Context& context_of(int threads) {
  static std::map<int, Context> contexts;
  auto at = contexts.find(threads);
  if (at == contexts.end()) at = contexts.emplace(threads, *Context::open({.threads = threads})).first;
  return at->second;
}

// A small problem with an epilogue; large ones share their work between threads.
Problem small_problem() {
  return {.images = 3,
          .height = 9,
          .width = 8,
          .filters = {21, 33, 3, 3},
          .padding = {1, 0, 2, 1},
          .y_dtype = DType::f16,
          .granularity = Granularity::row(),
          .bias = true,
          .residual = true};
}
Problem large_problem() {
  Problem p = small_problem();
  p.images = 2;
  p.height = p.width = 40;
  p.filters = {48, 64, 3, 3};
  p.x_order = p.y_order = ImageOrder::nhwc;
  return p;
}

// Runs a plan on the first `images` images of a case; the workspace has the plan's size and ends at a guard page.
std::vector<std::byte> run_plan(const Conv2dPlan& plan, const Context& context, const ConvCase& c,
                                const PackedFilters& filters, std::int64_t images) {
  const Problem& p = c.problem;
  const std::size_t bytes = plan.workspace_bytes();
  Guarded<std::byte> workspace((bytes + 63) / 64 * 64);
  Shape x_shape = c.x_shape(), y_shape = c.y_shape();
  x_shape[0] = y_shape[0] = images;
  std::vector<std::byte> y(static_cast<std::size_t>(*element_count(y_shape)) * size_of(p.y_dtype), std::byte{0xEE});
  const Status status =
      plan.run(context.stream(), {workspace.data(), bytes},
               {.x = {c.x.data(), p.x_dtype, x_shape},
                .x_scales = {c.x_scales.data(), DType::f32, {std::min<std::int64_t>(images, std::ssize(c.x_scales))}},
                .filters = filters,
                .bias = {c.bias.data(), DType::f32, {p.filters.out_channels}},
                .residual = {c.residual.data(), p.y_dtype, y_shape},
                .y = {y.data(), p.y_dtype, y_shape}});
  EXPECT_TRUE(status.ok()) << status.error().str();
  EXPECT_TRUE(context.stream().synchronize().ok());
  return y;
}

Conv2dPlan select(const Context& context, const Problem& p) {
  auto plan = Conv2dPlan::select(context, p);
  EXPECT_TRUE(plan.ok()) << plan.error().str();
  return *plan;
}

TEST(Conv2dPlans, FewerImagesThenMore) {
  Random random(1);
  for (const Problem& p : {small_problem(), large_problem()}) {
    const ConvCase c = conv_case(random, p, ConvData::random);
    const PackedFilters filters = test::packed_filters(c);
    const std::vector<std::byte> want = ConvTruth(c).bits();
    const auto image_bytes = want.size() / static_cast<std::size_t>(p.images);
    for (const int threads : {1, 3}) {
      const Conv2dPlan plan = select(context_of(threads), p);
      for (const std::int64_t images : {p.images - 1, p.images, std::int64_t{0}, std::int64_t{1}, p.images}) {
        const std::vector<std::byte> got = run_plan(plan, context_of(threads), c, filters, images);
        ASSERT_EQ(got.size(), static_cast<std::size_t>(images) * image_bytes);
        EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin())) << images << " images, " << c.text();
      }
    }
  }
}

TEST(Conv2dPlans, MoreImagesThanPlannedAreRefused) {
  Random random(2);
  const ConvCase c = conv_case(random, small_problem(), ConvData::random);
  const PackedFilters filters = test::packed_filters(c);
  Problem less = c.problem;
  less.images = 2;
  const Conv2dPlan plan = select(context_of(1), less);
  std::vector<std::byte> y(*element_count(c.y_shape()) * size_of(less.y_dtype), std::byte{0xEE});
  const Conv2d::Args args{.x = {c.x.data(), less.x_dtype, c.x_shape()},
                          .filters = filters,
                          .bias = {c.bias.data(), DType::f32, {less.filters.out_channels}},
                          .residual = {c.residual.data(), less.y_dtype, c.y_shape()},
                          .y = {y.data(), less.y_dtype, c.y_shape()}};
  Guarded<std::byte> workspace((plan.workspace_bytes() + 63) / 64 * 64);
  for (const Status& status :
       {plan.can_implement(args), plan.run(context_of(1).stream(), {workspace.data(), workspace.size()}, args)}) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message, "x has 3 images, the plan was made for up to 2: images of its problem");
  }
  EXPECT_TRUE(std::ranges::all_of(y, [](std::byte b) { return b == std::byte{0xEE}; }));
}

TEST(Conv2dPlans, AWorkspaceThatIsTooSmallIsRefused) {
  Random random(3);
  const ConvCase c = conv_case(random, small_problem(), ConvData::random);
  const PackedFilters filters = test::packed_filters(c);
  const Conv2dPlan plan = select(context_of(1), c.problem);
  std::vector<std::byte> y(*element_count(c.y_shape()) * size_of(c.problem.y_dtype));
  Guarded<std::byte> workspace((plan.workspace_bytes() + 63) / 64 * 64);
  const Status status = plan.run(context_of(1).stream(), {workspace.data(), plan.workspace_bytes() - 1},
                                 {.x = {c.x.data(), c.problem.x_dtype, c.x_shape()},
                                  .filters = filters,
                                  .bias = {c.bias.data(), DType::f32, {c.problem.filters.out_channels}},
                                  .residual = {c.residual.data(), c.problem.y_dtype, c.y_shape()},
                                  .y = {y.data(), c.problem.y_dtype, c.y_shape()}});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("workspace"), std::string::npos) << status.error().message;
}

// Two plans of one context, and one plan twice, at the same time.
TEST(Conv2dPlans, RunAtTheSameTime) {
  Random random(4);
  const ConvCase cases[] = {conv_case(random, small_problem(), ConvData::random),
                            conv_case(random, large_problem(), ConvData::random)};
  const Context& context = context_of(2);
  const PackedFilters filters[] = {test::packed_filters(cases[0]), test::packed_filters(cases[1])};
  const Conv2dPlan plans[] = {select(context, cases[0].problem), select(context, cases[1].problem)};
  const std::vector<std::byte> want[] = {ConvTruth(cases[0]).bits(), ConvTruth(cases[1]).bits()};
  bool equal[4] = {true, true, true, true};
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t, i = t % 2] {
        for (int repetition = 0; repetition < 20; ++repetition)
          equal[t] = equal[t] &&
                     same_bytes(run_plan(plans[i], context, cases[i], filters[i], cases[i].problem.images), want[i]);
      });
  }
  for (const bool e : equal) EXPECT_TRUE(e);
}

// One pixel and one filter: one slot has work, the others have none.
TEST(Conv2dPlans, ManyThreadsForOnePixel) {
  Random random(5);
  Problem p{.height = 1, .width = 1, .filters = {1, 1, 1, 1}, .bias = true, .residual = true};
  const ConvCase c = conv_case(random, p, ConvData::random);
  const Conv2dPlan plan = select(context_of(64), p);
  EXPECT_TRUE(same_bytes(run_plan(plan, context_of(64), c, test::packed_filters(c), 1), ConvTruth(c).bits()));
}

}  // namespace
}  // namespace tern
