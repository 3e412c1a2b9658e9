// The arithmetic of the bench, exactly, and the order in which it takes its samples.
#include "lab/measure.h"

#include <gtest/gtest.h>

#include <string>

namespace tern::lab {
namespace {

TEST(Measure, MedianOfOddEvenAndNothing) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({}), 0);
}

TEST(Measure, QuantilesLieBetweenNeighboursInProportion) {
  EXPECT_EQ(quantile({10, 0, 20, 30, 40}, 0.25), 10);
  EXPECT_EQ(quantile({0, 8}, 0.25), 2);
  EXPECT_EQ(quantile({5, 1, 9}, 0), 1);
  EXPECT_EQ(quantile({5, 1, 9}, 1), 9);
}

// The median of the ratios, not the ratio of the medians: 4/2, 4/4, 4/1 over 1, 4, 4 are 2, 0.25, 1.
TEST(Measure, ShareIsTheMedianOfPairedRatios) {
  const Summary summary = summarize({.run_s = {2, 4, 1}, .limits = {1, 4, 4}}, 4);
  EXPECT_EQ(summary.median_s, 2);
  EXPECT_EQ(summary.limit, 4);
  EXPECT_EQ(summary.share, 1);
}

TEST(Measure, LimitAndKernelAlternate) {
  std::string order;
  const TimedRuns kernel = [&](std::int64_t) -> Result<double> {
    order += 'k';
    return 0.5;
  };
  const auto limit = [&] {
    order += 'l';
    return 10.0;
  };
  const auto samples = sample(kernel, limit, {.repetitions = 3});
  ASSERT_TRUE(samples.ok());
  EXPECT_EQ(order,
            "k"
            "lk"
            "lk"
            "lk");
  EXPECT_EQ(samples->run_s, std::vector<double>(3, 0.5));
  EXPECT_EQ(samples->limits, std::vector<double>(3, 10.0));

  order.clear();
  ASSERT_TRUE(sample(kernel, limit, {.repetitions = 2, .warm = true}).ok());
  EXPECT_EQ(order,
            "k"
            "lkk"
            "lkk");
}

// A run of 1 us is timed 2,048 at a time, the first power of two that fills 2 ms.
TEST(Measure, ShortRunsAreTimedInBatches) {
  std::int64_t last_runs = 0;
  const TimedRuns kernel = [&](std::int64_t runs) -> Result<double> {
    last_runs = runs;
    return static_cast<double>(runs) * 0x1p-20;
  };
  const auto samples = sample(kernel, [] { return 1.0; }, {.repetitions = 1, .min_sample_s = 0x1p-9});
  ASSERT_TRUE(samples.ok());
  EXPECT_EQ(samples->runs_per_sample, 2048);
  EXPECT_EQ(last_runs, 2048);
  EXPECT_EQ(samples->run_s, std::vector<double>{0x1p-20});
}

TEST(Measure, SlowRunsGetFewerSamples) {
  const auto count = [](double run_s) {
    const TimedRuns kernel = [run_s](std::int64_t) -> Result<double> { return run_s; };
    return sample(kernel, [] { return 1.0; }, {})->run_s.size();
  };
  EXPECT_EQ(count(0.1), 30U);
  EXPECT_EQ(count(0.6), 5U);
  EXPECT_EQ(count(9), 1U);  // longer than the budget: the first run is the sample
}

TEST(Measure, BudgetEndsTheSampling) {
  const TimedRuns kernel = [](std::int64_t) -> Result<double> { return 0.1; };
  EXPECT_EQ(sample(kernel, [] { return 1.0; }, {.budget_s = 0.1})->run_s.size(), 30U);
  EXPECT_EQ(sample(kernel, [] { return 1.0; }, {.budget_s = 0.0})->run_s.size(), 1U);
}

TEST(Measure, WallClockCountsTurnsAndPassesErrorsOn) {
  std::vector<std::int64_t> turns;
  const TimedRuns timed = wall_clock([&](std::int64_t turn) -> Status {
    turns.push_back(turn);
    if (turn == 3) return Error{Code::internal, "stop", "test"};
    return {};
  });
  const auto seconds = timed(2);
  ASSERT_TRUE(seconds.ok());
  EXPECT_GE(*seconds, 0);
  const auto failed = timed(5);
  EXPECT_EQ(failed.code(), Code::internal);
  EXPECT_EQ(turns, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(sample(timed, [] { return 1.0; }, {}).ok(), true);  // turns go on after the failure
}

}  // namespace
}  // namespace tern::lab
