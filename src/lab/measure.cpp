// The sampling loop and the arithmetic of medians and shares.
#include "lab/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "base/errors.h"

namespace tern::lab {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A run slower than this gets fewer samples: it is long enough to average out the disturbances of short ones.
constexpr double kSlowRun = 0.5;
constexpr int kSlowRepetitions = 5;
constexpr int kRepetitions = 30;
constexpr std::int64_t kMaxBatch = std::int64_t{1} << 20;

struct Batch {
  std::int64_t runs = 1;
  double seconds = 0;
};

// The first run only warms up and does not size the batch, unless it alone is as long as ten samples.
Result<Batch> size_batch(const TimedRuns& kernel, double min_sample_s) {
  Batch batch;
  TERN_ASSIGN(first_s, kernel(1));
  batch.seconds = first_s;
  if (first_s >= 10 * min_sample_s) return batch;
  for (;; batch.runs *= 2) {
    TERN_ASSIGN(seconds, kernel(batch.runs));
    batch.seconds = seconds;
    if (seconds >= min_sample_s || batch.runs >= kMaxBatch) return batch;
  }
}

}  // namespace

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(at));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (at - std::floor(at));
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

TimedRuns wall_clock(std::function<Status(std::int64_t turn)> run) {
  return [run = std::move(run), turn = std::make_shared<std::int64_t>(0)](std::int64_t runs) -> Result<double> {
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < runs; ++i)
      if (Status status = run((*turn)++); !status.ok()) return status;
    return seconds_since(start);
  };
}

Result<Samples> sample(const TimedRuns& kernel, const std::function<double()>& limit, const Sampling& sampling) {
  const auto start = Clock::now();
  TERN_ASSIGN(batch, size_batch(kernel, sampling.min_sample_s));
  const double run_s = batch.seconds / static_cast<double>(batch.runs);
  Samples samples;
  samples.runs_per_sample = batch.runs;
  const bool adaptive = sampling.repetitions <= 0;
  if (adaptive && run_s > sampling.budget_s) {  // so slow that this one run is the only sample
    samples.limits.push_back(limit());
    samples.run_s.push_back(run_s);
    return samples;
  }
  const int wanted = !adaptive ? sampling.repetitions : run_s > kSlowRun ? kSlowRepetitions : kRepetitions;
  for (int i = 0; i < wanted; ++i) {
    if (adaptive && i > 0 && seconds_since(start) > sampling.budget_s) break;
    samples.limits.push_back(limit());
    if (sampling.warm) TERN_RETURN_IF_ERROR(kernel(1));
    TERN_ASSIGN(seconds, kernel(batch.runs));
    samples.run_s.push_back(seconds / static_cast<double>(batch.runs));
  }
  return samples;
}

Summary summarize(const Samples& samples, double work) {
  std::vector<double> shares;
  for (std::size_t i = 0; i < samples.run_s.size(); ++i) shares.push_back(work / samples.run_s[i] / samples.limits[i]);
  return {.median_s = median(samples.run_s),
          .p10_s = quantile(samples.run_s, 0.1),
          .p90_s = quantile(samples.run_s, 0.9),
          .limit = median(samples.limits),
          .share = median(std::move(shares))};
}

}  // namespace tern::lab
